/* instance_store.c - see instance_store.h. */
#include "store/instance_store.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* VARCHAR(1024), in bytes: whatever the characters are, this many fit. */
#define INSTANCE_STORE_QUEUES_MAX 1024

const struct instance_migration instance_store_needed[] = {
	{ 1, "0001_jobs.sql" },
	{ 3, "0003_steps.sql" },
	{ 4, "0004_unique_hold.sql" },
};
const size_t instance_store_needed_count = sizeof(instance_store_needed) / sizeof(instance_store_needed[0]);

unsigned int instance_store_schema_version(void)
{
	return instance_store_needed[instance_store_needed_count - 1].version;
}

/* What a database says of itself. */
struct instance_schema {
	unsigned int newest, compatible_from;
	bool has[sizeof(instance_store_needed) / sizeof(instance_store_needed[0])];
};

static enum db_class instance_store_judge(const struct instance_schema *s, struct fault *f)
{
	char missing[256] = "";
	size_t len = 0;

	if (s->compatible_from > instance_store_schema_version()) {
		(void)fault_set(f, LH_ERR_INPUT,
				"the database has schema version %u, which serves versions from %u on, and this leasehold was made "
				"for %u: install a newer leasehold",
				s->newest, s->compatible_from, instance_store_schema_version());
		return DB_SCHEMA;
	}
	for (size_t i = 0; i < instance_store_needed_count; i++)
		if (!s->has[i] && len < sizeof(missing))
			len += (size_t)snprintf(missing + len, sizeof(missing) - len, "%smigrations/%s", len > 0 ? ", " : "",
						instance_store_needed[i].file);
	if (len == 0)
		return DB_OK;
	(void)fault_set(f, LH_ERR_INPUT, "the schema of the database is not complete for this leasehold (%u): apply %s",
			instance_store_schema_version(), missing);
	return DB_SCHEMA;
}

static void instance_store_note(struct instance_schema *s, unsigned int version, unsigned int compatible_from)
{
	if (version > s->newest)
		s->newest = version;
	if (compatible_from > s->compatible_from)
		s->compatible_from = compatible_from;
	for (size_t i = 0; i < instance_store_needed_count; i++)
		s->has[i] = s->has[i] || instance_store_needed[i].version == version;
}

enum db_class instance_store_check_schema(struct db *db, unsigned int *version, struct fault *f)
{
	struct instance_schema schema = { .newest = 0 };
	struct db_rows *rows;
	struct fault mine;
	enum db_class c = db_queryf(db, &rows, &mine, "SELECT version, compatible_from FROM leasehold_schema");

	while (c == DB_OK && db_rows_next(rows))
		instance_store_note(&schema, (unsigned int)db_u64(rows, 0), (unsigned int)db_u64(rows, 1));
	if (c == DB_OK) {
		c = instance_store_judge(&schema, f);
	} else if (f != NULL) {
		*f = mine;
		if (c == DB_SCHEMA)
			fault_prefix(f, "this database is not set up for leasehold: apply migrations/%s",
				     instance_store_needed[0].file);
	}
	db_rows_free(rows);
	if (version != NULL)
		*version = schema.newest;
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
