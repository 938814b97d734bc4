/* db.h - one connection to MariaDB or MySQL (layer: db; one thread at a time, the one that opened it).
 *
 * The only room that knows <mysql.h>. Text protocol; every value is quoted here. A failure is classified once, as enum db_class,
 * and callers switch on the class. After GONE, UNCERTAIN, READONLY, CROWDED or OTHER the connection is closed: db_open again.
 * After RETRY an open transaction has been rolled back. After DUPLICATE, DATA, SCHEMA or DENIED it is still open (only the
 * statement was undone), unless db_is_open says otherwise. Never reconnects by itself. */
#ifndef LEASEHOLD_DB_DB_H
#define LEASEHOLD_DB_DB_H

#include "base/buf.h"
#include "base/fault.h"
#include "model/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum db_class {
	DB_OK = 0,
	DB_RETRY,     /* deadlock, lock wait, snapshot conflict: rolled back, run the whole unit again, with jitter */
	DB_GONE,      /* connection lost; nothing that could still commit was in flight */
	DB_UNCERTAIN, /* connection lost while a write or a COMMIT was in flight: it may land later */
	DB_DUPLICATE, /* 1062, 1586: a unique key */
	DB_DATA,      /* this one row's values, or a statement too large: statement rolled back */
	DB_SCHEMA,    /* table, column or statement does not fit the schema */
	DB_DENIED,    /* account or privileges, also a refused login */
	DB_READONLY,  /* a read-only server: go and find the writer */
	DB_CROWDED,   /* no connection to be had: 1040, 1203, 1226 */
	DB_OTHER      /* not in the table: logged with its number, treated like GONE by loops */
};
const char *db_class_name(enum db_class c);

/* Once, before any thread: initialises the client library with SIGPIPE and the environment (MYSQL_PWD and its like are removed)
 * under control. */
enum lh_err db_library_init(struct fault *f) LH_MUST_CHECK;
void db_library_end(void);

struct db;

struct db_options {
	const struct database_settings *database; /* borrowed for the life of the db */
	int64_t timeout_ms;       /* to wait for one answer; rounded up to whole seconds (the library's unit), above lock_wait_s */
	unsigned int lock_wait_s; /* innodb_lock_wait_timeout, 0 to 60; 0: do not wait (MySQL: 1) */
};

/* Which server this is, and which connection. Valid while open, and kept after a loss, for db_end_session. */
struct db_identity {
	char hostname[128];
	unsigned int port;
	uint64_t server_id;
	int64_t start_us;       /* server UTC at its start, to the second or so: compare with db_same_server */
	uint64_t session;       /* CONNECTION_ID() */
	bool session_is_direct; /* CONNECTION_ID() equals the client's own thread id: no proxy renumbers it */
};

struct db *db_new(const struct db_options *options); /* NULL without memory; not connected */
void db_free(struct db *db);                          /* closes; NULL is allowed */

/* Connects and sets the session up (READ COMMITTED, autocommit, UTC, strict sql_mode without NO_ZERO_DATE, utf8mb4, lock wait,
 * NOBLOB row image where allowed, CLIENT_FOUND_ROWS, never auto-reconnect), then reads all of it back. DB_READONLY when the
 * server refuses writes and database.verify_writer is set. */
enum db_class db_open(struct db *db, struct fault *f) LH_MUST_CHECK;
void db_close(struct db *db);
bool db_is_open(const struct db *db);
const struct db_identity *db_identity(const struct db *db);
bool db_same_server(const struct db_identity *a, const struct db_identity *b);
/* Of the server and its start, not of the session. It stays the same over all connections of one db to one running server; another
 * db may know the same server by another hash. */
uint64_t db_identity_hash(const struct db_identity *id);
bool db_is_mariadb(const struct db *db);
unsigned int db_version(const struct db *db);            /* 101119 for 10.11.19 */
const char *db_version_text(const struct db *db);
size_t db_packet_max(const struct db *db); /* bytes a statement may have here: @@max_allowed_packet less an overhead */

/* Appends SQL to a buffer with values quoted for this connection (db must be open, or have been). Conversions:
 *   %s  const char *: quoted string, or NULL          %b  const char *, size_t: quoted bytes
 *   %u  uint64_t      %d  int64_t                      %r  const char *: SQL as it is, never a value
 *   %%  a percent sign. No flags, no widths. Any other conversion makes the buffer bad. Call with exact types: (uint64_t)x. */
void db_sqlf(struct db *db, struct buf *sql, const char *fmt, ...);

/* A statement without a result set. *matched (may be NULL): rows matched, not rows changed. */
enum db_class db_exec(struct db *db, const struct buf *sql, uint64_t *matched, struct fault *f) LH_MUST_CHECK;
enum db_class db_execf(struct db *db, uint64_t *matched, struct fault *f, const char *fmt,
		       ...) LH_MUST_CHECK; /* db_sqlf conversions */
uint64_t db_last_insert_id(const struct db *db);

/* A statement with a result set, which is read to its end into rows (caller frees with db_rows_free). */
struct db_rows;
enum db_class db_query(struct db *db, const struct buf *sql, struct db_rows **rows, struct fault *f) LH_MUST_CHECK;
enum db_class db_queryf(struct db *db, struct db_rows **rows, struct fault *f, const char *fmt, ...) LH_MUST_CHECK;
size_t db_rows_count(const struct db_rows *rows);
bool db_rows_next(struct db_rows *rows); /* moves to the next row; false after the last */
void db_rows_free(struct db_rows *rows); /* NULL is allowed */
/* Values of the current row by column number; NULL, and what is no whole number of that range, reads as NULL, 0 or false. Text is
 * NUL-terminated and valid until the next row. */
const char *db_text(const struct db_rows *rows, unsigned int column, size_t *len);
bool db_is_null(const struct db_rows *rows, unsigned int column);
uint64_t db_u64(const struct db_rows *rows, unsigned int column);
int64_t db_i64(const struct db_rows *rows, unsigned int column);
void db_copy(const struct db_rows *rows, unsigned int column, char *out, size_t size); /* cut to fit */
unsigned int db_rows_columns(const struct db_rows *rows);
const char *db_column_name(const struct db_rows *rows, unsigned int column);

enum db_class db_begin(struct db *db, struct fault *f) LH_MUST_CHECK;
enum db_class db_commit(struct db *db, struct fault *f) LH_MUST_CHECK;
void db_rollback(struct db *db); /* whatever happened before; closes the connection when even that fails */
bool db_in_transaction(const struct db *db);

enum db_end {
	DB_END_GONE,    /* it is known that the session has ended: nothing of it can land any more, though it may be undoing */
	DB_END_UNKNOWN, /* it cannot be known (a proxy, another server behind the name, or it does not go away) */
	DB_END_FAILED   /* the database did not answer: try again on a new connection */
};
/* Ends an earlier session of ours on the same server: KILL, again and again until the server does not know it any more or wait_ms
 * has passed. A server that was restarted since has no such session. db must be open and not in a transaction. */
enum db_end db_end_session(struct db *db, const struct db_identity *lost, int64_t wait_ms, struct fault *f);

#endif
