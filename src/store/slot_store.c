/* slot_store.c - see slot_store.h.
 *
 * Several slots in one statement are named as "(key and number) or (key and number)", never by row constructors: of such a list
 * both servers make single places of the primary key, whatever its length. */
#include "store/slot_store.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_STORE_KEY "COALESCE(concurrency_key, kind)"
#define SLOT_STORE_FREE "job_id=NULL, lease_id=NULL, locked_by=NULL, locked_at=NULL, lease_ms=NULL"

/* For the server, keys that differ in blanks at their end are one key. */
static void slot_store_copy_key(const struct db_rows *rows, unsigned int column, char *key)
{
	size_t len;

	db_copy(rows, column, key, JOB_KIND_MAX + 1);
	for (len = strlen(key); len > 0 && key[len - 1] == ' '; len--)
		key[len - 1] = '\0';
}

/* "((place) OR (place) ...)"; fenced: each with its job and lease. */
static void slot_store_add_places(struct db *db, struct buf *sql, const struct slot_held *rows, size_t n, bool fenced)
{
	buf_addc(sql, '(');
	for (size_t i = 0; i < n; i++) {
		db_sqlf(db, sql, "%r(concurrency_key=%s AND slot=%u", i == 0 ? "" : " OR ", rows[i].slot.key,
			(uint64_t)rows[i].slot.number);
		if (fenced)
			db_sqlf(db, sql, " AND job_id=%u AND lease_id=%s", rows[i].id, rows[i].lease);
		buf_addc(sql, ')');
	}
	buf_addc(sql, ')');
}

/* ---- Before a claim ---------------------------------------------------------------------------------------------------------- */

void slot_store_add_jobs(struct buf *sql, const uint64_t *ids, size_t n)
{
	buf_adds(sql, "SELECT id, kind, " SLOT_STORE_KEY " FROM jobs FORCE INDEX (PRIMARY) WHERE id IN ");
	store_add_id_list(sql, ids, n);
}

enum db_class slot_store_jobs(struct db *db, const uint64_t *ids, size_t n, void (*each)(void *arg, const struct slot_job *job),
			      void *arg, struct fault *f)
{
	struct db_rows *rows;
	struct slot_job job;
	enum db_class c;
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_jobs(&sql, ids, n);
	c = store_query(db, &sql, &rows, f);
	while (c == DB_OK && db_rows_next(rows)) {
		job.id = db_u64(rows, 0);
		db_copy(rows, 1, job.kind, sizeof(job.kind));
		slot_store_copy_key(rows, 2, job.key);
		each(arg, &job);
	}
	db_rows_free(rows);
	return c;
}

#define SLOT_STORE_SELECT                                                                                                          \
	"SELECT concurrency_key, slot, job_id, lease_id, locked_at, lease_ms FROM job_slots FORCE INDEX (PRIMARY) WHERE "

static enum db_class slot_store_each(struct db *db, struct buf *sql, void (*each)(void *arg, const struct slot_row *row), void *arg,
				     size_t *count, struct fault *f)
{
	struct db_rows *rows;
	struct slot_row row;
	enum db_class c = store_query(db, sql, &rows, f);

	*count = 0;
	while (c == DB_OK && db_rows_next(rows)) {
		slot_store_copy_key(rows, 0, row.key);
		row.number = (unsigned int)db_u64(rows, 1);
		row.job = db_u64(rows, 2);
		db_copy(rows, 3, row.lease, sizeof(row.lease));
		row.held = !db_is_null(rows, 3);
		db_copy(rows, 4, row.locked_at, sizeof(row.locked_at));
		row.lease_ms = (uint32_t)db_u64(rows, 5);
		each(arg, &row);
		(*count)++;
	}
	db_rows_free(rows);
	return c;
}

void slot_store_add_read(struct db *db, struct buf *sql, const char (*keys)[JOB_KIND_MAX + 1], size_t n)
{
	buf_adds(sql, SLOT_STORE_SELECT "concurrency_key IN ");
	for (size_t i = 0; i < n; i++)
		db_sqlf(db, sql, "%r%s", i == 0 ? "(" : ",", keys[i]);
	buf_adds(sql, ") ORDER BY concurrency_key, slot");
}

enum db_class slot_store_read(struct db *db, const char (*keys)[JOB_KIND_MAX + 1], size_t n,
			      void (*each)(void *arg, const struct slot_row *row), void *arg, struct fault *f)
{
	struct buf sql;
	size_t count;

	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_read(db, &sql, keys, n);
	return slot_store_each(db, &sql, each, arg, &count, f);
}

/* From the start there is no condition that an index could be used for, but an order that comes from it and a limit. */
void slot_store_add_page(struct db *db, struct buf *sql, const struct slot_row *after)
{
	const char *key = after != NULL ? after->key : "";

	db_sqlf(db, sql,
		SLOT_STORE_SELECT "(concurrency_key > %s OR (concurrency_key=%s AND slot > %d))"
				  " ORDER BY concurrency_key, slot LIMIT %u",
		key, key, after != NULL ? (int64_t)after->number : INT64_C(-1), (uint64_t)SLOT_STORE_PAGE);
}

enum db_class slot_store_page(struct db *db, const struct slot_row *after, void (*each)(void *arg, const struct slot_row *row),
			      void *arg, size_t *count, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_page(db, &sql, after);
	return slot_store_each(db, &sql, each, arg, count, f);
}

void slot_store_add_make(struct db *db, struct buf *sql, const struct job_slot *slot)
{
	db_sqlf(db, sql, "INSERT INTO job_slots (concurrency_key, slot) VALUES (%s, %u)", slot->key, (uint64_t)slot->number);
}

enum db_class slot_store_make(struct db *db, const struct job_slot *slot, struct fault *f)
{
	enum db_class c;
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_make(db, &sql, slot);
	c = store_exec(db, &sql, NULL, f);
	return c == DB_DUPLICATE ? DB_OK : c;
}

void slot_store_add_park(struct buf *sql, const uint64_t *ids, size_t n)
{
	buf_adds(sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET state='scheduled', slot_wait=" SLOT_STORE_KEY
		      ", run_at=" SLOT_STORE_FAR " WHERE id IN ");
	store_add_id_list(sql, ids, n);
	buf_adds(sql, " AND state='ready'");
}

enum db_class slot_store_park(struct db *db, const uint64_t *ids, size_t n, uint64_t *parked, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_park(&sql, ids, n);
	return store_exec(db, &sql, parked, f);
}

/* ---- Holding ----------------------------------------------------------------------------------------------------------------- */

void slot_store_add_take(struct db *db, struct buf *sql, const struct slot_held *rows, size_t n, uint32_t lease_ms,
			 const char *worker)
{
	buf_adds(sql, "UPDATE job_slots FORCE INDEX (PRIMARY) SET job_id=CASE");
	for (size_t i = 0; i < n; i++)
		db_sqlf(db, sql, " WHEN concurrency_key=%s AND slot=%u THEN %u", rows[i].slot.key, (uint64_t)rows[i].slot.number,
			rows[i].id);
	db_sqlf(db, sql, " END, lease_id=%s, locked_by=%s, locked_at=UTC_TIMESTAMP(6), lease_ms=%u WHERE ", rows[0].lease, worker,
		(uint64_t)lease_ms);
	slot_store_add_places(db, sql, rows, n, false);
	buf_adds(sql, " AND lease_id IS NULL");
}

enum db_class slot_store_take(struct db *db, const struct slot_held *rows, size_t n, uint32_t lease_ms, const char *worker,
			      uint64_t *won, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_take(db, &sql, rows, n, lease_ms, worker);
	return store_exec(db, &sql, won, f);
}

void slot_store_add_check(struct db *db, struct buf *sql, const struct slot_held *rows, size_t n)
{
	buf_adds(sql, SLOT_STORE_SELECT);
	slot_store_add_places(db, sql, rows, n, true);
}

struct slot_store_checked {
	const struct slot_held *rows;
	size_t n;
	bool *ours;
};

static void slot_store_is_ours(void *arg, const struct slot_row *row)
{
	struct slot_store_checked *checked = arg;

	for (size_t i = 0; i < checked->n; i++)
		if (row->job == checked->rows[i].id && row->number == checked->rows[i].slot.number &&
		    strcmp(row->lease, checked->rows[i].lease) == 0 && strcmp(row->key, checked->rows[i].slot.key) == 0)
			checked->ours[i] = true;
}

enum db_class slot_store_check(struct db *db, const struct slot_held *rows, size_t n, bool *ours, struct fault *f)
{
	struct slot_store_checked checked = {.rows = rows, .n = n, .ours = ours};
	struct buf sql;
	size_t count;

	memset(ours, 0, n * sizeof(*ours));
	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_check(db, &sql, rows, n);
	return slot_store_each(db, &sql, slot_store_is_ours, &checked, &count, f);
}

void slot_store_add_renew(struct db *db, struct buf *sql, const struct slot_held *rows, size_t n)
{
	buf_adds(sql, "UPDATE job_slots FORCE INDEX (PRIMARY) SET locked_at=UTC_TIMESTAMP(6) WHERE ");
	slot_store_add_places(db, sql, rows, n, true);
}

enum db_class slot_store_renew(struct db *db, const struct slot_held *rows, size_t n, uint64_t *matched, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_renew(db, &sql, rows, n);
	return store_exec(db, &sql, matched, f);
}

void slot_store_add_free(struct db *db, struct buf *sql, const struct slot_held *rows, size_t n)
{
	buf_adds(sql, "UPDATE job_slots FORCE INDEX (PRIMARY) SET " SLOT_STORE_FREE " WHERE ");
	slot_store_add_places(db, sql, rows, n, true);
}

enum db_class slot_store_free(struct db *db, const struct slot_held *rows, size_t n, uint64_t *freed, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_free(db, &sql, rows, n);
	return store_exec(db, &sql, freed, f);
}

void slot_store_add_find(struct db *db, struct buf *sql, uint64_t id, const char *lease)
{
	db_sqlf(db, sql,
		SLOT_STORE_SELECT "concurrency_key=(SELECT " SLOT_STORE_KEY " FROM jobs FORCE INDEX (PRIMARY) WHERE id=%u)"
				  " AND job_id=%u AND lease_id=%s",
		id, id, lease);
}

static void slot_store_found(void *arg, const struct slot_row *row)
{
	struct job_slot *slot = arg;

	memcpy(slot->key, row->key, sizeof(slot->key));
	slot->number = row->number;
}

enum db_class slot_store_find(struct db *db, uint64_t id, const char *lease, struct job_slot *slot, struct fault *f)
{
	struct buf sql;
	size_t count;

	*slot = (struct job_slot){.key = ""};
	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_find(db, &sql, id, lease);
	return slot_store_each(db, &sql, slot_store_found, slot, &count, f);
}

enum db_class slot_store_free_lapsed(struct db *db, const struct slot_row *row, bool *freed, struct fault *f)
{
	uint64_t matched = 0;
	enum db_class c;

	c = db_execf(db, &matched, f,
		     "UPDATE job_slots FORCE INDEX (PRIMARY) SET " SLOT_STORE_FREE
		     " WHERE concurrency_key=%s AND slot=%u AND lease_id=%s AND locked_at <=> %s",
		     row->key, (uint64_t)row->number, row->lease, row->locked_at[0] != '\0' ? row->locked_at : NULL);
	*freed = c == DB_OK && matched == 1;
	return c;
}

/* ---- Waiters ----------------------------------------------------------------------------------------------------------------- */

/* One step of the index for each key, however many wait for it. */
void slot_store_add_waiting(struct db *db, struct buf *sql, const char *after)
{
	db_sqlf(db, sql, "SELECT slot_wait, MIN(id) FROM jobs FORCE INDEX (slot_wait) WHERE slot_wait > %s GROUP BY slot_wait"
		" ORDER BY slot_wait LIMIT %u",
		after, (uint64_t)SLOT_STORE_KEYS);
}

enum db_class slot_store_waiting(struct db *db, const char *after, struct slot_waiter *out, size_t *count, struct fault *f)
{
	struct db_rows *rows;
	enum db_class c;
	struct buf sql;

	*count = 0;
	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_waiting(db, &sql, after);
	c = store_query(db, &sql, &rows, f);
	while (c == DB_OK && *count < SLOT_STORE_KEYS && db_rows_next(rows)) {
		slot_store_copy_key(rows, 0, out[*count].key);
		out[(*count)++].id = db_u64(rows, 1);
	}
	db_rows_free(rows);
	return c;
}

void slot_store_add_oldest(struct db *db, struct buf *sql, const char *key, size_t most)
{
	db_sqlf(db, sql, "SELECT id, kind FROM jobs FORCE INDEX (slot_wait) WHERE slot_wait=%s ORDER BY id LIMIT %u", key,
		(uint64_t)most);
}

enum db_class slot_store_oldest(struct db *db, const char *key, size_t most, uint64_t *ids, size_t *count, char *kind, size_t size,
				struct fault *f)
{
	struct db_rows *rows;
	enum db_class c;
	struct buf sql;

	*count = 0;
	kind[0] = '\0';
	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_oldest(db, &sql, key, most);
	c = store_query(db, &sql, &rows, f);
	while (c == DB_OK && *count < most && db_rows_next(rows)) {
		if (*count == 0)
			db_copy(rows, 1, kind, size);
		ids[(*count)++] = db_u64(rows, 0);
	}
	db_rows_free(rows);
	return c;
}

/* While it waited its run_at was lost. When it was made, or last given back to its queue, says as well who comes first. */
void slot_store_add_promote(struct db *db, struct buf *sql, const char *key, const uint64_t *ids, size_t n)
{
	buf_adds(sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET state='ready', slot_wait=NULL,"
		      " run_at=LEAST(COALESCE(requeued_at, created_at), UTC_TIMESTAMP(6)) WHERE id IN ");
	store_add_id_list(sql, ids, n);
	db_sqlf(db, sql, " AND state='scheduled' AND slot_wait=%s", key);
}

enum db_class slot_store_promote(struct db *db, const char *key, const uint64_t *ids, size_t n, uint64_t *promoted, struct fault *f)
{
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	slot_store_add_promote(db, &sql, key, ids, n);
	return store_exec(db, &sql, promoted, f);
}
