/* test_promote.c - scheduled jobs whose time has come, holds on unique keys that have ended, and how long until the next. */
#include "store_test.h"

#include "store/promote_store.h"

#include <stdlib.h>

static struct promote_found found;

static size_t scan(int64_t *next_ms)
{
	ok(promote_store_scan(t.db, &found, &t.fault));
	*next_ms = found.next_ms;
	return found.due_count;
}

static void test_due_rows_oldest_first(void **state)
{
	uint64_t second = add_job("run_at='2020-01-01 00:00:00.000002', state='scheduled'"),
		 first = add_job("run_at='2020-01-01 00:00:00.000001', state='scheduled'"), promoted;
	int64_t next_ms;

	(void)state;
	add_job(NULL);
	add_running(LEASE_A, "run_at='2020-01-01'");
	assert_int_equal(scan(&next_ms), 2);
	assert_int_equal(found.due[0], first);
	assert_int_equal(found.due[1], second);
	assert_int_equal(next_ms, -1);
	found.due[0] = second;
	found.due[1] = first;
	ok(promote_store_write(t.db, found.due, 2, &promoted, &t.fault));
	assert_int_equal(promoted, 2);
	assert_row(first, "state, promote_at IS NULL, run_at", "ready|1|2020-01-01 00:00:00.000001");
	assert_int_equal(scan(&next_ms), 0);
}

static void test_next(void **state)
{
	int64_t next_ms;

	(void)state;
	assert_int_equal(scan(&next_ms), 0);
	assert_int_equal(next_ms, -1);
	add_job("run_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR");
	add_job("run_at=UTC_TIMESTAMP(6) + INTERVAL 20 SECOND");
	add_job("run_at='9999-12-31 23:59:59'");
	assert_int_equal(scan(&next_ms), 0);
	assert_in_range(next_ms, 15000, 20001);
	add_job("run_at='2020-01-01', state='scheduled'");
	assert_int_equal(scan(&next_ms), 1);
	assert_in_range(next_ms, 15000, 20001);
}

static void test_only_what_is_still_scheduled_and_due(void **state)
{
	uint64_t due = add_job("run_at='2020-01-01', state='scheduled'"), moved = add_job("run_at='2020-01-01', state='scheduled'"),
		 cancelled = add_job("run_at='2020-01-01', state='scheduled'"), promoted;
	uint64_t sorted[] = {due, moved, cancelled};
	int64_t next_ms;

	(void)state;
	assert_int_equal(scan(&next_ms), 3);
	run("UPDATE jobs SET run_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id=%u", moved);
	run("UPDATE jobs SET state='cancelled' WHERE id=%u", cancelled);
	ok(promote_store_write(t.db, sorted, 3, &promoted, &t.fault));
	assert_int_equal(promoted, 1);
	assert_row(due, "state", "ready");
	assert_row(moved, "state", "scheduled");
	assert_row(cancelled, "state", "cancelled");
	/* Another promoter was faster. */
	ok(promote_store_write(t.other, sorted, 3, &promoted, &t.fault));
	assert_int_equal(promoted, 0);
}

static void test_a_full_page(void **state)
{
	int64_t next_ms;

	(void)state;
	run("INSERT INTO jobs (kind, state, run_at) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %u)"
	    " SELECT 'test', 'scheduled', '2020-01-01' FROM n", (uint64_t)PROMOTE_PAGE + 1);
	assert_int_equal(scan(&next_ms), PROMOTE_PAGE);
	assert_int_equal(next_ms, 0);
}

/* Only what is still where the claim left it. */
static void test_waking_of_parked_jobs(void **state)
{
	uint64_t parked = add_job("run_at='2099-01-01', claim_no=3"), again = add_job("run_at='2099-01-01', claim_no=4"),
		 cancelled = add_job("run_at='2099-01-01', claim_no=3, state='cancelled'"), woken;
	const struct promote_parked rows[] = {{parked, 2}, {parked, 3}, {again, 3}, {cancelled, 3}, {cancelled + 1, 3}};

	(void)state;
	ok(promote_store_wake(t.db, rows, COUNT(rows), &woken, &t.fault));
	assert_int_equal(woken, 1);
	assert_row(parked, "state, run_at <= UTC_TIMESTAMP(6), promote_at IS NULL", "ready|1|1");
	assert_row(again, "state, run_at", "scheduled|2099-01-01 00:00:00.000000");
	assert_row(cancelled, "state", "cancelled");
}

#define ENDED "unique_key='k', unique_hold_until=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND"

/* Whatever state the job is in: a hold that has ended is cleared, one that has not stays. */
static void test_holds_that_have_ended(void **state)
{
	static const char insert[] = "INSERT INTO jobs SET kind='test', unique_key='k'";
	uint64_t done = add_job("state='succeeded', " ENDED),
		 busy = add_running(LEASE_A, "unique_key='r', unique_hold_until='2020-01-01'"),
		 held = add_job("unique_key='h', unique_hold_until=UTC_TIMESTAMP(6) + INTERVAL 20 SECOND"), released;
	uint64_t sorted[] = {done, busy, held};
	int64_t next_ms;

	(void)state;
	assert_int_equal(db_execf(t.other, NULL, &t.fault, insert), DB_DUPLICATE);
	assert_int_equal(scan(&next_ms), 0);
	assert_int_equal(found.hold_count, 2);
	assert_int_equal(found.holds[0], busy);
	assert_int_equal(found.holds[1], done);
	assert_in_range(next_ms, 15000, 20001);
	ok(promote_store_release(t.db, sorted, 3, &released, &t.fault));
	assert_int_equal(released, 2);
	ok(db_execf(t.other, NULL, &t.fault, insert));
	/* The key of an unfinished job is its own, with a hold or without. */
	assert_row(busy, "unique_hold_until IS NULL, active_key, state", "1|r|running");
	assert_row(held, "unique_hold_until IS NULL, active_key", "0|h");
	assert_int_equal(scan(&next_ms), 0);
	assert_int_equal(found.hold_count, 0);
	assert_in_range(next_ms, 15000, 20001);
}

/* The sooner of the two decides how long to wait. */
static void test_next_of_both(void **state)
{
	int64_t next_ms;

	(void)state;
	add_job("run_at=UTC_TIMESTAMP(6) + INTERVAL 20 SECOND");
	add_job("unique_key='a', unique_hold_until=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR");
	assert_int_equal(scan(&next_ms), 0);
	assert_in_range(next_ms, 15000, 20001);
	add_job("unique_key='b', unique_hold_until=UTC_TIMESTAMP(6) + INTERVAL 10 SECOND");
	assert_int_equal(scan(&next_ms), 0);
	assert_in_range(next_ms, 5000, 10001);
}

/* A transaction that keeps the row, or only the entry of the key that it ran into, makes it another try's. */
static void test_a_hold_that_is_locked(void **state)
{
	static const char *const locks[] = {"UPDATE jobs SET progress=1", "INSERT INTO jobs SET kind='test', unique_key='k'"};
	uint64_t id, released;

	(void)state;
	for (size_t i = 0; i < COUNT(locks); i++) {
		run("DELETE FROM jobs");
		id = add_job("state='dead', " ENDED);
		ok(db_begin(t.other, &t.fault));
		assert_int_equal(db_execf(t.other, NULL, &t.fault, locks[i]), i == 0 ? DB_OK : DB_DUPLICATE);
		assert_int_equal(promote_store_release(t.db, &id, 1, &released, &t.fault), DB_RETRY);
		assert_false(db_in_transaction(t.db));
		db_rollback(t.other);
		ok(promote_store_release(t.db, &id, 1, &released, &t.fault));
		assert_int_equal(released, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_due_rows_oldest_first, store_test_empty),
		cmocka_unit_test_setup(test_next, store_test_empty),
		cmocka_unit_test_setup(test_only_what_is_still_scheduled_and_due, store_test_empty),
		cmocka_unit_test_setup(test_a_full_page, store_test_empty),
		cmocka_unit_test_setup(test_waking_of_parked_jobs, store_test_empty),
		cmocka_unit_test_setup(test_holds_that_have_ended, store_test_empty),
		cmocka_unit_test_setup(test_next_of_both, store_test_empty),
		cmocka_unit_test_setup(test_a_hold_that_is_locked, store_test_empty),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
