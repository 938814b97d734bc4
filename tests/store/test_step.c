/* test_step.c - steps that handlers save: the fence, sending again, order, bounds, and their end with the job. */
#include "store_test.h"

#include "store/claim_store.h"
#include "store/recover_store.h"
#include "store/settle_store.h"
#include "store/step_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct step_row step_of(uint64_t id, const char *name, const char *data, uint32_t save_no)
{
	return (struct step_row){
		.id = id, .lease = LEASE_A, .name = name, .data = data, .data_len = strlen(data), .save_no = save_no
	};
}

static enum db_class try_save(struct db *db, uint64_t id, const char *lease, const char *name, const char *data, uint32_t no,
			      bool *saved)
{
	struct step_row row = step_of(id, name, data, no);

	row.lease = lease;
	*saved = false;
	return step_store_save(db, &row, 1, saved, &t.fault);
}

static bool save(uint64_t id, const char *lease, const char *name, const char *data, uint32_t save_no)
{
	bool saved;

	ok(try_save(t.db, id, lease, name, data, save_no, &saved));
	return saved;
}

/* All steps of a job as the next claim gets them: "name=data name=data". */
static const char *read_back(uint64_t id)
{
	static char text[4096];
	struct job job = { .id = id }, *list = &job;
	size_t len = 0;

	ok(step_store_read(t.db, &list, 1, &t.fault));
	text[0] = '\0';
	for (size_t i = 0; i < job.step_count; i++) {
		assert_int_equal(strlen(job.steps[i].data), job.steps[i].data_len);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s=%.40s", i > 0 ? " " : "", job.steps[i].name,
					job.steps[i].data);
	}
	if (job.steps_unfit)
		snprintf(text, sizeof(text), "unfit");
	job_drop_steps(&job);
	return text;
}

static void test_save_and_read_back(void **state)
{
	uint64_t id = add_running(LEASE_A, "claim_no=7"), other = add_running(LEASE_A, NULL);
	char data[] = "{\"text\":\"žluť 👍 ' \\\\ \\u0000\"}";

	(void)state;
	assert_string_equal(read_back(id), "");
	assert_true(save(id, LEASE_A, "charged", data, 1));
	assert_string_equal(ask("SELECT CONCAT_WS('|', job_id = %u, name, seq, save_no, claim_no, data, "
				"ABS(TIMESTAMPDIFF(SECOND, saved_at, UTC_TIMESTAMP(6))) < 5) FROM job_steps",
				id),
			    "1|charged|1|1|7|{\"text\":\"žluť 👍 ' \\\\ \\u0000\"}|1");
	assert_true(save(other, LEASE_A, "charged", "null", 1));
	assert_string_equal(read_back(id), "charged={\"text\":\"žluť 👍 ' \\\\ \\u0000\"}");
	assert_string_equal(read_back(other), "charged=null");
	/* The row of the job is as it was. */
	assert_row(id, "state, lease_id, claim_no, attempt", "running|" LEASE_A "|7|1");
}

/* The order is that of first saving, whatever was saved again later and however names compare. */
static void test_order_and_overwriting(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL);

	(void)state;
	assert_true(save(id, LEASE_A, "z", "1", 1));
	assert_true(save(id, LEASE_A, "a", "2", 2));
	assert_true(save(id, LEASE_A, "M", "3", 3));
	assert_true(save(id, LEASE_A, "m", "4", 10));
	run("UPDATE job_steps SET saved_at='2020-01-01'");
	assert_true(save(id, LEASE_A, "z", "[5]", 11));
	assert_string_equal(read_back(id), "z=[5] a=2 M=3 m=4");
	assert_string_equal(ask("SELECT CONCAT_WS('|', seq, save_no, saved_at > '2026-01-01') FROM job_steps WHERE name='z'"),
			    "1|11|1");
	/* The next attempt counts on from there. */
	run("UPDATE jobs SET claim_no=2, lease_id='" LEASE_B "' WHERE id=%u", id);
	assert_true(save(id, LEASE_B, "b", "6", 12));
	assert_true(save(id, LEASE_B, "a", "7", 13));
	assert_string_equal(read_back(id), "z=[5] a=7 M=3 m=4 b=6");
	assert_string_equal(ask("SELECT GROUP_CONCAT(claim_no ORDER BY seq) FROM job_steps"), "1,2,1,1,2");
}

/* Sent again after a lost reply, it is saved; an earlier copy that lands late changes nothing. */
static void test_sent_again_and_landing_late(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL);

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_true(save(id, LEASE_A, "page", "1", 1));
	assert_true(save(id, LEASE_A, "page", "2", 2));
	assert_true(save(id, LEASE_A, "page", "3", 3));
	run("UPDATE job_steps SET saved_at='2020-01-01'");
	assert_true(save(id, LEASE_A, "page", "1", 1));
	assert_string_equal(ask("SELECT CONCAT_WS('|', seq, save_no, saved_at, data) FROM job_steps"),
			    "1|3|2020-01-01 00:00:00.000000|3");
	assert_string_equal(read_back(id), "page=3");
}

/* Each way in which the job may have left our hands. */
static void test_fence(void **state)
{
	static const char *const lost[] = {
		"lease_id='" LEASE_B "', claim_no=2", /* reclaimed */
		"state='scheduled', lease_id=NULL",   /* recovered */
		"state='ready', lease_id=NULL",       "state='succeeded'", "state='dead'", "state='cancelled'",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(lost); i++) {
		uint64_t id = add_running(LEASE_A, NULL);

		assert_true(save(id, LEASE_A, "charged", "1", 1));
		run("UPDATE jobs SET %r WHERE id=%u", lost[i], id);
		assert_false(save(id, LEASE_A, "charged", "2", 2));
		assert_false(save(id, LEASE_A, "shipped", "2", 3));
		assert_string_equal(read_back(id), "charged=1");
	}
	assert_false(save(4000000, LEASE_A, "charged", "1", 1));
	/* A request to cancel does not end the lease. */
	assert_true(save(add_running(LEASE_A, "cancel_requested_at=UTC_TIMESTAMP(6)"), LEASE_A, "charged", "1", 1));
}

/* The whole way: a lapsed lease, the next holder, and what the first one says afterwards. */
static void test_lapsed_and_reclaimed(void **state)
{
	static struct recover_row lapsed[RECOVER_PAGE];
	uint64_t id = add_running(LEASE_A, "locked_at='2020-01-01'"), won;
	size_t count;
	bool taken;

	(void)state;
	assert_true(save(id, LEASE_A, "charged", "1", 1));
	ok(recover_store_scan(t.other, 1000000, lapsed, &count, &t.fault));
	assert_int_equal(count, 1);
	ok(recover_store_take(t.other, &lapsed[0], RECOVER_SCHEDULED, 0, "lapsed", &taken, &t.fault));
	assert_true(taken);
	assert_false(save(id, LEASE_A, "charged", "2", 2));
	run("UPDATE jobs SET state='ready', run_at='2020-01-01' WHERE id=%u", id);
	ok(claim_store_take(t.other, &id, 1, LEASE_B, 60000, "b", &won, &t.fault));
	assert_int_equal(won, 1);
	assert_string_equal(read_back(id), "charged=1");
	assert_false(save(id, LEASE_A, "charged", "3", 3));
	assert_true(save(id, LEASE_B, "shipped", "4", 2));
	assert_string_equal(read_back(id), "charged=1 shipped=4");
}

/* The handler's own transaction holds the row: the completer must not wait for it. Then the transaction settles the job. */
static void test_a_locked_row_is_not_waited_for(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL), free_id = add_running(LEASE_A, NULL);
	struct step_row rows[] = { step_of(free_id, "a", "1", 1), step_of(id, "a", "1", 1) };
	bool saved[2];

	(void)state;
	ok(db_begin(t.other, &t.fault));
	run("UPDATE jobs SET state='succeeded' WHERE id=%u AND lease_id='" LEASE_A "'", id);
	run("SET @began=UTC_TIMESTAMP(6)");
	assert_int_equal(try_save(t.db, id, LEASE_A, "a", "1", 1, saved), DB_RETRY);
	assert_int_equal(step_store_save(t.db, rows, 2, saved, &t.fault), DB_RETRY);
	/* Less than the second that other statements wait for. */
	assert_int_equal(ask_number("SELECT TIMESTAMPDIFF(MICROSECOND, @began, UTC_TIMESTAMP(6)) < 900000"), 1);
	db_rollback(t.other);
	assert_string_equal(read_back(free_id), "");
	assert_true(save(id, LEASE_A, "a", "1", 1));
	run("UPDATE jobs SET state='succeeded' WHERE id=%u", id);
	assert_false(save(id, LEASE_A, "b", "1", 2));
}

/* Several in one transaction, all or none of them, each with an answer of its own. */
static void test_several_at_once(void **state)
{
	uint64_t mine = add_running(LEASE_A, NULL), lost = add_running(LEASE_B, NULL), also = add_running(LEASE_A, NULL);
	struct step_row rows[] = { step_of(also, "a", "1", 1), step_of(lost, "a", "1", 1), step_of(mine, "a", "1", 1),
				   step_of(mine, "b", "2", 2), step_of(mine, "a", "3", 3) };
	bool saved[COUNT(rows)] = { false };
	char long_name[66];

	(void)state;
	ok(step_store_save(t.db, rows, COUNT(rows), saved, &t.fault));
	assert_true(saved[0] && !saved[1] && saved[2] && saved[3] && saved[4]);
	assert_string_equal(read_back(mine), "a=3 b=2");
	assert_string_equal(read_back(also), "a=1");
	assert_string_equal(read_back(lost), "");
	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	rows[0] = step_of(also, "c", "1", 4);
	rows[1] = step_of(also, long_name, "1", 5);
	assert_int_equal(step_store_save(t.db, rows, 2, saved, &t.fault), DB_DATA);
	assert_false(db_in_transaction(t.db));
	assert_string_equal(read_back(also), "a=1");
}

/* Killed in the midst of the transaction, nothing of it is there. */
static void test_killed_before_the_commit(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL);
	struct step_row row = step_of(id, "a", "1", 1);
	struct fault f;
	bool saved;

	(void)state;
	ok(db_begin(t.db, &t.fault));
	assert_true(save(id, LEASE_A, "a", "1", 1));
	run("KILL %u", db_identity(t.db)->session);
	assert_int_not_equal(db_commit(t.db, &f), DB_OK);
	ok(db_open(t.db, &t.fault));
	while (step_store_save(t.db, &row, 1, &saved, &t.fault) == DB_RETRY)
		; /* the dead session's lock */
	assert_true(saved);
	assert_string_equal(read_back(id), "a=1");
}

static void test_steps_go_with_their_job(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL), other = add_running(LEASE_A, NULL);

	(void)state;
	assert_true(save(id, LEASE_A, "a", "1", 1));
	assert_true(save(id, LEASE_A, "b", "1", 2));
	assert_true(save(other, LEASE_A, "a", "1", 1));
	run("DELETE FROM jobs WHERE id=%u", id);
	assert_int_equal(ask_number("SELECT COUNT(*) FROM job_steps"), 1);
	assert_false(save(id, LEASE_A, "c", "1", 3));
}

/* Whatever settles the job leaves its steps alone: a retry needs them, and so does an operator's retry of a dead one. */
static void test_settling_keeps_them(void **state)
{
	static const enum settle_action actions[] = { SETTLE_SUCCEED, SETTLE_RETRY, SETTLE_SNOOZE, SETTLE_RELEASE, SETTLE_DEAD };

	(void)state;
	for (size_t i = 0; i < COUNT(actions); i++) {
		uint64_t id = add_running(LEASE_A, NULL);
		struct settlement *item = new_settlement(id, LEASE_A, actions[i], OUTCOME_RETRY, "x");
		enum settle_result result;

		assert_true(save(id, LEASE_A, "charged", "1", 1));
		ok(settle_store_write(t.db, &item, 1, "w", false, &result, &t.fault));
		settlement_free(item);
		assert_string_equal(read_back(id), "charged=1");
	}
}

#define MANY 9

/* Jobs with and without steps side by side, some of them with more than fits: those, and only those, are marked. */
static void test_reading_many_with_some_unfit(void **state)
{
	struct job jobs[MANY] = { { .id = 0 } }, *list[MANY];
	uint64_t stranger;

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		jobs[i].id = add_running(LEASE_A, NULL);
		list[i] = &jobs[i];
	}
	stranger = add_running(LEASE_A, NULL);
	assert_true(save(stranger, LEASE_A, "s", "9", 1));
	for (size_t i = 1; i < MANY; i++)
		assert_true(save(jobs[i].id, LEASE_A, "own", i % 2 == 0 ? "2" : "1", (uint32_t)i));
	/* 2: full to the brim; 3: a name too many; 4: far too many; 5: a byte too many in all; 6: one value too long; 7: a number
	 * at its end. */
	for (size_t i = 2; i <= 4; i++)
		run("INSERT INTO job_steps (job_id, name, seq, save_no, claim_no, data) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL"
		    " SELECT i + 1 FROM n WHERE i < %u) SELECT %u, CONCAT('n', i), 1000 - i, 5, 1, REPEAT('7', %u) FROM n",
		    (uint64_t)(i == 2   ? 63
			       : i == 3 ? 64
					: 900),
		    jobs[i].id, (uint64_t)(i == 2 ? 1040 : 1));
	run("INSERT INTO job_steps (job_id, name, seq, save_no, claim_no, data) VALUES (%u, 'long', 9, 9, 1, REPEAT('7', 65536)), "
	    "(%u, 'long', 9, 9, 1, REPEAT('7', 65537)), (%u, 'end', 9, 4294967295, 1, '7')",
	    jobs[5].id, jobs[6].id, jobs[7].id);
	run("INSERT INTO job_steps (job_id, name, seq, save_no, claim_no, data) SELECT %u, n, 10, 10, 1, REPEAT('7', 65536) FROM"
	    " (SELECT 'x' AS n UNION SELECT 'y' UNION SELECT 'z') names",
	    jobs[5].id);
	ok(step_store_read(t.db, list, MANY, &t.fault));
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(jobs[i].steps_unfit, i >= 3 && i <= 7);
		assert_int_equal(jobs[i].step_count, i == 0 || (i >= 3 && i <= 7) ? 0 : i == 2 ? JOB_STEPS_MAX : 1);
	}
	assert_string_equal(jobs[2].steps[0].name, "own");
	assert_string_equal(jobs[2].steps[1].name, "n63");
	assert_string_equal(jobs[2].steps[63].name, "n1");
	assert_int_equal(jobs[2].step_no, 5);
	assert_int_equal(jobs[8].step_no, 8);
	assert_int_equal(jobs[0].step_no, 0);
	for (size_t i = 0; i < MANY; i++)
		job_drop_steps(&jobs[i]);
}

static void test_reading_nothing_costs_nothing(void **state)
{
	(void)state;
	db_close(t.db);
	ok(step_store_read(t.db, NULL, 0, &t.fault));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_save_and_read_back, store_test_empty),
		cmocka_unit_test_setup(test_order_and_overwriting, store_test_empty),
		cmocka_unit_test_setup(test_sent_again_and_landing_late, store_test_empty),
		cmocka_unit_test_setup(test_fence, store_test_empty),
		cmocka_unit_test_setup(test_lapsed_and_reclaimed, store_test_empty),
		cmocka_unit_test_setup(test_a_locked_row_is_not_waited_for, store_test_empty),
		cmocka_unit_test_setup(test_several_at_once, store_test_empty),
		cmocka_unit_test_setup(test_killed_before_the_commit, store_test_empty),
		cmocka_unit_test_setup(test_steps_go_with_their_job, store_test_empty),
		cmocka_unit_test_setup(test_settling_keeps_them, store_test_empty),
		cmocka_unit_test_setup(test_reading_many_with_some_unfit, store_test_empty),
		cmocka_unit_test_setup(test_reading_nothing_costs_nothing, store_test_empty),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
