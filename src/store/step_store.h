/* step_store.h - the steps that handlers save for their next attempts (layer: store; the completer writes, claimers read). */
#ifndef LEASEHOLD_STORE_STEP_STORE_H
#define LEASEHOLD_STORE_STEP_STORE_H

#include "model/job.h"
#include "store/store.h"

/* A step on its way to the table; borrows everything. */
struct step_row {
	uint64_t id;
	const char *lease;
	const char *name;
	const char *data;
	size_t data_len;
	uint32_t save_no; /* grows with every saving of the job */
};

/* Saves each of n steps, all or none (one alone is an autocommit write), as long as its job runs under its lease: saved[i] tells,
 * where not nothing changed. A step that has a later save_no already is left as it is, and counts as saved; so a step may be sent
 * again after a lost reply, and an earlier one that lands late does no harm. Never waits for a job's row: DB_RETRY when it is
 * locked. On anything but DB_OK nothing is known of any of them. */
enum db_class step_store_save(struct db *db, const struct step_row *steps, size_t n, bool *saved, struct fault *f) LH_MUST_CHECK;

/* Gives each job (sorted by id, without steps) what was saved for it, in the order of first saving, and its step_no. A job that
 * has more than JOB_STEPS_MAX steps, a value of more than JOB_STEPS_BYTES_MAX bytes, or several times as much in all, which no
 * handler can have saved, gets none of them and is marked as steps_unfit. On anything but DB_OK the jobs are good for nothing
 * but job_free. */
enum db_class step_store_read(struct db *db, struct job *const *jobs, size_t n, struct fault *f) LH_MUST_CHECK;

/* The statements themselves, appended to sql: `check` asks the server how it would run them. */
void step_store_add_save(struct db *db, struct buf *sql, const struct step_row *step);
void step_store_add_read(struct db *db, struct buf *sql, struct job *const *jobs, size_t n);

#endif
