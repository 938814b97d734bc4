/* promote_store.c - see promote_store.h. */
#include "store/promote_store.h"

enum promote_store_news { PROMOTE_STORE_DUE, PROMOTE_STORE_HOLD, PROMOTE_STORE_NEXT };

/* Both halves read their index from one end and stop: what is due, and the first that is not, in one round trip and by one
 * clock. */
static void promote_store_add_half(struct db *db, struct buf *sql, enum promote_store_news news, const char *key,
				   const char *column)
{
	db_sqlf(db, sql,
		"(SELECT %u, id, 0 FROM jobs FORCE INDEX (%r) WHERE %r <= UTC_TIMESTAMP(6) ORDER BY %r LIMIT %u)"
		" UNION ALL"
		" (SELECT %u, 0, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), %r) FROM jobs FORCE INDEX (%r)"
		" WHERE %r > UTC_TIMESTAMP(6) ORDER BY %r LIMIT 1)",
		(uint64_t)news, key, column, column, (uint64_t)PROMOTE_PAGE, (uint64_t)PROMOTE_STORE_NEXT, column, key, column,
		column);
}

void promote_store_add_due(struct db *db, struct buf *sql)
{
	promote_store_add_half(db, sql, PROMOTE_STORE_DUE, "promote", "promote_at");
}

void promote_store_add_ended(struct db *db, struct buf *sql)
{
	promote_store_add_half(db, sql, PROMOTE_STORE_HOLD, "unique_hold", "unique_hold_until");
}

static void promote_store_take(const struct db_rows *rows, struct promote_found *out)
{
	uint64_t news = db_u64(rows, 0), id = db_u64(rows, 1);
	int64_t wait_ms = db_i64(rows, 2) / 1000 + 1;

	if (news == PROMOTE_STORE_DUE && out->due_count < PROMOTE_PAGE)
		out->due[out->due_count++] = id;
	else if (news == PROMOTE_STORE_HOLD && out->hold_count < PROMOTE_PAGE)
		out->holds[out->hold_count++] = id;
	else if (news == PROMOTE_STORE_NEXT && (out->next_ms < 0 || wait_ms < out->next_ms))
		out->next_ms = wait_ms;
}

enum db_class promote_store_scan(struct db *db, struct promote_found *out, struct fault *f)
{
	struct db_rows *rows;
	enum db_class c;
	struct buf sql;

	out->due_count = out->hold_count = 0;
	out->next_ms = -1;
	buf_init(&sql, STORE_SQL_MAX);
	promote_store_add_due(db, &sql);
	buf_adds(&sql, " UNION ALL ");
	promote_store_add_ended(db, &sql);
	c = store_query(db, &sql, &rows, f);
	while (c == DB_OK && db_rows_next(rows))
		promote_store_take(rows, out);
	if (out->due_count == PROMOTE_PAGE || out->hold_count == PROMOTE_PAGE)
		out->next_ms = 0;
	db_rows_free(rows);
	return c;
}

void promote_store_add_write(struct buf *sql, const uint64_t *ids, size_t n)
{
	buf_adds(sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET state='ready', slot_wait=NULL WHERE id IN ");
	store_add_id_list(sql, ids, n);
	buf_adds(sql, " AND state='scheduled' AND run_at <= UTC_TIMESTAMP(6)");
}

enum db_class promote_store_write(struct db *db, const uint64_t *ids, size_t n, uint64_t *promoted, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	promote_store_add_write(&sql, ids, n);
	return store_exec(db, &sql, promoted, f);
}

void promote_store_add_wake(struct db *db, struct buf *sql, const struct promote_parked *rows, size_t n)
{
	buf_adds(sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET state='ready', run_at=UTC_TIMESTAMP(6) WHERE id IN ");
	for (size_t i = 0; i < n; i++)
		db_sqlf(db, sql, "%r%u", i == 0 ? "(" : ",", rows[i].id);
	buf_adds(sql, ") AND (id, claim_no) IN ");
	for (size_t i = 0; i < n; i++)
		db_sqlf(db, sql, "%r(%u,%u)", i == 0 ? "(" : ",", rows[i].id, (uint64_t)rows[i].claim_no);
	buf_adds(sql, ") AND state='scheduled'");
}

enum db_class promote_store_wake(struct db *db, const struct promote_parked *rows, size_t n, uint64_t *woken, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	promote_store_add_wake(db, &sql, rows, n);
	return store_exec(db, &sql, woken, f);
}

void promote_store_add_release(struct buf *sql, const uint64_t *ids, size_t n)
{
	buf_adds(sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET unique_hold_until=NULL WHERE id IN ");
	store_add_id_list(sql, ids, n);
	buf_adds(sql, " AND unique_hold_until <= UTC_TIMESTAMP(6)");
}

enum db_class promote_store_release(struct db *db, const uint64_t *ids, size_t n, uint64_t *released, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	/* MySQL has no such clause, and no sessions that do not wait either. */
	if (db_is_mariadb(db))
		buf_adds(&sql, "SET STATEMENT innodb_lock_wait_timeout=0 FOR ");
	promote_store_add_release(&sql, ids, n);
	return store_exec(db, &sql, released, f);
}
