/* test_db.c - connections, statements, failures and their classes, and the end of a lost session. */
#include "store_test.h"

#include "base/clock.h"
#include "db/db_private.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_values_survive_quoting(void **state)
{
	static const char nasty[] = "it's a \\ \"test\"\n\r\t\x1a%s\0end";
	struct db_rows *rows;
	size_t len;
	const char *text;

	(void)state;
	ok(db_queryf(t.db, &rows, &t.fault, "SELECT %b, %s, %s, %u, %d, '%%', %r, CHAR_LENGTH(%s)", nasty, sizeof(nasty) - 1,
		     "\xf0\x9f\x91\x8d", (const char *)NULL, UINT64_MAX, INT64_MIN, "6*7", "žluť 👍"));
	assert_int_equal(db_rows_count(rows), 1);
	assert_true(db_rows_next(rows));
	text = db_text(rows, 0, &len);
	assert_int_equal(len, sizeof(nasty) - 1);
	assert_memory_equal(text, nasty, len);
	assert_string_equal(db_text(rows, 1, NULL), "\xf0\x9f\x91\x8d");
	assert_true(db_is_null(rows, 2));
	assert_true(db_u64(rows, 3) == UINT64_MAX);
	assert_true(db_i64(rows, 4) == INT64_MIN);
	assert_string_equal(db_text(rows, 5, NULL), "%");
	assert_int_equal(db_u64(rows, 6), 42);
	assert_int_equal(db_u64(rows, 7), 6);
	assert_false(db_rows_next(rows));
	db_rows_free(rows);
}

static void test_an_unknown_conversion_is_not_sent(void **state)
{
	(void)state;
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "DO %x", (uint64_t)1), DB_DATA);
	assert_true(db_is_open(t.db));
}

static void test_numbers_that_are_none_read_as_zero(void **state)
{
	struct db_rows *rows;
	char cut[4];

	(void)state;
	ok(db_queryf(t.db, &rows, &t.fault, "SELECT '12x', '', '-1', '18446744073709551616', 'abcdef', NULL"));
	assert_true(db_rows_next(rows));
	for (unsigned int i = 0; i < 4; i++)
		assert_true(db_u64(rows, i) == 0);
	assert_true(db_i64(rows, 2) == -1);
	db_copy(rows, 4, cut, sizeof(cut));
	assert_string_equal(cut, "abc");
	db_copy(rows, 5, cut, sizeof(cut));
	assert_string_equal(cut, "");
	assert_null(db_text(rows, 99, NULL));
	db_rows_free(rows);
}

static void test_matched_counts_rows_that_stay_equal(void **state)
{
	uint64_t id = add_job(NULL), matched = 0;

	(void)state;
	ok(db_execf(t.db, &matched, &t.fault, "UPDATE jobs SET priority=0 WHERE id=%u", id));
	assert_int_equal(matched, 1);
	ok(db_execf(t.db, &matched, &t.fault, "UPDATE jobs SET priority=0 WHERE id=%u", id + 1));
	assert_int_equal(matched, 0);
}

static void test_session_is_set_up(void **state)
{
	static const char *const expected[][2] = {
		{"@@SESSION.autocommit", "1"}, {"@@SESSION.time_zone", "+00:00"}, {"@@SESSION.innodb_lock_wait_timeout", "1"},
		{"@@SESSION.character_set_client", "utf8mb4"}, {"@@SESSION.collation_connection", "utf8mb4_bin"},
		{"@@SESSION.sql_mode LIKE '%STRICT_TRANS_TABLES%' AND @@SESSION.sql_mode NOT LIKE '%ZERO_DATE%'", "1"},
		{"@@SESSION.binlog_row_image", "NOBLOB"},
	};
	struct db_rows *rows;

	(void)state;
	for (size_t i = 0; i < COUNT(expected); i++) {
		ok(db_queryf(t.db, &rows, &t.fault, "SELECT %r", expected[i][0]));
		assert_true(db_rows_next(rows));
		assert_string_equal(db_text(rows, 0, NULL), expected[i][1]);
		db_rows_free(rows);
	}
	ok(db_queryf(t.db, &rows, &t.fault, "SELECT @@SESSION.%r",
		     db_is_mariadb(t.db) && db_version(t.db) < 110101 ? "tx_isolation" : "transaction_isolation"));
	assert_true(db_rows_next(rows));
	assert_string_equal(db_text(rows, 0, NULL), "READ-COMMITTED");
	db_rows_free(rows);
}

/* BR-73: whatever init_connect does is undone; what cannot be undone is refused. */
static void test_hostile_init_connect(void **state)
{
	struct database_settings settings;
	struct db *db;

	(void)state;
	/* init_connect does not apply to accounts that may do everything. */
	run("CREATE USER init_test@localhost IDENTIFIED BY ''");
	run("GRANT SELECT ON %r.* TO init_test@localhost", t.settings.name);
	run("SET GLOBAL init_connect='SET autocommit=0, sql_mode=\"\", time_zone=\"+05:00\", sql_select_limit=1, SESSION "
	    "wait_timeout=2'");
	db = store_test_new_db(&settings, "init_test", 5000);
	settings.password = NULL;
	ok(db_open(db, &t.fault));
	run("SET GLOBAL init_connect=''");
	db_free(db);
	free(settings.user);
	run("DROP USER init_test@localhost");
}

/* What the server does not keep as it was set is refused, with the variable and both values. */
static void test_a_setting_that_does_not_stay_is_refused(void **state)
{
	struct db *db = db_new(&(struct db_options){.database = &t.settings, .timeout_ms = 5000, .lock_wait_s = 1500000000});

	(void)state;
	assert_non_null(db);
	run("SET GLOBAL sql_mode=''");
	assert_int_equal(db_open(db, &t.fault), DB_SCHEMA);
	run("SET GLOBAL sql_mode=DEFAULT");
	assert_non_null(strstr(t.fault.text, "innodb_lock_wait_timeout"));
	assert_non_null(strstr(t.fault.text, "\"1500000000\""));
	assert_false(db_is_open(db));
	db_free(db);
}

static void test_identity(void **state)
{
	const struct db_identity *a = db_identity(t.db), *b = db_identity(t.other);
	struct db_identity moved = *a;
	uint64_t hash = db_identity_hash(a);

	(void)state;
	assert_true(a->session_is_direct);
	assert_true(a->session != b->session);
	assert_true(db_same_server(a, b));
	assert_true(a->start_us > INT64_C(1700000000) * 1000000);
	moved.start_us += 10000000;
	assert_false(db_same_server(a, &moved));
	/* A restart is another identity; a new connection is not, although each reading of the start differs a little. */
	assert_true(db_identity_hash(&moved) != hash);
	ok(db_open(t.db, &t.fault));
	assert_true(db_identity(t.db)->session != moved.session);
	assert_true(db_identity_hash(db_identity(t.db)) == hash);
	moved = *a;
	moved.server_id++;
	assert_false(db_same_server(a, &moved));
	assert_true(db_identity_hash(a) != db_identity_hash(&moved));
}

static void test_versions(void **state)
{
	static const struct {
		const char *text;
		bool mariadb;
		unsigned int version;
	} cases[] = {
		{"10.11.19-MariaDB-0+deb12u1-log", true, 101119}, {"5.5.5-10.6.2-MariaDB", true, 100602}, {"9.7.4-2", false, 90704},
		{"8.0.36-28", false, 80036},                      {"11.8-MariaDB", true, 110800},         {"", false, 0},
	};
	struct db *db = db_new(&(struct db_options){.database = &t.settings});

	(void)state;
	assert_non_null(db);
	for (size_t i = 0; i < COUNT(cases); i++) {
		db_take_version(db, cases[i].text);
		assert_int_equal(db_is_mariadb(db), cases[i].mariadb);
		assert_int_equal(db_version(db), cases[i].version);
	}
	db_free(db);
}

static void test_classes(void **state)
{
	static const struct {
		unsigned int number;
		const char *sqlstate;
		enum db_class read, write, commit;
	} cases[] = {
		{1213, "40001", DB_RETRY, DB_RETRY, DB_RETRY},
		{1205, "HY000", DB_RETRY, DB_RETRY, DB_RETRY},
		{1020, "HY000", DB_RETRY, DB_RETRY, DB_RETRY},
		{2006, "HY000", DB_GONE, DB_UNCERTAIN, DB_UNCERTAIN},
		{2013, "HY000", DB_GONE, DB_UNCERTAIN, DB_UNCERTAIN},
		{1927, "70100", DB_GONE, DB_UNCERTAIN, DB_UNCERTAIN},
		{1317, "70100", DB_GONE, DB_UNCERTAIN, DB_UNCERTAIN},
		{1969, "70100", DB_GONE, DB_UNCERTAIN, DB_UNCERTAIN},
		{4031, "HY000", DB_GONE, DB_UNCERTAIN, DB_UNCERTAIN},
		{1047, "08S01", DB_GONE, DB_GONE, DB_UNCERTAIN},
		{1062, "23000", DB_DUPLICATE, DB_DUPLICATE, DB_UNCERTAIN},
		{1406, "22001", DB_DATA, DB_DATA, DB_UNCERTAIN},
		{1153, "08S01", DB_DATA, DB_DATA, DB_UNCERTAIN},
		{1146, "42S02", DB_SCHEMA, DB_SCHEMA, DB_UNCERTAIN},
		{1665, "HY000", DB_SCHEMA, DB_SCHEMA, DB_UNCERTAIN},
		{1142, "42000", DB_DENIED, DB_DENIED, DB_UNCERTAIN},
		{1290, "HY000", DB_READONLY, DB_READONLY, DB_READONLY},
		{1836, "HY000", DB_READONLY, DB_READONLY, DB_READONLY},
		{1203, "42000", DB_CROWDED, DB_CROWDED, DB_UNCERTAIN},
		{9999, "HY000", DB_OTHER, DB_OTHER, DB_UNCERTAIN},
		{9999, "08006", DB_GONE, DB_UNCERTAIN, DB_UNCERTAIN},
		{9999, "40001", DB_RETRY, DB_RETRY, DB_RETRY},
		{9999, "22007", DB_DATA, DB_DATA, DB_UNCERTAIN},
	};
	bool closes;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(db_classify(cases[i].number, cases[i].sqlstate, DB_FLIGHT_NONE, &closes), cases[i].read);
		assert_int_equal(db_classify(cases[i].number, cases[i].sqlstate, DB_FLIGHT_WRITE, &closes), cases[i].write);
		if (cases[i].write == DB_UNCERTAIN || cases[i].write == DB_READONLY || cases[i].write == DB_OTHER)
			assert_true(closes);
		assert_int_equal(db_classify(cases[i].number, cases[i].sqlstate, DB_FLIGHT_COMMIT, &closes), cases[i].commit);
	}
	for (enum db_class c = DB_OK; c <= DB_OTHER; c++)
		assert_string_not_equal(db_class_name(c), "unknown");
}

static void test_failures_of_a_real_server(void **state)
{
	uint64_t id = add_job("unique_key='u'");

	(void)state;
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "INSERT INTO jobs SET kind='test', unique_key='u'"), DB_DUPLICATE);
	assert_int_equal(t.fault.number, 1062);
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET nothing=1"), DB_SCHEMA);
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "UPDATE nothing SET id=1"), DB_SCHEMA);
	assert_string_equal(t.fault.sqlstate, "42S02");
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "UPDATE jobs FORCE INDEX (nothing) SET priority=1"), DB_SCHEMA);
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET attempt=65536 WHERE id=%u", id), DB_DATA);
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET last_error=%s WHERE id=%u", "bad \xff\xfe text", id),
			 DB_DATA);
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET progress_note=REPEAT('x', 256) WHERE id=%u", id), DB_DATA);
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET state='nonsense' WHERE id=%u", id), DB_DATA);
	assert_true(db_is_open(t.db));
	assert_null(strchr(t.fault.text, '\n'));
}

/* BR-51: a server answers an oversize packet by hanging up. It is never sent, and the connection stays. */
static void test_oversize_is_refused_before_it_is_sent(void **state)
{
	size_t len = db_packet_max(t.db) + 1;
	struct buf sql;

	(void)state;
	assert_true(len > 512 * 1024);
	buf_init(&sql, 2 * len);
	buf_adds(&sql, "DO '");
	memset(buf_room(&sql, len), 'x', len);
	buf_grow(&sql, len);
	buf_addc(&sql, '\'');
	assert_int_equal(db_exec(t.db, &sql, NULL, &t.fault), DB_DATA);
	assert_non_null(strstr(t.fault.text, "max_allowed_packet"));
	assert_true(db_is_open(t.db));
	ok(db_execf(t.db, NULL, &t.fault, "DO 1"));
	/* What fits by our bound is taken by the server. */
	buf_clear(&sql);
	buf_adds(&sql, "DO '");
	len = db_packet_max(t.db) - strlen("DO ''");
	memset(buf_room(&sql, len), 'x', len);
	buf_grow(&sql, len);
	buf_addc(&sql, '\'');
	ok(db_exec(t.db, &sql, NULL, &t.fault));
	buf_free(&sql);
	buf_init(&sql, 3);
	buf_adds(&sql, "DO 1");
	assert_int_equal(db_exec(t.db, &sql, NULL, &t.fault), DB_DATA);
	buf_free(&sql);
}

static void test_a_lock_wait_rolls_the_transaction_back(void **state)
{
	uint64_t first = add_job(NULL), second = add_job(NULL);

	(void)state;
	ok(db_begin(t.other, &t.fault));
	run("UPDATE jobs SET priority=1 WHERE id=%u", second);
	ok(db_begin(t.db, &t.fault));
	ok(db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET priority=2 WHERE id=%u", first));
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET priority=2 WHERE id=%u", second), DB_RETRY);
	assert_int_equal(t.fault.number, 1205);
	assert_false(db_in_transaction(t.db));
	assert_true(db_is_open(t.db));
	db_rollback(t.other);
	assert_row(first, "priority", "0");
}

static void test_transactions(void **state)
{
	uint64_t id = add_job(NULL);

	(void)state;
	ok(db_begin(t.db, &t.fault));
	assert_true(db_in_transaction(t.db));
	ok(db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET priority=1 WHERE id=%u", id));
	assert_row(id, "priority", "0");
	db_rollback(t.db);
	assert_false(db_in_transaction(t.db));
	ok(db_begin(t.db, &t.fault));
	ok(db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET priority=2 WHERE id=%u", id));
	ok(db_commit(t.db, &t.fault));
	assert_row(id, "priority", "2");
}

/* Something between us and the server may switch autocommit off: then an autocommit write has not been committed, and is not
 * said to be. */
static void test_lost_autocommit_is_noticed(void **state)
{
	uint64_t id = add_job(NULL);

	(void)state;
	ok(db_execf(t.db, NULL, &t.fault, "SET autocommit=0"));
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET priority=1 WHERE id=%u", id), DB_OTHER);
	assert_false(db_is_open(t.db));
	assert_row(id, "priority", "0");
}

static void *kill_in_its_sleep(void *arg)
{
	struct db_rows *rows;
	struct fault f;
	bool sleeping = false;

	/* Until it is seen in its statement: killed earlier it would prove nothing. */
	while (!sleeping) {
		if (db_queryf(t.other, &rows, &f,
			      "SELECT 1 FROM information_schema.processlist WHERE id=%u AND info LIKE 'UPDATE%%'",
			      *(uint64_t *)arg) != DB_OK)
			return NULL;
		sleeping = db_rows_count(rows) > 0;
		db_rows_free(rows);
	}
	return db_execf(t.other, NULL, &f, "KILL %u", *(uint64_t *)arg) == DB_OK ? arg : NULL;
}

/* Kills the session under test in the middle of an UPDATE. Returns the class that the victim saw. */
static enum db_class killed_update(uint64_t id)
{
	uint64_t session = db_identity(t.db)->session;
	enum db_class c;
	pthread_t killer;
	void *killed;

	assert_int_equal(pthread_create(&killer, NULL, kill_in_its_sleep, &session), 0);
	c = db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET priority=SLEEP(20) WHERE id=%u", id);
	assert_int_equal(pthread_join(killer, &killed), 0);
	assert_non_null(killed);
	assert_false(db_is_open(t.db));
	return c;
}

static void test_a_connection_lost_in_a_write(void **state)
{
	struct db_identity lost;
	uint64_t id = add_job(NULL);
	struct db_rows *rows;

	(void)state;
	assert_int_equal(killed_update(id), DB_UNCERTAIN);
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "DO 1"), DB_GONE);
	assert_int_equal(db_queryf(t.db, &rows, &t.fault, "SELECT 1"), DB_GONE);
	assert_null(rows);
	lost = *db_identity(t.db);
	ok(db_open(t.db, &t.fault));
	assert_true(lost.session != db_identity(t.db)->session);
	assert_true(db_same_server(&lost, db_identity(t.db)));
	/* In a transaction the same loss undoes everything. */
	ok(db_begin(t.db, &t.fault));
	assert_int_equal(killed_update(id), DB_GONE);
	assert_false(db_in_transaction(t.db));
	assert_row(id, "priority", "0");
}

static void test_a_commit_on_a_dead_connection_is_uncertain(void **state)
{
	uint64_t id = add_job(NULL);

	(void)state;
	ok(db_begin(t.db, &t.fault));
	ok(db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET priority=1 WHERE id=%u", id));
	run("KILL %u", db_identity(t.db)->session);
	assert_int_equal(db_commit(t.db, &t.fault), DB_UNCERTAIN);
	assert_false(db_is_open(t.db));
	assert_false(db_in_transaction(t.db));
}

/* The server does not know the session any more, its change was undone, and its lock on the row is gone as soon as all is
 * undone. */
static void assert_ended(uint64_t session, uint64_t id, const char *priority)
{
	int64_t deadline = clock_mono_ms() + 60000;
	enum db_class c;

	assert_row(id, "priority", priority);
	assert_int_equal(db_execf(t.db, NULL, &t.fault, "KILL %u", session), DB_DATA);
	assert_int_equal(t.fault.number, 1094);
	do
		c = db_execf(t.db, NULL, &t.fault, "UPDATE jobs SET progress=1 WHERE id=%u", id);
	while (c == DB_RETRY && clock_mono_ms() < deadline);
	assert_int_equal(c, DB_OK);
}

/* The client stops listening, or the server stops working, whichever is earlier: for a write the outcome is open, for a read it
 * does not matter. */
static void test_a_timeout_is_a_lost_connection(void **state)
{
	struct database_settings settings;
	struct db *db = store_test_new_db(&settings, NULL, 1000);
	uint64_t id = add_job(NULL);
	int64_t start = clock_mono_ms();

	(void)state;
	ok(db_open(db, &t.fault));
	assert_int_equal(db_execf(db, NULL, &t.fault, "UPDATE jobs SET priority=SLEEP(20) WHERE id=%u", id), DB_UNCERTAIN);
	assert_false(db_is_open(db));
	assert_in_range(clock_mono_ms() - start, 1000, 8000);
	assert_int_equal(db_end_session(t.db, db_identity(db), 5000, &t.fault), DB_END_GONE);
	assert_ended(db_identity(db)->session, id, "0");
	db_free(db);
}

static void test_end_session(void **state)
{
	struct database_settings settings;
	struct db *lost = store_test_new_db(&settings, NULL, 30000);
	struct db_identity id, changed;
	uint64_t job = add_job(NULL);

	(void)state;
	ok(db_open(lost, &t.fault));
	id = *db_identity(lost);
	/* It holds a lock and has much to undo: it is gone only when that is done. */
	ok(db_begin(lost, &t.fault));
	ok(db_execf(lost, NULL, &t.fault, "UPDATE jobs SET priority=7 WHERE id=%u", job));
	ok(db_execf(lost, NULL, &t.fault,
		    "INSERT INTO jobs (kind) WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999),"
		    " m (j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM m WHERE j < 9) SELECT 'test' FROM n, m"));
	changed = id;
	changed.session_is_direct = false;
	assert_int_equal(db_end_session(t.db, &changed, 0, &t.fault), DB_END_UNKNOWN);
	changed = id;
	snprintf(changed.hostname, sizeof(changed.hostname), "elsewhere");
	assert_int_equal(db_end_session(t.db, &changed, 0, &t.fault), DB_END_UNKNOWN);
	assert_int_equal(ask_number("SELECT COUNT(*) FROM information_schema.processlist WHERE id=%u", id.session), 1);
	/* The server was started again since: it cannot have that session. */
	changed = id;
	changed.start_us -= 3600 * INT64_C(1000000);
	assert_int_equal(db_end_session(t.db, &changed, 0, &t.fault), DB_END_GONE);
	assert_int_equal(ask_number("SELECT COUNT(*) FROM information_schema.processlist WHERE id=%u", id.session), 1);

	assert_int_equal(db_end_session(t.db, &id, 60000, &t.fault), DB_END_GONE);
	assert_ended(id.session, job, "0");
	assert_int_equal(db_end_session(t.db, &id, 0, &t.fault), DB_END_GONE);
	assert_true(db_is_open(t.db));
	assert_int_equal(db_end_session(t.db, &(struct db_identity){.session = 0}, 0, &t.fault), DB_END_GONE);
	db_close(t.db);
	assert_int_equal(db_end_session(t.db, &id, 0, &t.fault), DB_END_FAILED);
	db_free(lost);
}

static void test_refused_connections(void **state)
{
	struct database_settings settings;
	struct db *db = store_test_new_db(&settings, "nobody_of_that_name", 5000);

	(void)state;
	assert_int_equal(db_open(db, &t.fault), DB_DENIED);
	assert_non_null(strstr(t.fault.text, "nobody_of_that_name"));
	assert_false(db_is_open(db));
	free(settings.user);
	settings.user = t.settings.user;
	settings.name = strdup("no_such_database");
	assert_int_equal(db_open(db, &t.fault), DB_SCHEMA);
	free(settings.name);
	settings.name = t.settings.name;
	settings.socket = strdup("/nonexistent/socket");
	assert_int_equal(db_open(db, &t.fault), DB_GONE);
	assert_non_null(strstr(t.fault.text, "/nonexistent/socket"));
	free(settings.socket);
	settings.socket = t.settings.socket;
	ok(db_open(db, &t.fault));
	db_free(db);
}

static void test_a_read_only_server_is_not_a_writer(void **state)
{
	struct database_settings settings;
	struct db *db = store_test_new_db(&settings, NULL, 5000);

	(void)state;
	run("SET GLOBAL read_only=1");
	assert_int_equal(db_open(db, &t.fault), DB_READONLY);
	assert_non_null(strstr(t.fault.text, "read_only"));
	settings.verify_writer = false;
	ok(db_open(db, &t.fault));
	run("SET GLOBAL read_only=0");
	db_free(db);
}

/* BR-71: a handler must not inherit the socket, the password, or an ignored SIGPIPE. */
static void test_nothing_leaks_into_children(void **state)
{
	struct sigaction action;

	(void)state;
	assert_true(fcntl((int)mysql_get_socket(t.db->mysql), F_GETFD) & FD_CLOEXEC);
	assert_int_equal(sigaction(SIGPIPE, NULL, &action), 0);
	assert_true(action.sa_handler == SIG_DFL);
	assert_null(getenv("MYSQL_PWD"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_values_survive_quoting, store_test_empty),
		cmocka_unit_test_setup(test_an_unknown_conversion_is_not_sent, store_test_empty),
		cmocka_unit_test_setup(test_numbers_that_are_none_read_as_zero, store_test_empty),
		cmocka_unit_test_setup(test_matched_counts_rows_that_stay_equal, store_test_empty),
		cmocka_unit_test_setup(test_session_is_set_up, store_test_empty),
		cmocka_unit_test_setup(test_hostile_init_connect, store_test_empty),
		cmocka_unit_test_setup(test_a_setting_that_does_not_stay_is_refused, store_test_empty),
		cmocka_unit_test_setup(test_identity, store_test_empty),
		cmocka_unit_test_setup(test_versions, store_test_empty),
		cmocka_unit_test_setup(test_classes, store_test_empty),
		cmocka_unit_test_setup(test_failures_of_a_real_server, store_test_empty),
		cmocka_unit_test_setup(test_oversize_is_refused_before_it_is_sent, store_test_empty),
		cmocka_unit_test_setup(test_a_lock_wait_rolls_the_transaction_back, store_test_empty),
		cmocka_unit_test_setup(test_transactions, store_test_empty),
		cmocka_unit_test_setup(test_lost_autocommit_is_noticed, store_test_empty),
		cmocka_unit_test_setup(test_a_connection_lost_in_a_write, store_test_empty),
		cmocka_unit_test_setup(test_a_commit_on_a_dead_connection_is_uncertain, store_test_empty),
		cmocka_unit_test_setup(test_a_timeout_is_a_lost_connection, store_test_empty),
		cmocka_unit_test_setup(test_end_session, store_test_empty),
		cmocka_unit_test_setup(test_refused_connections, store_test_empty),
		cmocka_unit_test_setup(test_a_read_only_server_is_not_a_writer, store_test_empty),
		cmocka_unit_test_setup(test_nothing_leaks_into_children, store_test_empty),
	};

	setenv("MYSQL_PWD", "wrong", 1);
	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
