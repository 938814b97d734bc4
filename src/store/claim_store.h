/* claim_store.h - the statements that take jobs (layer: store; claimer threads). */
#ifndef LEASEHOLD_STORE_CLAIM_STORE_H
#define LEASEHOLD_STORE_CLAIM_STORE_H

#include "model/job.h"
#include "model/scan.h"
#include "store/store.h"

/* Reads up to window candidates of a queue in claim order after the cursor (from the head when it is not set). Non-locking,
 * covering index. A paused queue (job_queues.paused_at) yields none. */
enum db_class claim_store_scan(struct db *db, const char *queue, const struct scan_cursor *cursor, size_t window,
			       struct scan_row *rows, size_t *count, struct fault *f) LH_MUST_CHECK;

/* The compare-and-set: those of ids (sorted) that are still ready and due become running under lease. *won counts them. An
 * autocommit write: DB_UNCERTAIN means it may still happen. */
enum db_class claim_store_take(struct db *db, const uint64_t *ids, size_t n, const char *lease, uint32_t lease_ms,
			       const char *worker, uint64_t *won, struct fault *f) LH_MUST_CHECK;

/* What of ids runs under lease now. Calls each(arg, job) for every row: the callee takes the job. Payloads over 64 KiB are
 * fetched one by one. A row whose payload cannot be fetched stops with that class; jobs already handed over stay so. */
enum db_class claim_store_read(struct db *db, const uint64_t *ids, size_t n, const char *lease, uint32_t lease_ms,
			       void (*each)(void *arg, struct job *job), void *arg, struct fault *f) LH_MUST_CHECK;

/* Ready rows whose run_at is still to come go back to scheduled. */
enum db_class claim_store_put_back_early(struct db *db, const uint64_t *ids, size_t n, struct fault *f) LH_MUST_CHECK;

/* The statements themselves, appended to sql: `check` asks the server how it would run them. */
void claim_store_add_scan(struct db *db, struct buf *sql, const char *queue, const struct scan_cursor *cursor, size_t window);
void claim_store_add_take(struct db *db, struct buf *sql, const uint64_t *ids, size_t n, const char *lease, uint32_t lease_ms,
			  const char *worker);
void claim_store_add_read(struct db *db, struct buf *sql, const uint64_t *ids, size_t n, const char *lease);

#endif
