/* promote_store.c - see promote_store.h. */
#include "store/promote_store.h"

/* Both halves read the promote index from one end and stop: due rows, and the first that is not due, in one round trip and by
 * one clock. */
void promote_store_add_scan(struct db *db, struct buf *sql)
{
	db_sqlf(db, sql,
		"(SELECT id, 0 FROM jobs FORCE INDEX (promote) WHERE promote_at <= UTC_TIMESTAMP(6) ORDER BY promote_at LIMIT %u)"
		" UNION ALL"
		" (SELECT 0, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), promote_at) FROM jobs FORCE INDEX (promote)"
		" WHERE promote_at > UTC_TIMESTAMP(6) ORDER BY promote_at LIMIT 1)",
		(uint64_t)PROMOTE_PAGE);
}

enum db_class promote_store_scan(struct db *db, uint64_t *ids, size_t *count, int64_t *next_ms, struct fault *f)
{
	struct db_rows *rows;
	int64_t wait_us;
	enum db_class c;
	struct buf sql;

	*count = 0;
	*next_ms = -1;
	buf_init(&sql, STORE_SQL_MAX);
	promote_store_add_scan(db, &sql);
	c = store_query(db, &sql, &rows, f);
	while (c == DB_OK && db_rows_next(rows)) {
		if (db_u64(rows, 0) != 0) {
			if (*count < PROMOTE_PAGE)
				ids[(*count)++] = db_u64(rows, 0);
		} else {
			wait_us = db_i64(rows, 1);
			*next_ms = wait_us / 1000 + 1;
		}
	}
	if (*count == PROMOTE_PAGE)
		*next_ms = 0;
	db_rows_free(rows);
	return c;
}

void promote_store_add_write(struct buf *sql, const uint64_t *ids, size_t n)
{
	buf_adds(sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET state='ready' WHERE id IN ");
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
