/* enqueue_store.c - see enqueue_store.h. */
#include "store/enqueue_store.h"

static void enqueue_store_add_text(struct db *db, struct buf *columns, struct buf *values, const char *column, const char *value)
{
	if (value == NULL)
		return;
	buf_addf(columns, ", %s", column);
	db_sqlf(db, values, ", %s", value);
}

static void enqueue_store_add_number(struct db *db, struct buf *columns, struct buf *values, const char *column, int64_t value)
{
	buf_addf(columns, ", %s", column);
	db_sqlf(db, values, ", %d", value);
}

static void enqueue_store_add_values(struct db *db, const struct enqueue_request *r, struct buf *columns, struct buf *values)
{
	enqueue_store_add_text(db, columns, values, "queue", r->queue);
	if (r->payload != NULL) {
		buf_adds(columns, ", payload");
		db_sqlf(db, values, ", %b", r->payload, r->payload_len);
	}
	if (r->has_priority)
		enqueue_store_add_number(db, columns, values, "priority", r->priority);
	if (r->delay_ms >= 0) {
		buf_adds(columns, ", run_at");
		db_sqlf(db, values, ", UTC_TIMESTAMP(6) + INTERVAL %d MICROSECOND", (int64_t)(r->delay_ms * 1000));
	} else {
		enqueue_store_add_text(db, columns, values, "run_at", r->at);
	}
	enqueue_store_add_text(db, columns, values, "unique_key", r->unique_key);
	if (r->hold_ms >= 0) {
		buf_adds(columns, ", unique_hold_until");
		db_sqlf(db, values, ", UTC_TIMESTAMP(6) + INTERVAL %d MICROSECOND", (int64_t)(r->hold_ms * 1000));
	}
	if (r->max_attempts != 0)
		enqueue_store_add_number(db, columns, values, "max_attempts", (int64_t)r->max_attempts);
	if (r->timeout_ms >= 0)
		enqueue_store_add_number(db, columns, values, "timeout_ms", r->timeout_ms);
	enqueue_store_add_text(db, columns, values, "traceparent", r->traceparent);
	enqueue_store_add_text(db, columns, values, "enqueued_by", r->enqueued_by);
}

enum db_class enqueue_store_insert(struct db *db, const struct enqueue_request *r, uint64_t *id, struct fault *f)
{
	struct buf sql, values;
	enum db_class class;

	*id = 0;
	buf_init(&sql, STORE_SQL_MAX);
	buf_init(&values, STORE_SQL_MAX);
	buf_adds(&sql, "INSERT INTO jobs (kind");
	db_sqlf(db, &values, ") VALUES (%s", r->kind);
	enqueue_store_add_values(db, r, &sql, &values);
	if (!buf_ok(&values))
		sql.bad = true;
	buf_add(&sql, values.data, values.len);
	buf_addc(&sql, ')');
	class = db_exec(db, &sql, NULL, f);
	if (class == DB_OK)
		*id = db_last_insert_id(db);
	buf_free(&values);
	buf_free(&sql);
	return class;
}

enum db_class enqueue_store_holder(struct db *db, const char *kind, const char *unique_key, struct enqueue_holder *out,
				   struct fault *f)
{
	struct db_rows *rows = NULL;
	enum db_class class = db_queryf(db, &rows, f,
					"SELECT id, state, unique_hold_until FROM jobs FORCE INDEX (active_key) WHERE kind=%s AND "
					"active_key=%s",
					kind, unique_key);

	out->id = 0;
	if (class == DB_OK && db_rows_next(rows) && job_state_parse(db_text(rows, 1, NULL), &out->state)) {
		out->id = db_u64(rows, 0);
		db_copy(rows, 2, out->hold_until, sizeof(out->hold_until));
	}
	db_rows_free(rows);
	return class;
}
