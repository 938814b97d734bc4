/* store_test.c - see store_test.h. */
#include "store_test.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct store_test t;

static char database_name[64];
static char answer[65536];

bool store_test_has_server(void)
{
	if (getenv("LEASEHOLD_TEST_SOCKET") != NULL)
		return true;
	puts("SKIPPED: LEASEHOLD_TEST_SOCKET names no server (run tests/harness/with-server)");
	return false;
}

static char *text_or(const char *variable, const char *otherwise)
{
	const char *text = getenv(variable);

	return strdup(text != NULL ? text : otherwise);
}

const char *store_test_path(const char *relative)
{
	static char path[4096];
	const char *root = getenv("LEASEHOLD_SRCDIR");

	snprintf(path, sizeof(path), "%s/%s", root != NULL ? root : ".", relative);
	return path;
}

struct db *store_test_new_db(struct database_settings *settings, const char *user, int64_t timeout_ms)
{
	const struct db_options options = {.database = settings, .timeout_ms = timeout_ms, .lock_wait_s = 1};
	struct db *db;

	*settings = t.settings;
	if (user != NULL)
		settings->user = strdup(user);
	db = db_new(&options);
	assert_non_null(db);
	return db;
}

/* Through the environment, so that no name needs quoting. */
int store_test_client(const char *name, const char *file)
{
	setenv("TEST_FILE", file, 1);
	setenv("TEST_DATABASE", name != NULL ? name : "", 1);
	setenv("TEST_USER", t.settings.user, 1);
	setenv("TEST_SOCKET", t.settings.socket, 1);
	return system("exec mariadb --no-defaults --user=\"$TEST_USER\" --password=\"$LEASEHOLD_TEST_PASSWORD\" "
		      "--socket=\"$TEST_SOCKET\" "
		      "--default-character-set=utf8mb4 ${TEST_DATABASE:+\"$TEST_DATABASE\"} <\"$TEST_FILE\" "
		      "2>\"${TEST_ERRORS:-/dev/stderr}\"");
}

void store_test_migrate(const char *name)
{
	glob_t files;

	assert_int_equal(glob(store_test_path("migrations/[0-9]*.sql"), 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++)
		assert_int_equal(store_test_client(name, files.gl_pathv[i]), 0);
	globfree(&files);
}

static void open_db(struct db *db)
{
	enum db_class c = db_open(db, &t.fault);

	if (c != DB_OK)
		fprintf(stderr, "cannot open: %s (%s)\n", t.fault.text, db_class_name(c));
	assert_int_equal(c, DB_OK);
}

/* Some tests change the server's global settings: one program at a time. The lock ends with its session. */
static struct db *turn;

static void wait_for_turn(void)
{
	static struct database_settings settings;
	struct db_rows *rows;
	bool mine = false;

	turn = store_test_new_db(&settings, NULL, 30000);
	open_db(turn);
	while (!mine) {
		assert_int_equal(db_queryf(turn, &rows, &t.fault, "SELECT GET_LOCK('leasehold_store_tests', 10)"), DB_OK);
		mine = db_rows_next(rows) && db_u64(rows, 0) == 1;
		db_rows_free(rows);
	}
}

int store_test_start(void **state)
{
	static struct database_settings other_settings;
	static char server[] = "information_schema";

	(void)state;
	t.settings.socket = text_or("LEASEHOLD_TEST_SOCKET", "");
	t.settings.user = text_or("LEASEHOLD_TEST_USER", "root");
	t.settings.password = text_or("LEASEHOLD_TEST_PASSWORD", "");
	t.settings.connect_timeout_ms = 10000;
	t.settings.timeout_ms = 30000;
	t.settings.verify_writer = true;
	t.settings.name = server;
	snprintf(database_name, sizeof(database_name), "lh_test_%ld", (long)getpid());
	/* The library forgets the password of the environment; the client needs it. */
	setenv("LEASEHOLD_TEST_PASSWORD", t.settings.password, 1);
	assert_int_equal(db_library_init(&t.fault), LH_OK);
	wait_for_turn();
	t.other = store_test_new_db(&other_settings, NULL, 30000);
	open_db(t.other);
	run("CREATE DATABASE %r CHARACTER SET utf8mb4", database_name);
	t.settings.name = database_name;
	other_settings.name = database_name;
	open_db(t.other);
	store_test_migrate(database_name);
	t.db = store_test_new_db(&t.settings, NULL, 30000);
	open_db(t.db);
	return 0;
}

int store_test_end(void **state)
{
	(void)state;
	run("DROP DATABASE %r", database_name);
	db_free(t.db);
	db_free(t.other);
	db_free(turn);
	free(t.settings.socket);
	free(t.settings.user);
	free(t.settings.password);
	db_library_end();
	return 0;
}

int store_test_empty(void **state)
{
	static const char *const tables[] = {"jobs", "job_attempts", "job_queues", "job_slots", "job_workers"};

	(void)state;
	db_rollback(t.db);
	db_rollback(t.other);
	if (!db_is_open(t.db))
		open_db(t.db);
	if (!db_is_open(t.other))
		open_db(t.other);
	for (size_t i = 0; i < COUNT(tables); i++)
		run("DELETE FROM %r", tables[i]);
	return 0;
}

/* db_execf and its like with a va_list: the format goes through db_sqlf one conversion at a time. */
static void build(struct buf *sql, const char *fmt, va_list ap)
{
	char piece[8192];
	const char *percent;
	size_t len;

	while ((percent = strchr(fmt, '%')) != NULL) {
		len = (size_t)(percent - fmt) + 2;
		assert_true(len < sizeof(piece));
		memcpy(piece, fmt, len);
		piece[len] = '\0';
		if (percent[1] == 'u')
			db_sqlf(t.other, sql, piece, va_arg(ap, uint64_t));
		else if (percent[1] == 'd')
			db_sqlf(t.other, sql, piece, va_arg(ap, int64_t));
		else if (percent[1] == '%')
			db_sqlf(t.other, sql, piece);
		else
			db_sqlf(t.other, sql, piece, va_arg(ap, const char *));
		fmt = percent + 2;
	}
	buf_adds(sql, fmt);
}

void run(const char *fmt, ...)
{
	enum db_class c;
	struct buf sql;
	va_list ap;

	buf_init(&sql, STORE_SQL_MAX);
	va_start(ap, fmt);
	build(&sql, fmt, ap);
	va_end(ap);
	c = db_exec(t.other, &sql, NULL, &t.fault);
	if (c != DB_OK)
		fprintf(stderr, "%s: %s\n", sql.data, t.fault.text);
	buf_free(&sql);
	assert_int_equal(c, DB_OK);
}

static void take_answer(const char *fmt, va_list ap)
{
	struct db_rows *rows = NULL;
	enum db_class c;
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	build(&sql, fmt, ap);
	c = db_query(t.other, &sql, &rows, &t.fault);
	if (c != DB_OK)
		fprintf(stderr, "%s: %s\n", sql.data, t.fault.text);
	buf_free(&sql);
	assert_int_equal(c, DB_OK);
	snprintf(answer, sizeof(answer), "NULL");
	if (db_rows_next(rows) && !db_is_null(rows, 0))
		db_copy(rows, 0, answer, sizeof(answer));
	db_rows_free(rows);
}

const char *ask(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	take_answer(fmt, ap);
	va_end(ap);
	return answer;
}

uint64_t ask_number(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	take_answer(fmt, ap);
	va_end(ap);
	return strtoull(answer, NULL, 10);
}

uint64_t add_job(const char *more)
{
	run("INSERT INTO jobs SET kind='test'%r%r", more != NULL ? ", " : "", more != NULL ? more : "");
	return db_last_insert_id(t.other);
}

uint64_t add_running(const char *lease, const char *more)
{
	uint64_t id;

	run("INSERT INTO jobs SET kind='test', state='running', lease_id=%s, locked_by='host:1:x', locked_at=UTC_TIMESTAMP(6), "
	    "lease_ms=60000,"
	    " attempt=1, claim_no=1, claimed_at=UTC_TIMESTAMP(6)",
	    lease);
	id = db_last_insert_id(t.other);
	if (more != NULL)
		run("UPDATE jobs SET %r WHERE id=%u", more, id);
	return id;
}

struct settlement *new_settlement(uint64_t id, const char *lease, enum settle_action action, enum outcome_kind outcome,
				  const char *cause)
{
	struct job job = {.id = id, .attempt = 1, .claim_no = 1, .kind = "test"};
	struct settlement *s;

	memcpy(job.lease, lease, strlen(lease));
	s = settlement_new(&job, 1 << 20, 1 << 16);
	assert_non_null(s);
	s->action = action;
	s->outcome = outcome;
	s->ledger = action == SETTLE_RETRY || action == SETTLE_DEAD || action == SETTLE_CANCEL;
	snprintf(s->cause, sizeof(s->cause), "%s", cause);
	return s;
}
