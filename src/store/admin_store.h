/* admin_store.h - what operators ask from the command line (layer: store; the CLI's one thread).
 *
 * Reads are bounded. Lists and bulk selections go through an index of jobs and are ended by the server after ADMIN_READ_LIMIT_S
 * seconds (the fault then names the limit). Counts stop at ADMIN_COUNT_MAX: that number means "so many, or more". */
#ifndef LEASEHOLD_STORE_ADMIN_STORE_H
#define LEASEHOLD_STORE_ADMIN_STORE_H

#include "model/job.h"
#include "store/store.h"

#define ADMIN_READ_LIMIT_S 10
#define ADMIN_COUNT_MAX 100000u  /* index entries looked at for one count */
#define ADMIN_SAMPLE_MAX 10000u  /* rows of a state looked at for counts by kind */
#define ADMIN_LEDGER_MAX 20000u  /* ledger rows looked at for the last hour's figures */
#define ADMIN_ATTEMPTS_MAX 1000u /* newest ledger rows shown of one job */
#define ADMIN_QUEUES_MAX 1000u   /* queues looked at */
#define ADMIN_KEYS_MAX 100u      /* concurrency keys shown */
#define ADMIN_PAGE_MAX 10000u    /* rows of a list, ids of a selection */
#define ADMIN_BATCH_MAX 100u     /* rows of one bulk write */
#define ADMIN_RETRY_MAX 1000u    /* attempts that a retry may add */

struct job_filter { /* NULL / 0 / -1: any */
	const char *queue, *kind;
	int state;         /* enum job_state or -1 */
	uint64_t after_id; /* the last id of the page before: larger ids, or smaller ones with newest_first */
	uint64_t limit;    /* 1 to ADMIN_PAGE_MAX */
	bool newest_first;
};
/* Columns of the result are named as in the table; callers print by name. Without payload and result, and with the beginning of
 * last_error. */
enum db_class admin_store_list(struct db *db, const struct job_filter *filter, struct db_rows **rows,
			       struct fault *f) LH_MUST_CHECK;
/* One row of all columns that mean something to a person; none when there is no such job. */
enum db_class admin_store_show(struct db *db, uint64_t id, struct db_rows **rows, struct fault *f) LH_MUST_CHECK;
/* The job's ledger, oldest first. */
enum db_class admin_store_attempts(struct db *db, uint64_t id, struct db_rows **rows, struct fault *f) LH_MUST_CHECK;
/* The steps that were saved for it, in the order of first saving: name, claim_no, saved_at, bytes, data. */
enum db_class admin_store_steps(struct db *db, uint64_t id, struct db_rows **rows, struct fault *f) LH_MUST_CHECK;
/* Where a bulk command goes on: after this row, in claim order. Starts as {0}. */
struct admin_cursor {
	bool set;
	char queue[JOB_QUEUE_MAX + 1];
	int priority;
	char run_at[32];
	uint64_t id;
};
/* The next jobs a bulk command would touch: looks at the next filter->limit jobs of filter->state (not -1) and filter->queue in
 * claim order, and returns the ids, ascending, of those that are of filter->kind. *end: there are no more. No job is looked at
 * twice, and however many there are, one call costs the same. */
enum db_class admin_store_select(struct db *db, const struct job_filter *filter, struct admin_cursor *cursor, uint64_t *ids,
				 size_t *count, bool *end, struct fault *f) LH_MUST_CHECK;

enum admin_result {
	ADMIN_DONE,
	ADMIN_MISSING,        /* no such job */
	ADMIN_NOT_THAT_STATE, /* *state tells what it is in */
	ADMIN_REQUESTED,      /* cancel of a running job: requested */
	ADMIN_TWIN            /* retry: *twin, which is in *state, has its unique key (0: it let go of it meanwhile) */
};
/* dead or cancelled -> ready and due now, max_attempts = attempt + extra (1 to ADMIN_RETRY_MAX, saturating), lease, lock,
 * result, finish and cancel cleared; the streak of lapsed leases starts anew. */
enum db_class admin_store_retry(struct db *db, uint64_t id, unsigned int extra, enum admin_result *result, enum job_state *state,
				uint64_t *twin, struct fault *f) LH_MUST_CHECK;
/* ready or scheduled -> cancelled; running -> cancel requested, where running_too says so (else ADMIN_NOT_THAT_STATE). */
enum db_class admin_store_cancel(struct db *db, uint64_t id, bool running_too, enum admin_result *result, enum job_state *state,
				 struct fault *f) LH_MUST_CHECK;

/* The same for up to ADMIN_BATCH_MAX ids (sorted) in one statement: *matched counts those that were in a state that permits it;
 * the others stay as they are. DB_DUPLICATE, of retry_many: another job has the key of one of them, nothing was changed.
 * running: request the cancel of those that run, else cancel those that wait. */
enum db_class admin_store_retry_many(struct db *db, const uint64_t *ids, size_t n, unsigned int extra, uint64_t *matched,
				     struct fault *f) LH_MUST_CHECK;
enum db_class admin_store_cancel_many(struct db *db, const uint64_t *ids, size_t n, bool running, uint64_t *matched,
				      struct fault *f) LH_MUST_CHECK;

struct admin_queue {
	char queue[JOB_QUEUE_MAX + 1];
	char paused_at[32]; /* as printed; "" = not paused */
	char paused_by[128 * 4 + 1];
	uint64_t ready, scheduled, running, dead; /* up to ADMIN_COUNT_MAX each */
	int64_t oldest_ready_s;                   /* how long the job that waits longest has been due; -1: none waits */
};
/* Every queue with a job that is ready, scheduled, running or dead, and every one that was ever paused; by name. */
enum db_class admin_store_queues(struct db *db, void (*each)(void *arg, const struct admin_queue *queue), void *arg,
				 struct fault *f) LH_MUST_CHECK;
/* Pausing twice keeps the first time and name. *was_paused: it was so before. */
enum db_class admin_store_pause(struct db *db, const char *queue, const char *by, bool *was_paused, struct fault *f) LH_MUST_CHECK;
enum db_class admin_store_resume(struct db *db, const char *queue, bool *was_paused, struct fault *f) LH_MUST_CHECK;
/* The rows of job_workers with `stale`: not seen for longer than its own lease; and `seen_s`, the age of the last sign of life. */
enum db_class admin_store_workers(struct db *db, struct db_rows **rows, struct fault *f) LH_MUST_CHECK;

/* Counts of each state (state, jobs, oldest_s: of ready ones, how long the job that waits longest has been due). */
enum db_class admin_store_stats(struct db *db, struct db_rows **rows, struct fault *f) LH_MUST_CHECK;
/* Counts by kind of what is ready, scheduled, running or dead, among the first ADMIN_SAMPLE_MAX rows of each state (kind and
 * the states' names). */
enum db_class admin_store_stats_kinds(struct db *db, struct db_rows **rows, struct fault *f) LH_MUST_CHECK;
/* Of up to ADMIN_KEYS_MAX concurrency keys each with held slots or with waiters: concurrency_key, held, waiting. */
enum db_class admin_store_stats_slots(struct db *db, struct db_rows **rows, struct fault *f) LH_MUST_CHECK;
/* What the ledger has of the last hour, among its ADMIN_LEDGER_MAX newest rows by job id (outcome, attempts). */
enum db_class admin_store_stats_ledger(struct db *db, struct db_rows **rows, struct fault *f) LH_MUST_CHECK;

#endif
