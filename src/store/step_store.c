/* step_store.c - see step_store.h. */
#include "store/step_store.h"

#include <stdlib.h>
#include <string.h>

/* One statement is the fence and the write. It locks the job's row, so a settlement or a recovery comes before it or after it, and
 * it has nothing to lock where the row is not ours. NOWAIT: the handler itself may hold its row locked while it waits for the
 * answer. The values stand there twice, because the servers do not agree on a name for what was to be inserted. */
void step_store_add_save(struct db *db, struct buf *sql, const struct step_row *step)
{
	uint64_t no = step->save_no;

	db_sqlf(db, sql,
		"INSERT INTO job_steps (job_id, name, seq, save_no, claim_no, saved_at, data)"
		" SELECT id, %s, %u, %u, jobs.claim_no, UTC_TIMESTAMP(6), %b FROM jobs FORCE INDEX (PRIMARY)"
		" WHERE id=%u AND lease_id=%s AND state='running' FOR UPDATE NOWAIT"
		" ON DUPLICATE KEY UPDATE",
		step->name, no, no, step->data, step->data_len, step->id, step->lease);
	/* Assigned from left to right: save_no, which the others look at, comes last. */
	db_sqlf(db, sql,
		" data=IF(job_steps.save_no > %u, job_steps.data, %b),"
		" saved_at=IF(job_steps.save_no > %u, job_steps.saved_at, UTC_TIMESTAMP(6)),"
		" claim_no=jobs.claim_no, save_no=GREATEST(job_steps.save_no, %u)",
		no, step->data, step->data_len, no, no);
}

static enum db_class step_store_send(struct db *db, const struct step_row *step, bool *saved, struct fault *f)
{
	uint64_t matched = 0;
	enum db_class c;
	struct buf sql;

	buf_init(&sql, STORE_SQL_MAX);
	step_store_add_save(db, &sql, step);
	c = store_exec(db, &sql, &matched, f);
	*saved = matched > 0; /* 1 inserted, 2 changed, and 1 where it was there just so */
	return c;
}

enum db_class step_store_save(struct db *db, const struct step_row *steps, size_t n, bool *saved, struct fault *f)
{
	enum db_class c;

	if (n == 1)
		return step_store_send(db, steps, saved, f);
	c = db_begin(db, f);
	for (size_t i = 0; i < n && c == DB_OK; i++)
		c = step_store_send(db, &steps[i], &saved[i], f);
	if (c == DB_OK)
		c = db_commit(db, f);
	db_rollback(db);
	return c;
}

/* One row more than fits tells that something is wrong, and a value too long is not fetched at all. Sorted by seq later, because
 * the server would sort values with it. */
void step_store_add_read(struct db *db, struct buf *sql, struct job *const *jobs, size_t n)
{
	db_sqlf(db, sql,
		"SELECT job_id, name, seq, save_no, IF(OCTET_LENGTH(data) <= %u, data, NULL) FROM job_steps FORCE INDEX (PRIMARY)"
		" WHERE job_id IN ",
		(uint64_t)JOB_STEPS_BYTES_MAX);
	for (size_t i = 0; i < n; i++)
		db_sqlf(db, sql, i == 0 ? "(%u" : ",%u", jobs[i]->id);
	db_sqlf(db, sql, ") ORDER BY job_id, name LIMIT %u", (uint64_t)(n * JOB_STEPS_MAX + 1));
}

enum step_store_column { STEP_STORE_JOB, STEP_STORE_NAME, STEP_STORE_SEQ, STEP_STORE_SAVE_NO, STEP_STORE_DATA };

static size_t step_store_bytes(const struct job *job)
{
	size_t bytes = 0;

	for (size_t i = 0; i < job->step_count; i++)
		bytes += job->steps[i].data_len;
	return bytes;
}

static void step_store_refuse(struct job *job)
{
	job_drop_steps(job);
	job->steps_unfit = true;
}

/* With a margin above what handlers may save: where the server refused a smaller value for a name, the handler's own count does not
 * have the larger one that is still here. */
#define STEP_STORE_BYTES_MAX (4 * JOB_STEPS_BYTES_MAX)
/* A number so great has no room after it, and was not counted up by handlers. */
#define STEP_STORE_NO_MAX (UINT32_MAX / 2)

/* False without memory. */
static bool step_store_take_row(struct job *job, const struct db_rows *rows)
{
	size_t len;
	const char *data = db_text(rows, STEP_STORE_DATA, &len);
	uint64_t save_no = db_u64(rows, STEP_STORE_SAVE_NO);
	struct job_step *step;

	if (job->steps_unfit)
		return true;
	if (data == NULL || job->step_count == JOB_STEPS_MAX || step_store_bytes(job) + len > STEP_STORE_BYTES_MAX ||
	    save_no > STEP_STORE_NO_MAX) {
		step_store_refuse(job);
		return true;
	}
	if (job->steps == NULL)
		job->steps = calloc(JOB_STEPS_MAX, sizeof(*job->steps));
	if (job->steps == NULL)
		return false;
	step = &job->steps[job->step_count];
	step->data = malloc(len + 1);
	if (step->data == NULL)
		return false;
	memcpy(step->data, data, len);
	step->data[len] = '\0';
	step->data_len = len;
	db_copy(rows, STEP_STORE_NAME, step->name, sizeof(step->name));
	step->seq = (uint32_t)db_u64(rows, STEP_STORE_SEQ);
	if (save_no > job->step_no)
		job->step_no = (uint32_t)save_no;
	job->step_count++;
	return true;
}

static int step_store_compare(const void *a, const void *b)
{
	const struct job_step *x = a, *y = b;

	return x->seq != y->seq ? (x->seq > y->seq) - (x->seq < y->seq) : strcmp(x->name, y->name);
}

/* Rows and jobs are walked side by side: both are in the order of ids. */
static enum db_class step_store_take_rows(struct db_rows *rows, struct job *const *jobs, size_t n, struct fault *f)
{
	size_t at = 0;

	while (db_rows_next(rows)) {
		uint64_t id = db_u64(rows, STEP_STORE_JOB);

		while (at < n && jobs[at]->id < id)
			at++;
		if (at < n && jobs[at]->id == id && !step_store_take_row(jobs[at], rows)) {
			(void)fault_set(f, LH_ERR_MEMORY, "no memory for the steps of job %llu", (unsigned long long)id);
			return DB_OTHER;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (jobs[i]->step_count > 1)
			qsort(jobs[i]->steps, jobs[i]->step_count, sizeof(*jobs[i]->steps), step_store_compare);
	return DB_OK;
}

enum db_class step_store_read(struct db *db, struct job *const *jobs, size_t n, struct fault *f)
{
	struct db_rows *rows = NULL;
	enum db_class c;
	struct buf sql;
	bool whole;

	if (n == 0)
		return DB_OK;
	buf_init(&sql, STORE_SQL_MAX);
	step_store_add_read(db, &sql, jobs, n);
	c = store_query(db, &sql, &rows, f);
	/* What does not fit is cornered by halving: the other jobs get theirs. */
	whole = c != DB_OK || n == 1 || db_rows_count(rows) <= n * JOB_STEPS_MAX;
	if (c == DB_OK && whole)
		c = step_store_take_rows(rows, jobs, n, f);
	db_rows_free(rows);
	if (c == DB_OK && !whole)
		c = step_store_read(db, jobs, n / 2, f);
	if (c == DB_OK && !whole)
		c = step_store_read(db, jobs + n / 2, n - n / 2, f);
	return c;
}
