/* ledger_store.c - see ledger_store.h. */
#include "store/ledger_store.h"

#include "base/utf8.h"

#include <string.h>

/* VARCHAR(512), in bytes: whatever the characters are, this many fit. */
#define LEDGER_STORE_CAUSE_MAX 512

static void ledger_store_add_number(struct db *db, struct buf *sql, int64_t value)
{
	if (value < 0)
		buf_adds(sql, ", NULL");
	else
		db_sqlf(db, sql, ", %d", value);
}

static void ledger_store_add_row(struct db *db, struct buf *sql, const struct ledger_row *r)
{
	db_sqlf(db, sql, "(%u, %u, %s, %u, %s, %s, UTC_TIMESTAMP(6), ", r->job_id, (uint64_t)r->claim_no, r->outcome,
		(uint64_t)r->attempt, r->lease, r->worker);
	if (r->cause == NULL)
		buf_adds(sql, "NULL, ");
	else
		db_sqlf(db, sql, "%b, ", r->cause, utf8_cut(r->cause, strnlen(r->cause, LEDGER_STORE_CAUSE_MAX)));
	if (r->started_at == NULL && r->ran_ms >= 0)
		db_sqlf(db, sql, "UTC_TIMESTAMP(6) - INTERVAL %d * 1000 MICROSECOND", r->ran_ms);
	else
		db_sqlf(db, sql, "%s", r->started_at);
	ledger_store_add_number(db, sql, r->exit_code);
	ledger_store_add_number(db, sql, r->signal);
	ledger_store_add_number(db, sql, r->max_rss_kb);
	ledger_store_add_number(db, sql, r->cpu_ms);
	buf_addc(sql, ')');
}

static enum db_class ledger_store_insert(struct db *db, const struct ledger_row *rows, size_t n, struct fault *f)
{
	struct buf sql;
	size_t i;

	buf_init(&sql, STORE_SQL_MAX);
	buf_adds(&sql, "INSERT INTO job_attempts (job_id, claim_no, outcome, attempt, lease_id, worker, finished_at, cause,"
		       " started_at, exit_code, `signal`, max_rss_kb, cpu_ms) VALUES ");
	for (i = 0; i < n; i++) {
		if (i > 0)
			buf_addc(&sql, ',');
		ledger_store_add_row(db, &sql, &rows[i]);
	}
	return store_exec(db, &sql, NULL, f);
}

/* ON DUPLICATE KEY UPDATE would do in one statement what this does in two, but asks MariaDB for the privilege to change every
 * column of the ledger. A duplicate undoes the statement alone, not the transaction. */
enum db_class ledger_store_add(struct db *db, const struct ledger_row *rows, size_t n, struct fault *f)
{
	enum db_class c;
	size_t i;

	if (n == 0)
		return DB_OK;
	c = ledger_store_insert(db, rows, n, f);
	if (c != DB_DUPLICATE)
		return c;
	for (i = 0; i < n; i++) {
		c = ledger_store_insert(db, &rows[i], 1, f);
		if (c != DB_OK && c != DB_DUPLICATE)
			return c;
	}
	return DB_OK;
}

enum db_class ledger_store_has(struct db *db, uint64_t job_id, uint32_t claim_no, const char *outcome, const char *lease, bool *has,
			       struct fault *f)
{
	struct db_rows *rows;
	enum db_class c =
		db_queryf(db, &rows, f, "SELECT 1 FROM job_attempts WHERE job_id=%u AND claim_no=%u AND outcome=%s AND lease_id=%s",
			  job_id, (uint64_t)claim_no, outcome, lease);

	*has = c == DB_OK && db_rows_count(rows) > 0;
	db_rows_free(rows);
	return c;
}
