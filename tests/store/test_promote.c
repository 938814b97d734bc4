/* test_promote.c - scheduled jobs whose time has come, and how long until the next. */
#include "store_test.h"

#include "store/promote_store.h"

#include <stdlib.h>

static uint64_t ids[PROMOTE_PAGE];

static size_t scan(int64_t *next_ms)
{
	size_t count;

	ok(promote_store_scan(t.db, ids, &count, next_ms, &t.fault));
	return count;
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
	assert_int_equal(ids[0], first);
	assert_int_equal(ids[1], second);
	assert_int_equal(next_ms, -1);
	ids[0] = second;
	ids[1] = first;
	ok(promote_store_write(t.db, ids, 2, &promoted, &t.fault));
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_due_rows_oldest_first, store_test_empty),
		cmocka_unit_test_setup(test_next, store_test_empty),
		cmocka_unit_test_setup(test_only_what_is_still_scheduled_and_due, store_test_empty),
		cmocka_unit_test_setup(test_a_full_page, store_test_empty),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
