/* test_check.c - each thing that `leasehold check` looks for, found when it is wrong, and nothing else when all is well. */
#include "store_test.h"

#include "store/check_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char said[65536];

static void note(void *arg, enum check_level level, const char *subject, const char *text)
{
	static const char *const names[] = { "ok", "warn", "FAIL" };
	size_t len = strlen(said);

	(void)arg;
	snprintf(said + len, sizeof(said) - len, "%s %s: %s\n", names[level], subject, text);
}

static enum db_class check(struct db *db)
{
	said[0] = '\0';
	return check_store_run(db, note, NULL, &t.fault);
}

static enum db_class check_start(struct db *db)
{
	said[0] = '\0';
	return check_store_start(db, note, NULL, &t.fault);
}

#define assert_said(text) assert_string_equal(strstr(said, text) != NULL ? text : said, text)
#define assert_not_said(text) assert_string_equal(strstr(said, text) == NULL ? "" : said, "")

static void test_all_is_well(void **state)
{
	static const char *const subjects[] = { "server",    "schema",  "engine", "index",        "foreign key", "isolation",
						"time zone", "session", "packet", "wait_timeout", "binlog",      "writer",
						"route",     "plan",    "grants", "matched rows" };
	char line[64];

	(void)state;
	ok(check(t.db));
	assert_not_said("FAIL ");
	for (size_t i = 0; i < COUNT(subjects); i++) {
		snprintf(line, sizeof(line), "ok %s: ", subjects[i]);
		assert_said(line);
	}
	assert_string_equal(ask("SELECT COUNT(*) FROM job_workers"), "0");
	assert_string_equal(ask("SELECT COUNT(*) FROM jobs"), "0");
	assert_false(db_in_transaction(t.db));
}

/* What a daemon would be told at its start: nothing. */
static void test_a_start_is_silent(void **state)
{
	(void)state;
	ok(check_start(t.db));
	assert_string_equal(said, "");
}

/* Plans differ with what is in the table. */
static void test_plans_with_many_rows(void **state)
{
	(void)state;
	run("INSERT INTO jobs (kind, queue, priority, state, run_at) "
	    "WITH RECURSIVE digit AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM digit WHERE i < 89) "
	    "SELECT CONCAT('k', n %% 7), IF(n %% 3 = 0, 'default', 'other'), n %% 5, "
	    "ELT(1 + n %% 4, 'ready', 'succeeded', 'scheduled', 'running'), UTC_TIMESTAMP(6) + INTERVAL n SECOND "
	    "FROM (SELECT a.i * 90 + b.i AS n FROM digit a, digit b) numbers");
	ask("ANALYZE TABLE jobs");
	ok(check(t.db));
	assert_not_said("FAIL ");
	assert_said("ok plan: ");
}

static void test_index_that_is_missing_or_other(void **state)
{
	enum db_class class;

	(void)state;
	run("ALTER TABLE jobs DROP KEY claim");
	class = check(t.db);
	run("ALTER TABLE jobs ADD KEY claim (state, queue, priority, run_at, id)");
	assert_int_equal(class, DB_OK);
	assert_said("FAIL index: jobs has no index claim (state,queue,priority,run_at,id)");
	assert_said("FAIL plan: the scan for work does not fit the schema");
	/* By its name alone the index is the right one, and every plan uses it: only that it sorts gives it away. */
	run("ALTER TABLE jobs DROP KEY claim, ADD KEY claim (state, queue, run_at, priority, id)");
	class = check(t.db);
	ok(check_start(t.db));
	run("ALTER TABLE jobs DROP KEY claim, ADD KEY claim (state, queue, priority, run_at, id)");
	assert_int_equal(class, DB_OK);
	assert_said("FAIL plan: the scan for work sorts");
}

static void test_unique_key_that_is_not_unique(void **state)
{
	(void)state;
	run("ALTER TABLE jobs DROP KEY active_key, ADD KEY active_key (kind, active_key)");
	ok(check(t.db));
	run("ALTER TABLE jobs DROP KEY active_key, ADD UNIQUE KEY active_key (kind, active_key)");
	assert_said("FAIL index: jobs.active_key is (kind,active_key): it has to be unique (kind,active_key)");
}

static void test_steps_that_do_not_go_with_their_job(void **state)
{
	(void)state;
	run("ALTER TABLE job_steps DROP FOREIGN KEY job_steps_job, DROP PRIMARY KEY, ADD PRIMARY KEY (name, job_id)");
	ok(check(t.db));
	run("ALTER TABLE job_steps DROP PRIMARY KEY, ADD PRIMARY KEY (job_id, name), ADD CONSTRAINT job_steps_job FOREIGN KEY "
	    "(job_id) "
	    "REFERENCES jobs (id) ON DELETE CASCADE");
	assert_said("warn foreign key: saved steps do not go with their job: ALTER TABLE job_steps ADD CONSTRAINT");
	assert_said("FAIL index: job_steps.PRIMARY is unique (name,job_id)");
	assert_said("FAIL plan: the reading of steps uses no index instead of the index PRIMARY");
	ok(check(t.db));
	assert_said("ok foreign key");
	assert_not_said("FAIL");
}

static void test_table_of_steps_that_is_missing(void **state)
{
	enum db_class class;

	(void)state;
	run("RENAME TABLE job_steps TO away");
	class = check_start(t.db);
	run("RENAME TABLE away TO job_steps");
	assert_int_equal(class, DB_OK);
	assert_said("FAIL plan: the saving of a step does not fit the schema");
	assert_said("FAIL plan: the reading of steps does not fit the schema");
}

static void test_engine(void **state)
{
	(void)state;
	run("ALTER TABLE job_slots ENGINE=MyISAM");
	ok(check(t.db));
	run("ALTER TABLE job_slots ENGINE=InnoDB");
	assert_said("FAIL engine: table job_slots is stored by MyISAM");
	assert_not_said("ok engine");
}

static void test_schema_that_is_missing_or_too_new(void **state)
{
	enum db_class missing, newer;

	(void)state;
	run("RENAME TABLE leasehold_schema TO away");
	missing = check(t.db);
	run("RENAME TABLE away TO leasehold_schema");
	assert_int_equal(missing, DB_SCHEMA);
	assert_said("FAIL schema: ");
	run("INSERT INTO leasehold_schema (version, compatible_from) VALUES (9, 9)");
	newer = check(t.db);
	run("DELETE FROM leasehold_schema WHERE version=9");
	assert_int_equal(newer, DB_SCHEMA);
	assert_said("FAIL schema: the database has schema version 9");
}

/* ---- Accounts ---- */

static struct database_settings account_settings;

/* A new account with these grants (several, separated by ';' in SQL's words after GRANT), connected. */
static struct db *account(const char *const *grants, size_t n)
{
	struct db *db;

	run("DROP USER IF EXISTS lh_test_check@localhost");
	run("CREATE USER lh_test_check@localhost");
	for (size_t i = 0; i < n; i++)
		run("GRANT %r TO lh_test_check@localhost", grants[i]);
	db = store_test_new_db(&account_settings, "lh_test_check", 30000);
	account_settings.password = NULL;
	ok(db_open(db, &t.fault));
	return db;
}

static void end_account(struct db *db)
{
	db_free(db);
	free(account_settings.user);
	run("DROP USER lh_test_check@localhost");
}

/* As grants.sql gives them to leasehold_worker. */
static const char *const worker_grants[] = {
	"SELECT, UPDATE (state, run_at, attempt, max_attempts, claim_no, slot_wait, lease_id, locked_by, locked_at, lease_ms, "
	"reclaims, orphan_streak, "
	"cancel_requested_at, progress, progress_note, result, last_error, claimed_at, requeued_at, finished_at, "
	"unique_hold_until) ON jobs",
	"SELECT ON job_queues",
	"SELECT ON leasehold_schema",
	"SELECT, INSERT, UPDATE, DELETE ON job_workers",
	"SELECT, INSERT, UPDATE ON job_steps",
	"SELECT, INSERT ON job_attempts",
	("INSERT (queue, kind, priority, run_at, payload, max_attempts, timeout_ms, unique_key, unique_hold_until, traceparent, "
	 "enqueued_by) ON jobs"),
	"INSERT, UPDATE ON job_queues",
};

static void test_least_privileges_are_enough(void **state)
{
	struct db *db = account(worker_grants, COUNT(worker_grants));
	enum db_class class = check(db);

	(void)state;
	end_account(db);
	assert_int_equal(class, DB_OK);
	assert_not_said("FAIL ");
	assert_not_said("warn grants");
	assert_said("ok grants: none too many");
}

/* A command's privilege is a warning, and no news to a daemon; one that the daemon needs is a failure to both. */
static void test_missing_privileges(void **state)
{
	struct db *db = account(worker_grants, COUNT(worker_grants) - 2);
	enum db_class class = check(db), start;

	(void)state;
	assert_not_said("FAIL ");
	assert_said("warn grants: not permitted for 'leasehold pause'");
	assert_said("warn grants: not permitted for 'leasehold enqueue'");
	start = check_start(db);
	end_account(db);
	assert_int_equal(class, DB_OK);
	assert_int_equal(start, DB_OK);
	assert_not_said("grants");
	db = account(worker_grants, COUNT(worker_grants) - 3);
	start = check_start(db);
	end_account(db);
	assert_int_equal(start, DB_OK);
	assert_said("FAIL grants: not permitted to write the ledger");
	assert_not_said("step");
	db = account(worker_grants, COUNT(worker_grants) - 4);
	start = check_start(db);
	end_account(db);
	assert_int_equal(start, DB_OK);
	assert_said("FAIL grants: the saving of a step is not permitted");
	assert_said("FAIL grants: the reading of steps is not permitted");
}

static void test_missing_column_privilege(void **state)
{
	struct db *db = account(worker_grants, COUNT(worker_grants));
	enum db_class class;

	(void)state;
	run("REVOKE UPDATE (orphan_streak) ON jobs FROM lh_test_check@localhost");
	class = check(db);
	end_account(db);
	assert_int_equal(class, DB_OK);
	assert_said("FAIL grants: the settling of successes is not permitted: ");
	assert_not_said("FAIL grants: the claim is not permitted");
}

static void test_privileges_in_excess(void **state)
{
	struct db *db = account(worker_grants, COUNT(worker_grants));
	enum db_class class;

	(void)state;
	run("GRANT DELETE ON jobs TO lh_test_check@localhost");
	class = check(db);
	end_account(db);
	assert_int_equal(class, DB_OK);
	assert_said("warn grants: this account may also delete jobs");
	assert_not_said("FAIL ");
	assert_not_said("ok grants: none too many");
	ok(check(t.db)); /* the DBA's own */
	assert_said("warn grants: this account has privileges on all databases of the server");
}

/* ---- Server settings ---- */

/* What counts is whether this account may write: the DBA may, a worker may not. */
static void test_read_only_server(void **state)
{
	struct db *db = account(worker_grants, COUNT(worker_grants));
	enum db_class run_class, start_class, dba_class;

	(void)state;
	run("SET GLOBAL read_only=1");
	run_class = check(db);
	assert_said("FAIL writer: read_only is set");
	/* The failed write has closed it. As `check` connects: it wants to tell what is wrong, not to be refused. */
	account_settings.verify_writer = false;
	ok(db_open(db, &t.fault));
	start_class = check_start(db);
	dba_class = check(t.db);
	run("SET GLOBAL read_only=0");
	end_account(db);
	assert_int_equal(run_class, DB_READONLY);
	assert_int_equal(start_class, DB_READONLY);
	assert_int_equal(dba_class, DB_OK);
	assert_said("warn writer: read_only is set, though this account may write");
}

/* Something between us and the server that sets sessions back is seen at once. */
static void test_session_that_was_changed(void **state)
{
	(void)state;
	ok(db_execf(t.db, NULL, &t.fault, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"));
	ok(db_execf(t.db, NULL, &t.fault, "SET SESSION time_zone='+05:00', SESSION sql_mode=''"));
	ok(check(t.db));
	db_close(t.db);
	assert_said("FAIL isolation: REPEATABLE-READ");
	assert_said("FAIL time zone: the session is in +05:00");
	assert_said("FAIL session: ");
}

static void test_binlog_with_the_whole_row(void **state)
{
	bool logs = strcmp(ask("SELECT @@log_bin"), "1") == 0;

	(void)state;
	if (!logs)
		skip();
	ok(db_execf(t.db, NULL, &t.fault, "SET SESSION binlog_row_image='FULL'"));
	ok(check(t.db));
	db_close(t.db);
	assert_said("warn binlog: ");
	assert_said("row image FULL: every heartbeat writes the job's payload");
}

/* ---- The route ---- */

/* What a proxy does that sends statements of one connection to several: another session answers. Ours is replaced behind the
 * back of what was learned when it was opened. */
static void test_route_that_leads_elsewhere(void **state)
{
	struct db_identity *identity = (struct db_identity *)(uintptr_t)db_identity(t.db);

	(void)state;
	identity->session++;
	ok(check_start(t.db));
	identity->session--;
	assert_said("FAIL route: a SELECT went to session ");
	identity->server_id++;
	ok(check(t.db));
	identity->server_id--;
	assert_said("FAIL route: a SELECT went to session ");
	assert_not_said("ok route");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_all_is_well, store_test_empty),
		cmocka_unit_test_setup(test_a_start_is_silent, store_test_empty),
		cmocka_unit_test_setup(test_plans_with_many_rows, store_test_empty),
		cmocka_unit_test_setup(test_index_that_is_missing_or_other, store_test_empty),
		cmocka_unit_test_setup(test_unique_key_that_is_not_unique, store_test_empty),
		cmocka_unit_test_setup(test_steps_that_do_not_go_with_their_job, store_test_empty),
		cmocka_unit_test_setup(test_table_of_steps_that_is_missing, store_test_empty),
		cmocka_unit_test_setup(test_engine, store_test_empty),
		cmocka_unit_test_setup(test_schema_that_is_missing_or_too_new, store_test_empty),
		cmocka_unit_test_setup(test_least_privileges_are_enough, store_test_empty),
		cmocka_unit_test_setup(test_missing_privileges, store_test_empty),
		cmocka_unit_test_setup(test_missing_column_privilege, store_test_empty),
		cmocka_unit_test_setup(test_privileges_in_excess, store_test_empty),
		cmocka_unit_test_setup(test_read_only_server, store_test_empty),
		cmocka_unit_test_setup(test_session_that_was_changed, store_test_empty),
		cmocka_unit_test_setup(test_binlog_with_the_whole_row, store_test_empty),
		cmocka_unit_test_setup(test_route_that_leads_elsewhere, store_test_empty),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
