/* db_session.c - what every session of ours is set to, and the proof that it is. */
#include "db/db_private.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DB_SESSION_VARIABLES 16

/* Room that is left in a packet for what is around a statement. */
#define DB_SESSION_PACKET_OVERHEAD 1024

struct db_session_variable {
	const char *name;
	char value[64];
	bool number; /* compared as a number: servers print 9.5 as 9.500000 */
};

struct db_session_plan {
	struct db_session_variable variables[DB_SESSION_VARIABLES];
	size_t count;
};

/* What the read-back asks for before the variables of the plan. */
enum db_session_column {
	DB_SESSION_ID,
	DB_SESSION_VERSION,
	DB_SESSION_HOSTNAME,
	DB_SESSION_PORT,
	DB_SESSION_SERVER_ID,
	DB_SESSION_NOW,
	DB_SESSION_PACKET,
	DB_SESSION_READ_ONLY,
	DB_SESSION_INNODB_READ_ONLY,
	DB_SESSION_FIXED
};

/* The digits at *text, and past the dot behind them; *last when none follows. */
static unsigned int db_session_version_part(const char **text, bool *last)
{
	unsigned int value = 0;

	while (**text >= '0' && **text <= '9' && value < 1000)
		value = value * 10 + (unsigned int)(*(*text)++ - '0');
	*last = **text != '.';
	if (!*last)
		(*text)++;
	return value;
}

void db_take_version(struct db *db, const char *text)
{
	unsigned int part[3] = {0, 0, 0};
	bool last = false;
	size_t i;

	db->mariadb = strcasestr(text, "mariadb") != NULL;
	snprintf(db->version_text, sizeof(db->version_text), "%s", text);
	/* MariaDB once put this before its version, for replication from older servers. */
	if (db->mariadb && strncmp(text, "5.5.5-", 6) == 0)
		text += 6;
	for (i = 0; i < 3 && !last; i++)
		part[i] = db_session_version_part(&text, &last);
	db->version = part[0] * 10000 + part[1] * 100 + part[2];
}

static void db_session_want(struct db_session_plan *plan, const char *name, bool number, const char *value)
{
	struct db_session_variable *v = &plan->variables[plan->count++];

	v->name = name;
	v->number = number;
	snprintf(v->value, sizeof(v->value), "%s", value);
}

static void db_session_want_number(struct db_session_plan *plan, const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	db_session_want(plan, name, true, text);
}

static void db_session_make_plan(const struct db *db, struct db_session_plan *plan)
{
	bool old_names = db->mariadb && db->version < 110101;
	char limit[32];

	plan->count = 0;
	db_session_want(plan, "character_set_client", false, "utf8mb4");
	db_session_want(plan, "character_set_results", false, "utf8mb4");
	db_session_want(plan, "collation_connection", false, "utf8mb4_bin");
	db_session_want(plan, old_names ? "tx_isolation" : "transaction_isolation", false, "READ-COMMITTED");
	db_session_want(plan, old_names ? "tx_read_only" : "transaction_read_only", true, "0");
	db_session_want(plan, "autocommit", true, "1");
	db_session_want(plan, "completion_type", false, "NO_CHAIN");
	db_session_want(plan, "time_zone", false, "+00:00");
	/* Strict, but without NO_ZERO_DATE: a row may hold a zero date, and recovery has to compare with it. */
	db_session_want(plan, "sql_mode", false, "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION");
	db_session_want(plan, "unique_checks", true, "1");
	db_session_want(plan, "sql_select_limit", true, "18446744073709551615");
	/* MySQL knows no "do not wait": a second is its least. */
	db_session_want_number(plan, "innodb_lock_wait_timeout",
			       db->options.lock_wait_s == 0 && !db->mariadb ? 1 : db->options.lock_wait_s);
	/* A low global setting must not end sessions that rest between two heartbeats. */
	db_session_want_number(plan, "wait_timeout", 28800);
	/* The server gives up before we stop listening, so that the answer is known. MySQL has a bound for reads only. */
	if (db->mariadb) {
		snprintf(limit, sizeof(limit), "%u.5", db->timeout_s - 1);
		db_session_want(plan, "max_statement_time", true, limit);
	} else {
		db_session_want_number(plan, "max_execution_time", (uint64_t)db->timeout_s * 1000 - 500);
	}
	/* FULL would put the payload into the binary log with every heartbeat. */
	if (!db->no_row_image)
		db_session_want(plan, "binlog_row_image", false, "NOBLOB");
}

static enum db_class db_session_set(struct db *db, const struct db_session_plan *plan, struct fault *f)
{
	enum db_class c = DB_OK;
	struct buf sql;
	size_t i;

	buf_init(&sql, DB_SQL_MAX);
	for (i = 0; i < plan->count; i++)
		db_sqlf(db, &sql, plan->variables[i].number ? "%r SESSION %r=%r" : "%r SESSION %r=%s", i == 0 ? "SET" : ",",
			plan->variables[i].name, plan->variables[i].value);
	if (!buf_ok(&sql))
		c = db_refuse(f, DB_OTHER, "no memory to set a session up");
	else if (mysql_real_query(db->mysql, sql.data, sql.len) != 0)
		c = db_fail(db, DB_FLIGHT_NONE, f);
	buf_free(&sql);
	return c;
}

static enum db_class db_session_ask_version(struct db *db, struct fault *f)
{
	struct db_rows *rows;
	enum db_class c = db_queryf(db, &rows, f, "SELECT VERSION()");

	if (c == DB_OK && db_rows_next(rows))
		db_take_version(db, db_text(rows, 0, NULL));
	db_rows_free(rows);
	return c;
}

/* One round trip where all goes well. A proxy may have greeted us with another server's version; the account may lack the
 * privilege for the row image: each is found out once, and the statement sent again. */
static enum db_class db_session_apply(struct db *db, struct db_session_plan *plan, struct fault *f)
{
	struct fault mine;
	enum db_class c;
	bool asked = false;

	for (;;) {
		db_session_make_plan(db, plan);
		c = db_session_set(db, plan, &mine);
		if (c == DB_DENIED && mine.number == 1227 && !db->no_row_image) {
			db->no_row_image = true;
		} else if (c == DB_SCHEMA && mine.number == 1193 && !asked) {
			asked = true;
			c = db_session_ask_version(db, f);
			if (c != DB_OK)
				return c;
		} else {
			break;
		}
	}
	if (c != DB_OK) {
		fault_prefix(&mine, "cannot set the session up");
		if (f != NULL)
			*f = mine;
	}
	return c;
}

/* 9.5 and 9.500000 are one number. */
static size_t db_session_number_len(const char *text)
{
	size_t len = strlen(text);

	if (strchr(text, '.') == NULL)
		return len;
	while (text[len - 1] == '0')
		len--;
	return text[len - 1] == '.' ? len - 1 : len;
}

static bool db_session_is(const struct db_session_variable *v, const char *found)
{
	if (found == NULL)
		return false;
	if (v->number)
		return db_session_number_len(found) == db_session_number_len(v->value)
		       && strncmp(found, v->value, db_session_number_len(v->value)) == 0;
	/* A named value of an enumeration is printed in the server's own spelling. */
	return strcasecmp(found, v->value) == 0;
}

static enum db_class db_session_compare(const struct db_session_plan *plan, const struct db_rows *rows, struct fault *f)
{
	const char *found;
	size_t i;

	for (i = 0; i < plan->count; i++) {
		found = db_text(rows, (unsigned int)(DB_SESSION_FIXED + i), NULL);
		if (!db_session_is(&plan->variables[i], found))
			return db_refuse(f, DB_SCHEMA,
					 "the session variable %s is \"%s\" although we set it to \"%s\": init_connect, a proxy "
					 "or a pooler between us and the server changes it back; give this account a direct route",
					 plan->variables[i].name, found != NULL ? found : "NULL", plan->variables[i].value);
	}
	return DB_OK;
}

/* Newer servers have words for read_only beside 0 and 1. */
static bool db_session_is_on(const char *value)
{
	return value != NULL && strcmp(value, "0") != 0 && strcasecmp(value, "OFF") != 0;
}

static enum db_class db_session_find_writer(const struct db *db, const struct db_rows *rows, struct fault *f)
{
	bool read_only = db_session_is_on(db_text(rows, DB_SESSION_READ_ONLY, NULL));
	bool innodb = db_session_is_on(db_text(rows, DB_SESSION_INNODB_READ_ONLY, NULL));
	char where[256];

	if (!db->options.database->verify_writer || (!read_only && !innodb))
		return DB_OK;
	return db_refuse(f, DB_READONLY,
			 "the server %s behind %s is read-only (%s is on): a replica, or a writer that was replaced",
			 db->identity.hostname, db_where(db, where, sizeof(where)), read_only ? "read_only" : "innodb_read_only");
}

static enum db_class db_session_read_back(struct db *db, const struct db_session_plan *plan, struct fault *f)
{
	struct db_rows *rows = NULL;
	enum db_class c;
	struct buf sql;
	size_t i;

	buf_init(&sql, DB_SQL_MAX);
	buf_adds(&sql, "SELECT CONNECTION_ID(), VERSION(), @@hostname, @@port, @@server_id,"
		       " TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), @@max_allowed_packet, @@GLOBAL.read_only,"
		       " @@GLOBAL.innodb_read_only");
	for (i = 0; i < plan->count; i++)
		buf_addf(&sql, ", @@SESSION.%s", plan->variables[i].name);
	c = db_query(db, &sql, &rows, f);
	buf_free(&sql);
	if (c != DB_OK)
		return c;
	if (!db_rows_next(rows)) {
		c = db_refuse(f, DB_OTHER, "the server did not answer what the session is set to");
		goto out;
	}
	db_take_version(db, db_text(rows, DB_SESSION_VERSION, NULL));
	db_copy(rows, DB_SESSION_HOSTNAME, db->identity.hostname, sizeof(db->identity.hostname));
	db->identity.port = (unsigned int)db_u64(rows, DB_SESSION_PORT);
	db->identity.server_id = db_u64(rows, DB_SESSION_SERVER_ID);
	db->identity.start_us = db_i64(rows, DB_SESSION_NOW); /* the uptime is taken off in db_session_take_start */
	db->identity.session = db_u64(rows, DB_SESSION_ID);
	/* The greeting has room for 32 bits of it. */
	db->identity.session_is_direct = (uint32_t)db->identity.session == (uint32_t)mysql_thread_id(db->mysql);
	db->packet_max = (size_t)db_u64(rows, DB_SESSION_PACKET) - DB_SESSION_PACKET_OVERHEAD;
	c = db_session_compare(plan, rows, f);
	if (c == DB_OK)
		c = db_session_find_writer(db, rows, f);
out:
	db_rows_free(rows);
	return c;
}

/* Both servers count the uptime on the clock that UTC_TIMESTAMP shows, so the difference does not move when that clock is stepped.
 * A clock that was set back to before the start makes it negative, and it is printed as a very large number. */
static int64_t db_session_uptime(const struct db_rows *rows)
{
	uint64_t uptime = db_u64(rows, 1);

	return uptime != 0 ? (int64_t)uptime : db_i64(rows, 1);
}

static enum db_class db_session_take_start(struct db *db, const struct db_identity *before, struct fault *f)
{
	struct db_rows *rows;
	enum db_class c = db_queryf(db, &rows, f, "SHOW GLOBAL STATUS LIKE 'Uptime'");

	if (c == DB_OK && db_rows_next(rows))
		db->identity.start_us -= db_session_uptime(rows) * 1000000;
	/* Each reading is off by a little; the same server keeps the one that it was first known by. */
	if (db_same_server(before, &db->identity))
		db->identity.start_us = before->start_us;
	db_rows_free(rows);
	return c;
}

enum db_class db_session_setup(struct db *db, struct fault *f)
{
	const struct db_identity before = db->identity;
	struct db_session_plan plan;
	enum db_class c;

	/* Until the server says otherwise: what is built now must be small. */
	db->packet_max = 64 * 1024;
	db_take_version(db, mysql_get_server_info(db->mysql));
	c = db_session_apply(db, &plan, f);
	if (c == DB_OK)
		c = db_session_read_back(db, &plan, f);
	if (c == DB_OK)
		c = db_session_take_start(db, &before, f);
	/* Half an identity is none. */
	if (c != DB_OK)
		db->identity = before;
	return c;
}
