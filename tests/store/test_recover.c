/* test_recover.c - lapsed leases: which are seen, and how one is taken back. */
#include "store_test.h"

#include "store/claim_store.h"
#include "store/lease_store.h"
#include "store/recover_store.h"

#include <stdlib.h>
#include <string.h>

#define MARGIN_US 1000000

static struct recover_row rows[RECOVER_PAGE];

static size_t scan(void)
{
	size_t count;

	ok(recover_store_scan(t.db, MARGIN_US, rows, &count, &t.fault));
	return count;
}

static bool take(const struct recover_row *row, enum recover_to to, int64_t delay_ms)
{
	bool taken;

	ok(recover_store_take(t.db, row, to, delay_ms, "lease lapsed: host:1:x stopped renewing it", &taken, &t.fault));
	return taken;
}

#define LAPSED "locked_at=UTC_TIMESTAMP(6) - INTERVAL 61 SECOND"

static void test_what_has_lapsed(void **state)
{
	uint64_t lapsed, future;

	(void)state;
	add_running(LEASE_A, NULL);
	add_running(LEASE_A, "locked_at=UTC_TIMESTAMP(6) - INTERVAL 55 SECOND");
	add_running(LEASE_A, "locked_at=UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, lease_ms=4294967295");
	add_job("state='ready', locked_at='2020-01-01', lease_id='" LEASE_A "', lease_ms=1");
	add_job("state='succeeded', locked_at='2020-01-01', lease_id='" LEASE_A "', lease_ms=1");
	assert_int_equal(scan(), 0);
	lapsed = add_running(LEASE_A, LAPSED ", queue='not-served', kind='unknown.kind', max_attempts=7, orphan_streak=3, "
					     "claimed_at='2020-02-03 04:05:06.000007',"
					     " cancel_requested_at=UTC_TIMESTAMP(6), priority=-3");
	future = add_running(LEASE_B, "locked_at=UTC_TIMESTAMP(6) + INTERVAL 1 DAY");
	assert_int_equal(scan(), 2);
	for (size_t i = 0; i < 2; i++) {
		bool is_lapsed = rows[i].id == lapsed;

		assert_true(rows[i].lapsed == is_lapsed);
		assert_true(rows[i].future == !is_lapsed);
		assert_true(is_lapsed || rows[i].id == future);
		if (!is_lapsed)
			continue;
		assert_string_equal(rows[i].queue, "not-served");
		assert_string_equal(rows[i].kind, "unknown.kind");
		assert_string_equal(rows[i].lease, LEASE_A);
		assert_string_equal(rows[i].locked_by, "host:1:x");
		assert_string_equal(rows[i].claimed_at, "2020-02-03 04:05:06.000007");
		assert_int_equal(rows[i].lease_ms, 60000);
		assert_int_equal(rows[i].claim_no, 1);
		assert_int_equal(rows[i].attempt, 1);
		assert_int_equal(rows[i].max_attempts, 7);
		assert_int_equal(rows[i].orphan_streak, 3);
		assert_int_equal(rows[i].priority, -3);
		assert_true(rows[i].cancel_requested);
	}
}

/* A row goes by the length that its own holder promised. */
static void test_the_rows_own_promise_counts(void **state)
{
	uint64_t id = add_running(LEASE_A, "locked_at=UTC_TIMESTAMP(6) - INTERVAL 4 SECOND, lease_ms=3000");

	(void)state;
	add_running(LEASE_A, "locked_at=UTC_TIMESTAMP(6) - INTERVAL 4 SECOND, lease_ms=5000");
	assert_int_equal(scan(), 1);
	assert_int_equal(rows[0].id, id);
}

/* BR-24: fields that are missing or zero. Each is seen, and can be taken back. */
static void test_broken_lease_fields(void **state)
{
	static const char *const broken[] = {"lease_id=NULL", "locked_at=NULL", "lease_ms=NULL", "locked_at='0000-00-00 00:00:00'",
					     "lease_id=NULL, locked_at=NULL, lease_ms=NULL, locked_by=NULL, claimed_at=NULL",
					     "claimed_at='0000-00-00 00:00:00', lease_ms=0"};
	uint64_t id;

	(void)state;
	for (size_t i = 0; i < COUNT(broken); i++) {
		id = add_running(LEASE_A, broken[i]);
		assert_int_equal(scan(), 1);
		assert_int_equal(rows[0].id, id);
		assert_true(rows[0].lapsed);
		assert_true(take(&rows[0], RECOVER_SCHEDULED, 0));
		assert_row(id, "state, reclaims", "scheduled|1");
		assert_string_equal(ask("SELECT outcome FROM job_attempts WHERE job_id=%u", id), "lease_lapsed");
	}
	assert_int_equal(scan(), 0);
}

static void test_take_to_scheduled(void **state)
{
	uint64_t id = add_running(LEASE_A, LAPSED ", attempt=2, claim_no=5, orphan_streak=1, unique_key='u'");

	(void)state;
	assert_int_equal(scan(), 1);
	assert_true(take(&rows[0], RECOVER_SCHEDULED, 90000));
	assert_row(id,
		   "state, attempt, claim_no, reclaims, orphan_streak, lease_id IS NULL, locked_by IS NULL, locked_at IS NULL, "
		   "lease_ms IS NULL, last_error, "
		   "TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), run_at) BETWEEN 80 AND 90, promote_at = run_at, requeued_at IS NOT "
		   "NULL, finished_at IS NULL, active_key",
		   "scheduled|2|5|1|2|1|1|1|1|lease lapsed: host:1:x stopped renewing it|1|1|1|1|u");
	assert_string_equal(ask("SELECT CONCAT_WS('|', claim_no, outcome, attempt, lease_id, worker, cause, started_at IS NOT "
				"NULL, exit_code IS NULL) FROM "
				"job_attempts WHERE job_id=%u",
				id),
			    "5|lease_lapsed|2|" LEASE_A "|host:1:x|lease lapsed: host:1:x stopped renewing it|1|1");
}

static void test_take_to_dead_and_cancelled(void **state)
{
	uint64_t dead = add_running(LEASE_A, LAPSED ", cancel_requested_at=UTC_TIMESTAMP(6)"), cancelled;

	(void)state;
	assert_int_equal(scan(), 1);
	assert_true(take(&rows[0], RECOVER_DEAD, 0));
	assert_row(dead, "state, lease_id IS NULL, finished_at IS NOT NULL, last_error IS NOT NULL, reclaims", "dead|1|1|1|1");
	cancelled = add_running(LEASE_A, LAPSED);
	assert_int_equal(scan(), 1);
	assert_true(take(&rows[0], RECOVER_CANCELLED, 0));
	assert_row(cancelled, "state, lease_id IS NULL, finished_at IS NOT NULL", "cancelled|1|1");
}

/* The cancel came after recovery had read the row. */
static void test_a_cancel_wins_over_scheduled(void **state)
{
	uint64_t id = add_running(LEASE_A, LAPSED);

	(void)state;
	assert_int_equal(scan(), 1);
	run("UPDATE jobs SET cancel_requested_at=UTC_TIMESTAMP(6) WHERE id=%u", id);
	assert_true(take(&rows[0], RECOVER_SCHEDULED, 1000));
	assert_row(id, "state, lease_id IS NULL, finished_at IS NOT NULL, requeued_at IS NULL", "cancelled|1|1|1");
}

static void assert_not_taken(uint64_t id, const char *expected)
{
	assert_false(take(&rows[0], RECOVER_SCHEDULED, 0));
	assert_row(id, "state, lease_id, reclaims", expected);
	assert_int_equal(ask_number("SELECT COUNT(*) FROM job_attempts"), 0);
	assert_false(db_in_transaction(t.db));
}

/* BR-08: between recovery's read and its write the holder renewed, settled, or another one took the job. */
static void test_a_row_that_moved_on_is_left_alone(void **state)
{
	struct store_held held = {.lease = LEASE_A};
	uint64_t id = add_running(LEASE_A, LAPSED), won, matched;

	(void)state;
	held.id = id;
	assert_int_equal(scan(), 1);
	ok(lease_store_renew(t.other, &held, 1, &matched, &t.fault));
	assert_int_equal(matched, 1);
	assert_not_taken(id, "running|" LEASE_A "|0");

	run("UPDATE jobs SET " LAPSED " WHERE id=%u", id);
	assert_int_equal(scan(), 1);
	run("UPDATE jobs SET state='ready', lease_id=NULL WHERE id=%u", id);
	ok(claim_store_take(t.other, &id, 1, LEASE_B, 60000, "b", &won, &t.fault));
	assert_not_taken(id, "running|" LEASE_B "|0");

	run("UPDATE jobs SET " LAPSED " WHERE id=%u", id);
	assert_int_equal(scan(), 1);
	run("UPDATE jobs SET state='succeeded' WHERE id=%u", id);
	assert_not_taken(id, "succeeded|" LEASE_B "|0");
}

static void test_two_recoverers(void **state)
{
	static struct recover_row same;
	uint64_t id = add_running(LEASE_A, LAPSED);
	bool taken;

	(void)state;
	assert_int_equal(scan(), 1);
	same = rows[0];
	assert_true(take(&rows[0], RECOVER_SCHEDULED, 0));
	ok(recover_store_take(t.other, &same, RECOVER_SCHEDULED, 0, "again", &taken, &t.fault));
	assert_false(taken);
	assert_row(id, "reclaims", "1");
}

static void test_a_locked_row_is_a_retry(void **state)
{
	uint64_t id = add_running(LEASE_A, LAPSED);
	bool taken;

	(void)state;
	assert_int_equal(scan(), 1);
	ok(db_begin(t.other, &t.fault));
	run("UPDATE jobs SET progress=1 WHERE id=%u", id);
	assert_int_equal(recover_store_take(t.db, &rows[0], RECOVER_SCHEDULED, 0, "x", &taken, &t.fault), DB_RETRY);
	assert_false(taken);
	assert_false(db_in_transaction(t.db));
	db_rollback(t.other);
	assert_true(take(&rows[0], RECOVER_SCHEDULED, 0));
}

static void test_counters_saturate_and_the_ledger_is_idempotent(void **state)
{
	uint64_t id = add_running(LEASE_A, LAPSED ", reclaims=65535, orphan_streak=65535, claim_no=4294967295, attempt=65535");

	(void)state;
	run("INSERT INTO job_attempts (job_id, claim_no, outcome, cause) VALUES (%u, 4294967295, 'lease_lapsed', 'first')", id);
	assert_int_equal(scan(), 1);
	assert_true(take(&rows[0], RECOVER_SCHEDULED, 0));
	assert_row(id, "state, reclaims, orphan_streak", "scheduled|65535|65535");
	assert_string_equal(ask("SELECT GROUP_CONCAT(cause) FROM job_attempts WHERE job_id=%u", id), "first");
}

/* A reason that the columns do not take changes nothing. */
static void test_undecodable_reason(void **state)
{
	uint64_t id = add_running(LEASE_A, LAPSED);
	bool taken;

	(void)state;
	assert_int_equal(scan(), 1);
	assert_int_equal(recover_store_take(t.db, &rows[0], RECOVER_SCHEDULED, 0, "bad \xff text", &taken, &t.fault), DB_DATA);
	assert_false(taken);
	assert_row(id, "state", "running");
}

static void test_a_full_page_and_the_rest(void **state)
{
	(void)state;
	for (size_t i = 0; i < RECOVER_PAGE + 5; i++)
		add_running(LEASE_A, LAPSED);
	assert_int_equal(scan(), RECOVER_PAGE);
	for (size_t i = 0; i < RECOVER_PAGE; i++)
		assert_true(take(&rows[i], RECOVER_SCHEDULED, 0));
	assert_int_equal(scan(), 5);
}

/* Every running row is seen once, page after page. */
static void test_running_rows_by_pages(void **state)
{
	uint64_t sum = 0, seen_sum = 0;
	size_t count, seen = 0;

	(void)state;
	for (int i = 0; i < 230; i++) {
		sum += add_running(LEASE_A, i < 130 ? "queue='a', run_at='2020-01-01'"
					    : i % 2 ? "queue='b', priority=-1"
						    : "queue='b', priority=4");
	}
	add_job(NULL);
	ok(recover_store_running(t.db, MARGIN_US, NULL, rows, &count, &t.fault));
	while (count > 0) {
		assert_true(count <= RECOVER_PAGE);
		for (size_t i = 0; i < count; i++)
			seen_sum += rows[i].id;
		seen += count;
		ok(recover_store_running(t.db, MARGIN_US, &rows[count - 1], rows, &count, &t.fault));
	}
	assert_int_equal(seen, 230);
	assert_int_equal(seen_sum, sum);
}

static void test_clock_and_next(void **state)
{
	int64_t server_us, next_ms;

	(void)state;
	ok(recover_store_clock(t.db, &server_us, &t.fault));
	assert_in_range(server_us / 1000000, ask_number("SELECT UNIX_TIMESTAMP()") - 3, ask_number("SELECT UNIX_TIMESTAMP()"));
	ok(recover_store_next(t.db, &next_ms, &t.fault));
	assert_int_equal(next_ms, -1);
	add_running(LEASE_A, NULL);
	add_running(LEASE_A, "lease_ms=20000");
	ok(recover_store_next(t.db, &next_ms, &t.fault));
	assert_in_range(next_ms, 15000, 20001);
	add_running(LEASE_A, LAPSED);
	ok(recover_store_next(t.db, &next_ms, &t.fault));
	assert_int_equal(next_ms, 0);
	run("UPDATE jobs SET lease_id=NULL, locked_at=NULL");
	ok(recover_store_next(t.db, &next_ms, &t.fault));
	assert_int_equal(next_ms, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_what_has_lapsed, store_test_empty),
		cmocka_unit_test_setup(test_the_rows_own_promise_counts, store_test_empty),
		cmocka_unit_test_setup(test_broken_lease_fields, store_test_empty),
		cmocka_unit_test_setup(test_take_to_scheduled, store_test_empty),
		cmocka_unit_test_setup(test_take_to_dead_and_cancelled, store_test_empty),
		cmocka_unit_test_setup(test_a_cancel_wins_over_scheduled, store_test_empty),
		cmocka_unit_test_setup(test_a_row_that_moved_on_is_left_alone, store_test_empty),
		cmocka_unit_test_setup(test_two_recoverers, store_test_empty),
		cmocka_unit_test_setup(test_a_locked_row_is_a_retry, store_test_empty),
		cmocka_unit_test_setup(test_counters_saturate_and_the_ledger_is_idempotent, store_test_empty),
		cmocka_unit_test_setup(test_undecodable_reason, store_test_empty),
		cmocka_unit_test_setup(test_a_full_page_and_the_rest, store_test_empty),
		cmocka_unit_test_setup(test_running_rows_by_pages, store_test_empty),
		cmocka_unit_test_setup(test_clock_and_next, store_test_empty),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
