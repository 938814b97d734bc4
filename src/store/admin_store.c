/* admin_store.c - see admin_store.h. */
#include "store/admin_store.h"

#include <string.h>

/* The server itself ends a read that takes too long: a client that only stops listening would leave it running. MariaDB
 * executes the first comment, MySQL takes the second as a hint, and each ignores the other. */
#define ADMIN_TEXT_(x) #x
#define ADMIN_TEXT(x) ADMIN_TEXT_(x)
#define ADMIN_SELECT                                                                                                               \
	"/*M! SET STATEMENT max_statement_time=" ADMIN_TEXT(                                                                       \
		ADMIN_READ_LIMIT_S) " FOR */ SELECT /*+ MAX_EXECUTION_TIME(" ADMIN_TEXT(ADMIN_READ_LIMIT_S) "000) */ "

/* Both engines' numbers for "the statement took longer than it may". */
#define ADMIN_TIMEOUT_MARIADB 1969
#define ADMIN_TIMEOUT_MYSQL 3024

static enum db_class admin_read(struct db *db, const struct buf *sql, struct db_rows **rows, struct fault *f)
{
	enum db_class class = db_query(db, sql, rows, f);

	if (class != DB_OK && f != NULL && (f->number == ADMIN_TIMEOUT_MARIADB || f->number == ADMIN_TIMEOUT_MYSQL)) {
		f->code = LH_ERR_LIMIT;
		fault_prefix(f, "more rows than can be looked at in %d s: narrow it down", ADMIN_READ_LIMIT_S);
	}
	return class;
}

/* ---- Looking at jobs -------------------------------------------------------------------------------------------------------- */

/* Which index finds the ids. Unfinished and dead jobs are few beside what succeeded, so a state or a queue goes through claim,
 * which holds the ids too; a kind alone through active_key; and the rest, where nearly every row fits, in the order of the ids. */
static const char *admin_index(const struct job_filter *filter)
{
	if (filter->state >= 0 && filter->state != JOB_SUCCEEDED)
		return "claim";
	if (filter->kind != NULL && filter->state < 0)
		return "active_key";
	return filter->queue != NULL ? "claim" : "PRIMARY";
}

/* "SELECT id FROM jobs ... LIMIT n" for the filter. */
static void admin_add_ids(struct db *db, struct buf *sql, const struct job_filter *filter, bool newest_first)
{
	const char *index = admin_index(filter);

	db_sqlf(db, sql, "SELECT id FROM jobs FORCE INDEX (%r) WHERE ", index);
	if (filter->state >= 0)
		db_sqlf(db, sql, "state=%s", job_state_name((enum job_state)filter->state));
	else if (index[0] == 'c') /* every state, so that the index is entered at the queue in each */
		buf_adds(sql, "state IN ('ready', 'scheduled', 'running', 'succeeded', 'dead', 'cancelled')");
	else
		buf_adds(sql, "TRUE");
	if (filter->queue != NULL)
		db_sqlf(db, sql, " AND queue=%s", filter->queue);
	if (filter->kind != NULL)
		db_sqlf(db, sql, " AND kind=%s", filter->kind);
	if (filter->after_id != 0)
		db_sqlf(db, sql, " AND id %r %u", newest_first ? "<" : ">", filter->after_id);
	db_sqlf(db, sql, " ORDER BY id%r LIMIT %u", newest_first ? " DESC" : "", filter->limit);
}

enum db_class admin_store_list(struct db *db, const struct job_filter *filter, struct db_rows **rows, struct fault *f)
{
	struct buf sql;
	enum db_class class;

	buf_init(&sql, STORE_SQL_MAX);
	/* The rows themselves are read for the page alone. */
	buf_adds(&sql, ADMIN_SELECT "STRAIGHT_JOIN j.id, j.queue, j.kind, j.priority, j.state, j.run_at, j.attempt, "
				    "j.max_attempts, j.claim_no, j.unique_key, j.slot_wait, "
				    "j.locked_by, j.locked_at, j.lease_ms, j.reclaims, j.cancel_requested_at, j.progress, "
				    "j.progress_note, j.created_at, "
				    "j.claimed_at, j.finished_at, LEFT(j.last_error, 200) AS last_error FROM (");
	admin_add_ids(db, &sql, filter, filter->newest_first);
	db_sqlf(db, &sql, ") page JOIN jobs j FORCE INDEX (PRIMARY) ON j.id=page.id ORDER BY j.id%r",
		filter->newest_first ? " DESC" : "");
	class = admin_read(db, &sql, rows, f);
	buf_free(&sql);
	return class;
}

enum db_class admin_store_show(struct db *db, uint64_t id, struct db_rows **rows, struct fault *f)
{
	return db_queryf(db, rows, f,
			 "SELECT id, queue, kind, priority, state, run_at, attempt, max_attempts, claim_no, timeout_ms, "
			 "unique_key, unique_hold_until, "
			 "concurrency_key, slot_wait, lease_id, locked_by, locked_at, lease_ms, reclaims, orphan_streak, "
			 "cancel_requested_at, "
			 "progress, progress_note, traceparent, enqueued_by, created_at, claimed_at, requeued_at, finished_at, "
			 "last_error, payload, "
			 "result FROM jobs FORCE INDEX (PRIMARY) WHERE id=%u",
			 id);
}

enum db_class admin_store_attempts(struct db *db, uint64_t id, struct db_rows **rows, struct fault *f)
{
	return db_queryf(db, rows, f,
			 "SELECT claim_no, attempt, outcome, cause, worker, lease_id, started_at, finished_at, exit_code, "
			 "`signal`, max_rss_kb, cpu_ms "
			 "FROM (SELECT claim_no, attempt, outcome, cause, worker, lease_id, started_at, finished_at, exit_code, "
			 "`signal`, max_rss_kb, "
			 "cpu_ms FROM job_attempts WHERE job_id=%u ORDER BY claim_no DESC, outcome DESC LIMIT %u) newest ORDER BY "
			 "claim_no, outcome",
			 id, (uint64_t)ADMIN_ATTEMPTS_MAX);
}

/* Twice as many as handlers may save, whatever else is there. */
enum db_class admin_store_steps(struct db *db, uint64_t id, struct db_rows **rows, struct fault *f)
{
	return db_queryf(db, rows, f,
			 "SELECT name, claim_no, saved_at, OCTET_LENGTH(data) AS bytes, data FROM job_steps FORCE INDEX (PRIMARY) "
			 "WHERE job_id=%u ORDER BY seq, name LIMIT %u",
			 id, (uint64_t)2 * JOB_STEPS_MAX);
}

/* A page of the claim index alone. */
static enum db_class admin_select_page(struct db *db, const struct job_filter *filter, struct admin_cursor *cursor, uint64_t *ids,
				       size_t *count, struct fault *f)
{
	struct db_rows *rows = NULL;
	struct buf sql;
	enum db_class class;

	buf_init(&sql, STORE_SQL_MAX);
	db_sqlf(db, &sql, "SELECT id, queue, priority, run_at FROM jobs FORCE INDEX (claim) WHERE state=%s",
		job_state_name((enum job_state)filter->state));
	if (filter->queue != NULL)
		db_sqlf(db, &sql, " AND queue=%s", filter->queue);
	if (cursor->set)
		db_sqlf(db, &sql,
			" AND (queue > %s OR (queue = %s AND (priority > %d OR (priority = %d AND (run_at > %s OR (run_at = %s AND "
			"id > %u))))))",
			cursor->queue, cursor->queue, (int64_t)cursor->priority, (int64_t)cursor->priority, cursor->run_at,
			cursor->run_at, cursor->id);
	db_sqlf(db, &sql, " ORDER BY queue, priority, run_at, id LIMIT %u", filter->limit);
	class = store_query(db, &sql, &rows, f);
	while (class == DB_OK && *count < filter->limit && db_rows_next(rows)) {
		cursor->set = true;
		cursor->id = ids[(*count)++] = db_u64(rows, 0);
		db_copy(rows, 1, cursor->queue, sizeof(cursor->queue));
		cursor->priority = (int)db_i64(rows, 2);
		db_copy(rows, 3, cursor->run_at, sizeof(cursor->run_at));
	}
	db_rows_free(rows);
	return class;
}

/* Keeps of the ids those of the kind. */
static enum db_class admin_select_kind(struct db *db, const char *kind, uint64_t *ids, size_t *count, struct fault *f)
{
	struct db_rows *rows = NULL;
	size_t wanted = *count;
	struct buf sql;
	enum db_class class;

	*count = 0;
	if (wanted == 0)
		return DB_OK;
	buf_init(&sql, STORE_SQL_MAX);
	buf_adds(&sql, "SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE id IN ");
	store_add_id_list(&sql, ids, wanted);
	db_sqlf(db, &sql, " AND kind=%s", kind);
	class = store_query(db, &sql, &rows, f);
	while (class == DB_OK && *count < wanted && db_rows_next(rows))
		ids[(*count)++] = db_u64(rows, 0);
	db_rows_free(rows);
	return class;
}

enum db_class admin_store_select(struct db *db, const struct job_filter *filter, struct admin_cursor *cursor, uint64_t *ids,
				 size_t *count, bool *end, struct fault *f)
{
	enum db_class class;

	*count = 0;
	class = admin_select_page(db, filter, cursor, ids, count, f);
	*end = *count < filter->limit;
	store_sort_ids(ids, *count);
	if (class == DB_OK && filter->kind != NULL)
		class = admin_select_kind(db, filter->kind, ids, count, f);
	return class;
}

/* ---- Retry and cancel ------------------------------------------------------------------------------------------------------- */

/* Why the write matched nothing, or what it made of the row: *found is false when there is no such job. */
static enum db_class admin_state(struct db *db, uint64_t id, bool *found, enum job_state *state, struct fault *f)
{
	struct db_rows *rows = NULL;
	enum db_class class = db_queryf(db, &rows, f, "SELECT state FROM jobs FORCE INDEX (PRIMARY) WHERE id=%u", id);

	*found = false;
	if (class == DB_OK && db_rows_next(rows)) {
		const char *name = db_text(rows, 0, NULL);

		*found = true;
		if (!job_state_parse(name, state)) {
			fault_set(f, LH_ERR_INPUT, "job %llu is in the state '%s', which this version does not know",
				  (unsigned long long)id, name);
			class = DB_SCHEMA;
		}
	}
	db_rows_free(rows);
	return class;
}

static enum db_class admin_twin(struct db *db, uint64_t id, uint64_t *twin, enum job_state *state, struct fault *f)
{
	struct db_rows *rows = NULL;
	enum db_class class = db_queryf(db, &rows, f,
					"SELECT t.id, t.state FROM jobs j FORCE INDEX (PRIMARY) JOIN jobs t FORCE INDEX "
					"(active_key) ON t.kind=j.kind AND t.active_key=j.unique_key AND t.id<>j.id WHERE j.id=%u",
					id);

	*twin = 0;
	if (class == DB_OK && db_rows_next(rows) && job_state_parse(db_text(rows, 1, NULL), state))
		*twin = db_u64(rows, 0);
	db_rows_free(rows);
	return class;
}

static void admin_add_retry(struct db *db, struct buf *sql, const uint64_t *ids, size_t n, unsigned int extra)
{
	db_sqlf(db, sql,
		"UPDATE jobs FORCE INDEX (PRIMARY) SET state='ready', run_at=UTC_TIMESTAMP(6), requeued_at=UTC_TIMESTAMP(6), "
		"max_attempts=LEAST(attempt + %u, %u), lease_id=NULL, locked_by=NULL, locked_at=NULL, lease_ms=NULL, result=NULL, "
		"finished_at=NULL, cancel_requested_at=NULL, slot_wait=NULL, orphan_streak=0 WHERE state IN ('dead', 'cancelled') "
		"AND id IN ",
		(uint64_t)extra, (uint64_t)JOB_ATTEMPT_MAX);
	store_add_id_list(sql, ids, n);
}

enum db_class admin_store_retry_many(struct db *db, const uint64_t *ids, size_t n, unsigned int extra, uint64_t *matched,
				     struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	admin_add_retry(db, &sql, ids, n, extra);
	return store_exec(db, &sql, matched, f);
}

enum db_class admin_store_retry(struct db *db, uint64_t id, unsigned int extra, enum admin_result *result, enum job_state *state,
				uint64_t *twin, struct fault *f)
{
	uint64_t matched = 0;
	bool found;
	enum db_class class;

	*twin = 0;
	*state = JOB_READY;
	*result = ADMIN_DONE;
	class = admin_store_retry_many(db, &id, 1, extra, &matched, f);
	if (class == DB_DUPLICATE) {
		*result = ADMIN_TWIN;
		return admin_twin(db, id, twin, state, f);
	}
	if (class != DB_OK || matched != 0)
		return class;
	class = admin_state(db, id, &found, state, f);
	*result = found ? ADMIN_NOT_THAT_STATE : ADMIN_MISSING;
	return class;
}

/* state is assigned last because the other assignments look at what it was. */
static enum db_class admin_cancel_rows(struct db *db, const uint64_t *ids, size_t n, const char *states, uint64_t *matched,
				       struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	db_sqlf(db, &sql,
		"UPDATE jobs FORCE INDEX (PRIMARY) SET cancel_requested_at=COALESCE(cancel_requested_at, UTC_TIMESTAMP(6)), "
		"finished_at=IF(state='running', finished_at, UTC_TIMESTAMP(6)), slot_wait=IF(state='running', slot_wait, NULL), "
		"state=IF(state='running', 'running', 'cancelled') WHERE state IN (%r) AND id IN ",
		states);
	store_add_id_list(&sql, ids, n);
	return store_exec(db, &sql, matched, f);
}

enum db_class admin_store_cancel_many(struct db *db, const uint64_t *ids, size_t n, bool running, uint64_t *matched,
				      struct fault *f)
{
	return admin_cancel_rows(db, ids, n, running ? "'running'" : "'ready', 'scheduled'", matched, f);
}

/* The UPDATE and what it did: in a transaction the row stays locked in between, so that the answer is about this very change. */
enum db_class admin_store_cancel(struct db *db, uint64_t id, bool running_too, enum admin_result *result, enum job_state *state,
				 struct fault *f)
{
	uint64_t matched = 0;
	bool found = false;
	enum db_class class;

	*result = ADMIN_MISSING;
	class = db_begin(db, f);
	if (class != DB_OK)
		return class;
	class = admin_cancel_rows(db, &id, 1, running_too ? "'ready', 'scheduled', 'running'" : "'ready', 'scheduled'", &matched,
				  f);
	if (class == DB_OK)
		class = admin_state(db, id, &found, state, f);
	if (class == DB_OK)
		class = db_commit(db, f);
	else
		db_rollback(db);
	if (class != DB_OK || !found)
		return class;
	if (matched == 0)
		*result = ADMIN_NOT_THAT_STATE;
	else
		*result = *state == JOB_RUNNING ? ADMIN_REQUESTED : ADMIN_DONE;
	return DB_OK;
}

/* ---- Queues, workers, figures ----------------------------------------------------------------------------------------------- */

#define ADMIN_COUNT_OF(state) "(SELECT run_at FROM jobs FORCE INDEX (claim) WHERE state='" state "' AND queue=%s LIMIT %u)"

static enum db_class admin_queue_figures(struct db *db, struct admin_queue *q, struct fault *f)
{
	const char *name = q->queue;
	uint64_t max = ADMIN_COUNT_MAX;
	struct db_rows *rows = NULL;
	enum db_class class = db_queryf(
		db, &rows, f,
		"SELECT ready.jobs, ready.oldest_s, scheduled.jobs, running.jobs, dead.jobs, paused.at, paused.`by` FROM "
		"(SELECT COUNT(*) AS jobs, TIMESTAMPDIFF(SECOND, MIN(run_at), UTC_TIMESTAMP(6)) AS oldest_s FROM " ADMIN_COUNT_OF(
			"ready") " a) ready, "
				 "(SELECT COUNT(*) AS jobs FROM " ADMIN_COUNT_OF(
					 "scheduled") " b) scheduled, "
						      "(SELECT COUNT(*) AS jobs FROM " ADMIN_COUNT_OF(
							      "running") " c) running, "
									 "(SELECT COUNT(*) AS jobs FROM " ADMIN_COUNT_OF(
										 "dead") " d) dead, "
											 "(SELECT MAX(paused_at) AS at, "
											 "MAX(paused_by) AS `by` FROM job_queues "
											 "WHERE queue=%s) paused",
		name, max, name, max, name, max, name, max, name);

	if (class == DB_OK && db_rows_next(rows)) {
		q->ready = db_u64(rows, 0);
		q->oldest_ready_s = db_is_null(rows, 1) || db_i64(rows, 1) < 0 ? -1 : db_i64(rows, 1);
		q->scheduled = db_u64(rows, 2);
		q->running = db_u64(rows, 3);
		q->dead = db_u64(rows, 4);
		db_copy(rows, 5, q->paused_at, sizeof(q->paused_at));
		db_copy(rows, 6, q->paused_by, sizeof(q->paused_by));
	}
	db_rows_free(rows);
	return class;
}

/* The next name after the given one among the queues of all listed states and of job_queues: one dive into an index each, where
 * DISTINCT would read every entry. *found is false after the last. */
static enum db_class admin_next_queue(struct db *db, const char *after, bool first, char *out, size_t size, bool *found,
				      struct fault *f)
{
	static const char *const states[] = { "ready", "scheduled", "running", "dead" };
	struct db_rows *rows = NULL;
	struct buf sql;
	enum db_class class;
	const char *comparison = first ? ">=" : ">";

	buf_init(&sql, STORE_SQL_MAX);
	buf_adds(&sql, "SELECT MIN(queue) FROM (");
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		db_sqlf(db, &sql,
			"(SELECT queue FROM jobs FORCE INDEX (claim) WHERE state=%s AND queue %r %s ORDER BY queue LIMIT 1) UNION "
			"ALL ",
			states[i], comparison, after);
	db_sqlf(db, &sql, "(SELECT queue FROM job_queues WHERE queue %r %s ORDER BY queue LIMIT 1)) names", comparison, after);
	class = db_query(db, &sql, &rows, f);
	*found = class == DB_OK && db_rows_next(rows) && !db_is_null(rows, 0);
	if (*found)
		db_copy(rows, 0, out, size);
	db_rows_free(rows);
	buf_free(&sql);
	return class;
}

enum db_class admin_store_queues(struct db *db, void (*each)(void *arg, const struct admin_queue *queue), void *arg,
				 struct fault *f)
{
	char name[JOB_QUEUE_MAX + 1] = "";
	enum db_class class = DB_OK;

	for (unsigned int i = 0; i < ADMIN_QUEUES_MAX && class == DB_OK; i++) {
		struct admin_queue q = { .oldest_ready_s = -1 };
		bool found;

		class = admin_next_queue(db, name, i == 0, q.queue, sizeof(q.queue), &found, f);
		if (class != DB_OK || !found)
			break;
		class = admin_queue_figures(db, &q, f);
		if (class == DB_OK)
			each(arg, &q);
		memcpy(name, q.queue, sizeof(name));
	}
	return class;
}

/* Of two operators who pause a queue at once the first one's time and name stay. paused_by is assigned first: it looks at what
 * paused_at was. */
enum db_class admin_store_pause(struct db *db, const char *queue, const char *by, bool *was_paused, struct fault *f)
{
	struct db_rows *rows = NULL;
	enum db_class class = db_queryf(db, &rows, f, "SELECT 1 FROM job_queues WHERE queue=%s AND paused_at IS NOT NULL", queue);

	*was_paused = class == DB_OK && db_rows_next(rows);
	db_rows_free(rows);
	if (class != DB_OK || *was_paused)
		return class;
	return db_execf(db, NULL, f,
			"INSERT INTO job_queues (queue, paused_at, paused_by) VALUES (%s, UTC_TIMESTAMP(6), %s) "
			"ON DUPLICATE KEY UPDATE paused_by=IF(paused_at IS NULL, %s, paused_by), paused_at=COALESCE(paused_at, "
			"UTC_TIMESTAMP(6))",
			queue, by, by);
}

enum db_class admin_store_resume(struct db *db, const char *queue, bool *was_paused, struct fault *f)
{
	uint64_t matched = 0;
	enum db_class class =
		db_execf(db, &matched, f,
			 "UPDATE job_queues SET paused_at=NULL, paused_by=NULL WHERE queue=%s AND paused_at IS NOT NULL", queue);

	*was_paused = matched != 0;
	return class;
}

enum db_class admin_store_workers(struct db *db, struct db_rows **rows, struct fault *f)
{
	return db_queryf(
		db, rows, f,
		"SELECT worker, name, host, pid, version, status, running, threads, lease_ms, queues, started_at, seen_at, "
		"TIMESTAMPDIFF(SECOND, seen_at, UTC_TIMESTAMP(6)) AS seen_s, "
		"seen_at < UTC_TIMESTAMP(6) - INTERVAL lease_ms * 1000 MICROSECOND AS stale FROM job_workers ORDER BY name, worker "
		"LIMIT %u",
		(uint64_t)ADMIN_PAGE_MAX);
}

enum db_class admin_store_stats(struct db *db, struct db_rows **rows, struct fault *f)
{
	struct buf sql;
	enum db_class class;

	buf_init(&sql, STORE_SQL_MAX);
	for (int s = 0; s < JOB_STATES; s++) {
		const char *state = job_state_name((enum job_state)s);

		db_sqlf(db, &sql,
			"%rSELECT %s AS state, COUNT(*) AS jobs, %r AS oldest_s FROM (SELECT run_at FROM jobs FORCE INDEX (claim) "
			"WHERE state=%s LIMIT %u) t",
			s == 0 ? "" : " UNION ALL ", state,
			s == JOB_READY ? "GREATEST(0, TIMESTAMPDIFF(SECOND, MIN(run_at), UTC_TIMESTAMP(6)))" : "NULL", state,
			(uint64_t)ADMIN_COUNT_MAX);
	}
	class = db_query(db, &sql, rows, f);
	buf_free(&sql);
	return class;
}

enum db_class admin_store_stats_kinds(struct db *db, struct db_rows **rows, struct fault *f)
{
	static const enum job_state states[] = { JOB_READY, JOB_SCHEDULED, JOB_RUNNING, JOB_DEAD };
	struct buf sql;
	enum db_class class;

	buf_init(&sql, STORE_SQL_MAX);
	buf_adds(&sql,
		 "SELECT kind, SUM(state='ready') AS ready, SUM(state='scheduled') AS scheduled, SUM(state='running') AS running, "
		 "SUM(state='dead') AS dead FROM (");
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		db_sqlf(db, &sql, "%r(SELECT kind, state FROM jobs FORCE INDEX (claim) WHERE state=%s LIMIT %u)",
			i == 0 ? "" : " UNION ALL ", job_state_name(states[i]), (uint64_t)ADMIN_SAMPLE_MAX);
	buf_adds(&sql, ") sample GROUP BY kind ORDER BY kind");
	class = db_query(db, &sql, rows, f);
	buf_free(&sql);
	return class;
}

enum db_class admin_store_stats_ledger(struct db *db, struct db_rows **rows, struct fault *f)
{
	return db_queryf(
		db, rows, f,
		"SELECT outcome, COUNT(*) AS attempts FROM (SELECT outcome, finished_at FROM job_attempts FORCE INDEX (PRIMARY) "
		"ORDER BY job_id DESC, claim_no DESC, outcome DESC LIMIT %u) newest WHERE finished_at >= UTC_TIMESTAMP(6) - "
		"INTERVAL 1 HOUR "
		"GROUP BY outcome ORDER BY outcome",
		(uint64_t)ADMIN_LEDGER_MAX);
}

enum db_class admin_store_stats_slots(struct db *db, struct db_rows **rows, struct fault *f)
{
	struct buf sql;
	enum db_class class;

	buf_init(&sql, STORE_SQL_MAX);
	db_sqlf(db, &sql,
		ADMIN_SELECT
		"k.concurrency_key, (SELECT COUNT(*) FROM job_slots s WHERE s.concurrency_key=k.concurrency_key"
		" AND s.lease_id IS NOT NULL) AS held,"
		" (SELECT COUNT(*) FROM jobs j FORCE INDEX (slot_wait) WHERE j.slot_wait=k.concurrency_key) AS waiting"
		" FROM ((SELECT slot_wait AS concurrency_key FROM jobs FORCE INDEX (slot_wait) WHERE slot_wait > ''"
		" GROUP BY slot_wait LIMIT %u) UNION (SELECT concurrency_key FROM job_slots WHERE lease_id IS NOT NULL"
		" GROUP BY concurrency_key LIMIT %u)) k ORDER BY 1",
		(uint64_t)ADMIN_KEYS_MAX, (uint64_t)ADMIN_KEYS_MAX);
	class = admin_read(db, &sql, rows, f);
	buf_free(&sql);
	return class;
}
