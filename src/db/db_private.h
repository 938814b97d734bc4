/* db_private.h - what the files of src/db share (layer: db; included nowhere else but in tests of this room).
 *
 * db.c opens and closes, db_session.c sets a session up, db_statement.c sends statements, db_rows.c reads results, db_sql.c quotes,
 * db_class.c judges failures, db_end.c ends a session that was lost. */
#ifndef LEASEHOLD_DB_DB_PRIVATE_H
#define LEASEHOLD_DB_DB_PRIVATE_H

#include "db/db.h"

#include <mysql.h>
#include <stdarg.h>

/* The most bytes that a statement built from a format may have; a server's own bound is usually lower. */
#define DB_SQL_MAX (64u * 1024 * 1024)

struct db {
	struct db_options options;
	MYSQL *mysql; /* also while closed, for quoting; NULL only when memory ran out */
	bool open;
	bool in_transaction;
	bool no_row_image; /* the account may not set binlog_row_image: learned at the first open, not asked again */
	bool mariadb;
	unsigned int version;
	char version_text[96];
	unsigned int timeout_s; /* the library's read and write timeout */
	size_t packet_max;
	struct db_identity identity;
};

struct db_rows {
	MYSQL_RES *result; /* NULL: the statement had none */
	MYSQL_ROW row;
	unsigned long *lengths;
};

/* What could still land at the server when the connection is lost now. */
enum db_flight {
	DB_FLIGHT_NONE,  /* a read, or anything inside a transaction: losing the connection rolls back */
	DB_FLIGHT_WRITE, /* a write in autocommit mode */
	DB_FLIGHT_COMMIT
};

/* The class of a server's or the library's error number. *closes: the connection is of no use afterwards. */
enum db_class db_classify(unsigned int number, const char *sqlstate, enum db_flight flight, bool *closes);

/* Judges the failure that the library reports now: fills f, rolls back or closes as the class asks for, returns the class. */
enum db_class db_fail(struct db *db, enum db_flight flight, struct fault *f);

/* Fills f for a failure of our own making. */
enum db_class db_refuse(struct fault *f, enum db_class c, const char *fmt, ...) LH_PRINTF(3, 4);

/* Where this connection leads, for messages: "socket /run/x" or "host:port". Returns out. */
char *db_where(const struct db *db, char *out, size_t size);

enum db_class db_session_setup(struct db *db, struct fault *f) LH_MUST_CHECK;

/* Takes flavour and version from a text such as "10.11.19-MariaDB-log". */
void db_take_version(struct db *db, const char *text);

void db_vsqlf(struct db *db, struct buf *sql, const char *fmt, va_list ap);

#endif
