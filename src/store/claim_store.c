/* claim_store.c - see claim_store.h. */
#include "store/claim_store.h"

#include <stdlib.h>
#include <string.h>

/* Larger payloads are fetched one at a time, so that a read-back's memory is bounded by the batch. */
#define CLAIM_STORE_INLINE_MAX 65536

/* The subquery does not depend on the row: it is answered once, and a paused queue costs no scan. */
void claim_store_add_scan(struct db *db, struct buf *sql, const char *queue, const struct scan_cursor *cursor, size_t window)
{
	db_sqlf(db, sql,
		"SELECT id, priority, run_at, run_at > UTC_TIMESTAMP(6) AS early FROM jobs FORCE INDEX (claim)"
		" WHERE state='ready' AND queue=%s"
		" AND NOT EXISTS (SELECT 1 FROM job_queues WHERE queue=%s AND paused_at IS NOT NULL)",
		queue, queue);
	if (cursor->set)
		db_sqlf(db, sql, " AND (priority > %d OR (priority = %d AND (run_at > %s OR (run_at = %s AND id > %u))))",
			(int64_t)cursor->priority, (int64_t)cursor->priority, cursor->run_at, cursor->run_at, cursor->id);
	db_sqlf(db, sql, " ORDER BY priority, run_at, id LIMIT %u", (uint64_t)window);
}

enum db_class claim_store_scan(struct db *db, const char *queue, const struct scan_cursor *cursor, size_t window,
			       struct scan_row *rows, size_t *count, struct fault *f)
{
	struct db_rows *found;
	enum db_class c;
	struct buf sql;

	*count = 0;
	buf_init(&sql, STORE_SQL_MAX);
	claim_store_add_scan(db, &sql, queue, cursor, window);
	c = store_query(db, &sql, &found, f);
	if (c != DB_OK)
		return c;
	while (*count < window && db_rows_next(found)) {
		struct scan_row *r = &rows[(*count)++];

		r->id = db_u64(found, 0);
		r->priority = (int)db_i64(found, 1);
		db_copy(found, 2, r->run_at, sizeof(r->run_at));
		r->early = db_u64(found, 3) != 0;
	}
	db_rows_free(found);
	return DB_OK;
}

/* Counters saturate: a row at its bound must not become one that no claim can take. */
void claim_store_add_take(struct db *db, struct buf *sql, const uint64_t *ids, size_t n, const char *lease, uint32_t lease_ms,
			  const char *worker)
{
	db_sqlf(db, sql,
		"UPDATE jobs FORCE INDEX (PRIMARY) SET state='running', lease_id=%s, claim_no=LEAST(claim_no + 1, 4294967295),"
		" attempt=LEAST(attempt + 1, 65535), locked_by=%s, locked_at=UTC_TIMESTAMP(6), lease_ms=%u,"
		" claimed_at=UTC_TIMESTAMP(6) WHERE id IN ",
		lease, worker, (uint64_t)lease_ms);
	store_add_id_list(sql, ids, n);
	buf_adds(sql, " AND state='ready' AND run_at <= UTC_TIMESTAMP(6)");
}

enum db_class claim_store_take(struct db *db, const uint64_t *ids, size_t n, const char *lease, uint32_t lease_ms,
			       const char *worker, uint64_t *won, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	claim_store_add_take(db, &sql, ids, n, lease, lease_ms, worker);
	return store_exec(db, &sql, won, f);
}

enum claim_store_column {
	CLAIM_STORE_ID,
	CLAIM_STORE_QUEUE,
	CLAIM_STORE_KIND,
	CLAIM_STORE_PRIORITY,
	CLAIM_STORE_ATTEMPT,
	CLAIM_STORE_MAX_ATTEMPTS,
	CLAIM_STORE_CLAIM_NO,
	CLAIM_STORE_TIMEOUT_MS,
	CLAIM_STORE_ORPHAN_STREAK,
	CLAIM_STORE_CANCEL_REQUESTED,
	CLAIM_STORE_TRACEPARENT,
	CLAIM_STORE_PAYLOAD
};

static bool claim_store_set_payload(struct job *job, const struct db_rows *rows, unsigned int column)
{
	size_t len;
	const char *payload = db_text(rows, column, &len);

	job->payload = malloc(len + 1);
	if (job->payload == NULL)
		return false;
	if (len > 0)
		memcpy(job->payload, payload, len);
	job->payload[len] = '\0';
	job->payload_len = len;
	return true;
}

/* *still is false when the row has left our hands since it was read. */
static enum db_class claim_store_fetch_payload(struct db *db, struct job *job, bool *still, struct fault *f)
{
	struct db_rows *rows;
	enum db_class c = db_queryf(
		db, &rows, f, "SELECT payload FROM jobs FORCE INDEX (PRIMARY) WHERE id=%u AND lease_id=%s AND state='running'",
		job->id, job->lease);

	*still = c == DB_OK && db_rows_next(rows);
	if (*still && !claim_store_set_payload(job, rows, 0)) {
		(void)fault_set(f, LH_ERR_MEMORY, "no memory for the payload of job %llu", (unsigned long long)job->id);
		c = DB_OTHER;
	}
	db_rows_free(rows);
	return c;
}

static void claim_store_fill(struct job *job, const struct db_rows *rows, const char *lease, uint32_t lease_ms)
{
	job->id = db_u64(rows, CLAIM_STORE_ID);
	db_copy(rows, CLAIM_STORE_QUEUE, job->queue, sizeof(job->queue));
	db_copy(rows, CLAIM_STORE_KIND, job->kind, sizeof(job->kind));
	db_copy(rows, CLAIM_STORE_TRACEPARENT, job->traceparent, sizeof(job->traceparent));
	memcpy(job->lease, lease, strnlen(lease, sizeof(job->lease) - 1));
	job->priority = (int)db_i64(rows, CLAIM_STORE_PRIORITY);
	job->attempt = (unsigned int)db_u64(rows, CLAIM_STORE_ATTEMPT);
	job->max_attempts = (unsigned int)db_u64(rows, CLAIM_STORE_MAX_ATTEMPTS);
	job->claim_no = (uint32_t)db_u64(rows, CLAIM_STORE_CLAIM_NO);
	job->timeout_set = !db_is_null(rows, CLAIM_STORE_TIMEOUT_MS);
	job->timeout_ms = (uint32_t)db_u64(rows, CLAIM_STORE_TIMEOUT_MS);
	job->orphan_streak = (unsigned int)db_u64(rows, CLAIM_STORE_ORPHAN_STREAK);
	job->cancel_requested = db_u64(rows, CLAIM_STORE_CANCEL_REQUESTED) != 0;
	job->lease_ms = lease_ms;
}

/* One row of the read-back becomes a job, or nothing when it has left our hands meanwhile. */
static enum db_class claim_store_take_row(struct db *db, const struct db_rows *rows, const char *lease, uint32_t lease_ms,
					  struct job **out, struct fault *f)
{
	struct job *job = job_new();
	enum db_class c = DB_OK;
	bool still = true;

	*out = NULL;
	if (job == NULL) {
		(void)fault_set(f, LH_ERR_MEMORY, "no memory for a claimed job");
		return DB_OTHER;
	}
	claim_store_fill(job, rows, lease, lease_ms);
	if (db_is_null(rows, CLAIM_STORE_PAYLOAD)) {
		c = claim_store_fetch_payload(db, job, &still, f);
	} else if (!claim_store_set_payload(job, rows, CLAIM_STORE_PAYLOAD)) {
		(void)fault_set(f, LH_ERR_MEMORY, "no memory for the payload of job %llu", (unsigned long long)job->id);
		c = DB_OTHER;
	}
	if (c == DB_OK && still)
		*out = job;
	else
		job_free(job);
	return c;
}

void claim_store_add_read(struct db *db, struct buf *sql, const uint64_t *ids, size_t n, const char *lease)
{
	db_sqlf(db, sql,
		"SELECT id, queue, kind, priority, attempt, max_attempts, claim_no, timeout_ms, orphan_streak,"
		" cancel_requested_at IS NOT NULL, traceparent, IF(OCTET_LENGTH(payload) <= %u, payload, NULL)"
		" FROM jobs FORCE INDEX (PRIMARY) WHERE id IN ",
		(uint64_t)CLAIM_STORE_INLINE_MAX);
	store_add_id_list(sql, ids, n);
	db_sqlf(db, sql, " AND lease_id=%s AND state='running'", lease);
}

enum db_class claim_store_read(struct db *db, const uint64_t *ids, size_t n, const char *lease, uint32_t lease_ms,
			       void (*each)(void *arg, struct job *job), void *arg, struct fault *f)
{
	struct db_rows *rows;
	struct job *job;
	enum db_class c;
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	claim_store_add_read(db, &sql, ids, n, lease);
	c = store_query(db, &sql, &rows, f);
	while (c == DB_OK && db_rows_next(rows)) {
		c = claim_store_take_row(db, rows, lease, lease_ms, &job, f);
		if (job != NULL)
			each(arg, job);
	}
	db_rows_free(rows);
	return c;
}

enum db_class claim_store_put_back_early(struct db *db, const uint64_t *ids, size_t n, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	buf_adds(&sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET state='scheduled' WHERE id IN ");
	store_add_id_list(&sql, ids, n);
	buf_adds(&sql, " AND state='ready' AND run_at > UTC_TIMESTAMP(6)");
	return store_exec(db, &sql, NULL, f);
}
