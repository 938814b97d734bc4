/* test_claim.c - taking jobs: order, due time, the race for a row, read-back. */
#include "store_test.h"

#include "store/claim_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PICK 16

static struct scan_row found[64];
static struct job *picked[PICK];
static size_t picked_count;

static void pick(void *arg, struct job *job)
{
	(void)arg;
	assert_true(picked_count < PICK);
	picked[picked_count++] = job;
}

static void drop_picked(void)
{
	while (picked_count > 0)
		job_free(picked[--picked_count]);
}

static size_t scan(const char *queue, const struct scan_cursor *cursor, size_t window)
{
	static const struct scan_cursor head;
	size_t count = 0;

	ok(claim_store_scan(t.db, queue, cursor != NULL ? cursor : &head, window, found, &count, &t.fault));
	return count;
}

static uint64_t take(struct db *db, uint64_t id, const char *lease)
{
	uint64_t won = 99;

	ok(claim_store_take(db, &id, 1, lease, 60000, "host:2:y", &won, &t.fault));
	return won;
}

static void test_scan_order(void **state)
{
	uint64_t late = add_job("priority=5"), second = add_job("run_at='2020-01-01 00:00:00.000002'"),
		 third = add_job("run_at='2020-01-01 00:00:00.000002'"), first = add_job("run_at='2020-01-01 00:00:00.000001'"),
		 urgent = add_job("priority=-10");
	struct scan_cursor cursor = {.set = true};

	(void)state;
	add_job("queue='elsewhere'");
	add_job("run_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR");
	assert_int_equal(scan("default", NULL, 64), 5);
	assert_int_equal(found[0].id, urgent);
	assert_int_equal(found[1].id, first);
	assert_int_equal(found[2].id, second);
	assert_int_equal(found[3].id, third);
	assert_int_equal(found[4].id, late);
	assert_int_equal(found[0].priority, -10);
	assert_string_equal(found[1].run_at, "2020-01-01 00:00:00.000001");
	assert_int_equal(scan("default", NULL, 2), 2);
	/* From each row on, the rest follows. */
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(scan("default", NULL, 64), 5);
		cursor.priority = found[i].priority;
		cursor.id = found[i].id;
		snprintf(cursor.run_at, sizeof(cursor.run_at), "%s", found[i].run_at);
		assert_int_equal(scan("default", &cursor, 64), 4 - i);
		if (i < 4)
			assert_int_not_equal(found[0].id, cursor.id);
	}
}

static void test_paused_queue_yields_nothing(void **state)
{
	(void)state;
	add_job(NULL);
	run("INSERT INTO job_queues (queue, paused_at) VALUES ('default', UTC_TIMESTAMP(6)), ('other', NULL)");
	assert_int_equal(scan("default", NULL, 10), 0);
	add_job("queue='other'");
	assert_int_equal(scan("other", NULL, 10), 1);
	run("UPDATE job_queues SET paused_at=NULL");
	assert_int_equal(scan("default", NULL, 10), 1);
}

static void test_take_sets_everything(void **state)
{
	uint64_t id = add_job("attempt=3, claim_no=8, max_attempts=5, timeout_ms=0, priority=-2, traceparent='00-ab', "
			      "payload='{\"a\":\"žluť 👍\"}',"
			      " orphan_streak=2");

	(void)state;
	assert_int_equal(take(t.db, id, LEASE_A), 1);
	assert_row(id,
		   "state, lease_id, locked_by, lease_ms, attempt, claim_no, ABS(TIMESTAMPDIFF(SECOND, locked_at, "
		   "UTC_TIMESTAMP(6))) < 5, "
		   "claimed_at = locked_at",
		   "running|" LEASE_A "|host:2:y|60000|4|9|1|1");
	ok(claim_store_read(t.db, &id, 1, LEASE_A, 60000, pick, NULL, &t.fault));
	assert_int_equal(picked_count, 1);
	assert_int_equal(picked[0]->id, id);
	assert_int_equal(picked[0]->attempt, 4);
	assert_int_equal(picked[0]->claim_no, 9);
	assert_int_equal(picked[0]->max_attempts, 5);
	assert_true(picked[0]->timeout_set);
	assert_int_equal(picked[0]->timeout_ms, 0);
	assert_int_equal(picked[0]->lease_ms, 60000);
	assert_int_equal(picked[0]->priority, -2);
	assert_int_equal(picked[0]->orphan_streak, 2);
	assert_string_equal(picked[0]->traceparent, "00-ab");
	assert_string_equal(picked[0]->lease, LEASE_A);
	assert_string_equal(picked[0]->kind, "test");
	assert_string_equal(picked[0]->queue, "default");
	assert_string_equal(picked[0]->payload, "{\"a\":\"žluť 👍\"}");
	assert_false(picked[0]->cancel_requested);
	drop_picked();
}

static void test_only_ready_and_due_rows_are_taken(void **state)
{
	static const char *const others[] = {"state='scheduled'", "state='succeeded'", "state='dead'", "state='cancelled'",
					     "state='ready', run_at=UTC_TIMESTAMP(6) + INTERVAL 2 SECOND"};
	uint64_t running = add_running(LEASE_B, NULL);

	(void)state;
	for (size_t i = 0; i < COUNT(others); i++)
		assert_int_equal(take(t.db, add_job(others[i]), LEASE_A), 0);
	assert_int_equal(take(t.db, running, LEASE_A), 0);
	assert_row(running, "lease_id, attempt", LEASE_B "|1");
	assert_int_equal(ask_number("SELECT COUNT(*) FROM jobs WHERE attempt > 0"), 1);
}

/* Two claimers with the same candidates: each row has one winner, and the read-back tells each what it won. */
static void test_race_for_rows(void **state)
{
	uint64_t ids[4], won_a, won_b, b_first[3];

	(void)state;
	for (size_t i = 0; i < 4; i++)
		ids[i] = add_job(NULL);
	memcpy(b_first, &ids[1], sizeof(b_first));
	ok(claim_store_take(t.db, ids, 2, LEASE_A, 60000, "a", &won_a, &t.fault));
	ok(claim_store_take(t.other, b_first, 3, LEASE_B, 60000, "b", &won_b, &t.fault));
	assert_int_equal(won_a, 2);
	assert_int_equal(won_b, 2);
	ok(claim_store_read(t.db, ids, 4, LEASE_A, 60000, pick, NULL, &t.fault));
	assert_int_equal(picked_count, 2);
	assert_int_equal(picked[0]->id + picked[1]->id, ids[0] + ids[1]);
	drop_picked();
	ok(claim_store_read(t.db, ids, 4, LEASE_B, 60000, pick, NULL, &t.fault));
	assert_int_equal(picked_count, 2);
	drop_picked();
	assert_int_equal(ask_number("SELECT SUM(attempt) FROM jobs"), 4);
}

/* The row is locked by another claim that is not committed: the loser waits, and then finds it taken. */
static void test_race_with_an_open_claim(void **state)
{
	uint64_t id = add_job(NULL), won;

	(void)state;
	ok(db_begin(t.other, &t.fault));
	assert_int_equal(take(t.other, id, LEASE_B), 1);
	assert_int_equal(claim_store_take(t.db, &id, 1, LEASE_A, 60000, "a", &won, &t.fault), DB_RETRY);
	ok(db_commit(t.other, &t.fault));
	assert_int_equal(take(t.db, id, LEASE_A), 0);
	assert_row(id, "lease_id", LEASE_B);
}

/* laravel#58941: a counter at its bound at the head of the queue must not stall it. */
static void test_counters_saturate(void **state)
{
	uint64_t id = add_job("attempt=65535, claim_no=4294967295");

	(void)state;
	assert_int_equal(take(t.db, id, LEASE_A), 1);
	assert_row(id, "attempt, claim_no", "65535|4294967295");
	ok(claim_store_read(t.db, &id, 1, LEASE_A, 60000, pick, NULL, &t.fault));
	assert_int_equal(picked[0]->attempt, 65535);
	assert_true(picked[0]->claim_no == UINT32_MAX);
	drop_picked();
}

static void test_large_payloads_are_fetched(void **state)
{
	uint64_t ids[3];

	(void)state;
	ids[0] = add_job("payload=REPEAT('x', 65536)");
	ids[1] = add_job("payload=REPEAT('yz', 50000)");
	ids[2] = add_job("payload=''");
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(take(t.db, ids[i], LEASE_A), 1);
	ok(claim_store_read(t.db, ids, 3, LEASE_A, 60000, pick, NULL, &t.fault));
	assert_int_equal(picked_count, 3);
	assert_int_equal(picked[0]->payload_len, 65536);
	assert_int_equal(picked[1]->payload_len, 100000);
	assert_string_equal(picked[1]->payload + 99998, "yz");
	assert_int_equal(picked[2]->payload_len, 0);
	assert_string_equal(picked[2]->payload, "");
	drop_picked();
}

static void test_put_back_early(void **state)
{
	uint64_t early = add_job("state='ready', run_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"), due = add_job(NULL);
	uint64_t ids[] = {early, due};

	(void)state;
	assert_int_equal(scan("default", NULL, 10), 2);
	assert_false(found[0].early);
	assert_true(found[1].early);
	ok(claim_store_put_back_early(t.db, ids, 2, &t.fault));
	assert_row(early, "state, promote_at = run_at", "scheduled|1");
	assert_row(due, "state", "ready");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_scan_order, store_test_empty),
		cmocka_unit_test_setup(test_paused_queue_yields_nothing, store_test_empty),
		cmocka_unit_test_setup(test_take_sets_everything, store_test_empty),
		cmocka_unit_test_setup(test_only_ready_and_due_rows_are_taken, store_test_empty),
		cmocka_unit_test_setup(test_race_for_rows, store_test_empty),
		cmocka_unit_test_setup(test_race_with_an_open_claim, store_test_empty),
		cmocka_unit_test_setup(test_counters_saturate, store_test_empty),
		cmocka_unit_test_setup(test_large_payloads_are_fetched, store_test_empty),
		cmocka_unit_test_setup(test_put_back_early, store_test_empty),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
