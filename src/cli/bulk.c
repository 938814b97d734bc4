/* bulk.c - see bulk.h. */
#include "cli/bulk.h"

#include "cli/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BULK_PAGE 2000u /* jobs that are looked at before the progress moves */

static void bulk_fail(struct bulk *b, uint64_t id, const char *reason, const struct bulk_answer *answer)
{
	json_t *entry;

	b->failed++;
	if (!b->cli->json)
		return;
	entry = json_pack("{so, ss}", "id", output_json_id(id), "reason", reason);
	if (answer != NULL && answer->result == ADMIN_NOT_THAT_STATE)
		(void)json_object_set_new(entry, "state", json_string(job_state_name(answer->state)));
	if (answer != NULL && answer->result == ADMIN_TWIN && answer->twin != 0) {
		(void)json_object_set_new(entry, "twin", output_json_id(answer->twin));
		(void)json_object_set_new(entry, "twin_state", json_string(job_state_name(answer->state)));
	}
	(void)json_array_append_new(b->failures, entry);
}

static void bulk_twin(struct bulk *b, uint64_t id, const struct bulk_answer *answer)
{
	if (answer->twin != 0)
		cli_say(b->cli, "job %" PRIu64 ": job %" PRIu64 ", which is %s, holds its unique key%s", id, answer->twin,
			job_state_name(answer->state), job_state_finished(answer->state) ? " for some time yet" : "");
	else
		cli_say(b->cli, "job %" PRIu64 ": another job held its unique key and has let go of it meanwhile: try again", id);
	bulk_fail(b, id, "twin", answer);
}

/* named: the job was asked for by its id. */
static void bulk_count(struct bulk *b, uint64_t id, const struct bulk_answer *answer, bool named)
{
	const char *would = b->dry_run ? "would be " : "";
	bool tell = named && !b->cli->json;

	if (tell)
		cli_progress_end(b->cli);
	switch (answer->result) {
	case ADMIN_DONE:
		b->done++;
		if (tell)
			printf("job %" PRIu64 ": %s%s\n", id, would, b->done_text);
		return;
	case ADMIN_REQUESTED:
		b->requested++;
		if (tell)
			printf("job %" PRIu64 ": it runs, %sits cancel is requested\n", id, b->dry_run ? "now " : "");
		return;
	case ADMIN_TWIN:
		bulk_twin(b, id, answer);
		return;
	case ADMIN_MISSING:
		if (!named)
			return;
		cli_say(b->cli, "there is no job %" PRIu64, id);
		bulk_fail(b, id, "missing", answer);
		return;
	case ADMIN_NOT_THAT_STATE:
		if (!named)
			return;
		cli_say(b->cli, "job %" PRIu64 " is %s: %s", id, job_state_name(answer->state), b->state_text);
		bulk_fail(b, id, "state", answer);
		return;
	}
}

/* Returns CLI_OK also for a failure of this one job; else the exit code to stop with. */
static int bulk_one(struct bulk *b, uint64_t id, bool named)
{
	struct bulk_answer answer = { .result = ADMIN_MISSING };
	struct fault f = { .code = LH_OK };
	int64_t until_ms = cli_patience();
	enum db_class class;
	char doing[32];

	do {
		class = b->act(b, id, &answer, &f);
	} while (cli_again(class, until_ms));
	if (class == DB_OK) {
		bulk_count(b, id, &answer, named);
		return CLI_OK;
	}
	snprintf(doing, sizeof(doing), "job %" PRIu64, id);
	if (class != DB_RETRY)
		return cli_failed(b->cli, class, &f, doing);
	(void)cli_failed(b->cli, class, &f, doing);
	bulk_fail(b, id, "locked", NULL);
	return CLI_OK;
}

static int bulk_finish(struct bulk *b, int status, bool named)
{
	json_t *summary = NULL;

	cli_progress_end(b->cli);
	if (b->cli->json) {
		summary = json_pack("{sb, sI, sI, so}", "dry_run", b->dry_run, "done", (json_int_t)b->done, "requested",
				    (json_int_t)b->requested, "failed", b->failures);
		if (output_json(summary) != CLI_OK)
			return CLI_FAILED;
		return status == CLI_OK && b->failed > 0 ? CLI_FAILED : status;
	}
	json_decref(b->failures);
	if (!named) {
		printf("%" PRIu64 " %s %s%s\n", b->done, b->done == 1 ? "job" : "jobs", b->dry_run ? "would be " : "",
		       b->done_text);
		if (b->requested > 0)
			printf("%" PRIu64 " running: cancel %srequested\n", b->requested, b->dry_run ? "would be " : "");
		if (b->failed > 0)
			printf("%" PRIu64 " could not be\n", b->failed);
	}
	return status == CLI_OK && b->failed > 0 ? CLI_FAILED : status;
}

int bulk_named(struct bulk *b, char **ids)
{
	uint64_t id, n = 0;
	int status;

	for (char **p = ids; *p != NULL; p++, n++) {
		if (!cli_take_id(b->cli, *p, &id))
			return CLI_USAGE;
	}
	status = cli_open(b->cli, b->dry_run ? CLI_READS : CLI_WRITES);
	if (status != CLI_OK)
		return status;
	b->failures = json_array();
	for (uint64_t i = 0; i < n && status == CLI_OK; i++) {
		(void)cli_take_id(b->cli, ids[i], &id);
		cli_progress(b->cli, i, n);
		status = bulk_one(b, id, true);
	}
	return bulk_finish(b, status, true);
}

/* A batch of one state at once; where a row is in the way, each by itself, so that it is told which. */
static int bulk_batch(struct bulk *b, const uint64_t *ids, size_t n, bool running)
{
	struct fault f = { .code = LH_OK };
	uint64_t matched = 0;
	enum db_class class = b->dry_run ? DB_OK : b->act_many(b, ids, n, running, &matched, &f);
	int status = CLI_OK;

	if (b->dry_run)
		matched = n;
	if (class == DB_OK) {
		*(running ? &b->requested : &b->done) += matched;
		return CLI_OK;
	}
	if (class != DB_RETRY && class != DB_DUPLICATE)
		return cli_failed(b->cli, class, &f, "changing jobs");
	for (size_t i = 0; i < n && status == CLI_OK; i++)
		status = bulk_one(b, ids[i], false);
	return status;
}

/* One page of one state. *left: how many more jobs may be changed. */
static int bulk_page(struct bulk *b, struct job_filter *filter, struct admin_cursor *cursor, uint64_t *ids, uint64_t *left,
		     bool *end)
{
	struct fault f = { .code = LH_OK };
	size_t n = 0;
	enum db_class class = admin_store_select(b->cli->db, filter, cursor, ids, &n, end, &f);
	int status = CLI_OK;

	if (class != DB_OK)
		return cli_failed(b->cli, class, &f, "looking for jobs");
	if (n > *left)
		n = (size_t)*left;
	*left -= n;
	for (size_t i = 0; i < n && status == CLI_OK; i += ADMIN_BATCH_MAX) {
		size_t batch = n - i < ADMIN_BATCH_MAX ? n - i : ADMIN_BATCH_MAX;

		cli_progress(b->cli, b->done + b->requested, 0);
		status = bulk_batch(b, ids + i, batch, filter->state == JOB_RUNNING);
	}
	return status;
}

/* All pages of one state. */
static int bulk_state(struct bulk *b, struct job_filter *filter, uint64_t *ids, uint64_t *left)
{
	struct admin_cursor cursor = { .set = false };
	int status = CLI_OK;
	bool end = false;

	while (status == CLI_OK && *left > 0 && !end) {
		/* With a kind, only some of the jobs that are looked at count. */
		filter->limit = filter->kind == NULL && *left < BULK_PAGE ? *left : BULK_PAGE;
		cli_progress(b->cli, b->done + b->requested, 0);
		status = bulk_page(b, filter, &cursor, ids, left, &end);
	}
	return status;
}

int bulk_filter(struct bulk *b, struct job_filter *filter, const enum job_state *states, size_t n)
{
	uint64_t *ids = malloc(BULK_PAGE * sizeof(*ids)), left = b->limit == 0 ? UINT64_MAX : b->limit;
	int status;

	if (ids == NULL) {
		cli_say(b->cli, "out of memory");
		return CLI_FAILED;
	}
	status = cli_open(b->cli, b->dry_run ? CLI_READS : CLI_WRITES);
	if (status == CLI_OK) {
		b->failures = json_array();
		for (size_t s = 0; s < n && status == CLI_OK; s++) {
			filter->state = (int)states[s];
			status = bulk_state(b, filter, ids, &left);
		}
		status = bulk_finish(b, status, false);
	}
	free(ids);
	return status;
}

enum db_class bulk_look(struct bulk *b, uint64_t id, struct bulk_answer *answer, struct fault *f)
{
	struct db_rows *rows = NULL;
	enum db_class class = admin_store_show(b->cli->db, id, &rows, f);
	const char *state;

	answer->result = ADMIN_MISSING;
	if (class == DB_OK && db_rows_next(rows)) {
		state = db_text(rows, (unsigned int)output_column(rows, "state"), NULL);
		answer->result = job_state_parse(state, &answer->state) ? ADMIN_NOT_THAT_STATE : ADMIN_MISSING;
	}
	db_rows_free(rows);
	return class;
}
