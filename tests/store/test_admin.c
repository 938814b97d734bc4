/* test_admin.c - what operators and producers ask: enqueue, lists, retry, cancel, queues, figures. */
#include "store_test.h"

#include "store/admin_store.h"
#include "store/enqueue_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t enqueue(const struct enqueue_request *request)
{
	uint64_t id = 0;

	ok(enqueue_store_insert(t.db, request, &id, &t.fault));
	assert_true(id > 0);
	return id;
}

static struct enqueue_request plain(const char *kind)
{
	return (struct enqueue_request){ .kind = kind, .delay_ms = -1, .hold_ms = -1, .timeout_ms = -1 };
}

/* ---- Enqueue ---- */

static void test_enqueue_leaves_the_rest_to_the_schema(void **state)
{
	struct enqueue_request request = plain("mail");
	uint64_t id = enqueue(&request);

	(void)state;
	assert_row(id,
		   "kind, queue, priority, state, payload, attempt, claim_no, max_attempts IS NULL, timeout_ms IS NULL, unique_key "
		   "IS NULL, "
		   "run_at <= UTC_TIMESTAMP(6)",
		   "mail|default|0|ready|{}|0|0|1|1|1|1");
}

static void test_enqueue_with_everything(void **state)
{
	static const char payload[] = "{\"a\":\"it's \\\\ \xf0\x9f\x98\x80\"}";
	struct enqueue_request request = {
		.kind = "mail.x",
		.queue = "slow",
		.payload = payload,
		.payload_len = sizeof(payload) - 1,
		.has_priority = true,
		.priority = -7,
		.delay_ms = 3600000,
		.unique_key = "k",
		.hold_ms = -1,
		.max_attempts = 65535,
		.timeout_ms = 0,
		.traceparent = "00-a",
		.enqueued_by = "me",
	};
	uint64_t id = enqueue(&request);

	(void)state;
	assert_row(id, "kind, queue, priority, state, max_attempts, timeout_ms, unique_key, traceparent, enqueued_by",
		   "mail.x|slow|-7|scheduled|65535|0|k|00-a|me");
	assert_string_equal(ask("SELECT payload FROM jobs WHERE id=%u", id), payload);
	assert_int_equal(
		ask_number("SELECT ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), run_at) - 3600) <= 5 FROM jobs WHERE id=%u", id), 1);
}

static void test_enqueue_at_a_time(void **state)
{
	struct enqueue_request request = plain("mail");
	uint64_t id;

	(void)state;
	request.at = "2099-12-31 23:59:59.123456";
	id = enqueue(&request);
	assert_row(id, "state, run_at", "scheduled|2099-12-31 23:59:59.123456");
}

static void test_enqueue_names_the_holder_of_a_key(void **state)
{
	struct enqueue_request request = plain("mail");
	struct enqueue_holder holder;
	uint64_t first, id = 1;

	(void)state;
	request.unique_key = "k";
	first = enqueue(&request);
	assert_row(first, "unique_hold_until IS NULL", "1");
	assert_int_equal(enqueue_store_insert(t.db, &request, &id, &t.fault), DB_DUPLICATE);
	assert_int_equal(id, 0);
	ok(enqueue_store_holder(t.db, "mail", "k", &holder, &t.fault));
	assert_int_equal(holder.id, first);
	assert_int_equal(holder.state, JOB_READY);
	assert_string_equal(holder.hold_until, "");
	request.kind = "other";
	enqueue(&request);
	run("UPDATE jobs SET state='succeeded' WHERE id=%u", first);
	ok(enqueue_store_holder(t.db, "mail", "k", &holder, &t.fault));
	assert_int_equal(holder.id, 0);
	request.kind = "mail";
	enqueue(&request);
}

/* A key that is held from the INSERT on, whatever becomes of the job. */
static void test_enqueue_with_a_hold(void **state)
{
	struct enqueue_request request = plain("mail");
	struct enqueue_holder holder;
	uint64_t first, id;

	(void)state;
	request.unique_key = "k";
	request.hold_ms = 3600000;
	first = enqueue(&request);
	run("UPDATE jobs SET state='dead' WHERE id=%u", first);
	assert_int_equal(
		ask_number("SELECT ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), unique_hold_until) - 3600) <= 5 FROM jobs"), 1);
	assert_int_equal(enqueue_store_insert(t.db, &request, &id, &t.fault), DB_DUPLICATE);
	ok(enqueue_store_holder(t.db, "mail", "k", &holder, &t.fault));
	assert_int_equal(holder.id, first);
	assert_int_equal(holder.state, JOB_DEAD);
	assert_string_equal(ask("SELECT unique_hold_until FROM jobs WHERE id=%u", first), holder.hold_until);
	run("DELETE FROM jobs WHERE id=%u", first);
	enqueue(&request);
}

/* The least that grants.sql gives to anybody who enqueues is enough, and who holds a key is then not told. */
static void test_enqueue_as_a_producer(void **state)
{
	struct enqueue_request request = plain("mail");
	struct database_settings settings;
	struct enqueue_holder holder;
	uint64_t id = 0;
	struct db *db;

	(void)state;
	run("DROP USER IF EXISTS lh_test_producer@localhost");
	run("CREATE USER lh_test_producer@localhost");
	run("GRANT INSERT (queue, kind, priority, run_at, payload, max_attempts, timeout_ms, unique_key, traceparent, enqueued_by) "
	    "ON jobs TO "
	    "lh_test_producer@localhost");
	db = store_test_new_db(&settings, "lh_test_producer", 30000);
	settings.password = NULL;
	ok(db_open(db, &t.fault));
	request.unique_key = "k";
	ok(enqueue_store_insert(db, &request, &id, &t.fault));
	assert_true(id > 0);
	assert_int_equal(enqueue_store_insert(db, &request, &id, &t.fault), DB_DUPLICATE);
	assert_int_equal(enqueue_store_holder(db, "mail", "k", &holder, &t.fault), DB_DENIED);
	db_free(db);
	free(settings.user);
	run("DROP USER lh_test_producer@localhost");
}

/* ---- Lists ---- */

static const char *column(const struct db_rows *rows, const char *name)
{
	for (unsigned int i = 0; i < db_rows_columns(rows); i++) {
		if (strcmp(db_column_name(rows, i), name) == 0)
			return db_text(rows, i, NULL);
	}
	fail_msg("no column %s", name);
	return NULL;
}

/* The ids of a list, as text: "3,2,1". */
static const char *listed(struct job_filter filter)
{
	static char text[4096];
	struct db_rows *rows = NULL;
	size_t len = 0;

	text[0] = '\0';
	if (filter.limit == 0)
		filter.limit = ADMIN_PAGE_MAX;
	ok(admin_store_list(t.db, &filter, &rows, &t.fault));
	while (db_rows_next(rows))
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", len == 0 ? "" : ",", column(rows, "id"));
	db_rows_free(rows);
	return text;
}

/* The next page: "1,2", and " end" after the last. */
static const char *selected(struct admin_cursor *cursor, struct job_filter filter)
{
	static char text[4096];
	uint64_t ids[64];
	size_t count = 99, len = 0;
	bool end;

	text[0] = '\0';
	ok(admin_store_select(t.db, &filter, cursor, ids, &count, &end, &t.fault));
	for (size_t i = 0; i < count; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%llu", len == 0 ? "" : ",", (unsigned long long)ids[i]);
	snprintf(text + len, sizeof(text) - len, "%s", end ? " end" : "");
	return text;
}

static void add_list(void)
{
	run("INSERT INTO jobs (id, kind, queue, state) VALUES (1, 'a', 'x', 'ready'), (2, 'a', 'y', 'dead'), (3, 'b', 'x', "
	    "'dead'), "
	    "(4, 'a', 'x', 'succeeded'), (5, 'b', 'y', 'running'), (6, 'a', 'x', 'dead'), (7, 'b', 'y', 'succeeded')");
	run("INSERT INTO jobs (id, kind, queue, run_at) VALUES (8, 'a', 'x', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR)");
}

/* One case for each way in which the ids are found. */
static void test_list_by_every_filter(void **state)
{
	(void)state;
	add_list();
	assert_string_equal(listed((struct job_filter){ .state = -1 }), "1,2,3,4,5,6,7,8");
	assert_string_equal(listed((struct job_filter){ .state = -1, .newest_first = true, .limit = 3 }), "8,7,6");
	assert_string_equal(listed((struct job_filter){ .state = -1, .newest_first = true, .after_id = 6, .limit = 3 }), "5,4,3");
	assert_string_equal(listed((struct job_filter){ .state = -1, .after_id = 6 }), "7,8");
	assert_string_equal(listed((struct job_filter){ .state = JOB_DEAD }), "2,3,6");
	assert_string_equal(listed((struct job_filter){ .state = JOB_SUCCEEDED }), "4,7");
	assert_string_equal(listed((struct job_filter){ .state = JOB_SUCCEEDED, .queue = "x" }), "4");
	assert_string_equal(listed((struct job_filter){ .state = JOB_SUCCEEDED, .kind = "b" }), "7");
	assert_string_equal(listed((struct job_filter){ .state = JOB_DEAD, .queue = "x", .kind = "a" }), "6");
	assert_string_equal(listed((struct job_filter){ .state = JOB_SCHEDULED }), "8");
	assert_string_equal(listed((struct job_filter){ .state = -1, .queue = "y" }), "2,5,7");
	assert_string_equal(listed((struct job_filter){ .state = -1, .kind = "b" }), "3,5,7");
	assert_string_equal(listed((struct job_filter){ .state = -1, .kind = "b", .queue = "x" }), "3");
	assert_string_equal(listed((struct job_filter){ .state = -1, .kind = "it's none" }), "");
}

/* In claim order over all queues, each job once, also where the first ones leave the state between two pages. */
static void test_select_pages(void **state)
{
	struct job_filter filter = { .state = JOB_DEAD, .limit = 2 };
	struct admin_cursor cursor = { .set = false }, fresh = { .set = false }, again = { .set = false };

	(void)state;
	run("INSERT INTO jobs (id, kind, queue, state, priority, run_at) VALUES (1, 'a', 'y', 'dead', 0, '2020-01-01'), "
	    "(2, 'a', 'x', 'dead', 0, '2020-01-02'), (3, 'b', 'x', 'dead', 5, '2020-01-01'), (4, 'a', 'x', 'dead', 0, "
	    "'2020-01-01'), "
	    "(5, 'a', 'x', 'dead', 0, '2020-01-02'), (6, 'a', 'x', 'ready', 0, '2020-01-01'), (7, 'b', 'y', 'dead', -1, "
	    "'2020-01-01')");
	assert_string_equal(selected(&cursor, filter), "2,4");
	run("UPDATE jobs SET state='ready' WHERE id IN (2, 4)");
	assert_string_equal(selected(&cursor, filter), "3,5");
	assert_string_equal(selected(&cursor, filter), "1,7");
	assert_string_equal(selected(&cursor, filter), " end");
	filter.kind = "b";
	filter.limit = 3; /* 5, 3, 7 are looked at */
	assert_string_equal(selected(&fresh, filter), "3,7");
	assert_string_equal(selected(&fresh, filter), " end");
	filter.kind = NULL;
	filter.queue = "y";
	assert_string_equal(selected(&again, filter), "1,7 end");
}

static void test_show(void **state)
{
	struct db_rows *rows = NULL;
	uint64_t id = add_job("payload='the payload', last_error='why'");

	(void)state;
	run("INSERT INTO job_attempts (job_id, claim_no, outcome, cause) VALUES (%u, 2, 'retry', 'second'), (%u, 1, 'retry', "
	    "'first')",
	    id, id);
	ok(admin_store_show(t.db, id, &rows, &t.fault));
	assert_true(db_rows_next(rows));
	assert_string_equal(column(rows, "payload"), "the payload");
	assert_string_equal(column(rows, "last_error"), "why");
	db_rows_free(rows);
	ok(admin_store_attempts(t.db, id, &rows, &t.fault));
	assert_true(db_rows_next(rows));
	assert_string_equal(column(rows, "cause"), "first");
	assert_true(db_rows_next(rows));
	assert_string_equal(column(rows, "cause"), "second");
	db_rows_free(rows);
	ok(admin_store_show(t.db, id + 1, &rows, &t.fault));
	assert_false(db_rows_next(rows));
	db_rows_free(rows);
}

/* ---- Retry ---- */

static enum admin_result retry(uint64_t id, unsigned int extra, enum job_state *found, uint64_t *twin)
{
	enum admin_result result = ADMIN_MISSING;

	ok(admin_store_retry(t.db, id, extra, &result, found, twin, &t.fault));
	return result;
}

static void test_retry_clears_what_the_last_life_left(void **state)
{
	enum job_state found;
	uint64_t twin,
		id = add_running(LEASE_A,
				 "state='dead', attempt=3, claim_no=5, max_attempts=3, finished_at=UTC_TIMESTAMP(6), result='r', "
				 "cancel_requested_at=UTC_TIMESTAMP(6), orphan_streak=5, reclaims=6, run_at='2020-01-01', "
				 "last_error='why'");

	(void)state;
	assert_int_equal(retry(id, 2, &found, &twin), ADMIN_DONE);
	assert_row(id, "state, attempt, claim_no, max_attempts, reclaims, orphan_streak, last_error", "ready|3|5|5|6|0|why");
	assert_row(id,
		   "lease_id IS NULL, locked_by IS NULL, locked_at IS NULL, lease_ms IS NULL, result IS NULL, finished_at IS NULL, "
		   "cancel_requested_at IS NULL, requeued_at IS NOT NULL, run_at > UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE",
		   "1|1|1|1|1|1|1|1|1");
}

/* A job that was cancelled before its time is due at once. */
static void test_retry_of_a_cancelled_job_is_due(void **state)
{
	enum job_state found;
	uint64_t twin, id = add_job("run_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, state='cancelled'");

	(void)state;
	assert_int_equal(retry(id, 1, &found, &twin), ADMIN_DONE);
	assert_row(id, "state, run_at <= UTC_TIMESTAMP(6), max_attempts", "ready|1|1");
}

static void test_retry_saturates(void **state)
{
	enum job_state found;
	uint64_t twin, id = add_job("state='dead', attempt=65535, claim_no=4294967295");

	(void)state;
	assert_int_equal(retry(id, ADMIN_RETRY_MAX, &found, &twin), ADMIN_DONE);
	assert_row(id, "state, attempt, max_attempts, claim_no", "ready|65535|65535|4294967295");
}

static void test_retry_is_for_dead_and_cancelled_only(void **state)
{
	static const char *const others[] = { "ready", "scheduled", "running", "succeeded" };
	char assignment[64];
	enum job_state found;
	uint64_t twin, id;

	(void)state;
	for (size_t i = 0; i < COUNT(others); i++) {
		snprintf(assignment, sizeof(assignment), "state='%s'", others[i]);
		id = add_job(assignment);
		assert_int_equal(retry(id, 1, &found, &twin), ADMIN_NOT_THAT_STATE);
		assert_string_equal(job_state_name(found), others[i]);
		assert_row(id, "state, max_attempts IS NULL",
			   i == 0   ? "ready|1"
			   : i == 1 ? "scheduled|1"
			   : i == 2 ? "running|1"
				    : "succeeded|1");
	}
	assert_int_equal(retry(id + 1, 1, &found, &twin), ADMIN_MISSING);
}

static void test_retry_with_a_twin(void **state)
{
	enum job_state found;
	uint64_t twin = 0, matched = 99, dead = add_job("unique_key='k', state='dead'"), live = add_job("unique_key='k'"),
		 ids[] = { dead, live };

	(void)state;
	assert_int_equal(retry(dead, 1, &found, &twin), ADMIN_TWIN);
	assert_int_equal(twin, live);
	assert_row(dead, "state, max_attempts IS NULL", "dead|1");
	assert_int_equal(admin_store_retry_many(t.db, ids, COUNT(ids), 1, &matched, &t.fault), DB_DUPLICATE);
	assert_row(dead, "state", "dead");
}

static void test_retry_many(void **state)
{
	uint64_t matched = 0,
		 ids[] = { add_job("state='dead', attempt=2"), add_job("state='succeeded'"), add_job("state='cancelled'") };

	(void)state;
	ok(admin_store_retry_many(t.db, ids, COUNT(ids), 1, &matched, &t.fault));
	assert_int_equal(matched, 2);
	assert_row(ids[0], "state, max_attempts", "ready|3");
	assert_row(ids[1], "state", "succeeded");
	assert_row(ids[2], "state, max_attempts", "ready|1");
}

/* ---- Cancel ---- */

static enum admin_result cancel(uint64_t id, bool running_too, enum job_state *found)
{
	enum admin_result result = ADMIN_TWIN;

	ok(admin_store_cancel(t.db, id, running_too, &result, found, &t.fault));
	return result;
}

static void test_cancel(void **state)
{
	enum job_state found;
	uint64_t ready = add_job(NULL), parked = add_job("state='scheduled', slot_wait='s', run_at='2099-01-01'"),
		 running = add_running(LEASE_A, NULL), done = add_job("state='succeeded'");

	(void)state;
	assert_int_equal(cancel(ready, false, &found), ADMIN_DONE);
	assert_row(ready, "state, finished_at IS NOT NULL, cancel_requested_at IS NOT NULL", "cancelled|1|1");
	assert_int_equal(cancel(parked, true, &found), ADMIN_DONE);
	assert_row(parked, "state, slot_wait IS NULL, promote_at IS NULL", "cancelled|1|1");
	assert_int_equal(cancel(done, true, &found), ADMIN_NOT_THAT_STATE);
	assert_int_equal(found, JOB_SUCCEEDED);
	assert_row(done, "state, cancel_requested_at IS NULL", "succeeded|1");
	assert_int_equal(cancel(done + 1, true, &found), ADMIN_MISSING);
	assert_int_equal(cancel(running, false, &found), ADMIN_NOT_THAT_STATE);
	assert_row(running, "state, cancel_requested_at IS NULL", "running|1");
	assert_int_equal(cancel(running, true, &found), ADMIN_REQUESTED);
	assert_row(running, "state, lease_id, finished_at IS NULL, cancel_requested_at IS NOT NULL", "running|" LEASE_A "|1|1");
	assert_false(db_in_transaction(t.db));
}

/* Whoever looked first may have acted upon it. */
static void test_cancel_twice_keeps_the_first_time(void **state)
{
	enum job_state found;
	uint64_t running = add_running(LEASE_A, "cancel_requested_at='2020-01-01'");

	(void)state;
	assert_int_equal(cancel(running, true, &found), ADMIN_REQUESTED);
	assert_row(running, "cancel_requested_at", "2020-01-01 00:00:00.000000");
}

static void test_cancel_many_never_mixes(void **state)
{
	uint64_t matched = 0,
		 ids[] = { add_job(NULL), add_job("state='scheduled'"), add_running(LEASE_A, NULL), add_job("state='dead'") };

	(void)state;
	ok(admin_store_cancel_many(t.db, ids, COUNT(ids), false, &matched, &t.fault));
	assert_int_equal(matched, 2);
	assert_row(ids[1], "state", "cancelled");
	assert_row(ids[2], "state, cancel_requested_at IS NULL", "running|1");
	assert_row(ids[3], "state", "dead");
	ok(admin_store_cancel_many(t.db, ids, COUNT(ids), true, &matched, &t.fault));
	assert_int_equal(matched, 1);
	assert_row(ids[2], "state, cancel_requested_at IS NULL", "running|0");
}

/* ---- Queues, workers, figures ---- */

static char queues_text[4096];

static void add_queue(void *arg, const struct admin_queue *q)
{
	size_t len = strlen(queues_text);

	(void)arg;
	snprintf(queues_text + len, sizeof(queues_text) - len, "%s:%llu,%llu,%llu,%llu,%s,%s;", q->queue,
		 (unsigned long long)q->ready, (unsigned long long)q->scheduled, (unsigned long long)q->running,
		 (unsigned long long)q->dead,
		 q->oldest_ready_s < 0                                   ? "-"
		 : q->oldest_ready_s >= 3600 && q->oldest_ready_s < 3700 ? "1h"
									 : "?",
		 q->paused_at[0] == '\0' ? "open" : q->paused_by);
}

static const char *queues(void)
{
	queues_text[0] = '\0';
	ok(admin_store_queues(t.db, add_queue, NULL, &t.fault));
	return queues_text;
}

static void test_queues(void **state)
{
	bool was = true;

	(void)state;
	assert_string_equal(queues(), "");
	add_job("queue='b', run_at=UTC_TIMESTAMP(6) - INTERVAL 1 HOUR");
	add_job("queue='b', priority=-5");
	add_job("queue='b', state='dead'");
	add_job("queue='a', run_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR");
	add_job("queue='only-done', state='succeeded'");
	run("UPDATE jobs SET queue='c' WHERE id=%u", add_running(LEASE_A, NULL));
	ok(admin_store_pause(t.db, "empty", "me", &was, &t.fault));
	assert_false(was);
	assert_string_equal(queues(), "a:0,1,0,0,-,open;b:2,0,0,1,1h,open;c:0,0,1,0,-,open;empty:0,0,0,0,-,me;");
	ok(admin_store_pause(t.db, "empty", "another", &was, &t.fault));
	assert_true(was);
	assert_string_equal(ask("SELECT paused_by FROM job_queues WHERE queue='empty'"), "me");
	ok(admin_store_resume(t.db, "empty", &was, &t.fault));
	assert_true(was);
	ok(admin_store_resume(t.db, "empty", &was, &t.fault));
	assert_false(was);
	assert_string_equal(ask("SELECT CONCAT(paused_at IS NULL, paused_by IS NULL) FROM job_queues WHERE queue='empty'"), "11");
	ok(admin_store_pause(t.db, "empty", "third", &was, &t.fault));
	assert_string_equal(ask("SELECT paused_by FROM job_queues WHERE queue='empty'"), "third");
}

static void test_workers_live_and_stale(void **state)
{
	struct db_rows *rows = NULL;

	(void)state;
	run("INSERT INTO job_workers (worker, name, host, pid, version, lease_ms, threads, running, queues, status, seen_at) "
	    "VALUES "
	    "('h:1:x', 'a', 'h', 1, '1', 60000, 4, 1, 'default', 'running', UTC_TIMESTAMP(6) - INTERVAL 30 SECOND), "
	    "('h:2:x', 'b', 'h', 2, '1', 3000, 4, 1, 'default', 'running', UTC_TIMESTAMP(6) - INTERVAL 30 SECOND)");
	ok(admin_store_workers(t.db, &rows, &t.fault));
	assert_true(db_rows_next(rows));
	assert_string_equal(column(rows, "worker"), "h:1:x");
	assert_string_equal(column(rows, "stale"), "0");
	assert_true(db_rows_next(rows));
	assert_string_equal(column(rows, "stale"), "1");
	db_rows_free(rows);
}

/* The rows of a result, "a,b;c,d;", NULL as "-". */
static const char *flat(enum db_class class, struct db_rows *rows)
{
	static char text[4096];
	size_t len = 0;

	assert_string_equal(class == DB_OK ? "ok" : t.fault.text, "ok");
	text[0] = '\0';
	while (db_rows_next(rows)) {
		for (unsigned int i = 0; i < db_rows_columns(rows); i++)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i == 0 ? "" : ",",
						db_is_null(rows, i) ? "-" : db_text(rows, i, NULL));
		len += (size_t)snprintf(text + len, sizeof(text) - len, ";");
	}
	db_rows_free(rows);
	return text;
}

static void test_stats(void **state)
{
	struct db_rows *rows = NULL;
	enum db_class class;

	(void)state;
	add_list();
	run("INSERT INTO job_attempts (job_id, claim_no, outcome, finished_at) VALUES (1, 1, 'retry', UTC_TIMESTAMP(6)), (1, 2, "
	    "'retry', UTC_TIMESTAMP(6)), "
	    "(2, 1, 'dead', UTC_TIMESTAMP(6) - INTERVAL 59 MINUTE), (3, 1, 'dead', UTC_TIMESTAMP(6) - INTERVAL 61 MINUTE)");
	run("UPDATE jobs SET run_at='2020-01-01' WHERE state IN ('running', 'dead')");
	class = admin_store_stats(t.db, &rows, &t.fault);
	assert_string_equal(flat(class, rows), "ready,1,0;scheduled,1,-;running,1,-;succeeded,2,-;dead,3,-;cancelled,0,-;");
	class = admin_store_stats_kinds(t.db, &rows, &t.fault);
	assert_string_equal(flat(class, rows), "a,1,1,0,2;b,0,0,1,1;");
	class = admin_store_stats_ledger(t.db, &rows, &t.fault);
	assert_string_equal(flat(class, rows), "dead,1;retry,2;");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_enqueue_leaves_the_rest_to_the_schema, store_test_empty),
		cmocka_unit_test_setup(test_enqueue_with_everything, store_test_empty),
		cmocka_unit_test_setup(test_enqueue_at_a_time, store_test_empty),
		cmocka_unit_test_setup(test_enqueue_names_the_holder_of_a_key, store_test_empty),
		cmocka_unit_test_setup(test_enqueue_with_a_hold, store_test_empty),
		cmocka_unit_test_setup(test_enqueue_as_a_producer, store_test_empty),
		cmocka_unit_test_setup(test_list_by_every_filter, store_test_empty),
		cmocka_unit_test_setup(test_select_pages, store_test_empty),
		cmocka_unit_test_setup(test_show, store_test_empty),
		cmocka_unit_test_setup(test_retry_clears_what_the_last_life_left, store_test_empty),
		cmocka_unit_test_setup(test_retry_of_a_cancelled_job_is_due, store_test_empty),
		cmocka_unit_test_setup(test_retry_saturates, store_test_empty),
		cmocka_unit_test_setup(test_retry_is_for_dead_and_cancelled_only, store_test_empty),
		cmocka_unit_test_setup(test_retry_with_a_twin, store_test_empty),
		cmocka_unit_test_setup(test_retry_many, store_test_empty),
		cmocka_unit_test_setup(test_cancel, store_test_empty),
		cmocka_unit_test_setup(test_cancel_twice_keeps_the_first_time, store_test_empty),
		cmocka_unit_test_setup(test_cancel_many_never_mixes, store_test_empty),
		cmocka_unit_test_setup(test_queues, store_test_empty),
		cmocka_unit_test_setup(test_workers_live_and_stale, store_test_empty),
		cmocka_unit_test_setup(test_stats, store_test_empty),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
