/* db_statement.c - sending statements, transactions, and what a failure does to the connection. */
#include "db/db_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum lh_err db_statement_code(enum db_class c)
{
	switch (c) {
	case DB_GONE:
	case DB_UNCERTAIN:
		return LH_ERR_LOST;
	case DB_DATA:
	case DB_DUPLICATE:
		return LH_ERR_INPUT;
	case DB_CROWDED:
		return LH_ERR_LIMIT;
	default:
		return LH_ERR_SYSTEM;
	}
}

enum db_class db_refuse(struct fault *f, enum db_class c, const char *fmt, ...)
{
	char text[sizeof(((struct fault *)NULL)->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)fault_set(f, db_statement_code(c), "%s", text);
	if (f != NULL) {
		f->number = 0;
		f->sqlstate[0] = '\0';
	}
	return c;
}

/* Servers quote pieces of a statement in their messages; a fault is one line. */
static void db_statement_one_line(char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || *text == '\x7f')
			*text = ' ';
}

enum db_class db_fail(struct db *db, enum db_flight flight, struct fault *f)
{
	unsigned int number = mysql_errno(db->mysql);
	char text[384], state[6], where[256];
	enum db_class c;
	bool closes;

	snprintf(text, sizeof(text), "%s", mysql_error(db->mysql));
	snprintf(state, sizeof(state), "%s", mysql_sqlstate(db->mysql));
	db_statement_one_line(text);
	c = db_classify(number, state, flight, &closes);
	if (closes)
		(void)db_refuse(f, c, "database at %s: %s (error %u)", db_where(db, where, sizeof(where)), text, number);
	else
		(void)db_refuse(f, c, "%s (error %u)", text, number);
	if (f != NULL) {
		f->number = number;
		memcpy(f->sqlstate, state, sizeof(f->sqlstate));
	}
	if (closes)
		db_close(db);
	else if (c == DB_RETRY)
		db_rollback(db);
	return c;
}

/* Refuses what cannot be sent: a server answers an oversize packet by hanging up, which looks like a lost connection and would
 * be retried for ever. */
static enum db_class db_statement_ready(const struct db *db, const struct buf *sql, struct fault *f)
{
	if (!db->open)
		return db_refuse(f, DB_GONE, "not connected to the database");
	if (!buf_ok(sql))
		return db_refuse(f, DB_DATA, "a statement could not be built: more than %zu bytes, or no memory", sql->limit);
	if (sql->len > db->packet_max)
		return db_refuse(f, DB_DATA,
				 "a statement of %zu bytes is more than the server takes (max_allowed_packet allows %zu)", sql->len,
				 db->packet_max);
	return DB_OK;
}

/* A session that stays in a transaction after an autocommit write has lost autocommit: closing it undoes the write, so nothing
 * is in doubt. */
static enum db_class db_statement_committed(struct db *db, struct fault *f)
{
	if (db->in_transaction || !(db->mysql->server_status & SERVER_STATUS_IN_TRANS))
		return DB_OK;
	db_close(db);
	return db_refuse(f, DB_OTHER, "autocommit was switched off in our session: something between us and the server changes it");
}

enum db_class db_exec(struct db *db, const struct buf *sql, uint64_t *matched, struct fault *f)
{
	enum db_flight flight = db->in_transaction ? DB_FLIGHT_NONE : DB_FLIGHT_WRITE;
	enum db_class c = db_statement_ready(db, sql, f);
	MYSQL_RES *unwanted;

	if (matched != NULL)
		*matched = 0;
	if (c != DB_OK)
		return c;
	if (mysql_real_query(db->mysql, sql->data, sql->len) != 0)
		return db_fail(db, flight, f);
	if (matched != NULL)
		*matched = mysql_affected_rows(db->mysql);
	if (mysql_field_count(db->mysql) > 0) {
		unwanted = mysql_store_result(db->mysql);
		if (unwanted == NULL)
			return db_fail(db, flight, f);
		mysql_free_result(unwanted);
	}
	return db_statement_committed(db, f);
}

enum db_class db_execf(struct db *db, uint64_t *matched, struct fault *f, const char *fmt, ...)
{
	enum db_class c;
	struct buf sql;
	va_list ap;

	buf_init(&sql, DB_SQL_MAX);
	va_start(ap, fmt);
	db_vsqlf(db, &sql, fmt, ap);
	va_end(ap);
	c = db_exec(db, &sql, matched, f);
	buf_free(&sql);
	return c;
}

uint64_t db_last_insert_id(const struct db *db)
{
	return db->mysql != NULL ? mysql_insert_id(db->mysql) : 0;
}

enum db_class db_query(struct db *db, const struct buf *sql, struct db_rows **rows, struct fault *f)
{
	enum db_class c = db_statement_ready(db, sql, f);
	struct db_rows *r;

	*rows = NULL;
	if (c != DB_OK)
		return c;
	r = calloc(1, sizeof(*r));
	if (r == NULL)
		return db_refuse(f, DB_OTHER, "no memory for a result");
	if (mysql_real_query(db->mysql, sql->data, sql->len) != 0) {
		c = db_fail(db, DB_FLIGHT_NONE, f);
		goto out;
	}
	r->result = mysql_store_result(db->mysql);
	if (r->result == NULL && mysql_field_count(db->mysql) > 0) {
		c = db_fail(db, DB_FLIGHT_NONE, f);
		goto out;
	}
	*rows = r;
	r = NULL;
out:
	free(r);
	return c;
}

enum db_class db_queryf(struct db *db, struct db_rows **rows, struct fault *f, const char *fmt, ...)
{
	enum db_class c;
	struct buf sql;
	va_list ap;

	buf_init(&sql, DB_SQL_MAX);
	va_start(ap, fmt);
	db_vsqlf(db, &sql, fmt, ap);
	va_end(ap);
	c = db_query(db, &sql, rows, f);
	buf_free(&sql);
	return c;
}

/* BEGIN, COMMIT and ROLLBACK: constants, so nothing can be wrong with them before they are sent. */
static enum db_class db_statement_bare(struct db *db, const char *sql, enum db_flight flight, struct fault *f)
{
	if (!db->open)
		return db_refuse(f, DB_GONE, "not connected to the database");
	return mysql_real_query(db->mysql, sql, strlen(sql)) == 0 ? DB_OK : db_fail(db, flight, f);
}

enum db_class db_begin(struct db *db, struct fault *f)
{
	enum db_class c = db_statement_bare(db, "START TRANSACTION", DB_FLIGHT_NONE, f);

	db->in_transaction = c == DB_OK;
	return c;
}

enum db_class db_commit(struct db *db, struct fault *f)
{
	enum db_class c = db_statement_bare(db, "COMMIT", DB_FLIGHT_COMMIT, f);

	db->in_transaction = false;
	return c;
}

void db_rollback(struct db *db)
{
	if (!db->open || !db->in_transaction)
		return;
	db->in_transaction = false;
	if (mysql_real_query(db->mysql, "ROLLBACK", strlen("ROLLBACK")) != 0)
		db_close(db);
}

bool db_in_transaction(const struct db *db)
{
	return db->in_transaction;
}
