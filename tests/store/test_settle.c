/* test_settle.c - closing a claim: each action, the fence, a cancel that wins, and a batch that was sent before. */
#include "store_test.h"

#include "store/settle_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 8

static struct settlement *items[BATCH];
static enum settle_result results[BATCH];
static size_t item_count;

static struct settlement *item(uint64_t id, const char *lease, enum settle_action action, enum outcome_kind outcome)
{
	items[item_count] = new_settlement(id, lease, action, outcome, action == SETTLE_SUCCEED ? "" : "exit status 1");
	return items[item_count++];
}

static int forget(void **state)
{
	while (item_count > 0)
		settlement_free(items[--item_count]);
	(void)state;
	return 0;
}

static enum db_class write_all(bool again)
{
	return settle_store_write(t.db, items, item_count, "host:2:y", again, results, &t.fault);
}

/* One item, written; returns what became of it. */
static enum settle_result write_one(uint64_t id, const char *lease, enum settle_action action, enum outcome_kind outcome,
				    bool again)
{
	struct settlement *s = item(id, lease, action, outcome);

	s->delay_ms = 90000;
	ok(write_all(again));
	assert_false(db_in_transaction(t.db));
	forget(NULL);
	return results[0];
}

#define ATTEMPTS "SELECT CONCAT_WS('|', COUNT(*), GROUP_CONCAT(outcome ORDER BY outcome)) FROM job_attempts WHERE job_id=%u"

/* What every action makes of a running row, and that a second writer, or the same one again, changes nothing. */
struct action_case {
	enum settle_action action;
	enum outcome_kind outcome;
	const char *row;              /* state, attempt, orphan_streak, lease kept, finished, requeued, run_at moved */
	const char *ledger;
	enum settle_result when_lost; /* under a lease that is not the row's */
	const char *lost_ledger;
};

static const struct action_case action_cases[] = {
	{SETTLE_SUCCEED, OUTCOME_SUCCEEDED, "succeeded|3|0|1|1|0|0", "0", SETTLE_LOST, "1|stale_result"},
	{SETTLE_RETRY, OUTCOME_RETRY, "scheduled|3|0|0|0|1|1", "1|retry", SETTLE_LOST, "1|stale_result"},
	{SETTLE_RETRY, OUTCOME_TIMED_OUT, "scheduled|3|0|0|0|1|1", "1|timed_out", SETTLE_LOST, "1|stale_result"},
	{SETTLE_SNOOZE, OUTCOME_SNOOZE, "scheduled|2|0|0|0|1|1", "0", SETTLE_DONE, "0"},
	{SETTLE_PARK, OUTCOME_RELEASED, "scheduled|2|4|0|0|1|1", "0", SETTLE_DONE, "0"},
	{SETTLE_RELEASE, OUTCOME_RELEASED, "ready|2|4|0|0|1|0", "0", SETTLE_DONE, "0"},
	{SETTLE_DEAD, OUTCOME_DEAD, "dead|3|0|1|1|0|0", "1|dead", SETTLE_LOST, "1|stale_result"},
	{SETTLE_CANCEL, OUTCOME_CANCELLED, "cancelled|3|0|1|1|0|0", "1|cancelled", SETTLE_LOST, "1|stale_result"},
};

#define WHAT_BECAME                                                                                                                \
	"state, attempt, orphan_streak, lease_id IS NOT NULL, finished_at IS NOT NULL, requeued_at IS NOT NULL, run_at > "         \
	"UTC_TIMESTAMP(6)"

static void test_what_each_action_writes(void **state)
{
	const struct action_case *c;
	uint64_t id;

	(void)state;
	for (size_t i = 0; i < COUNT(action_cases); i++) {
		c = &action_cases[i];
		id = add_running(LEASE_A, "attempt=3, orphan_streak=4");
		assert_int_equal(write_one(id, LEASE_A, c->action, c->outcome, false), SETTLE_DONE);
		assert_row(id, WHAT_BECAME, c->row);
		assert_row(id, "COALESCE(locked_by, ''), COALESCE(lease_ms, '')",
			   strstr(c->row, "|1|1|0|0") != NULL ? "host:1:x|60000" : "|");
		assert_string_equal(ask(ATTEMPTS, id), c->ledger);
	}
}

static void test_a_lost_lease_changes_nothing_and_is_in_the_ledger(void **state)
{
	const struct action_case *c;
	uint64_t id;

	(void)state;
	for (size_t i = 0; i < COUNT(action_cases); i++) {
		c = &action_cases[i];
		for (int again = 0; again <= 1; again++) {
			id = add_running(LEASE_B, "attempt=3, orphan_streak=4");
			assert_int_equal(write_one(id, LEASE_A, c->action, c->outcome, again), c->when_lost);
			assert_row(id, "state, attempt, orphan_streak, lease_id, requeued_at IS NULL, last_error IS NULL",
				   "running|3|4|" LEASE_B "|1|1");
			assert_string_equal(ask(ATTEMPTS, id), c->lost_ledger);
			/* Said twice it is kept once. */
			assert_int_equal(write_one(id, LEASE_A, c->action, c->outcome, again), c->when_lost);
			assert_string_equal(ask(ATTEMPTS, id), c->lost_ledger);
		}
	}
}

/* After a lost reply: the batch had been committed, and is recognised for what it was. */
static void test_each_action_recognises_its_own_success(void **state)
{
	const struct action_case *c;
	uint64_t id;

	(void)state;
	for (size_t i = 0; i < COUNT(action_cases); i++) {
		c = &action_cases[i];
		id = add_running(LEASE_A, "attempt=3, orphan_streak=4");
		assert_int_equal(write_one(id, LEASE_A, c->action, c->outcome, false), SETTLE_DONE);
		assert_int_equal(write_one(id, LEASE_A, c->action, c->outcome, true), SETTLE_DONE);
		assert_row(id, WHAT_BECAME, c->row);
		assert_string_equal(ask(ATTEMPTS, id), c->ledger);
		/* Also when the job has gone on since, which it cannot do from succeeded. */
		if (c->action == SETTLE_SUCCEED)
			continue;
		run("UPDATE jobs SET state='running', lease_id=%s, claim_no=2 WHERE id=%u", LEASE_B, id);
		assert_int_equal(write_one(id, LEASE_A, c->action, c->outcome, true), SETTLE_DONE);
		assert_row(id, "state, lease_id", "running|" LEASE_B);
		assert_string_equal(ask(ATTEMPTS, id), c->ledger);
	}
}

/* Sent before, and never arrived: it is written now. */
static void test_again_writes_what_did_not_arrive(void **state)
{
	const struct action_case *c;
	uint64_t id;

	(void)state;
	for (size_t i = 0; i < COUNT(action_cases); i++) {
		c = &action_cases[i];
		id = add_running(LEASE_A, "attempt=3, orphan_streak=4");
		assert_int_equal(write_one(id, LEASE_A, c->action, c->outcome, true), SETTLE_DONE);
		assert_row(id, WHAT_BECAME, c->row);
		assert_string_equal(ask(ATTEMPTS, id), c->ledger);
	}
}

static void test_a_cancel_wins_over_going_back(void **state)
{
	const struct action_case *c;
	uint64_t id;

	(void)state;
	for (size_t i = 0; i < COUNT(action_cases); i++) {
		c = &action_cases[i];
		if (strstr(c->row, "scheduled") == NULL && strstr(c->row, "ready") == NULL)
			continue;
		for (int again = 0; again <= 1; again++) {
			id = add_running(LEASE_A, "attempt=3, cancel_requested_at=UTC_TIMESTAMP(6)");
			assert_int_equal(write_one(id, LEASE_A, c->action, c->outcome, again), SETTLE_CANCELLED);
			assert_row(id,
				   "state, lease_id, locked_by, finished_at IS NOT NULL, requeued_at IS NULL, run_at <= "
				   "UTC_TIMESTAMP(6)",
				   "cancelled|" LEASE_A "|host:1:x|1|1|1");
			assert_string_equal(ask(ATTEMPTS, id), c->ledger);
			assert_int_equal(write_one(id, LEASE_A, c->action, c->outcome, true), SETTLE_CANCELLED);
		}
	}
	/* What ends by itself ends as it ended. */
	id = add_running(LEASE_A, "cancel_requested_at=UTC_TIMESTAMP(6)");
	assert_int_equal(write_one(id, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED, false), SETTLE_DONE);
	assert_row(id, "state", "succeeded");
}

static void test_counters_at_their_ends(void **state)
{
	uint64_t zero = add_running(LEASE_A, "attempt=0"), most = add_running(LEASE_A, "attempt=65535, claim_no=4294967295");

	(void)state;
	assert_int_equal(write_one(zero, LEASE_A, SETTLE_RELEASE, OUTCOME_RELEASED, false), SETTLE_DONE);
	assert_row(zero, "state, attempt", "ready|0");
	item(most, LEASE_A, SETTLE_RETRY, OUTCOME_RETRY)->claim_no = UINT32_MAX;
	items[0]->attempt = 65535;
	ok(write_all(false));
	assert_row(most, "state, attempt, claim_no", "scheduled|65535|4294967295");
	assert_string_equal(ask("SELECT CONCAT(claim_no, ' ', attempt) FROM job_attempts"), "4294967295 65535");
}

static void test_a_batch_of_bare_successes(void **state)
{
	uint64_t ids[4];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		ids[i] = add_running(LEASE_A, NULL);
		item(ids[i], LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED);
	}
	/* In the order of their ids, whatever order they came in. */
	struct settlement *first = items[0];
	items[0] = items[3];
	items[3] = first;
	ok(write_all(false));
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(items[i]->id, ids[i]);
		assert_int_equal(results[i], SETTLE_DONE);
		assert_row(ids[i], "state, finished_at IS NOT NULL, lease_id", "succeeded|1|" LEASE_A);
	}
	assert_int_equal(ask_number("SELECT COUNT(*) FROM job_attempts"), 0);
}

/* One batch of bare successes: ours, one that its handler settled, one that is lost, one that is gone. */
static void test_strangers_in_a_batch_of_successes(void **state)
{
	static const enum settle_result expected[] = {SETTLE_DONE, SETTLE_BY_HANDLER, SETTLE_LOST, SETTLE_DONE, SETTLE_LOST};
	uint64_t ids[5];

	(void)state;
	for (size_t i = 0; i < 5; i++)
		ids[i] = add_running(i == 2 ? LEASE_B : LEASE_A, NULL);
	run("UPDATE jobs SET state='succeeded', finished_at=UTC_TIMESTAMP(6), result='own' WHERE id=%u", ids[1]);
	run("DELETE FROM jobs WHERE id=%u", ids[4]);
	for (size_t i = 0; i < 5; i++)
		item(ids[i], LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED);
	ok(write_all(false));
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(results[i], expected[i]);
	assert_row(ids[0], "state", "succeeded");
	assert_row(ids[1], "state, result", "succeeded|own");
	assert_row(ids[2], "state, lease_id", "running|" LEASE_B);
	assert_string_equal(ask(ATTEMPTS, ids[2]), "1|stale_result");
	assert_string_equal(ask(ATTEMPTS, ids[4]), "1|stale_result");
	assert_string_equal(ask("SELECT cause FROM job_attempts WHERE job_id=%u", ids[2]), "refused: succeeded");
	assert_int_equal(ask_number("SELECT COUNT(*) FROM job_attempts"), 2);
}

/* A mixed batch in which one is lost: the others are written, once, with their ledger rows. */
static void test_a_stranger_in_a_mixed_batch(void **state)
{
	uint64_t bare = add_running(LEASE_A, NULL), retry = add_running(LEASE_A, NULL), lost = add_running(LEASE_B, NULL),
		 with_result = add_running(LEASE_A, NULL), handler = add_running(LEASE_A, "state='succeeded'");

	(void)state;
	item(bare, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED);
	item(retry, LEASE_A, SETTLE_RETRY, OUTCOME_RETRY);
	item(lost, LEASE_A, SETTLE_DEAD, OUTCOME_DEAD);
	item(with_result, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED)->has_result = true;
	buf_adds(&items[3]->result, "42");
	item(handler, LEASE_A, SETTLE_RETRY, OUTCOME_RETRY);
	ok(write_all(false));
	assert_int_equal(results[0], SETTLE_DONE);
	assert_int_equal(results[1], SETTLE_DONE);
	assert_int_equal(results[2], SETTLE_LOST);
	assert_int_equal(results[3], SETTLE_DONE);
	assert_int_equal(results[4], SETTLE_BY_HANDLER);
	assert_row(bare, "state", "succeeded");
	assert_row(retry, "state", "scheduled");
	assert_row(lost, "state", "running");
	assert_row(with_result, "state, result", "succeeded|42");
	assert_row(handler, "state", "succeeded");
	assert_string_equal(ask("SELECT GROUP_CONCAT(outcome, ' ', cause ORDER BY job_id) FROM job_attempts"),
			    "retry exit status 1,stale_result refused: dead, exit status 1");
}

static void test_ledger_rows_are_complete(void **state)
{
	uint64_t ran = add_running(LEASE_A, NULL), not_run = add_running(LEASE_A, NULL),
		 settled = add_running(LEASE_A, "state='succeeded'");
	struct settlement *s = item(ran, LEASE_A, SETTLE_RETRY, OUTCOME_RETRY);

	(void)state;
	s->ran = true;
	s->exit_code = 3;
	s->ran_ms = 5000;
	s->max_rss_kb = 1234;
	s->cpu_ms = 56;
	item(not_run, LEASE_A, SETTLE_DEAD, OUTCOME_DEAD);
	/* Kept for successes too, when asked for, and then also where the handler wrote the success. */
	s = item(settled, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED);
	s->ledger = s->ledger_success = true;
	ok(write_all(false));
	assert_string_equal(ask("SELECT CONCAT_WS('|', claim_no, outcome, attempt, lease_id, worker, TIMESTAMPDIFF(SECOND, "
				"started_at, finished_at), exit_code, "
				"COALESCE(`signal`, 'none'), cause, max_rss_kb, cpu_ms) FROM job_attempts WHERE job_id=%u",
				ran),
			    "1|retry|1|" LEASE_A "|host:2:y|5|3|none|exit status 1|1234|56");
	assert_string_equal(ask("SELECT CONCAT(started_at IS NULL, exit_code IS NULL, `signal` IS NULL, max_rss_kb IS NULL, cpu_ms "
				"IS NULL) FROM job_attempts "
				"WHERE job_id=%u",
				not_run),
			    "11111");
	assert_int_equal(results[2], SETTLE_BY_HANDLER);
	assert_string_equal(ask(ATTEMPTS, settled), "1|succeeded");
}

/* However the process ended after its handler had settled the job: the row stays, and a ledger of everything has one success, also
 * when the batch is sent again. A job that its handler gave up is left alone too. */
static void test_ledger_of_what_handlers_settled(void **state)
{
	static const enum settle_action actions[] = {SETTLE_SUCCEED, SETTLE_RETRY, SETTLE_DEAD, SETTLE_RELEASE};
	uint64_t ids[COUNT(actions)], given_up = add_running(LEASE_A, "state='dead', last_error='own'");
	struct settlement *s;

	(void)state;
	for (size_t i = 0; i < COUNT(actions); i++) {
		ids[i] = add_running(LEASE_A, "state='succeeded', result='own'");
		s = item(ids[i], LEASE_A, actions[i], actions[i] == SETTLE_SUCCEED ? OUTCOME_SUCCEEDED : OUTCOME_RETRY);
		s->ledger = s->ledger_success = true;
	}
	s = item(given_up, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED);
	s->ledger = s->ledger_success = true;
	ok(write_all(true)); /* as after a first try that failed before it wrote anything */
	for (size_t i = 0; i < COUNT(actions) + 1; i++)
		assert_int_equal(results[i], SETTLE_BY_HANDLER);
	for (size_t i = 0; i < COUNT(actions); i++) {
		assert_row(ids[i], "state, result", "succeeded|own");
		assert_string_equal(ask(ATTEMPTS, ids[i]), "1|succeeded");
	}
	assert_row(given_up, "state, last_error", "dead|own");
	ok(write_all(true));
	assert_int_equal(ask_number("SELECT COUNT(*) FROM job_attempts"), COUNT(actions));
}

static void test_result_and_error(void **state)
{
	uint64_t done = add_running(LEASE_A, "last_error='before'"), retry = add_running(LEASE_A, "result='before'"),
		 empty = add_running(LEASE_A, NULL);
	struct settlement *s = item(done, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED);

	(void)state;
	s->has_result = true;
	buf_adds(&s->result, "it's \\ \"done\" 👍\n");
	s = item(retry, LEASE_A, SETTLE_RETRY, OUTCOME_RETRY);
	s->has_result = true;
	buf_adds(&s->result, "not kept: the job goes on");
	buf_adds(&s->error, "exit status 1\nžluť");
	item(empty, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED)->has_result = true;
	ok(write_all(false));
	assert_row(done, "result, last_error", "it's \\ \"done\" 👍\n|before");
	assert_row(retry, "result, last_error", "before|exit status 1\nžluť");
	assert_row(empty, "result = '', last_error IS NULL", "1|1");
}

/* BR-52: text that the column does not take is a fault of this row; nothing of the batch is written, and the connection stays. */
static void test_undecodable_text_is_the_rows_own_fault(void **state)
{
	uint64_t good = add_running(LEASE_A, NULL), bad = add_running(LEASE_A, NULL);

	(void)state;
	item(good, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED);
	buf_add(&item(bad, LEASE_A, SETTLE_RETRY, OUTCOME_RETRY)->error, "\xff\xfe\x92", 3);
	assert_int_equal(write_all(false), DB_DATA);
	assert_row(good, "state", "running");
	assert_row(bad, "state", "running");
	assert_true(db_is_open(t.db));
	assert_false(db_in_transaction(t.db));
	/* Reduced to the least, it is taken. */
	settlement_minimise(items[1], "text is not valid");
	ok(write_all(false));
	assert_row(bad, "state, last_error", "scheduled|record reduced: text is not valid");
	forget(NULL);
	/* The same for a cause that only the ledger gets. */
	bad = add_running(LEASE_A, NULL);
	snprintf(item(bad, LEASE_A, SETTLE_RETRY, OUTCOME_RETRY)->cause, 4, "\xff");
	assert_int_equal(write_all(false), DB_DATA);
	assert_row(bad, "state", "running");
}

static void test_an_oversize_result_is_refused_before_it_is_sent(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL);
	size_t len = db_packet_max(t.db);
	struct settlement *s = item(id, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED);

	(void)state;
	s->has_result = true;
	s->result.limit = len;
	memset(buf_room(&s->result, len), 'x', len);
	buf_grow(&s->result, len);
	assert_true(settle_store_size(s) > len);
	assert_int_equal(write_all(false), DB_DATA);
	assert_true(db_is_open(t.db));
	assert_row(id, "state", "running");
}

static void test_a_locked_row_rolls_the_batch_back(void **state)
{
	uint64_t free_row = add_running(LEASE_A, NULL), locked = add_running(LEASE_A, NULL);

	(void)state;
	ok(db_begin(t.other, &t.fault));
	run("UPDATE jobs SET progress=1 WHERE id=%u", locked);
	item(free_row, LEASE_A, SETTLE_RETRY, OUTCOME_RETRY);
	item(locked, LEASE_A, SETTLE_RETRY, OUTCOME_RETRY);
	assert_int_equal(write_all(false), DB_RETRY);
	assert_false(db_in_transaction(t.db));
	assert_row(free_row, "state", "running");
	db_rollback(t.other);
	ok(write_all(true));
	assert_row(free_row, "state", "scheduled");
	assert_string_equal(ask(ATTEMPTS, free_row), "1|retry");
}

/* The handler's open transaction holds the row: the settlement waits for it, and then sees what it did. */
static void test_a_handler_that_settles_itself(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL);

	(void)state;
	ok(db_begin(t.other, &t.fault));
	run("UPDATE jobs SET state='succeeded', finished_at=UTC_TIMESTAMP(6) WHERE id=%u AND lease_id=%s AND state='running'", id,
	    LEASE_A);
	item(id, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED);
	assert_int_equal(write_all(false), DB_RETRY);
	ok(db_commit(t.other, &t.fault));
	ok(write_all(false));
	assert_int_equal(results[0], SETTLE_BY_HANDLER);
	assert_int_equal(ask_number("SELECT COUNT(*) FROM job_attempts"), 0);
}

static void test_progress(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL), theirs = add_running(LEASE_B, NULL);
	char note[1200];

	(void)state;
	ok(settle_store_progress(t.db, id, LEASE_A, 33.333, "half-way", &t.fault));
	assert_row(id, "progress, progress_note", "33.33|half-way");
	ok(settle_store_progress(t.db, id, LEASE_A, -1, "only the note", &t.fault));
	assert_row(id, "progress, progress_note", "33.33|only the note");
	ok(settle_store_progress(t.db, id, LEASE_A, 250, NULL, &t.fault));
	assert_row(id, "progress, progress_note", "100.00|only the note");
	ok(settle_store_progress(t.db, id, LEASE_A, -1, NULL, &t.fault));
	/* Four bytes a character, and more characters than the column has. */
	for (size_t i = 0; i + 4 < sizeof(note); i += 4)
		memcpy(&note[i], "\xf0\x9f\x91\x8d", 5);
	ok(settle_store_progress(t.db, id, LEASE_A, 1, note, &t.fault));
	assert_row(id, "progress, CHAR_LENGTH(progress_note)", "1.00|255");
	ok(settle_store_progress(t.db, theirs, LEASE_A, 50, "x", &t.fault));
	assert_row(theirs, "progress IS NULL, progress_note IS NULL", "1|1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_each_action_writes, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_a_lost_lease_changes_nothing_and_is_in_the_ledger, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_each_action_recognises_its_own_success, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_again_writes_what_did_not_arrive, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_a_cancel_wins_over_going_back, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_counters_at_their_ends, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_a_batch_of_bare_successes, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_strangers_in_a_batch_of_successes, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_a_stranger_in_a_mixed_batch, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_ledger_rows_are_complete, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_ledger_of_what_handlers_settled, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_result_and_error, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_undecodable_text_is_the_rows_own_fault, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_an_oversize_result_is_refused_before_it_is_sent, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_a_locked_row_rolls_the_batch_back, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_a_handler_that_settles_itself, store_test_empty, forget),
		cmocka_unit_test_setup_teardown(test_progress, store_test_empty, forget),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
