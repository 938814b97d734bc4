/* recover_store.h - finding and taking back lapsed leases (layer: store; the recovery thread). */
#ifndef LEASEHOLD_STORE_RECOVER_STORE_H
#define LEASEHOLD_STORE_RECOVER_STORE_H

#include "model/job.h"
#include "store/store.h"

#define RECOVER_PAGE 100

struct recover_row {
	uint64_t id;
	char kind[JOB_KIND_MAX + 1];
	char queue[JOB_QUEUE_MAX + 1];
	char lease[UUID_TEXT_LEN + 1]; /* "" = NULL */
	char locked_at[32];            /* as printed; "" = NULL; "0000-00-00 00:00:00.000000" can occur */
	char locked_by[STORE_WORKER_BYTES];
	char claimed_at[32];           /* "" = NULL */
	char traceparent[JOB_TRACEPARENT_MAX + 1]; /* "" = NULL */
	int priority;                  /* with run_at the row's place in claim order */
	char run_at[32];
	uint32_t lease_ms;             /* 0 = NULL */
	uint32_t claim_no;
	unsigned int attempt, max_attempts; /* max_attempts 0 = NULL */
	unsigned int orphan_streak;
	bool cancel_requested;
	bool lapsed; /* by the server's clock; NULL and zero lease fields are lapsed */
	bool future; /* its heartbeat lies in the server's future beyond the margin */
	struct job_slot slot; /* what it holds under its lease; none as read: see slot_store_find */
};

/* Running rows whose lease lapsed by the server's clock, or whose heartbeat lies beyond its future margin. rows has room for
 * RECOVER_PAGE. */
enum db_class recover_store_scan(struct db *db, int64_t margin_us, struct recover_row *rows, size_t *count,
				 struct fault *f) LH_MUST_CHECK;

/* All running rows, up to RECOVER_PAGE, in claim order (queue, priority, run_at, id) after the given row, which may be one of
 * rows (NULL: from the start). For the observation rule. */
enum db_class recover_store_running(struct db *db, int64_t margin_us, const struct recover_row *after, struct recover_row *rows,
				    size_t *count, struct fault *f) LH_MUST_CHECK;

enum recover_to { RECOVER_SCHEDULED, RECOVER_DEAD, RECOVER_CANCELLED };
/* Takes one row back if it is exactly as it was read (lease and locked_at), with its ledger row (lease_lapsed), in one
 * transaction, in which its slot, where one is named, is freed too. *taken is false when the row has moved on. The lost attempt
 * counts. reason goes to last_error. A requested cancel wins over scheduled. */
enum db_class recover_store_take(struct db *db, const struct recover_row *row, enum recover_to to, int64_t delay_ms,
				 const char *reason, bool *taken, struct fault *f) LH_MUST_CHECK;

/* The server's clock, UTC microseconds since 1970, and when the next lease can lapse by it (running rows: the smallest locked_at
 * + lease_ms, as milliseconds from now; 0 when one has lapsed; -1 when nothing runs). */
enum db_class recover_store_clock(struct db *db, int64_t *server_us, struct fault *f) LH_MUST_CHECK;
enum db_class recover_store_next(struct db *db, int64_t *next_ms, struct fault *f) LH_MUST_CHECK;

/* The statements themselves, appended to sql: `check` asks the server how it would run them. */
void recover_store_add_scan(struct db *db, struct buf *sql, int64_t margin_us);
void recover_store_add_running(struct db *db, struct buf *sql, int64_t margin_us, const struct recover_row *after);
void recover_store_add_take(struct db *db, struct buf *sql, const struct recover_row *row, enum recover_to to, int64_t delay_ms,
			    const char *reason);

#endif
