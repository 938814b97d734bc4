/* test_lease.c - renewal under a fence, and what the read-back tells. */
#include "store_test.h"

#include "store/lease_store.h"

#include <stdlib.h>
#include <string.h>

static struct store_held held(uint64_t id, const char *lease)
{
	struct store_held h = {.id = id};

	memcpy(h.lease, lease, strlen(lease));
	return h;
}

static uint64_t renew(const struct store_held *rows, size_t n)
{
	uint64_t matched = 99;

	ok(lease_store_renew(t.db, rows, n, &matched, &t.fault));
	return matched;
}

static void test_renewal_moves_the_heartbeat_of_held_rows_only(void **state)
{
	static const char old[] = "locked_at='2020-01-01 00:00:00.000000'";
	uint64_t ours = add_running(LEASE_A, old), theirs = add_running(LEASE_B, old),
		 done = add_running(LEASE_A, "state='succeeded', "
					     "locked_at='2020-01-01 00:00:00.000000'");
	struct store_held rows[] = {held(ours, LEASE_A), held(theirs, LEASE_A), held(done, LEASE_A), held(done + 1000, LEASE_A)};

	(void)state;
	assert_int_equal(renew(rows, COUNT(rows)), 1);
	assert_row(ours, "ABS(TIMESTAMPDIFF(SECOND, locked_at, UTC_TIMESTAMP(6))) < 5, state, lease_id, attempt",
		   "1|running|" LEASE_A "|1");
	assert_row(theirs, "locked_at", "2020-01-01 00:00:00.000000");
	assert_row(done, "locked_at", "2020-01-01 00:00:00.000000");
	/* One tuple alone, and a whole chunk. */
	assert_int_equal(renew(rows, 1), 1);
	assert_int_equal(renew(&rows[1], 1), 0);
}

/* Pairs belong together: somebody else's lease on another row of the batch is no key to this one. */
static void test_leases_are_not_mixed_up_in_a_batch(void **state)
{
	uint64_t a = add_running(LEASE_A, NULL), b = add_running(LEASE_B, NULL);
	struct store_held swapped[] = {held(a, LEASE_B), held(b, LEASE_A)}, right[] = {held(a, LEASE_A), held(b, LEASE_B)};

	(void)state;
	assert_int_equal(renew(swapped, 2), 0);
	assert_int_equal(renew(right, 2), 2);
}

static void test_a_locked_row_is_a_retry_and_nothing_is_renewed(void **state)
{
	uint64_t free_row = add_running(LEASE_A, "locked_at='2020-01-01 00:00:00.000000'"), locked = add_running(LEASE_A, NULL),
		 matched;
	struct store_held rows[] = {held(free_row, LEASE_A), held(locked, LEASE_A)};

	(void)state;
	ok(db_begin(t.other, &t.fault));
	run("UPDATE jobs SET progress=1 WHERE id=%u", locked);
	assert_int_equal(lease_store_renew(t.db, rows, 2, &matched, &t.fault), DB_RETRY);
	assert_true(db_is_open(t.db));
	assert_int_equal(renew(rows, 1), 1);
	db_rollback(t.other);
}

static void test_read_back(void **state)
{
	uint64_t running = add_running(LEASE_A, "cancel_requested_at=UTC_TIMESTAMP(6)"),
		 settled = add_running(LEASE_A, "state='succeeded'"), lost = add_running(LEASE_B, NULL), back = add_job(NULL);
	struct store_held rows[] = {held(running, LEASE_A), held(settled, LEASE_A), held(lost, LEASE_A), held(back, LEASE_A),
				    held(back + 1000, LEASE_A)};
	struct lease_row seen[COUNT(rows)];
	size_t count;

	(void)state;
	ok(lease_store_read(t.db, rows, COUNT(rows), seen, &count, &t.fault));
	assert_int_equal(count, 4);
	assert_int_equal(seen[0].id, running);
	assert_string_equal(seen[0].lease, LEASE_A);
	assert_int_equal(seen[0].state, JOB_RUNNING);
	assert_true(seen[0].cancel_requested);
	assert_int_equal(seen[1].state, JOB_SUCCEEDED);
	assert_false(seen[1].cancel_requested);
	assert_string_equal(seen[2].lease, LEASE_B);
	assert_int_equal(seen[3].state, JOB_READY);
	assert_string_equal(seen[3].lease, "");
}

static void test_read_back_does_not_wait(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL);
	struct store_held row = held(id, LEASE_A);
	struct lease_row seen;
	size_t count;

	(void)state;
	ok(db_begin(t.other, &t.fault));
	run("UPDATE jobs SET state='succeeded' WHERE id=%u", id);
	ok(lease_store_read(t.db, &row, 1, &seen, &count, &t.fault));
	assert_int_equal(seen.state, JOB_RUNNING);
	db_rollback(t.other);
}

static void test_ping(void **state)
{
	(void)state;
	ok(lease_store_ping(t.db, &t.fault));
	db_close(t.db);
	assert_int_equal(lease_store_ping(t.db, &t.fault), DB_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_renewal_moves_the_heartbeat_of_held_rows_only, store_test_empty),
		cmocka_unit_test_setup(test_leases_are_not_mixed_up_in_a_batch, store_test_empty),
		cmocka_unit_test_setup(test_a_locked_row_is_a_retry_and_nothing_is_renewed, store_test_empty),
		cmocka_unit_test_setup(test_read_back, store_test_empty),
		cmocka_unit_test_setup(test_read_back_does_not_wait, store_test_empty),
		cmocka_unit_test_setup(test_ping, store_test_empty),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
