/* store.h - what all statements share (layer: store). Every SQL statement of Leasehold lives in this folder, in one file per
 * concern; each function takes the calling thread's own connection and returns its enum db_class. Nothing here logs,
 * sleeps or retries: the caller decides. */
#ifndef LEASEHOLD_STORE_STORE_H
#define LEASEHOLD_STORE_STORE_H

#include "base/random.h"
#include "db/db.h"

/* Room for locked_by and its like: VARCHAR(128) of utf8mb4, and a NUL. */
#define STORE_WORKER_BYTES (128 * 4 + 1)

/* A row of a batch: which job, under which lease. */
struct store_held {
	uint64_t id;
	char lease[UUID_TEXT_LEN + 1];
};

/* Appends "(id, id, ...)" / "((id,'lease'), ...)"; the caller sorted rows by id. */
void store_add_ids(struct buf *sql, const struct store_held *rows, size_t n);
void store_add_pairs(struct db *db, struct buf *sql, const struct store_held *rows, size_t n);
void store_add_id_list(struct buf *sql, const uint64_t *ids, size_t n);
void store_sort_ids(uint64_t *ids, size_t n); /* ascending, as every statement names them */

/* Appends the assignments by which a running row goes back to state ("ready" or "scheduled"), or to cancelled where a cancel was
 * requested: then it ends as its holder's, and keeps the lease. give_back: the attempt is not counted. */
void store_add_return(struct buf *sql, const char *state, bool give_back);

/* db_exec and db_query for a statement built in sql, which is freed. */
enum db_class store_exec(struct db *db, struct buf *sql, uint64_t *matched, struct fault *f) LH_MUST_CHECK;
enum db_class store_query(struct db *db, struct buf *sql, struct db_rows **rows, struct fault *f) LH_MUST_CHECK;

/* Bound for a built statement: the server's packet, and never more than this many bytes. */
#define STORE_SQL_MAX (64u * 1024 * 1024)

#endif
