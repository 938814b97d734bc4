/* lease_store.h - renewal and what the holder must know of its rows (layer: store; heartbeat threads). */
#ifndef LEASEHOLD_STORE_LEASE_STORE_H
#define LEASEHOLD_STORE_LEASE_STORE_H

#include "model/job.h"
#include "store/store.h"

/* Moves locked_at to the server's now for those of rows (sorted by id) that still run under their lease. A lock wait is
 * DB_RETRY. */
enum db_class lease_store_renew(struct db *db, const struct store_held *rows, size_t n, uint64_t *matched,
				struct fault *f) LH_MUST_CHECK;

/* Renews one row, and waits up to a second for its lock, in turn with all others that want it. For sessions that otherwise do
 * not wait. */
enum db_class lease_store_renew_waiting(struct db *db, const struct store_held *row, struct fault *f) LH_MUST_CHECK;

struct lease_row {
	uint64_t id;
	char lease[UUID_TEXT_LEN + 1]; /* "" = NULL */
	enum job_state state;
	bool cancel_requested;
};
/* Reads rows by id without locking, and returns them in the order of their ids; a deleted row is missing from the answer. out has
 * room for n. */
enum db_class lease_store_read(struct db *db, const struct store_held *rows, size_t n, struct lease_row *out, size_t *count,
			       struct fault *f) LH_MUST_CHECK;

/* A statement that proves the connection and the server can answer. Asks for nothing. */
enum db_class lease_store_ping(struct db *db, struct fault *f) LH_MUST_CHECK;

/* The statements themselves, appended to sql: `check` asks the server how it would run them. */
void lease_store_add_renew(struct db *db, struct buf *sql, const struct store_held *rows, size_t n);
void lease_store_add_read(struct buf *sql, const struct store_held *rows, size_t n);

#endif
