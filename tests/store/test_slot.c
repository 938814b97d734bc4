/* test_slot.c - fleet slots: taking, renewing and freeing under a fence; parking and promoting; settlement and recovery free them
 * in their own transactions. */
#include "store_test.h"

#include "store/recover_store.h"
#include "store/settle_store.h"
#include "store/slot_store.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_IS(key, number, columns, expected)                                                                                    \
	assert_string_equal(ask("SELECT CONCAT_WS('|', " columns ") FROM job_slots WHERE concurrency_key=%s AND slot=%u", key,     \
				(uint64_t)(number)),                                                                               \
			    expected)

static struct slot_held of(const char *key, unsigned int number, uint64_t id, const char *lease)
{
	struct slot_held h = { .id = id, .slot = { .number = number, .limit = 9 } };

	memcpy(h.lease, lease, strlen(lease));
	memcpy(h.slot.key, key, strlen(key));
	return h;
}

static void make(const char *key, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		struct slot_held h = of(key, i, 0, LEASE_A);

		ok(slot_store_make(t.db, &h.slot, &t.fault));
	}
}

static uint64_t take(const struct slot_held *rows, size_t n)
{
	uint64_t won = 99;

	ok(slot_store_take(t.db, rows, n, 60000, "host:1:x", &won, &t.fault));
	return won;
}

static void test_a_free_slot_is_taken_once(void **state)
{
	struct slot_held rows[] = { of("a", 0, 11, LEASE_A), of("a", 1, 12, LEASE_A), of("b", 0, 13, LEASE_A) };
	struct slot_held late[] = { of("a", 1, 21, LEASE_B), of("a", 2, 22, LEASE_B) };
	bool ours[3];

	(void)state;
	make("a", 3);
	make("b", 1);
	assert_int_equal(take(rows, COUNT(rows)), 3);
	SLOT_IS("a", 1, "job_id, lease_id, locked_by, lease_ms", "12|" LEASE_A "|host:1:x|60000");
	SLOT_IS("b", 0, "job_id, ABS(TIMESTAMPDIFF(SECOND, locked_at, UTC_TIMESTAMP(6))) < 5", "13|1");
	assert_int_equal(take(late, COUNT(late)), 1);
	SLOT_IS("a", 1, "job_id, lease_id", "12|" LEASE_A);
	ok(slot_store_check(t.db, late, COUNT(late), ours, &t.fault));
	assert_false(ours[0]);
	assert_true(ours[1]);
	/* The same taking again, as after a lost reply: nothing is free, and the rows say what was taken. */
	assert_int_equal(take(rows, COUNT(rows)), 0);
	ok(slot_store_check(t.db, rows, COUNT(rows), ours, &t.fault));
	assert_true(ours[0] && ours[1] && ours[2]);
	/* A slot that does not exist is nobody's. */
	rows[0] = of("c", 0, 11, LEASE_A);
	assert_int_equal(take(rows, 1), 0);
}

static void test_making_a_slot_twice_changes_nothing(void **state)
{
	struct slot_held row = of("a", 0, 1, LEASE_A);

	(void)state;
	make("a", 1);
	assert_int_equal(take(&row, 1), 1);
	ok(slot_store_make(t.db, &row.slot, &t.fault));
	SLOT_IS("a", 0, "job_id, lease_id", "1|" LEASE_A);
}

/* Job, lease, key and number: all four belong together. */
static void test_renewal_and_freeing_are_fenced(void **state)
{
	struct slot_held row = of("a", 0, 1, LEASE_A);
	struct slot_held others[] = { of("a", 0, 1, LEASE_B), of("a", 0, 2, LEASE_A), of("a", 1, 1, LEASE_A),
				      of("b", 0, 1, LEASE_A) };
	uint64_t matched;

	(void)state;
	make("a", 2);
	make("b", 1);
	assert_int_equal(take(&row, 1), 1);
	run("UPDATE job_slots SET locked_at='2020-01-01'");
	ok(slot_store_renew(t.db, others, COUNT(others), &matched, &t.fault));
	assert_int_equal(matched, 0);
	ok(slot_store_free(t.db, others, COUNT(others), &matched, &t.fault));
	assert_int_equal(matched, 0);
	SLOT_IS("a", 0, "locked_at, lease_id", "2020-01-01 00:00:00.000000|" LEASE_A);
	ok(slot_store_renew(t.db, &row, 1, &matched, &t.fault));
	assert_int_equal(matched, 1);
	SLOT_IS("a", 0, "locked_at > '2021-01-01'", "1");
	ok(slot_store_free(t.db, &row, 1, &matched, &t.fault));
	assert_int_equal(matched, 1);
	SLOT_IS("a", 0, "job_id IS NULL, lease_id IS NULL, locked_by IS NULL, locked_at IS NULL, lease_ms IS NULL", "1|1|1|1|1");
}

static void test_a_locked_slot_is_a_retry(void **state)
{
	struct slot_held row = of("a", 0, 1, LEASE_A);
	uint64_t matched;

	(void)state;
	make("a", 1);
	assert_int_equal(take(&row, 1), 1);
	ok(db_begin(t.other, &t.fault));
	run("UPDATE job_slots SET locked_by='x'");
	assert_int_equal(slot_store_renew(t.db, &row, 1, &matched, &t.fault), DB_RETRY);
	db_rollback(t.other);
}

struct seen {
	struct slot_row rows[8];
	size_t count;
};

static void see(void *arg, const struct slot_row *row)
{
	struct seen *seen = arg;

	if (seen->count < COUNT(seen->rows))
		seen->rows[seen->count++] = *row;
}

static void test_reading(void **state)
{
	static const char keys[][JOB_KIND_MAX + 1] = { "b", "a", "none" };
	struct slot_held row = of("a", 1, 7, LEASE_A);
	struct seen seen = { .count = 0 };
	size_t count;

	(void)state;
	make("b", 1);
	make("a", 2);
	make("c", 1);
	assert_int_equal(take(&row, 1), 1);
	ok(slot_store_read(t.db, keys, COUNT(keys), see, &seen, &t.fault));
	assert_int_equal(seen.count, 3);
	assert_string_equal(seen.rows[0].key, "a");
	assert_false(seen.rows[0].held);
	assert_true(seen.rows[1].held);
	assert_int_equal(seen.rows[1].job, 7);
	assert_int_equal(seen.rows[1].lease_ms, 60000);
	assert_string_equal(seen.rows[2].key, "b");
	/* Page by page, from where one left off. */
	row = of("a", 1, 0, "");
	seen.rows[0] = (struct slot_row){ .key = "a", .number = 1 };
	seen.count = 1;
	ok(slot_store_page(t.db, &seen.rows[0], see, &seen, &count, &t.fault));
	assert_int_equal(count, 2);
	assert_string_equal(seen.rows[1].key, "b");
	assert_string_equal(seen.rows[2].key, "c");
}

/* Blanks at the end make no other key, for the server as for us. */
static void test_keys_are_compared_as_the_server_does(void **state)
{
	uint64_t id = add_job("concurrency_key='a  '"), parked, ids[4];
	static const char keys[][JOB_KIND_MAX + 1] = { "a" };
	struct slot_held row = of("a", 0, id, LEASE_A);
	struct slot_waiter waiters[SLOT_STORE_KEYS];
	struct seen seen = { .count = 0 };
	char kind[JOB_KIND_MAX + 1];
	struct job_slot found;
	size_t count;

	(void)state;
	run("INSERT INTO job_slots (concurrency_key, slot) VALUES ('a ', 0)");
	assert_int_equal(take(&row, 1), 1);
	ok(slot_store_read(t.db, keys, 1, see, &seen, &t.fault));
	assert_string_equal(seen.rows[0].key, "a");
	ok(slot_store_find(t.db, id, LEASE_A, &found, &t.fault));
	assert_string_equal(found.key, "a");
	ok(slot_store_park(t.db, &id, 1, &parked, &t.fault));
	ok(slot_store_waiting(t.db, "", waiters, &count, &t.fault));
	assert_int_equal(count, 1);
	assert_string_equal(waiters[0].key, "a");
	ok(slot_store_oldest(t.db, "a", 4, ids, &count, kind, sizeof(kind), &t.fault));
	ok(slot_store_promote(t.db, "a", ids, count, &parked, &t.fault));
	assert_int_equal(parked, 1);
}

static void test_parking_and_promotion(void **state)
{
	uint64_t ids[5], found[5], parked, promoted, running = add_running(LEASE_A, NULL);
	struct slot_waiter waiters[SLOT_STORE_KEYS];
	char kind[JOB_KIND_MAX + 1];
	size_t count;

	(void)state;
	ids[0] = running;
	ids[1] = add_job("concurrency_key='k', run_at='2020-01-01', created_at='2020-01-01'");
	ids[2] = add_job("created_at='2020-01-02', requeued_at='2020-01-05', attempt=2, claim_no=4");
	ids[3] = add_job("concurrency_key='k', created_at='2099-01-01'");
	ids[4] = add_job("state='cancelled'");
	ok(slot_store_park(t.db, ids, 5, &parked, &t.fault));
	assert_int_equal(parked, 3);
	assert_row(running, "state, slot_wait IS NULL", "running|1");
	assert_row(ids[4], "state, slot_wait IS NULL", "cancelled|1");
	assert_row(ids[1], "state, slot_wait, run_at, attempt", "scheduled|k|9999-01-01 00:00:00.000000|0");
	assert_row(ids[2], "state, slot_wait, attempt, claim_no", "scheduled|test|2|4");
	ok(slot_store_waiting(t.db, "", waiters, &count, &t.fault));
	assert_int_equal(count, 2);
	assert_string_equal(waiters[0].key, "k");
	assert_int_equal(waiters[0].id, ids[1]);
	assert_string_equal(waiters[1].key, "test");
	ok(slot_store_waiting(t.db, "k", waiters, &count, &t.fault));
	assert_int_equal(count, 1);
	ok(slot_store_oldest(t.db, "k", 1, found, &count, kind, sizeof(kind), &t.fault));
	assert_int_equal(count, 1);
	assert_int_equal(found[0], ids[1]);
	assert_string_equal(kind, "test");
	ok(slot_store_oldest(t.db, "k", 5, found, &count, kind, sizeof(kind), &t.fault));
	assert_int_equal(count, 2);
	/* Only waiters of that key, and at the place of their age; never in the future. */
	ok(slot_store_promote(t.db, "k", ids, 5, &promoted, &t.fault));
	assert_int_equal(promoted, 2);
	assert_row(ids[1], "state, slot_wait IS NULL, run_at, promote_at IS NULL", "ready|1|2020-01-01 00:00:00.000000|1");
	assert_row(ids[3], "state, run_at <= UTC_TIMESTAMP(6)", "ready|1");
	assert_row(ids[2], "state, slot_wait", "scheduled|test");
	ok(slot_store_promote(t.db, "test", &ids[2], 1, &promoted, &t.fault));
	assert_row(ids[2], "state, run_at", "ready|2020-01-05 00:00:00.000000");
	ok(slot_store_promote(t.db, "test", &ids[2], 1, &promoted, &t.fault));
	assert_int_equal(promoted, 0);
}

/* A slot of the dead goes only as it was seen. */
static void test_a_lapsed_slot_is_freed_as_it_was_read(void **state)
{
	struct slot_held row = of("a", 0, 1, LEASE_A);
	static const char keys[][JOB_KIND_MAX + 1] = { "a" };
	struct seen seen = { .count = 0 };
	uint64_t matched;
	bool freed;

	(void)state;
	make("a", 1);
	assert_int_equal(take(&row, 1), 1);
	run("UPDATE job_slots SET locked_at='2020-01-01'");
	ok(slot_store_read(t.db, keys, 1, see, &seen, &t.fault));
	ok(slot_store_renew(t.db, &row, 1, &matched, &t.fault));
	ok(slot_store_free_lapsed(t.db, &seen.rows[0], &freed, &t.fault));
	assert_false(freed);
	SLOT_IS("a", 0, "lease_id", LEASE_A);
	seen.count = 0;
	run("UPDATE job_slots SET locked_at=NULL");
	ok(slot_store_read(t.db, keys, 1, see, &seen, &t.fault));
	ok(slot_store_free_lapsed(t.db, &seen.rows[0], &freed, &t.fault));
	assert_true(freed);
	SLOT_IS("a", 0, "lease_id IS NULL, job_id IS NULL", "1|1");
}

static struct settlement *settlement_with(uint64_t id, const char *lease, enum settle_action action, enum outcome_kind outcome,
					  const struct slot_held *held)
{
	struct settlement *s = new_settlement(id, lease, action, outcome, action == SETTLE_SUCCEED ? "" : "why");

	s->slot = held->slot;
	return s;
}

static enum settle_result settle_one(struct settlement *s, bool again)
{
	struct settlement *items[] = { s };
	enum settle_result result;

	ok(settle_store_write(t.db, items, 1, "host:1:x", again, &result, &t.fault));
	settlement_free(s);
	return result;
}

/* Every action frees the slot, also when the row was lost or settled by the handler; nothing else is freed. */
static void test_a_settlement_frees_the_slot(void **state)
{
	static const struct {
		enum settle_action action;
		const char *more; /* what happened to the row before */
		enum settle_result result;
		const char *job_state;
	} cases[] = {
		{ SETTLE_SUCCEED, NULL, SETTLE_DONE, "succeeded" },
		{ SETTLE_RETRY, NULL, SETTLE_DONE, "scheduled" },
		{ SETTLE_DEAD, NULL, SETTLE_DONE, "dead" },
		{ SETTLE_CANCEL, NULL, SETTLE_DONE, "cancelled" },
		{ SETTLE_SNOOZE, NULL, SETTLE_DONE, "scheduled" },
		{ SETTLE_RELEASE, NULL, SETTLE_DONE, "ready" },
		{ SETTLE_RELEASE, "cancel_requested_at=UTC_TIMESTAMP(6)", SETTLE_CANCELLED, "cancelled" },
		{ SETTLE_SUCCEED, "state='succeeded', finished_at='2020-01-01'", SETTLE_BY_HANDLER, "succeeded" },
		{ SETTLE_SUCCEED, "lease_id='" LEASE_B "'", SETTLE_LOST, "running" },
		{ SETTLE_RETRY, "state='ready', lease_id=NULL", SETTLE_LOST, "ready" },
	};

	(void)state;
	make("a", 2);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct slot_held other = of("a", 1, 99, LEASE_B), row;
		uint64_t id = add_running(LEASE_A, cases[i].more);

		row = of("a", 0, id, LEASE_A);
		assert_int_equal(take(&row, 1), 1);
		take(&other, 1);
		assert_int_equal(settle_one(settlement_with(id, LEASE_A, cases[i].action, OUTCOME_RETRY, &row), false),
				 cases[i].result);
		assert_row(id, "state", cases[i].job_state);
		SLOT_IS("a", 0, "lease_id IS NULL", "1");
		SLOT_IS("a", 1, "lease_id", LEASE_B);
	}
}

/* In one transaction: whatever stops the one undoes the other. */
static void test_row_and_slot_change_together(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL);
	struct slot_held row = of("a", 0, id, LEASE_A);
	struct settlement *s = settlement_with(id, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED, &row), *items[] = { s };
	enum settle_result result;

	(void)state;
	make("a", 1);
	assert_int_equal(take(&row, 1), 1);
	ok(db_begin(t.other, &t.fault));
	run("UPDATE job_slots SET locked_by='x'");
	assert_int_equal(settle_store_write(t.db, items, 1, "w", false, &result, &t.fault), DB_RETRY);
	db_rollback(t.other);
	assert_row(id, "state", "running");
	/* Sent again, and once more: it is recognised, and the slot of the next holder is left alone. */
	ok(settle_store_write(t.db, items, 1, "w", true, &result, &t.fault));
	assert_row(id, "state", "succeeded");
	SLOT_IS("a", 0, "lease_id IS NULL", "1");
	row = of("a", 0, id + 1, LEASE_B);
	assert_int_equal(take(&row, 1), 1);
	ok(settle_store_write(t.db, items, 1, "w", true, &result, &t.fault));
	assert_int_equal(result, SETTLE_DONE);
	SLOT_IS("a", 0, "job_id, lease_id", ask("SELECT '%u|" LEASE_B "'", id + 1));
	settlement_free(s);
}

static void test_only_the_slot(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL);
	struct slot_held row = of("a", 0, id, LEASE_A);

	(void)state;
	make("a", 1);
	for (int again = 0; again < 2; again++) {
		struct settlement *s = settlement_with(id, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED, &row);

		assert_int_equal(take(&row, 1), 1);
		s->slot_only = true;
		assert_int_equal(settle_one(s, again != 0), SETTLE_DONE);
		SLOT_IS("a", 0, "lease_id IS NULL", "1");
		assert_row(id, "state, lease_id", "running|" LEASE_A);
	}
	assert_string_equal(ask("SELECT COUNT(*) FROM job_attempts"), "0");
}

static void test_a_claimed_job_that_found_no_slot_waits(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL), cancelled = add_running(LEASE_A, "cancel_requested_at=UTC_TIMESTAMP(6)");
	struct slot_held row = of("a", 0, id, LEASE_A);

	(void)state;
	assert_int_equal(settle_one(settlement_with(id, LEASE_A, SETTLE_WAIT, OUTCOME_SNOOZE, &row), false), SETTLE_DONE);
	assert_row(id, "state, slot_wait, run_at, attempt, claim_no, lease_id IS NULL",
		   "scheduled|a|9999-01-01 00:00:00.000000|0|1|1");
	row.id = cancelled;
	assert_int_equal(settle_one(settlement_with(cancelled, LEASE_A, SETTLE_WAIT, OUTCOME_SNOOZE, &row), false),
			 SETTLE_CANCELLED);
	assert_row(cancelled, "state, slot_wait IS NULL", "cancelled|1");
	assert_string_equal(ask("SELECT COUNT(*) FROM job_attempts"), "0");
}

static void test_recovery_frees_the_slot_of_the_lease(void **state)
{
	uint64_t id = add_running(LEASE_A, "locked_at='2020-01-01', concurrency_key='a'");
	struct slot_held row = of("a", 2, id, LEASE_A), other = of("a", 1, id, LEASE_B);
	struct recover_row rows[RECOVER_PAGE];
	struct job_slot found;
	size_t count;
	bool taken;

	(void)state;
	make("a", 3);
	assert_int_equal(take(&row, 1), 1);
	assert_int_equal(take(&other, 1), 1);
	ok(recover_store_scan(t.db, 1000000, rows, &count, &t.fault));
	assert_int_equal(count, 1);
	assert_string_equal(rows[0].slot.key, "");
	ok(slot_store_find(t.db, id, LEASE_A, &rows[0].slot, &t.fault));
	assert_int_equal(rows[0].slot.number, 2);
	/* The holder is back before we take it: neither row nor slot is touched. */
	run("UPDATE jobs SET locked_at=UTC_TIMESTAMP(6) WHERE id=%u", id);
	ok(recover_store_take(t.db, &rows[0], RECOVER_SCHEDULED, 0, "x", &taken, &t.fault));
	assert_false(taken);
	SLOT_IS("a", 2, "lease_id", LEASE_A);
	run("UPDATE jobs SET locked_at='2020-01-01' WHERE id=%u", id);
	ok(recover_store_take(t.db, &rows[0], RECOVER_SCHEDULED, 0, "x", &taken, &t.fault));
	assert_true(taken);
	SLOT_IS("a", 2, "lease_id IS NULL", "1");
	SLOT_IS("a", 1, "lease_id", LEASE_B);
	ok(slot_store_find(t.db, id, LEASE_A, &found, &t.fault));
	assert_string_equal(found.key, "");
	/* By its kind, where the job has no key of its own. */
	id = add_running(LEASE_A, NULL);
	row = of("test", 0, id, LEASE_A);
	make("test", 1);
	assert_int_equal(take(&row, 1), 1);
	ok(slot_store_find(t.db, id, LEASE_A, &found, &t.fault));
	assert_string_equal(found.key, "test");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_free_slot_is_taken_once, store_test_empty),
		cmocka_unit_test_setup(test_making_a_slot_twice_changes_nothing, store_test_empty),
		cmocka_unit_test_setup(test_renewal_and_freeing_are_fenced, store_test_empty),
		cmocka_unit_test_setup(test_a_locked_slot_is_a_retry, store_test_empty),
		cmocka_unit_test_setup(test_reading, store_test_empty),
		cmocka_unit_test_setup(test_keys_are_compared_as_the_server_does, store_test_empty),
		cmocka_unit_test_setup(test_parking_and_promotion, store_test_empty),
		cmocka_unit_test_setup(test_a_lapsed_slot_is_freed_as_it_was_read, store_test_empty),
		cmocka_unit_test_setup(test_a_settlement_frees_the_slot, store_test_empty),
		cmocka_unit_test_setup(test_row_and_slot_change_together, store_test_empty),
		cmocka_unit_test_setup(test_only_the_slot, store_test_empty),
		cmocka_unit_test_setup(test_a_claimed_job_that_found_no_slot_waits, store_test_empty),
		cmocka_unit_test_setup(test_recovery_frees_the_slot_of_the_lease, store_test_empty),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
