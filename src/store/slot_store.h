/* slot_store.h - fleet slots: who holds one, who waits for one (layer: store; claimer, heartbeat, completer, recovery, promoter).
 *
 * A slot is a row of job_slots, named by its concurrency key and number. It is free while lease_id is NULL, and held under the
 * lease of a job from before its handler starts until it is known to have ended. Rows are made when they are first needed and
 * stay. A job that finds no free slot is a waiter: scheduled, with slot_wait naming its key. Every write names rows by primary
 * key and states again what it relies on; a transaction writes jobs first, then job_slots. */
#ifndef LEASEHOLD_STORE_SLOT_STORE_H
#define LEASEHOLD_STORE_SLOT_STORE_H

#include "model/job.h"
#include "store/store.h"

#define SLOT_STORE_PAGE 500   /* rows of one parking, promotion or page of held slots */
#define SLOT_STORE_KEYS 100   /* keys asked about at once */
#define SLOT_STORE_FAR "'9999-01-01 00:00:00'" /* run_at of a waiter: SQL */

/* A slot, and under which lease of which job it is (or is to be) held. */
struct slot_held {
	uint64_t id;
	char lease[UUID_TEXT_LEN + 1];
	struct job_slot slot;
};

/* ---- Before a claim */

/* What decides about a slot, of those of ids (sorted) that exist. key: the row's own, else its kind. */
struct slot_job {
	uint64_t id;
	char kind[JOB_KIND_MAX + 1];
	char key[JOB_KIND_MAX + 1];
};
enum db_class slot_store_jobs(struct db *db, const uint64_t *ids, size_t n, void (*each)(void *arg, const struct slot_job *job),
			      void *arg, struct fault *f) LH_MUST_CHECK;

/* A row of job_slots as it was read. */
struct slot_row {
	char key[JOB_KIND_MAX + 1];
	unsigned int number;
	bool held;
	uint64_t job;
	char lease[UUID_TEXT_LEN + 1]; /* "" = NULL: free */
	char locked_at[32];            /* as printed; "" = NULL */
	uint32_t lease_ms;             /* 0 = NULL */
};
/* All rows of up to SLOT_STORE_KEYS keys, in the order of key and number. */
enum db_class slot_store_read(struct db *db, const char (*keys)[JOB_KIND_MAX + 1], size_t n,
			      void (*each)(void *arg, const struct slot_row *row), void *arg, struct fault *f) LH_MUST_CHECK;
/* Up to SLOT_STORE_PAGE rows of any key after the given one (NULL: from the start). *count: how many. */
enum db_class slot_store_page(struct db *db, const struct slot_row *after, void (*each)(void *arg, const struct slot_row *row),
			      void *arg, size_t *count, struct fault *f) LH_MUST_CHECK;
/* Makes a free slot; one that is there already stays as it is. */
enum db_class slot_store_make(struct db *db, const struct job_slot *slot, struct fault *f) LH_MUST_CHECK;
/* Those of ids (sorted, up to SLOT_STORE_PAGE) that are still ready become waiters of their keys. */
enum db_class slot_store_park(struct db *db, const uint64_t *ids, size_t n, uint64_t *parked, struct fault *f) LH_MUST_CHECK;

/* ---- Holding */

/* Takes those of n slots that are still free, all under one lease, each for its job. Slots differ. */
enum db_class slot_store_take(struct db *db, const struct slot_held *rows, size_t n, uint32_t lease_ms, const char *worker,
			      uint64_t *won, struct fault *f) LH_MUST_CHECK;
/* Which of n slots are held just so: ours[i] tells of rows[i]. */
enum db_class slot_store_check(struct db *db, const struct slot_held *rows, size_t n, bool *ours, struct fault *f) LH_MUST_CHECK;
/* Renews those of n that are held just so. A lock wait is DB_RETRY. */
enum db_class slot_store_renew(struct db *db, const struct slot_held *rows, size_t n, uint64_t *matched,
			       struct fault *f) LH_MUST_CHECK;
/* Frees those of n that are held just so. freed may be NULL. */
enum db_class slot_store_free(struct db *db, const struct slot_held *rows, size_t n, uint64_t *freed,
			      struct fault *f) LH_MUST_CHECK;
/* The slot that a job holds under a lease: its key is "" when it holds none. For recovery, which knows no number. */
enum db_class slot_store_find(struct db *db, uint64_t id, const char *lease, struct job_slot *slot, struct fault *f) LH_MUST_CHECK;
/* Frees a held slot if it is exactly as it was read (lease and locked_at). */
enum db_class slot_store_free_lapsed(struct db *db, const struct slot_row *row, bool *freed, struct fault *f) LH_MUST_CHECK;

/* ---- Waiters */

/* The next keys for which jobs wait, in order, after the given one ("": from the start), and the oldest waiter of each. */
struct slot_waiter {
	char key[JOB_KIND_MAX + 1];
	uint64_t id;
};
enum db_class slot_store_waiting(struct db *db, const char *after, struct slot_waiter *out, size_t *count,
				 struct fault *f) LH_MUST_CHECK; /* out: room for SLOT_STORE_KEYS */
/* The most (up to SLOT_STORE_PAGE) oldest waiters of a key, ascending; kind is that of the first. */
enum db_class slot_store_oldest(struct db *db, const char *key, size_t most, uint64_t *ids, size_t *count, char *kind, size_t size,
				struct fault *f) LH_MUST_CHECK;
/* Those of ids (sorted) that still wait for the key become ready, at the place in the queue that their age gives them. */
enum db_class slot_store_promote(struct db *db, const char *key, const uint64_t *ids, size_t n, uint64_t *promoted,
				 struct fault *f) LH_MUST_CHECK;

/* The statements themselves, appended to sql: `check` asks the server how it would run them. */
void slot_store_add_jobs(struct buf *sql, const uint64_t *ids, size_t n);
void slot_store_add_read(struct db *db, struct buf *sql, const char (*keys)[JOB_KIND_MAX + 1], size_t n);
void slot_store_add_page(struct db *db, struct buf *sql, const struct slot_row *after);
void slot_store_add_make(struct db *db, struct buf *sql, const struct job_slot *slot);
void slot_store_add_park(struct buf *sql, const uint64_t *ids, size_t n);
void slot_store_add_take(struct db *db, struct buf *sql, const struct slot_held *rows, size_t n, uint32_t lease_ms,
			 const char *worker);
void slot_store_add_check(struct db *db, struct buf *sql, const struct slot_held *rows, size_t n);
void slot_store_add_renew(struct db *db, struct buf *sql, const struct slot_held *rows, size_t n);
void slot_store_add_free(struct db *db, struct buf *sql, const struct slot_held *rows, size_t n);
void slot_store_add_find(struct db *db, struct buf *sql, uint64_t id, const char *lease);
void slot_store_add_waiting(struct db *db, struct buf *sql, const char *after);
void slot_store_add_oldest(struct db *db, struct buf *sql, const char *key, size_t most);
void slot_store_add_promote(struct db *db, struct buf *sql, const char *key, const uint64_t *ids, size_t n);

#endif
