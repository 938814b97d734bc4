/* store.c - pieces that several statements share. */
#include "store/store.h"

#include <inttypes.h>
#include <stdlib.h>

void store_add_ids(struct buf *sql, const struct store_held *rows, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		buf_addf(sql, "%c%" PRIu64, i == 0 ? '(' : ',', rows[i].id);
	buf_addc(sql, ')');
}

void store_add_id_list(struct buf *sql, const uint64_t *ids, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		buf_addf(sql, "%c%" PRIu64, i == 0 ? '(' : ',', ids[i]);
	buf_addc(sql, ')');
}

static int store_compare_ids(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void store_sort_ids(uint64_t *ids, size_t n)
{
	qsort(ids, n, sizeof(*ids), store_compare_ids);
}

void store_add_pairs(struct db *db, struct buf *sql, const struct store_held *rows, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		db_sqlf(db, sql, "%r(%u,%s)", i == 0 ? "(" : ",", rows[i].id, rows[i].lease);
	buf_addc(sql, ')');
}

/* The server assigns from left to right: cancel_requested_at, which all of them look at, is not among those assigned. */
void store_add_return(struct buf *sql, const char *state, bool give_back)
{
	buf_addf(sql,
		 "state=IF(cancel_requested_at IS NULL, '%s', 'cancelled'),"
		 " requeued_at=IF(cancel_requested_at IS NULL, UTC_TIMESTAMP(6), requeued_at),"
		 " finished_at=IF(cancel_requested_at IS NULL, finished_at, UTC_TIMESTAMP(6)),"
		 " lease_id=IF(cancel_requested_at IS NULL, NULL, lease_id),"
		 " locked_by=IF(cancel_requested_at IS NULL, NULL, locked_by),"
		 " locked_at=IF(cancel_requested_at IS NULL, NULL, locked_at),"
		 " lease_ms=IF(cancel_requested_at IS NULL, NULL, lease_ms)",
		 state);
	if (give_back)
		buf_adds(sql, ", attempt=IF(attempt > 0, attempt - 1, 0)");
}

enum db_class store_exec(struct db *db, struct buf *sql, uint64_t *matched, struct fault *f)
{
	enum db_class c = db_exec(db, sql, matched, f);

	buf_free(sql);
	return c;
}

enum db_class store_query(struct db *db, struct buf *sql, struct db_rows **rows, struct fault *f)
{
	enum db_class c = db_query(db, sql, rows, f);

	buf_free(sql);
	return c;
}
