/* test_plans.c - how the server runs each hot statement with many rows: which key, no sort, no scan. The statements are taken
 * from the server's own general log while the store sends them, so that what is explained is what is sent. */
#include "store_test.h"

#include "store/claim_store.h"
#include "store/lease_store.h"
#include "store/promote_store.h"
#include "store/recover_store.h"
#include "store/settle_store.h"
#include "store/slot_store.h"
#include "store/step_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 24000
#define CHUNK 100

static const char *explained = "jobs"; /* the table whose plans are looked at */
static uint64_t ids[CHUNK];
static struct store_held held[CHUNK];

/* Mostly finished, some thousands waiting in three queues, some hundreds running, all ids mixed. */
static int fill(void **state)
{
	store_test_empty(state);
	run("INSERT INTO jobs (kind, queue, priority, run_at, state, lease_id, locked_at, lease_ms) WITH RECURSIVE n (i) AS "
	    "(SELECT 0 UNION ALL SELECT i + 1"
	    " FROM n WHERE i < 999), m (j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM m WHERE j < %u)"
	    " SELECT 'test', ELT(1 + i %% 3, 'default', 'mail', 'bulk'), i %% 5, '2020-01-01' + INTERVAL i * 1000 + j SECOND,"
	    " CASE WHEN i < 500 THEN 'succeeded' WHEN i < 900 THEN 'ready' WHEN i < 980 THEN 'scheduled' ELSE 'running' END,"
	    " IF(i >= 980, %s, NULL), IF(i >= 980, UTC_TIMESTAMP(6), NULL), IF(i >= 980, 60000, NULL) FROM n, m",
	    (uint64_t)ROWS / 1000 - 1, LEASE_A);
	run("UPDATE jobs SET run_at=UTC_TIMESTAMP(6) + INTERVAL 1 DAY WHERE state='scheduled' AND id %% 2 = 0");
	assert_int_equal(ask_number("SELECT COUNT(*) FROM jobs"), ROWS);
	ask("ANALYZE TABLE jobs");
	return 0;
}

static void take_running(void)
{
	struct recover_row *rows = calloc(RECOVER_PAGE, sizeof(*rows));
	size_t count;

	assert_non_null(rows);
	ok(recover_store_running(t.db, 1000000, NULL, rows, &count, &t.fault));
	assert_int_equal(count, CHUNK);
	for (size_t i = 0; i < CHUNK; i++) {
		ids[i] = held[i].id = rows[i].id;
		memcpy(held[i].lease, LEASE_A, sizeof(held[i].lease));
	}
	free(rows);
}

static void listen(void)
{
	run("SET GLOBAL general_log=0");
	run("TRUNCATE TABLE mysql.general_log");
	run("SET GLOBAL log_output='TABLE'");
	run("SET GLOBAL general_log=1");
}

/* EXPLAINs one statement: every table in it by this key (or one of several), and never sorted. most: rows that may be looked at. */
static void assert_plan(const char *statement, const char *key, uint64_t most)
{
	struct db_rows *rows;
	const char *table, *used, *extra, *rows_text;
	size_t seen = 0;

	/* MariaDB takes a setting for one statement, and explains it without. */
	if (strncmp(statement, "SET STATEMENT", 13) == 0)
		statement = strstr(statement, " FOR ") + 5;
	/* With these rows the server may choose well by itself; with others it does not. */
	if (strstr(statement, " FORCE INDEX (") == NULL)
		fail_msg("no index is forced: %s", statement);
	ok(db_queryf(t.db, &rows, &t.fault, "EXPLAIN FORMAT=TRADITIONAL %r", statement));
	while (db_rows_next(rows)) {
		table = used = extra = rows_text = NULL;
		for (unsigned int i = 0; i < db_rows_columns(rows); i++) {
			if (strcmp(db_column_name(rows, i), "table") == 0)
				table = db_text(rows, i, NULL);
			else if (strcmp(db_column_name(rows, i), "key") == 0)
				used = db_text(rows, i, NULL);
			else if (strcmp(db_column_name(rows, i), "Extra") == 0)
				extra = db_text(rows, i, NULL);
			else if (strcmp(db_column_name(rows, i), "rows") == 0)
				rows_text = db_text(rows, i, NULL);
		}
		if (table == NULL || strcmp(table, explained) != 0)
			continue;
		seen++;
		if (used == NULL || strstr(key, used) == NULL ||
		    (extra != NULL && (strstr(extra, "filesort") != NULL || strstr(extra, "temporary") != NULL)) ||
		    (most > 0 && strtoull(rows_text, NULL, 10) > most))
			fail_msg("%s\nkey %s, rows %s, %s", statement, used != NULL ? used : "none", rows_text,
				 extra != NULL ? extra : "");
	}
	db_rows_free(rows);
	if (seen == 0)
		fail_msg("not explained: %s", statement);
}

/* What t.db sent since listen() that touches jobs, each explained. Returns how many there were. */
static size_t assert_plans(const char *key, uint64_t most)
{
	char statement[65536];
	struct db_rows *rows;
	size_t count = 0;

	run("SET GLOBAL general_log=0");
	ok(db_queryf(t.other, &rows, &t.fault,
		     "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE thread_id=%u AND command_type='Query'"
		     " AND argument LIKE CONCAT('%%', %s, ' %%')",
		     db_identity(t.db)->session, explained));
	while (db_rows_next(rows)) {
		db_copy(rows, 0, statement, sizeof(statement));
		assert_plan(statement, key, most);
		count++;
	}
	db_rows_free(rows);
	return count;
}

static uint64_t reads(void)
{
	struct db_rows *rows;
	uint64_t sum = 0;

	ok(db_queryf(t.db, &rows, &t.fault, "SHOW SESSION STATUS LIKE 'Handler_read%%'"));
	while (db_rows_next(rows))
		sum += db_u64(rows, 1);
	db_rows_free(rows);
	return sum;
}

static void test_claim_scan(void **state)
{
	static struct scan_row rows[800];
	struct scan_cursor cursor = {.set = false};
	uint64_t before;
	size_t count;

	(void)state;
	listen();
	ok(claim_store_scan(t.db, "default", &cursor, 100, rows, &count, &t.fault));
	assert_int_equal(count, 100);
	/* From the middle of the queue: what lies before it is not read again. */
	cursor = (struct scan_cursor){.set = true, .priority = 2, .run_at = "2020-01-04 00:00:00.000000", .id = 5000};
	before = reads();
	ok(claim_store_scan(t.db, "default", &cursor, 100, rows, &count, &t.fault));
	assert_int_equal(count, 100);
	assert_in_range(reads() - before, 1, 130);
	assert_int_equal(assert_plans("claim", 0), 2);
}

static void test_claim_writes(void **state)
{
	static struct scan_row rows[CHUNK];
	struct scan_cursor cursor = {.set = false};
	uint64_t won;
	size_t count;

	(void)state;
	ok(claim_store_scan(t.db, "mail", &cursor, CHUNK, rows, &count, &t.fault));
	for (size_t i = 0; i < CHUNK; i++)
		ids[i] = rows[i].id;
	for (size_t n = 1; n <= CHUNK; n *= 10) {
		listen();
		ok(claim_store_put_back_early(t.db, ids, n, &t.fault));
		ok(claim_store_take(t.db, ids, n, LEASE_B, 60000, "w", &won, &t.fault));
		assert_int_equal(won, n);
		assert_int_equal(assert_plans("PRIMARY", n), 2);
		run("UPDATE jobs SET state='ready', lease_id=NULL WHERE lease_id='" LEASE_B "'");
	}
}

static void drop(void *arg, struct job *job)
{
	(void)arg;
	job_free(job);
}

static void test_held_rows(void **state)
{
	static struct lease_row seen[CHUNK];
	uint64_t matched;
	size_t count;

	(void)state;
	take_running();
	for (size_t n = 1; n <= CHUNK; n *= 10) {
		listen();
		ok(lease_store_renew(t.db, held, n, &matched, &t.fault));
		assert_int_equal(matched, n);
		ok(lease_store_read(t.db, held, n, seen, &count, &t.fault));
		ok(claim_store_read(t.db, ids, n, LEASE_A, 60000, drop, NULL, &t.fault));
		assert_int_equal(assert_plans("PRIMARY", n), 3);
	}
}

/* Half of the jobs have steps, with values that lie outside their rows; others' lie before and after. */
static void test_steps(void **state)
{
	char data[2000];
	struct step_row row = { .lease = LEASE_A, .data = data, .data_len = sizeof(data), .save_no = 1 };
	struct job jobs[CHUNK] = { { .id = 0 } }, *list[CHUNK];
	uint64_t before;
	bool saved;

	(void)state;
	take_running();
	memset(data, '7', sizeof(data));
	run("INSERT INTO job_steps (job_id, name, seq, save_no, claim_no, data) SELECT id, 'charged', 1, 1, 1, REPEAT('x', 3000) "
	    "FROM jobs"
	    " WHERE id %% 2 = 0");
	ask("ANALYZE TABLE job_steps");
	row.id = ids[0];
	row.name = "new";
	listen();
	ok(step_store_save(t.db, &row, 1, &saved, &t.fault));
	assert_true(saved);
	ok(step_store_save(t.db, &row, 1, &saved, &t.fault));
	assert_int_equal(assert_plans("PRIMARY", 1), 2);
	for (size_t i = 0; i < CHUNK; i++) {
		jobs[i].id = ids[i];
		list[i] = &jobs[i];
	}
	explained = "job_steps";
	for (size_t n = 1; n <= CHUNK; n *= 10) {
		listen();
		before = reads();
		ok(step_store_read(t.db, list, n, &t.fault));
		/* A step down the tree for each job, and its rows. */
		assert_in_range(reads() - before, n, 3 * n + 10);
		assert_int_equal(assert_plans("PRIMARY", 2 * n), 1);
		for (size_t i = 0; i < n; i++)
			job_drop_steps(&jobs[i]);
	}
	explained = "jobs";
}

static void test_settlements(void **state)
{
	static const enum settle_action actions[] = {SETTLE_SUCCEED, SETTLE_RETRY, SETTLE_SNOOZE, SETTLE_RELEASE, SETTLE_DEAD};
	struct settlement *items[CHUNK];
	enum settle_result results[CHUNK];
	size_t n = 20;

	(void)state;
	take_running();
	for (size_t i = 0; i < n; i++)
		items[i] = new_settlement(ids[i], LEASE_A, actions[i % COUNT(actions)], OUTCOME_RETRY, "x");
	listen();
	ok(settle_store_write(t.db, items, n, "w", true, results, &t.fault));
	ok(settle_store_write(t.db, items, n, "w", false, results, &t.fault));
	ok(settle_store_progress(t.db, ids[0], LEASE_A, 5, "x", &t.fault));
	/* A locking read, 4 bare in one, 16 alone, the cancelled; then the quick way's first and another locking read; progress. */
	assert_int_equal(assert_plans("PRIMARY", n), 1 + 1 + 16 + 1 + 1 + 1 + 1);
	for (size_t i = 0; i < n; i++)
		settlement_free(items[i]);
}

static void test_recovery(void **state)
{
	static struct recover_row rows[RECOVER_PAGE];
	struct recover_row last;
	int64_t next_ms;
	uint64_t before;
	size_t count;
	bool taken;

	(void)state;
	run("UPDATE jobs SET locked_at='2020-01-01' WHERE state='running' ORDER BY id LIMIT 3");
	listen();
	before = reads();
	ok(recover_store_scan(t.db, 1000000, rows, &count, &t.fault));
	/* The running rows and nothing else. */
	assert_in_range(reads() - before, 440, 500);
	assert_int_equal(count, 3);
	ok(recover_store_running(t.db, 1000000, NULL, rows, &count, &t.fault));
	last = rows[count - 1];
	ok(recover_store_running(t.db, 1000000, &last, rows, &count, &t.fault));
	ok(recover_store_next(t.db, &next_ms, &t.fault));
	assert_int_equal(assert_plans("claim", 0), 4);
	listen();
	ok(recover_store_take(t.db, &last, RECOVER_SCHEDULED, 1000, "x", &taken, &t.fault));
	assert_true(taken);
	assert_int_equal(assert_plans("PRIMARY", 1), 1);
}

static void test_promotion(void **state)
{
	static struct promote_found found;
	uint64_t before, promoted, released;

	(void)state;
	run("UPDATE jobs SET unique_key=id, unique_hold_until=UTC_TIMESTAMP(6) - INTERVAL id SECOND WHERE state='succeeded'"
	    " ORDER BY id LIMIT %u", (uint64_t)(4 * PROMOTE_PAGE));
	run("UPDATE jobs SET unique_hold_until=UTC_TIMESTAMP(6) + INTERVAL id SECOND WHERE unique_key IS NOT NULL"
	    " ORDER BY id LIMIT %u", (uint64_t)PROMOTE_PAGE);
	listen();
	before = reads();
	ok(promote_store_scan(t.db, &found, &t.fault));
	assert_int_equal(found.due_count, PROMOTE_PAGE);
	assert_int_equal(found.hold_count, PROMOTE_PAGE);
	assert_in_range(reads() - before, 1, 4 * PROMOTE_PAGE + 40);
	assert_int_equal(assert_plans("promote unique_hold", 0), 1);
	listen();
	ok(promote_store_write(t.db, found.due, found.due_count, &promoted, &t.fault));
	assert_int_equal(promoted, PROMOTE_PAGE);
	ok(promote_store_release(t.db, found.holds, found.hold_count, &released, &t.fault));
	assert_int_equal(released, PROMOTE_PAGE);
	assert_int_equal(assert_plans("PRIMARY", PROMOTE_PAGE), 2);
}

static void count_rows(void *arg, const struct slot_row *row)
{
	(void)row;
	++*(size_t *)arg;
}

static void count_jobs(void *arg, const struct slot_job *job)
{
	(void)job;
	++*(size_t *)arg;
}

/* Three hundred keys of thirty slots; of ten keys a third of the waiting jobs waits. */
static void fill_slots(void)
{
	run("INSERT INTO job_slots (concurrency_key, slot) WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n"
	    " WHERE i < 299), m (j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM m WHERE j < 29) SELECT CONCAT('k', i), j FROM n, m");
	run("UPDATE jobs SET slot_wait=CONCAT('k', id %% 10), state='scheduled' WHERE state='ready' AND id %% 3 = 0");
	ask("ANALYZE TABLE jobs");
	ask("ANALYZE TABLE job_slots");
}

static void test_slots(void **state)
{
	static struct slot_held rows[CHUNK];
	bool ours[CHUNK];
	uint64_t matched;
	struct job_slot found;
	struct slot_row after = {.key = "k5", .number = 3};
	char keys[CHUNK][JOB_KIND_MAX + 1];
	size_t count = 0;

	(void)state;
	fill_slots();
	for (size_t i = 0; i < CHUNK; i++) {
		rows[i] = (struct slot_held){.id = 1000 + i, .lease = LEASE_A, .slot = {.number = 7}};
		snprintf(rows[i].slot.key, sizeof(rows[i].slot.key), "k%zu", i);
		snprintf(keys[i], sizeof(keys[i]), "k%zu", i);
	}
	explained = "job_slots";
	for (size_t n = 1; n <= CHUNK; n *= 10) {
		listen();
		ok(slot_store_take(t.db, rows, n, 60000, "w", &matched, &t.fault));
		assert_int_equal(matched, n);
		ok(slot_store_renew(t.db, rows, n, &matched, &t.fault));
		assert_int_equal(matched, n);
		ok(slot_store_check(t.db, rows, n, ours, &t.fault));
		assert_int_equal(assert_plans("PRIMARY", n), 3);
		listen();
		ok(slot_store_free(t.db, rows, n, &matched, &t.fault));
		assert_int_equal(matched, n);
		assert_int_equal(assert_plans("PRIMARY", n), 1);
	}
	listen();
	ok(slot_store_read(t.db, (const char(*)[JOB_KIND_MAX + 1])keys, CHUNK, count_rows, &count, &t.fault));
	assert_int_equal(count, 30 * CHUNK);
	ok(slot_store_find(t.db, 1000, LEASE_A, &found, &t.fault));
	assert_int_equal(assert_plans("PRIMARY", 30 * CHUNK), 2);
	listen();
	ok(slot_store_page(t.db, NULL, count_rows, &count, &count, &t.fault));
	ok(slot_store_page(t.db, &after, count_rows, &count, &count, &t.fault));
	assert_int_equal(assert_plans("PRIMARY", 0), 2);
	explained = "jobs";
}

static void test_waiters(void **state)
{
	static struct slot_waiter waiters[SLOT_STORE_KEYS];
	char kind[JOB_KIND_MAX + 1];
	uint64_t promoted, before;
	size_t count = 0;

	(void)state;
	listen();
	before = reads();
	ok(slot_store_waiting(t.db, "", waiters, &count, &t.fault));
	assert_int_equal(count, 10);
	/* A few steps of the index for each key, not one for each waiter. */
	assert_in_range(reads() - before, 1, 100);
	before = reads();
	ok(slot_store_oldest(t.db, "k3", CHUNK, ids, &count, kind, sizeof(kind), &t.fault));
	assert_int_equal(count, CHUNK);
	assert_in_range(reads() - before, 1, CHUNK + 20);
	assert_int_equal(assert_plans("slot_wait", 0), 2);
	listen();
	ok(slot_store_promote(t.db, "k3", ids, count, &promoted, &t.fault));
	assert_int_equal(promoted, CHUNK);
	ok(slot_store_park(t.db, ids, CHUNK, &promoted, &t.fault));
	assert_int_equal(promoted, CHUNK);
	count = 0;
	ok(slot_store_jobs(t.db, ids, CHUNK, count_jobs, &count, &t.fault));
	assert_int_equal(count, CHUNK);
	assert_int_equal(assert_plans("PRIMARY", CHUNK), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_claim_scan, fill),
		cmocka_unit_test(test_claim_writes),
		cmocka_unit_test(test_held_rows),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_settlements),
		cmocka_unit_test(test_recovery),
		cmocka_unit_test(test_promotion),
		cmocka_unit_test(test_slots),
		cmocka_unit_test(test_waiters),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
