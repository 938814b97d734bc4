/* instance_store.c - see instance_store.h. */
#include "store/instance_store.h"

#include "base/utf8.h"

#include <string.h>

/* VARCHAR(1024), in bytes: whatever the characters are, this many fit. */
#define INSTANCE_STORE_QUEUES_MAX 1024

/* By the schema version that each makes. */
static const char *const instance_store_migrations[] = {"", "0001_jobs.sql"};

static enum db_class instance_store_judge(unsigned int version, unsigned int compatible_from, struct fault *f)
{
	if (version < STORE_SCHEMA_VERSION) {
		(void)fault_set(f, LH_ERR_INPUT, "the database has schema version %u, this leasehold needs %u: apply migrations/%s",
				version, STORE_SCHEMA_VERSION, instance_store_migrations[version + 1]);
		return DB_SCHEMA;
	}
	if (compatible_from > STORE_SCHEMA_VERSION) {
		(void)fault_set(f, LH_ERR_INPUT,
				"the database has schema version %u, which serves versions from %u on, and this leasehold was made "
				"for %u: install a newer leasehold",
				version, compatible_from, STORE_SCHEMA_VERSION);
		return DB_SCHEMA;
	}
	return DB_OK;
}

enum db_class instance_store_check_schema(struct db *db, unsigned int *version, struct fault *f)
{
	unsigned int found = 0, compatible_from = 0;
	struct db_rows *rows;
	struct fault mine;
	enum db_class c =
		db_queryf(db, &rows, &mine, "SELECT version, compatible_from FROM leasehold_schema ORDER BY version DESC LIMIT 1");

	if (c == DB_OK) {
		if (db_rows_next(rows)) {
			found = (unsigned int)db_u64(rows, 0);
			compatible_from = (unsigned int)db_u64(rows, 1);
		}
		c = instance_store_judge(found, compatible_from, f);
	} else if (f != NULL) {
		*f = mine;
		if (c == DB_SCHEMA)
			fault_prefix(f, "this database is not set up for leasehold: apply migrations/%s",
				     instance_store_migrations[1]);
	}
	db_rows_free(rows);
	if (version != NULL)
		*version = found;
	return c;
}

enum db_class instance_store_beat(struct db *db, const struct instance_row *row, struct fault *f)
{
	size_t queues_len = utf8_cut(row->queues, strnlen(row->queues, INSTANCE_STORE_QUEUES_MAX));
	uint64_t matched;
	enum db_class c;

	c = db_execf(db, &matched, f,
		     "UPDATE job_workers SET name=%s, host=%s, pid=%u, version=%s, lease_ms=%u, threads=%u, running=%u, queues=%b,"
		     " status=%s, seen_at=UTC_TIMESTAMP(6) WHERE worker=%s",
		     row->name, row->host, row->pid, row->version, (uint64_t)row->lease_ms, row->threads, row->running, row->queues,
		     queues_len, row->status, row->worker);
	if (c != DB_OK || matched > 0)
		return c;
	c = db_execf(db, NULL, f,
		     "INSERT INTO job_workers (worker, name, host, pid, version, lease_ms, threads, running, queues, status)"
		     " VALUES (%s, %s, %s, %u, %s, %u, %u, %u, %b, %s)",
		     row->worker, row->name, row->host, row->pid, row->version, (uint64_t)row->lease_ms, row->threads, row->running,
		     row->queues, queues_len, row->status);
	if (c != DB_OK)
		return c;
	return db_execf(db, NULL, f, "DELETE FROM job_workers WHERE seen_at < UTC_TIMESTAMP(6) - INTERVAL 1 DAY");
}

enum db_class instance_store_leave(struct db *db, const char *worker, struct fault *f)
{
	return db_execf(db, NULL, f, "DELETE FROM job_workers WHERE worker=%s", worker);
}

enum db_class instance_store_peers(struct db *db, uint32_t *min_lease_ms, uint64_t *instances, struct fault *f)
{
	struct db_rows *rows;
	enum db_class c = db_queryf(db, &rows, f, "SELECT MIN(lease_ms), COUNT(*) FROM job_workers"
						  " WHERE seen_at > UTC_TIMESTAMP(6) - INTERVAL lease_ms * 1000 MICROSECOND");

	*min_lease_ms = 0;
	*instances = 0;
	if (c == DB_OK && db_rows_next(rows)) {
		*min_lease_ms = (uint32_t)db_u64(rows, 0);
		*instances = db_u64(rows, 1);
	}
	db_rows_free(rows);
	return c;
}
