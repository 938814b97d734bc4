/* check_plan.c - see check_plan.h. */
#include "store/check_plan.h"

#include "base/parse.h"
#include "store/claim_store.h"
#include "store/lease_store.h"
#include "store/promote_store.h"
#include "store/recover_store.h"
#include "store/settle_shape.h"
#include "store/step_store.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Examples to fill statements with. Two rows, because one alone is planned like no batch is. No job has these ids in practice,
 * and nothing is executed. */
#define CHECK_LEASE "00000000-0000-4000-8000-000000000000"
#define CHECK_TIME "2026-01-01 00:00:00.000000"
#define CHECK_MARGIN_US 1000000

static const uint64_t check_ids[] = {1, 2};
static const struct store_held check_held[] = {{1, CHECK_LEASE}, {2, CHECK_LEASE}};
#define CHECK_ROWS 2

/* ---- The statements
 * ------------------------------------------------------------------------------------------------------------- */

static void check_add_scan(struct db *db, struct buf *sql)
{
	static const struct scan_cursor head;

	claim_store_add_scan(db, sql, "default", &head, 100);
}

static void check_add_scan_on(struct db *db, struct buf *sql)
{
	static const struct scan_cursor cursor = {.set = true, .run_at = CHECK_TIME, .id = 1};

	claim_store_add_scan(db, sql, "default", &cursor, 100);
}

static void check_add_take(struct db *db, struct buf *sql)
{
	claim_store_add_take(db, sql, check_ids, CHECK_ROWS, CHECK_LEASE, 60000, "check");
}

static void check_add_read_back(struct db *db, struct buf *sql)
{
	claim_store_add_read(db, sql, check_ids, CHECK_ROWS, CHECK_LEASE);
}

static void check_add_renew(struct db *db, struct buf *sql)
{
	lease_store_add_renew(db, sql, check_held, CHECK_ROWS);
}

static void check_add_renewed(struct db *db, struct buf *sql)
{
	(void)db;
	lease_store_add_read(sql, check_held, CHECK_ROWS);
}

static void check_add_settle(struct db *db, struct buf *sql)
{
	settle_shape_add_bare(db, sql, check_held, CHECK_ROWS);
}

/* The shape that touches most columns. */
static void check_add_settle_one(struct db *db, struct buf *sql)
{
	struct settlement s = {.id = 1, .lease = CHECK_LEASE, .action = SETTLE_RETRY, .has_result = true};

	buf_init(&s.result, 1);
	buf_init(&s.error, 16);
	buf_adds(&s.error, "check");
	settle_shape_add(db, sql, &s);
	buf_free(&s.error);
}

static void check_add_dead(struct db *db, struct buf *sql)
{
	struct settlement s = {.id = 1, .lease = CHECK_LEASE, .action = SETTLE_DEAD, .has_result = true};

	buf_init(&s.result, 1);
	buf_init(&s.error, 1);
	settle_shape_add(db, sql, &s);
}

static void check_add_lapsed(struct db *db, struct buf *sql)
{
	recover_store_add_scan(db, sql, CHECK_MARGIN_US);
}

static void check_add_running(struct db *db, struct buf *sql)
{
	static const struct recover_row after = {.id = 1, .queue = "default", .run_at = CHECK_TIME};

	recover_store_add_running(db, sql, CHECK_MARGIN_US, &after);
}

static void check_add_recover(struct db *db, struct buf *sql)
{
	static const struct recover_row row = {.id = 1, .lease = CHECK_LEASE, .locked_at = CHECK_TIME};

	recover_store_add_take(db, sql, &row, RECOVER_SCHEDULED, 1000, "check");
}

static void check_add_due(struct db *db, struct buf *sql)
{
	promote_store_add_due(db, sql);
}

static void check_add_ended(struct db *db, struct buf *sql)
{
	promote_store_add_ended(db, sql);
}

static void check_add_release(struct db *db, struct buf *sql)
{
	(void)db;
	promote_store_add_release(sql, check_ids, CHECK_ROWS);
}

static void check_add_wake(struct db *db, struct buf *sql)
{
	static const struct promote_parked rows[] = {{1, 1}, {2, 1}};

	promote_store_add_wake(db, sql, rows, CHECK_ROWS);
}

static void check_add_promote(struct db *db, struct buf *sql)
{
	(void)db;
	promote_store_add_write(sql, check_ids, CHECK_ROWS);
}

/* Of no job: the server looks a single row up while it plans, and here it would lock it. */
static void check_add_step(struct db *db, struct buf *sql)
{
	static const struct step_row row = {.id = 0, .lease = CHECK_LEASE, .name = "check", .data = "{}", .data_len = 2};

	step_store_add_save(db, sql, &row);
}

static void check_add_steps(struct db *db, struct buf *sql)
{
	static struct job first = {.id = 1}, second = {.id = 2};
	static struct job *const jobs[] = {&first, &second};

	step_store_add_read(db, sql, jobs, CHECK_ROWS);
}

static const struct check_statement check_statements[] = {
	{"the scan for work", check_add_scan, "claim", true, NULL},
	{"the scan for work after a cursor", check_add_scan_on, "claim", true, NULL},
	{"the claim", check_add_take, "PRIMARY", false, NULL},
	{"the claim's read-back", check_add_read_back, "PRIMARY", false, NULL},
	{"the renewal", check_add_renew, "PRIMARY", false, NULL},
	{"the renewal's read-back", check_add_renewed, "PRIMARY", false, NULL},
	{"the settling of successes", check_add_settle, "PRIMARY", false, NULL},
	{"the settling of a retry", check_add_settle_one, "PRIMARY", false, NULL},
	{"the settling of a dead job", check_add_dead, "PRIMARY", false, NULL},
	{"the scan for lapsed leases", check_add_lapsed, "claim", false, NULL},
	{"the scan of running jobs", check_add_running, "claim", false, NULL},
	{"the recovery of a job", check_add_recover, "PRIMARY", false, NULL},
	{"the scan for due jobs", check_add_due, "promote", true, NULL},
	{"the promotion", check_add_promote, "PRIMARY", false, NULL},
	{"the waking of parked jobs", check_add_wake, "PRIMARY", false, NULL},
	{"the scan for ended holds", check_add_ended, "unique_hold", true, NULL},
	{"the end of holds", check_add_release, "PRIMARY", false, NULL},
	{"the saving of a step", check_add_step, "PRIMARY", false, NULL},
	{"the reading of steps", check_add_steps, "PRIMARY", false, "job_steps"},
};
#define CHECK_STATEMENTS (sizeof(check_statements) / sizeof(check_statements[0]))

/* ---- Plans
 * ---------------------------------------------------------------------------------------------------------------------- */

/* Of an index with so few entries a server may well choose to read all: on an empty table MySQL does. */
#define CHECK_SMALL 1000

struct check_explained {
	const char *table, *type, *key, *extra;
	uint64_t rows;
};

static const char *check_explain_value(const struct db_rows *rows, const char *name)
{
	for (unsigned int i = 0; i < db_rows_columns(rows); i++) {
		if (strcasecmp(db_column_name(rows, i), name) == 0) {
			const char *text = db_text(rows, i, NULL);

			return text == NULL ? "" : text;
		}
	}
	return "";
}

/* What is wrong with the plan's current line, or NULL. A line without a table says that nothing needs to be read. */
static const char *check_explain_fault(const struct check_statement *s, const struct db_rows *rows, char *out, size_t size)
{
	struct check_explained e = {check_explain_value(rows, "table"), check_explain_value(rows, "type"),
				    check_explain_value(rows, "key"), check_explain_value(rows, "Extra"), 0};

	if (parse_u64(check_explain_value(rows, "rows"), 0, UINT64_MAX, &e.rows, NULL) != LH_OK)
		e.rows = UINT64_MAX;
	if (strcmp(e.table, s->table != NULL ? s->table : "jobs") != 0)
		return NULL;
	if (strcmp(e.key, s->index) != 0)
		snprintf(out, size, "uses %s%s instead of the index %s", e.key[0] == '\0' ? "no index" : "the index ", e.key,
			 s->index);
	else if (strcasecmp(e.type, "ALL") == 0 || (strcasecmp(e.type, "index") == 0 && e.rows > CHECK_SMALL))
		snprintf(out, size, "reads all of the index %s", s->index);
	else if (strstr(e.extra, "filesort") != NULL || strstr(e.extra, "temporary") != NULL)
		snprintf(out, size, "sorts (%s)", e.extra);
	else if (s->covering && strstr(e.extra, "Using index") == NULL)
		snprintf(out, size, "reads rows besides the index %s (%s)", s->index, e.extra);
	else
		return NULL;
	return out;
}

enum db_class check_plan_of(struct check *c, const struct check_statement *s, unsigned int *good, enum db_class *class)
{
	const char *table = s->table != NULL ? s->table : "jobs", *wrong = NULL;
	char text[256];
	struct db_rows *rows = NULL;
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	buf_adds(&sql, "EXPLAIN FORMAT=TRADITIONAL ");
	s->add(c->db, &sql);
	*class = db_query(c->db, &sql, &rows, c->fault);
	while (*class == DB_OK && wrong == NULL && db_rows_next(rows))
		wrong = check_explain_fault(s, rows, text, sizeof(text));
	if (wrong != NULL)
		check_fail(c, "plan", "%s %s: run ANALYZE TABLE %s, and compare the indexes with migrations/0001_jobs.sql", s->name,
			   wrong, table);
	else if (*class == DB_OK)
		(*good)++;
	db_rows_free(rows);
	buf_free(&sql);
	return *class == DB_DENIED || *class == DB_SCHEMA ? DB_OK : *class;
}

static enum db_class check_one_plan(struct check *c, const struct check_statement *s, unsigned int *good)
{
	enum db_class class, result = check_plan_of(c, s, good, &class);

	if (class == DB_DENIED)
		check_fail(c, "grants",
			   "%s is not permitted: %s; grant this account the role leasehold_worker (migrations/grants.sql)", s->name,
			   c->fault->text);
	else if (class == DB_SCHEMA)
		check_fail(c, "plan", "%s does not fit the schema: %s", s->name, c->fault->text);
	return result;
}

/* ---- Privileges
 * ----------------------------------------------------------------------------------------------------------------- */

struct check_privilege {
	const char *name;
	const char *sql;
	bool needed; /* by the daemon itself; else by a command that uses the same account */
};

/* What no statement above has proved. */
static const struct check_privilege check_privileges[] = {
	{"to write the ledger",
	 "INSERT INTO job_attempts (job_id, claim_no, outcome, attempt, lease_id, worker, started_at, finished_at, exit_code, "
	 "`signal`, cause, "
	 "max_rss_kb, cpu_ms) VALUES (0, 0, '', 0, NULL, NULL, NULL, UTC_TIMESTAMP(6), NULL, NULL, NULL, NULL, NULL)",
	 true},
	{"to read the ledger", "SELECT 1 FROM job_attempts WHERE job_id=0", true},
	{"to announce an instance",
	 "INSERT INTO job_workers (worker, name, host, pid, version, lease_ms, threads, running, queues, status) "
	 "VALUES ('', '', '', 0, '', 0, 0, 0, '', '')",
	 true},
	{"to refresh an instance's row", "UPDATE job_workers SET seen_at=UTC_TIMESTAMP(6), running=0, status='' WHERE worker=''",
	 true},
	{"to remove an instance's row", "DELETE FROM job_workers WHERE worker=''", true},
	{"to save progress", "UPDATE jobs FORCE INDEX (PRIMARY) SET progress=0, progress_note='' WHERE id=0", true},
	{"to lock rows", "SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE id IN (1, 2) FOR UPDATE", true},
	{"for 'leasehold cancel' and 'retry'",
	 "UPDATE jobs FORCE INDEX (PRIMARY) SET cancel_requested_at=NULL, slot_wait=NULL, max_attempts=1, result=NULL WHERE id=0",
	 false},
	{"for 'leasehold enqueue'",
	 "INSERT INTO jobs (kind, queue, payload, priority, run_at, unique_key, unique_hold_until, max_attempts, timeout_ms, "
	 "traceparent, enqueued_by) "
	 "VALUES ('', '', '', 0, UTC_TIMESTAMP(6), NULL, NULL, NULL, NULL, NULL, NULL)",
	 false},
	{"for 'leasehold pause'", "INSERT INTO job_queues (queue, paused_at, paused_by) VALUES ('', NULL, NULL)", false},
	{"for 'leasehold resume'", "UPDATE job_queues SET paused_at=NULL, paused_by=NULL WHERE queue=''", false},
};
#define CHECK_PRIVILEGES (sizeof(check_privileges) / sizeof(check_privileges[0]))

static enum db_class check_explain(struct check *c, const char *sql)
{
	struct db_rows *rows = NULL;
	enum db_class class = db_queryf(c->db, &rows, c->fault, "EXPLAIN %r", sql);

	db_rows_free(rows);
	return class;
}

static enum db_class check_one_privilege(struct check *c, const struct check_privilege *p, unsigned int *good)
{
	enum db_class class = check_explain(c, p->sql);

	if (class == DB_DENIED && p->needed)
		check_fail(c, "grants",
			   "not permitted %s: %s; grant this account the role leasehold_worker (migrations/grants.sql)", p->name,
			   c->fault->text);
	else if (class == DB_DENIED)
		check_warn(c, "grants", "not permitted %s: %s", p->name, c->fault->text);
	else if (class == DB_SCHEMA)
		check_fail(c, "schema", "%s", c->fault->text);
	else if (class == DB_OK)
		(*good)++;
	return class == DB_DENIED || class == DB_SCHEMA ? DB_OK : class;
}

enum db_class check_plan_statements(struct check *c)
{
	unsigned int plans = 0, privileges = 0;
	enum db_class class = DB_OK;

	for (size_t i = 0; i < CHECK_STATEMENTS && class == DB_OK; i++)
		class = check_one_plan(c, &check_statements[i], &plans);
	for (size_t i = 0; i < CHECK_PRIVILEGES && class == DB_OK; i++) {
		/* What commands need is no news to a daemon. */
		if (check_privileges[i].needed || c->least == CHECK_OK)
			class = check_one_privilege(c, &check_privileges[i], &privileges);
	}
	if (class == DB_OK && plans == CHECK_STATEMENTS)
		check_ok(c, "plan", "all %u statements use the index that they are made for, and none sorts", plans);
	if (class == DB_OK && privileges == CHECK_PRIVILEGES && plans == CHECK_STATEMENTS)
		check_ok(c, "grants", "all %u privileges are there", plans + privileges);
	return class;
}

/* Each is refused to an account that has the role leasehold_worker and no more. */
static const struct check_privilege check_unwanted[] = {
	{"delete jobs", "DELETE FROM jobs WHERE id=0", false},
	{"change payloads", "UPDATE jobs SET payload='' WHERE id=0", false},
	{"change the ledger", "UPDATE job_attempts SET outcome='' WHERE job_id=0", false},
	{"delete saved steps", "DELETE FROM job_steps WHERE job_id=0", false},
	{"change the record of migrations", "UPDATE leasehold_schema SET version=0 WHERE version=0", false},
};

static enum db_class check_unwanted_writes(struct check *c, bool *any)
{
	char text[256] = "";
	enum db_class class = DB_OK;

	for (size_t i = 0; i < sizeof(check_unwanted) / sizeof(check_unwanted[0]); i++) {
		size_t len = strlen(text);

		class = check_explain(c, check_unwanted[i].sql);
		if (class == DB_OK)
			snprintf(text + len, sizeof(text) - len, "%s%s", len == 0 ? "" : ", ", check_unwanted[i].name);
		else if (class != DB_DENIED)
			return class;
	}
	*any = text[0] != '\0';
	if (*any)
		check_warn(c, "grants", "this account may also %s: a daemon needs the role leasehold_worker only", text);
	return DB_OK;
}

/* A grant on everything, such as "GRANT SUPER, FILE ON *.* TO ...", but for what the daemon can make use of. */
static bool check_is_excessive(const char *grant)
{
	static const char *const harmful[] = {"ALL PRIVILEGES", "SUPER",  "FILE",   "DROP",   "ALTER",
					      "CREATE",         "DELETE", "UPDATE", "INSERT", "SHUTDOWN"};
	const char *on = strstr(grant, " ON *.* ");

	for (size_t i = 0; on != NULL && i < sizeof(harmful) / sizeof(harmful[0]); i++) {
		const char *at = strstr(grant, harmful[i]);

		if (at != NULL && at < on)
			return true;
	}
	return false;
}

enum db_class check_plan_excess(struct check *c)
{
	struct db_rows *rows = NULL;
	bool writes = false, global = false;
	enum db_class class = check_unwanted_writes(c, &writes);

	if (class == DB_OK)
		class = db_queryf(c->db, &rows, c->fault, "SHOW GRANTS");
	while (class == DB_OK && db_rows_next(rows))
		global = global || check_is_excessive(db_text(rows, 0, NULL));
	db_rows_free(rows);
	if (class == DB_OK && global)
		check_warn(c, "grants", "this account has privileges on all databases of the server: use an account of its own");
	if (class == DB_OK && !global && !writes)
		check_ok(c, "grants", "none too many");
	return class;
}
