/* recover_store.c - see recover_store.h. */
#include "store/recover_store.h"

#include "store/ledger_store.h"
#include "store/slot_store.h"

#include <string.h>

/* A lease that is not there, or has no time or length that could be added up, has lapsed: nobody can renew it. */
#define RECOVER_STORE_LAPSED                                                                                                       \
	"(lease_id IS NULL OR COALESCE(locked_at + INTERVAL lease_ms*1000 MICROSECOND, '1000-01-01') < UTC_TIMESTAMP(6))"

enum recover_store_column {
	RECOVER_STORE_ID,
	RECOVER_STORE_KIND,
	RECOVER_STORE_QUEUE,
	RECOVER_STORE_LEASE,
	RECOVER_STORE_LOCKED_AT,
	RECOVER_STORE_LOCKED_BY,
	RECOVER_STORE_CLAIMED_AT,
	RECOVER_STORE_PRIORITY,
	RECOVER_STORE_RUN_AT,
	RECOVER_STORE_LEASE_MS,
	RECOVER_STORE_CLAIM_NO,
	RECOVER_STORE_ATTEMPT,
	RECOVER_STORE_MAX_ATTEMPTS,
	RECOVER_STORE_ORPHAN_STREAK,
	RECOVER_STORE_CANCEL_REQUESTED,
	RECOVER_STORE_IS_LAPSED,
	RECOVER_STORE_IS_FUTURE,
	RECOVER_STORE_TRACEPARENT
};

static void recover_store_add_select(struct db *db, struct buf *sql, int64_t margin_us)
{
	db_sqlf(db, sql,
		"SELECT id, kind, queue, lease_id, locked_at, locked_by, claimed_at, priority, run_at, lease_ms, claim_no,"
		" attempt, max_attempts, orphan_streak, cancel_requested_at IS NOT NULL, " RECOVER_STORE_LAPSED
		", locked_at > UTC_TIMESTAMP(6) + INTERVAL %d MICROSECOND, traceparent"
		" FROM jobs FORCE INDEX (claim) WHERE state='running'",
		margin_us);
}

static void recover_store_fill(const struct db_rows *from, struct recover_row *r)
{
	r->id = db_u64(from, RECOVER_STORE_ID);
	db_copy(from, RECOVER_STORE_KIND, r->kind, sizeof(r->kind));
	db_copy(from, RECOVER_STORE_QUEUE, r->queue, sizeof(r->queue));
	db_copy(from, RECOVER_STORE_LEASE, r->lease, sizeof(r->lease));
	db_copy(from, RECOVER_STORE_LOCKED_AT, r->locked_at, sizeof(r->locked_at));
	db_copy(from, RECOVER_STORE_LOCKED_BY, r->locked_by, sizeof(r->locked_by));
	db_copy(from, RECOVER_STORE_CLAIMED_AT, r->claimed_at, sizeof(r->claimed_at));
	db_copy(from, RECOVER_STORE_TRACEPARENT, r->traceparent, sizeof(r->traceparent));
	db_copy(from, RECOVER_STORE_RUN_AT, r->run_at, sizeof(r->run_at));
	r->priority = (int)db_i64(from, RECOVER_STORE_PRIORITY);
	r->lease_ms = (uint32_t)db_u64(from, RECOVER_STORE_LEASE_MS);
	r->claim_no = (uint32_t)db_u64(from, RECOVER_STORE_CLAIM_NO);
	r->attempt = (unsigned int)db_u64(from, RECOVER_STORE_ATTEMPT);
	r->max_attempts = (unsigned int)db_u64(from, RECOVER_STORE_MAX_ATTEMPTS);
	r->orphan_streak = (unsigned int)db_u64(from, RECOVER_STORE_ORPHAN_STREAK);
	r->cancel_requested = db_u64(from, RECOVER_STORE_CANCEL_REQUESTED) != 0;
	r->lapsed = db_u64(from, RECOVER_STORE_IS_LAPSED) != 0;
	r->future = db_u64(from, RECOVER_STORE_IS_FUTURE) != 0;
	r->slot.key[0] = '\0';
}

static enum db_class recover_store_read(struct db *db, struct buf *sql, struct recover_row *rows, size_t *count, struct fault *f)
{
	struct db_rows *found;
	enum db_class c = store_query(db, sql, &found, f);

	while (c == DB_OK && *count < RECOVER_PAGE && db_rows_next(found))
		recover_store_fill(found, &rows[(*count)++]);
	db_rows_free(found);
	return c;
}

void recover_store_add_scan(struct db *db, struct buf *sql, int64_t margin_us)
{
	recover_store_add_select(db, sql, margin_us);
	db_sqlf(db, sql, " AND (" RECOVER_STORE_LAPSED " OR locked_at > UTC_TIMESTAMP(6) + INTERVAL %d MICROSECOND) LIMIT %u",
		margin_us, (uint64_t)RECOVER_PAGE);
}

enum db_class recover_store_scan(struct db *db, int64_t margin_us, struct recover_row *rows, size_t *count, struct fault *f)
{
	struct buf sql;

	*count = 0;
	buf_init(&sql, STORE_SQL_MAX);
	recover_store_add_scan(db, &sql, margin_us);
	return recover_store_read(db, &sql, rows, count, f);
}

void recover_store_add_running(struct db *db, struct buf *sql, int64_t margin_us, const struct recover_row *after)
{
	recover_store_add_select(db, sql, margin_us);
	if (after != NULL)
		db_sqlf(db, sql,
			" AND (queue > %s OR (queue = %s AND (priority > %d OR (priority = %d"
			" AND (run_at > %s OR (run_at = %s AND id > %u))))))",
			after->queue, after->queue, (int64_t)after->priority, (int64_t)after->priority, after->run_at,
			after->run_at, after->id);
	db_sqlf(db, sql, " ORDER BY queue, priority, run_at, id LIMIT %u", (uint64_t)RECOVER_PAGE);
}

enum db_class recover_store_running(struct db *db, int64_t margin_us, const struct recover_row *after, struct recover_row *rows,
				    size_t *count, struct fault *f)
{
	struct buf sql;

	*count = 0;
	buf_init(&sql, STORE_SQL_MAX);
	recover_store_add_running(db, &sql, margin_us, after);
	return recover_store_read(db, &sql, rows, count, f);
}

/* Where the row goes. The holder is gone, so it loses the lease in every case: a terminal row with a lease is one that its
 * holder settled. */
static void recover_store_add_move(struct db *db, struct buf *sql, enum recover_to to, int64_t delay_ms)
{
	switch (to) {
	case RECOVER_SCHEDULED:
		db_sqlf(db, sql,
			"state=IF(cancel_requested_at IS NULL, 'scheduled', 'cancelled'),"
			" run_at=IF(cancel_requested_at IS NULL, UTC_TIMESTAMP(6) + INTERVAL %d * 1000 MICROSECOND, run_at),"
			" requeued_at=IF(cancel_requested_at IS NULL, UTC_TIMESTAMP(6), requeued_at),"
			" finished_at=IF(cancel_requested_at IS NULL, finished_at, UTC_TIMESTAMP(6))",
			delay_ms < 0 ? (int64_t)0 : delay_ms);
		break;
	case RECOVER_DEAD:
		buf_adds(sql, "state='dead', finished_at=UTC_TIMESTAMP(6)");
		break;
	case RECOVER_CANCELLED:
		buf_adds(sql, "state='cancelled', finished_at=UTC_TIMESTAMP(6)");
		break;
	}
}

static const char *recover_store_or_null(const char *text)
{
	return text[0] != '\0' ? text : NULL;
}

void recover_store_add_take(struct db *db, struct buf *sql, const struct recover_row *row, enum recover_to to, int64_t delay_ms,
			    const char *reason)
{
	buf_adds(sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET ");
	recover_store_add_move(db, sql, to, delay_ms);
	db_sqlf(db, sql,
		", reclaims=LEAST(reclaims + 1, 65535), orphan_streak=LEAST(orphan_streak + 1, 65535), last_error=%s,"
		" lease_id=NULL, locked_by=NULL, locked_at=NULL, lease_ms=NULL"
		" WHERE id=%u AND state='running' AND lease_id <=> %s AND locked_at <=> %s",
		reason, row->id, recover_store_or_null(row->lease), recover_store_or_null(row->locked_at));
}

static enum db_class recover_store_update(struct db *db, const struct recover_row *row, enum recover_to to, int64_t delay_ms,
					  const char *reason, uint64_t *matched, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	recover_store_add_take(db, &sql, row, to, delay_ms, reason);
	return store_exec(db, &sql, matched, f);
}

static enum db_class recover_store_free_slot(struct db *db, const struct recover_row *row, struct fault *f)
{
	struct slot_held held = {.id = row->id, .slot = row->slot};

	memcpy(held.lease, row->lease, sizeof(held.lease));
	return slot_store_free(db, &held, 1, NULL, f);
}

enum db_class recover_store_take(struct db *db, const struct recover_row *row, enum recover_to to, int64_t delay_ms,
				 const char *reason, bool *taken, struct fault *f)
{
	const struct ledger_row entry = {
		.job_id = row->id,
		.claim_no = row->claim_no,
		.outcome = LEDGER_LEASE_LAPSED,
		.attempt = row->attempt,
		.lease = recover_store_or_null(row->lease),
		.worker = recover_store_or_null(row->locked_by),
		.started_at = recover_store_or_null(row->claimed_at),
		.ran_ms = -1,
		.exit_code = -1,
		.signal = -1,
		.cause = reason,
		.max_rss_kb = -1,
		.cpu_ms = -1,
	};
	uint64_t matched = 0;
	enum db_class c;

	*taken = false;
	c = db_begin(db, f);
	if (c == DB_OK)
		c = recover_store_update(db, row, to, delay_ms, reason, &matched, f);
	if (c == DB_OK && matched == 1)
		c = ledger_store_add(db, &entry, 1, f);
	if (c == DB_OK && matched == 1 && row->slot.key[0] != '\0')
		c = recover_store_free_slot(db, row, f);
	if (c == DB_OK && matched == 1) {
		c = db_commit(db, f);
		*taken = c == DB_OK;
	}
	db_rollback(db);
	return c;
}

enum db_class recover_store_clock(struct db *db, int64_t *server_us, struct fault *f)
{
	struct db_rows *rows;
	enum db_class c = db_queryf(db, &rows, f, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))");

	*server_us = 0;
	if (c == DB_OK && db_rows_next(rows))
		*server_us = db_i64(rows, 0);
	db_rows_free(rows);
	return c;
}

enum db_class recover_store_next(struct db *db, int64_t *next_ms, struct fault *f)
{
	struct db_rows *rows;
	int64_t wait_us;
	enum db_class c =
		db_queryf(db, &rows, f,
			  "SELECT MIN(IF(" RECOVER_STORE_LAPSED ", 0,"
			  " TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), locked_at + INTERVAL lease_ms*1000 MICROSECOND)))"
			  " FROM jobs FORCE INDEX (claim) WHERE state='running'");

	*next_ms = -1;
	if (c == DB_OK && db_rows_next(rows) && !db_is_null(rows, 0)) {
		wait_us = db_i64(rows, 0);
		*next_ms = wait_us > 0 ? wait_us / 1000 + 1 : 0;
	}
	db_rows_free(rows);
	return c;
}
