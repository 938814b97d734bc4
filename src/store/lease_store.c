/* lease_store.c - see lease_store.h. */
#include "store/lease_store.h"

void lease_store_add_renew(struct db *db, struct buf *sql, const struct store_held *rows, size_t n)
{
	buf_adds(sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET locked_at=UTC_TIMESTAMP(6) WHERE id IN ");
	store_add_ids(sql, rows, n);
	buf_adds(sql, " AND (id, lease_id) IN ");
	store_add_pairs(db, sql, rows, n);
	buf_adds(sql, " AND state='running'");
}

enum db_class lease_store_renew(struct db *db, const struct store_held *rows, size_t n, uint64_t *matched, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	lease_store_add_renew(db, &sql, rows, n);
	return store_exec(db, &sql, matched, f);
}

enum db_class lease_store_renew_waiting(struct db *db, const struct store_held *row, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	/* MySQL has no such clause, and no sessions that do not wait either. */
	if (db_is_mariadb(db))
		buf_adds(&sql, "SET STATEMENT innodb_lock_wait_timeout=1 FOR ");
	lease_store_add_renew(db, &sql, row, 1);
	return store_exec(db, &sql, NULL, f);
}

void lease_store_add_read(struct buf *sql, const struct store_held *rows, size_t n)
{
	buf_adds(sql, "SELECT id, lease_id, state, cancel_requested_at IS NOT NULL FROM jobs FORCE INDEX (PRIMARY) WHERE id IN ");
	store_add_ids(sql, rows, n);
	buf_adds(sql, " ORDER BY id"); /* costs nothing along the primary key, and the caller walks both lists side by side */
}

enum db_class lease_store_read(struct db *db, const struct store_held *rows, size_t n, struct lease_row *out, size_t *count,
			       struct fault *f)
{
	struct db_rows *found;
	const char *state;
	enum db_class c;
	struct buf sql;

	*count = 0;
	buf_init(&sql, STORE_SQL_MAX);
	lease_store_add_read(&sql, rows, n);
	c = store_query(db, &sql, &found, f);
	while (c == DB_OK && *count < n && db_rows_next(found)) {
		struct lease_row *r = &out[*count];

		r->id = db_u64(found, 0);
		db_copy(found, 1, r->lease, sizeof(r->lease));
		state = db_text(found, 2, NULL);
		if (state == NULL || !job_state_parse(state, &r->state)) {
			(void)fault_set(f, LH_ERR_INPUT, "job %llu is in the state \"%s\", which this version does not know",
					(unsigned long long)r->id, state != NULL ? state : "NULL");
			c = DB_SCHEMA;
			break;
		}
		r->cancel_requested = db_u64(found, 3) != 0;
		(*count)++;
	}
	db_rows_free(found);
	return c;
}

enum db_class lease_store_ping(struct db *db, struct fault *f)
{
	struct db_rows *rows;
	enum db_class c = db_queryf(db, &rows, f, "SELECT 1");

	db_rows_free(rows);
	return c;
}
