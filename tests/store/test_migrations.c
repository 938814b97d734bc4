/* test_migrations.c - the tables under kind and hostile servers, what a producer has to say, and that each role can do its work
 * and no more. */
#include "store_test.h"

#include "store/claim_store.h"
#include "store/instance_store.h"
#include "store/lease_store.h"
#include "store/promote_store.h"
#include "store/recover_store.h"
#include "store/settle_store.h"
#include "store/step_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A copy of a file of migrations/ with texts replaced (pairs, ended by NULL); static name. */
static const char *edited(const char *name, const char *const *pairs)
{
	static char path[128];
	FILE *in = fopen(store_test_path(name), "r"), *out;
	char line[4096];

	assert_non_null(in);
	snprintf(path, sizeof(path), "/tmp/lh_test_%ld.sql", (long)getpid());
	out = fopen(path, "w");
	assert_non_null(out);
	while (fgets(line, sizeof(line), in) != NULL) {
		for (const char *at = line; *at != '\0';) {
			size_t i = 0;

			while (pairs[i] != NULL && strncmp(at, pairs[i], strlen(pairs[i])) != 0)
				i += 2;
			if (pairs[i] != NULL) {
				fputs(pairs[i + 1], out);
				at += strlen(pairs[i]);
			} else {
				fputc(*at++, out);
			}
		}
	}
	fclose(in);
	assert_int_equal(fclose(out), 0);
	return path;
}

/* What the client complained of when it ran the file; it must have failed. */
static const char *refusal(const char *database, const char *file)
{
	static char text[2048];
	char path[128];
	size_t len;
	FILE *in;

	snprintf(path, sizeof(path), "/tmp/lh_test_%ld.err", (long)getpid());
	setenv("TEST_ERRORS", path, 1);
	assert_int_not_equal(store_test_client(database, file), 0);
	unsetenv("TEST_ERRORS");
	in = fopen(path, "r");
	assert_non_null(in);
	len = fread(text, 1, sizeof(text) - 1, in);
	text[len] = '\0';
	fclose(in);
	unlink(path);
	return text;
}

static char definition[16384];

static void remember_definition(const char *database, const char *table)
{
	struct db_rows *rows;
	char *counter;

	ok(db_queryf(t.db, &rows, &t.fault, "SHOW CREATE TABLE %r.%r", database, table));
	assert_true(db_rows_next(rows));
	db_copy(rows, 1, definition, sizeof(definition));
	db_rows_free(rows);
	counter = strstr(definition, " AUTO_INCREMENT=");
	if (counter != NULL)
		memmove(counter, strchr(counter + 1, ' '), strlen(strchr(counter + 1, ' ')) + 1);
}

static const char *const tables[] = { "jobs",      "job_attempts", "job_queues",      "job_slots",
				      "job_steps", "job_workers",  "leasehold_schema" };

static void assert_same_definitions(const char *database, const char *other)
{
	char here[sizeof(definition)];

	for (size_t i = 0; i < COUNT(tables); i++) {
		remember_definition(database, tables[i]);
		memcpy(here, definition, sizeof(here));
		remember_definition(other, tables[i]);
		assert_string_equal(definition, here);
	}
}

/* Another database with the tables of all files, to compare with. */
static const char *model_database(void)
{
	static char name[80];

	snprintf(name, sizeof(name), "%s_model", t.settings.name);
	run("DROP DATABASE IF EXISTS %r", name);
	run("CREATE DATABASE %r CHARACTER SET utf8mb4", name);
	store_test_migrate(name);
	return name;
}

static void test_applied_twice(void **state)
{
	const char *model = model_database();
	uint64_t id = add_running(LEASE_A, NULL), versions = ask_number("SELECT COUNT(*) FROM leasehold_schema");

	(void)state;
	run("INSERT INTO job_steps (job_id, name, seq, save_no, claim_no, data) VALUES (%u, 'charged', 1, 1, 1, '{}')", id);
	store_test_migrate(t.settings.name);
	assert_same_definitions(model, t.settings.name);
	assert_row(id, "state", "running");
	assert_int_equal(ask_number("SELECT COUNT(*) FROM job_steps"), 1);
	assert_int_equal(ask_number("SELECT COUNT(*) FROM leasehold_schema"), versions);
	assert_string_equal(ask("SELECT MAX(compatible_from) FROM leasehold_schema"), "1");
	/* Interrupted half-way, and run again: after each of their statements there is less or more of this. */
	run("DROP TABLE job_slots");
	run("ALTER TABLE jobs DROP KEY unique_hold");
	run("DELETE FROM leasehold_schema");
	store_test_migrate(t.settings.name);
	assert_int_equal(ask_number("SELECT COUNT(*) FROM leasehold_schema"), versions);
	run("DELETE FROM leasehold_schema WHERE version IN (3, 4)");
	store_test_migrate(t.settings.name);
	assert_int_equal(ask_number("SELECT COUNT(*) FROM job_steps"), 1);
	run("DROP TABLE job_steps");
	run("DELETE FROM leasehold_schema WHERE version=3");
	store_test_migrate(t.settings.name);
	assert_int_equal(ask_number("SELECT COUNT(*) FROM leasehold_schema"), versions);
	assert_same_definitions(model, t.settings.name);
	run("DROP DATABASE %r", model);
}

/* BR-92: the first version's tables with a row in every state; after the migration all that was there is as it was. */
static void test_migrated_with_rows_in_every_state(void **state)
{
	static const char *const states[] = { "ready", "scheduled", "running", "succeeded", "dead", "cancelled" };
	char name[80];

	(void)state;
	snprintf(name, sizeof(name), "%s_old", t.settings.name);
	run("CREATE DATABASE %r CHARACTER SET utf8mb4", name);
	assert_int_equal(store_test_client(name, store_test_path("migrations/0001_jobs.sql")), 0);
	for (size_t i = 0; i < COUNT(states); i++)
		run("INSERT INTO %r.jobs SET kind='test', state=%s, claim_no=3, lease_id='" LEASE_A "', unique_key=%s", name,
		    states[i], states[i]);
	run("CREATE TABLE %r.before_it SELECT * FROM %r.jobs", name, name);
	store_test_migrate(name);
	assert_int_equal(
		ask_number("SELECT COUNT(*) FROM (SELECT * FROM %r.jobs UNION SELECT * FROM %r.before_it) alike", name, name),
		COUNT(states));
	assert_int_equal(ask_number("SELECT COUNT(*) FROM %r.job_steps", name), 0);
	run("DROP DATABASE %r", name);
}

static void test_steps_need_the_first(void **state)
{
	char name[80];

	(void)state;
	snprintf(name, sizeof(name), "%s_bare", t.settings.name);
	run("CREATE DATABASE %r", name);
	assert_non_null(
		strstr(refusal(name, store_test_path("migrations/0003_steps.sql")), "Apply 0001_jobs.sql to this database first"));
	assert_string_equal(ask("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema=%s", name), "0");
	assert_int_equal(store_test_client(name, store_test_path("migrations/0001_jobs.sql")), 0);
	run("CREATE TABLE %r.job_steps (id INT, name INT)", name);
	assert_non_null(strstr(refusal(name, store_test_path("migrations/0003_steps.sql")),
			       "Another application has a table named job_steps"));
	assert_string_equal(ask("SELECT COUNT(*) FROM %r.leasehold_schema WHERE version=3", name), "0");
	run("DROP DATABASE %r", name);
	assert_non_null(strstr(refusal(NULL, store_test_path("migrations/0003_steps.sql")), "Apply 0001_jobs.sql"));
}

/* BR-53: latin1, no strict mode, a time zone: the same tables come of it, and the session gets its settings back. */
static void test_hostile_defaults(void **state)
{
	static const char *const more[] = {
		"-- Leasehold, migration 000",
		"SET NAMES latin1; SET SESSION sql_mode='', time_zone='+05:00', foreign_key_checks=0; -- ",
		"SESSION collation_connection = @leasehold_collation;",
		"SESSION collation_connection = @leasehold_collation; DROP TABLE IF EXISTS after; CREATE TABLE after SELECT "
		"@@sql_mode AS a,"
		" @@time_zone AS b, @@character_set_client AS c, @@character_set_results AS d, @@collation_connection AS e,"
		" @@foreign_key_checks AS f;",
		NULL
	};
	static const char *const files[] = { "migrations/0001_jobs.sql", "migrations/0003_steps.sql" };
	const char *model = model_database();
	char name[80];

	(void)state;
	snprintf(name, sizeof(name), "%s_hostile", t.settings.name);
	run("CREATE DATABASE %r CHARACTER SET latin1", name);
	for (size_t i = 0; i < COUNT(files); i++) {
		assert_int_equal(store_test_client(name, edited(files[i], more)), 0);
		assert_string_equal(ask("SELECT CONCAT_WS('|', a, b, c, d, LEFT(e, 6), f) FROM %r.after", name),
				    "|+05:00|latin1|latin1|latin1|0");
	}
	/* Whatever other files add. */
	store_test_migrate(name);
	assert_same_definitions(model, name);
	run("DROP DATABASE %r", model);
	assert_string_equal(ask("SELECT CONCAT_WS('|', a, b, c, d, e) FROM %r.after", name),
			    "|+05:00|latin1|latin1|latin1_swedish_ci");
	assert_string_equal(ask("SELECT COUNT(*) FROM information_schema.columns WHERE table_schema=%s AND table_name <> 'after' "
				"AND character_set_name NOT IN"
				" ('ascii', 'utf8mb4')",
				name),
			    "0");
	assert_string_equal(
		ask("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema=%s AND engine <> 'InnoDB'", name), "0");
	run("INSERT INTO %r.jobs SET kind='x', payload=%s", name, "žluťoučký 👍");
	assert_string_equal(
		ask("SELECT CONCAT(payload, ' ', ABS(TIMESTAMPDIFF(SECOND, created_at, UTC_TIMESTAMP())) < 5) FROM %r.jobs", name),
		"žluťoučký 👍 1");
	run("DROP DATABASE %r", name);
}

static void test_refusals(void **state)
{
	static const char *const too_new[] = {"100600, 80013", "100600000, 80013000", NULL};
	char name[80];

	(void)state;
	snprintf(name, sizeof(name), "%s_refused", t.settings.name);
	run("CREATE DATABASE %r", name);
	assert_non_null(strstr(refusal(name, edited("migrations/0001_jobs.sql", too_new)),
			       "Leasehold needs MariaDB 10.6 or MySQL 8.0.13, this is "));
	assert_string_equal(ask("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema=%s", name), "0");
	run("CREATE TABLE %r.jobs (id INT)", name);
	assert_non_null(
		strstr(refusal(name, store_test_path("migrations/0001_jobs.sql")), "Another application has a table of this name"));
	assert_string_equal(ask("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema=%s", name), "1");
	run("DROP DATABASE %r", name);
	assert_non_null(strstr(refusal(NULL, store_test_path("migrations/0001_jobs.sql")), "No database selected"));
	run("CREATE DATABASE %r", name);
	assert_non_null(strstr(refusal(name, store_test_path("migrations/0004_unique_hold.sql")), "apply 0001_jobs.sql first"));
	run("DROP DATABASE %r", name);
}

static void test_what_a_producer_says(void **state)
{
	uint64_t id;

	(void)state;
	run("SET time_zone='+05:00'");
	id = add_job(NULL);
	assert_row(id, "queue, priority, state, payload, attempt, claim_no, reclaims, orphan_streak", "default|0|ready|{}|0|0|0|0");
	assert_row(id,
		   "ABS(TIMESTAMPDIFF(SECOND, run_at, UTC_TIMESTAMP(6))) < 5, ABS(TIMESTAMPDIFF(SECOND, created_at, "
		   "UTC_TIMESTAMP(6))) < 5",
		   "1|1");
	id = add_job("run_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR");
	assert_row(id, "state, promote_at = run_at", "scheduled|1");
	id = add_job("run_at=UTC_TIMESTAMP(6) - INTERVAL 1 HOUR");
	assert_row(id, "state, promote_at IS NULL", "ready|1");
	id = add_job("state='ready', run_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, attempt=DEFAULT, lease_id=NULL, locked_by=NULL, "
		     "max_attempts=NULL,"
		     " priority=-1, queue='mail', promote_at=DEFAULT, active_key=DEFAULT");
	assert_row(id, "state, queue", "ready|mail");
	run("SET time_zone='+00:00'");
}

static void test_unique_keys(void **state)
{
	static const char insert[] = "INSERT INTO jobs SET kind=%s, unique_key=%s";
	static const char *const finished[] = {"succeeded", "dead", "cancelled"}, *const unfinished[] = {"scheduled", "running"};
	uint64_t id = add_job("unique_key='k'");

	(void)state;
	assert_int_equal(db_execf(t.db, NULL, &t.fault, insert, "test", "k"), DB_DUPLICATE);
	ok(db_execf(t.db, NULL, &t.fault, insert, "another", "k"));
	/* Bytes: neither case nor trailing space is folded. */
	ok(db_execf(t.db, NULL, &t.fault, insert, "test", "K"));
	ok(db_execf(t.db, NULL, &t.fault, insert, "test", "k "));
	for (size_t i = 0; i < COUNT(unfinished); i++) {
		run("UPDATE jobs SET state=%s WHERE id=%u", unfinished[i], id);
		assert_int_equal(db_execf(t.db, NULL, &t.fault, insert, "test", "k"), DB_DUPLICATE);
	}
	for (size_t i = 0; i < COUNT(finished); i++) {
		run("UPDATE jobs SET state=%s, unique_hold_until=UTC_TIMESTAMP(6) WHERE id=%u", finished[i], id);
		assert_int_equal(db_execf(t.db, NULL, &t.fault, insert, "test", "k"), DB_DUPLICATE);
		run("UPDATE jobs SET unique_hold_until=NULL WHERE id=%u", id);
		ok(db_execf(t.db, NULL, &t.fault, insert, "test", "k"));
		run("DELETE FROM jobs WHERE id > %u AND kind='test' AND unique_key='k'", id);
	}
}

/* A connection under one role. grants.sql names the database and the roles for good; here both get names of this test. */
static struct db *as_role(struct database_settings *settings, const char *role)
{
	char user[80];
	struct db *db;

	snprintf(user, sizeof(user), "%s_%.1s", t.settings.name, role);
	run("CREATE USER %s@localhost IDENTIFIED BY ''", user);
	run("GRANT %r_%r TO %s@localhost", t.settings.name, role, user);
	run(db_is_mariadb(t.db) ? "SET DEFAULT ROLE %r_%r FOR %s@localhost" : "SET DEFAULT ROLE %r_%r TO %s@localhost",
	    t.settings.name, role, user);
	db = store_test_new_db(settings, user, 30000);
	settings->password = NULL;
	ok(db_open(db, &t.fault));
	return db;
}

static void drop_role_user(struct db *db, struct database_settings *settings)
{
	db_free(db);
	run("DROP USER %s@localhost", settings->user);
	free(settings->user);
}

static const char *const role_names[] = {"worker", "producer", "handler", "reader"};

static int make_roles(void **state)
{
	char from[4][32], to[4][96], database[80];
	const char *pairs[11];

	store_test_empty(state);
	for (size_t i = 0; i < 4; i++) {
		snprintf(from[i], sizeof(from[i]), "leasehold_%s", role_names[i]);
		snprintf(to[i], sizeof(to[i]), "%s_%s", t.settings.name, role_names[i]);
		pairs[2 * i] = from[i];
		pairs[2 * i + 1] = to[i];
	}
	snprintf(database, sizeof(database), "ON %s.", t.settings.name);
	pairs[8] = "ON leasehold.";
	pairs[9] = database;
	pairs[10] = NULL;
	/* Applied twice. */
	for (int i = 0; i < 2; i++)
		assert_int_equal(store_test_client(NULL, edited("migrations/grants.sql", pairs)), 0);
	return 0;
}

static int drop_roles(void **state)
{
	char path[128];

	(void)state;
	for (size_t i = 0; i < 4; i++)
		run("DROP ROLE %r_%r", t.settings.name, role_names[i]);
	snprintf(path, sizeof(path), "/tmp/lh_test_%ld.sql", (long)getpid());
	unlink(path);
	return 0;
}

static void free_job(void *arg, struct job *job)
{
	(void)arg;
	job_free(job);
}

/* Every statement of the daemon, under the worker's role alone. */
static void test_worker_role(void **state)
{
	static struct recover_row lapsed[RECOVER_PAGE];
	static struct promote_found due;
	struct scan_row candidates[4];
	struct scan_cursor head = {.set = false};
	struct store_held held = {.lease = LEASE_A};
	struct lease_row seen;
	struct settlement *item;
	enum settle_result result;
	struct instance_row row = {"w", "n", "h", 1, "v", 1000, 1, 1, "q", "running"};
	struct database_settings settings;
	struct db *db = as_role(&settings, "worker");
	uint64_t id = add_job(NULL), n;
	struct step_row step = { .lease = LEASE_A, .name = "charged", .data = "{}", .data_len = 2, .save_no = 1 };
	struct job claimed = { .id = 0 }, *claimed_list = &claimed;
	uint32_t lease_ms;
	int64_t number;
	size_t count;
	bool taken, saved = false;

	(void)state;
	held.id = id;
	ok(instance_store_check_schema(db, NULL, &t.fault));
	ok(instance_store_beat(db, &row, &t.fault));
	ok(instance_store_peers(db, &lease_ms, &n, &t.fault));
	ok(claim_store_scan(db, "default", &head, 4, candidates, &count, &t.fault));
	ok(claim_store_put_back_early(db, &id, 1, &t.fault));
	ok(claim_store_take(db, &id, 1, LEASE_A, 60000, "w", &n, &t.fault));
	ok(claim_store_read(db, &id, 1, LEASE_A, 60000, free_job, NULL, &t.fault));
	ok(lease_store_renew(db, &held, 1, &n, &t.fault));
	ok(lease_store_read(db, &held, 1, &seen, &count, &t.fault));
	ok(settle_store_progress(db, id, LEASE_A, 5, "x", &t.fault));
	step.id = claimed.id = id;
	for (int i = 0; i < 2; i++) {
		ok(step_store_save(db, &step, 1, &saved, &t.fault));
		assert_true(saved);
	}
	ok(step_store_read(db, &claimed_list, 1, &t.fault));
	assert_int_equal(claimed.step_count, 1);
	job_drop_steps(&claimed);
	item = new_settlement(id, LEASE_A, SETTLE_RETRY, OUTCOME_RETRY, "x");
	buf_adds(&item->error, "x");
	ok(settle_store_write(db, &item, 1, "w", false, &result, &t.fault));
	assert_int_equal(result, SETTLE_DONE);
	ok(settle_store_write(db, &item, 1, "w", true, &result, &t.fault));
	settlement_free(item);
	ok(promote_store_scan(db, &due, &t.fault));
	ok(promote_store_write(db, &id, 1, &n, &t.fault));
	ok(promote_store_release(db, &id, 1, &n, &t.fault));
	id = add_running(LEASE_A, "locked_at='2020-01-01'");
	ok(recover_store_next(db, &number, &t.fault));
	ok(recover_store_scan(db, 1000000, lapsed, &count, &t.fault));
	assert_int_equal(count, 1);
	ok(recover_store_take(db, &lapsed[0], RECOVER_SCHEDULED, 0, "x", &taken, &t.fault));
	assert_true(taken);
	ok(instance_store_leave(db, "w", &t.fault));
	drop_role_user(db, &settings);
}

static void test_worker_role_beside_the_daemon(void **state)
{
	struct database_settings settings;
	struct db *db = as_role(&settings, "worker");

	(void)state;
	add_job(NULL);
	/* What the commands of a small installation need. */
	ok(db_execf(db, NULL, &t.fault,
		    "INSERT INTO jobs SET kind='x', queue='q', priority=1, run_at=UTC_TIMESTAMP(6), payload='{}', max_attempts=1, "
		    "timeout_ms=1,"
		    " unique_key='u', concurrency_key='c', traceparent='t', enqueued_by='e'"));
	ok(db_execf(db, NULL, &t.fault,
		    "INSERT INTO job_queues SET queue='q', paused_at=UTC_TIMESTAMP(6), paused_by='x' ON DUPLICATE KEY UPDATE "
		    "paused_by='x'"));
	assert_int_equal(db_execf(db, NULL, &t.fault, "UPDATE jobs SET payload='changed'"), DB_DENIED);
	assert_int_equal(db_execf(db, NULL, &t.fault, "DELETE FROM jobs"), DB_DENIED);
	assert_int_equal(db_execf(db, NULL, &t.fault, "UPDATE job_attempts SET cause='changed'"), DB_DENIED);
	assert_int_equal(db_execf(db, NULL, &t.fault, "DELETE FROM job_attempts"), DB_DENIED);
	assert_int_equal(db_execf(db, NULL, &t.fault, "DELETE FROM job_steps"), DB_DENIED);
	assert_int_equal(db_execf(db, NULL, &t.fault, "CREATE TABLE more (id INT)"), DB_DENIED);
	drop_role_user(db, &settings);
}

static void test_producer_role(void **state)
{
	static const char *const refused[] = {"state='ready'", "attempt=1", "lease_id='x'", "locked_at=UTC_TIMESTAMP()",
					      "claim_no=1",    "id=1",      "result='x'"};
	struct database_settings settings;
	struct db *db = as_role(&settings, "producer");
	struct db_rows *rows;

	(void)state;
	ok(db_execf(db, NULL, &t.fault, "INSERT INTO jobs (kind) VALUES ('x')"));
	assert_true(db_last_insert_id(db) > 0);
	ok(db_execf(db, NULL, &t.fault,
		    "INSERT INTO jobs SET kind='x', queue='q', priority=1, run_at=UTC_TIMESTAMP(6) + INTERVAL 1 DAY, payload='{}', "
		    "max_attempts=1,"
		    " timeout_ms=1, unique_key='u', unique_hold_until=UTC_TIMESTAMP(6), concurrency_key='c', traceparent='t', "
		    "enqueued_by='e'"));
	assert_string_equal(ask("SELECT GROUP_CONCAT(state ORDER BY id) FROM jobs"), "ready,scheduled");
	for (size_t i = 0; i < COUNT(refused); i++)
		assert_int_equal(db_execf(db, NULL, &t.fault, "INSERT INTO jobs SET kind='x', %r", refused[i]), DB_DENIED);
	assert_int_equal(db_queryf(db, &rows, &t.fault, "SELECT payload FROM jobs"), DB_DENIED);
	assert_int_equal(db_execf(db, NULL, &t.fault, "UPDATE jobs SET priority=1"), DB_DENIED);
	drop_role_user(db, &settings);
}

static void test_handler_role(void **state)
{
	static const char fence[] = "UPDATE %r.jobs SET state='succeeded', finished_at=UTC_TIMESTAMP(6), result='r' WHERE id=%u "
				    "AND lease_id=%s AND state='running'";
	struct database_settings settings;
	struct db *db = as_role(&settings, "handler");
	uint64_t id = add_running(LEASE_A, "unique_key='u'"), matched;
	struct db_rows *rows;

	(void)state;
	ok(db_execf(db, &matched, &t.fault, fence, t.settings.name, id, LEASE_B));
	assert_int_equal(matched, 0);
	ok(db_execf(db, &matched, &t.fault, fence, t.settings.name, id, LEASE_A));
	assert_int_equal(matched, 1);
	assert_row(id, "state, result, active_key IS NULL", "succeeded|r|1");
	assert_int_equal(db_execf(db, NULL, &t.fault, "UPDATE jobs SET lease_id='x' WHERE id=%u", id), DB_DENIED);
	assert_int_equal(db_execf(db, NULL, &t.fault, "INSERT INTO jobs SET kind='x'"), DB_DENIED);
	assert_int_equal(db_queryf(db, &rows, &t.fault, "SELECT payload FROM jobs"), DB_DENIED);
	assert_int_equal(db_queryf(db, &rows, &t.fault, "SELECT data FROM job_steps"), DB_DENIED);
	drop_role_user(db, &settings);
}

static void test_reader_role(void **state)
{
	struct database_settings settings;
	struct db *db = as_role(&settings, "reader");
	struct db_rows *rows;

	(void)state;
	ok(db_queryf(db, &rows, &t.fault,
		     "SELECT * FROM jobs, job_attempts, job_queues, job_slots, job_steps, job_workers, leasehold_schema"));
	db_rows_free(rows);
	assert_int_equal(db_execf(db, NULL, &t.fault, "UPDATE jobs SET priority=1"), DB_DENIED);
	drop_role_user(db, &settings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_applied_twice, store_test_empty),
		cmocka_unit_test_setup(test_migrated_with_rows_in_every_state, store_test_empty),
		cmocka_unit_test_setup(test_steps_need_the_first, store_test_empty),
		cmocka_unit_test_setup(test_hostile_defaults, store_test_empty),
		cmocka_unit_test_setup(test_refusals, store_test_empty),
		cmocka_unit_test_setup(test_what_a_producer_says, store_test_empty),
		cmocka_unit_test_setup(test_unique_keys, store_test_empty),
		cmocka_unit_test_setup_teardown(test_worker_role, make_roles, drop_roles),
		cmocka_unit_test_setup_teardown(test_worker_role_beside_the_daemon, make_roles, drop_roles),
		cmocka_unit_test_setup_teardown(test_producer_role, make_roles, drop_roles),
		cmocka_unit_test_setup_teardown(test_handler_role, make_roles, drop_roles),
		cmocka_unit_test_setup_teardown(test_reader_role, make_roles, drop_roles),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
