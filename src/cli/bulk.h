/* bulk.h - what retry and cancel share: one act on jobs that were named, or on all that a filter chooses (layer: cli; one
 * thread).
 *
 * Named jobs: each is told of, and one that cannot be changed is a failure. A filter: ids are paged through, each is looked at
 * once, a job that moved on meanwhile is passed over. A row that stays locked, or whose unique key another job holds, is a
 * failure of its own: the rest is still done. */
#ifndef LEASEHOLD_CLI_BULK_H
#define LEASEHOLD_CLI_BULK_H

#include "cli/cli.h"
#include "store/admin_store.h"

#include <jansson.h>

struct bulk_answer {
	enum admin_result result;
	enum job_state state;
	uint64_t twin;
};

struct bulk {
	struct cli *cli;
	/* Changes one job, or with dry_run finds out what would happen. */
	enum db_class (*act)(struct bulk *b, uint64_t id, struct bulk_answer *answer, struct fault *f);
	/* The same for a batch in one statement. running: they were chosen as running ones. DB_RETRY and DB_DUPLICATE: one by
	 * one, then. */
	enum db_class (*act_many)(struct bulk *b, const uint64_t *ids, size_t n, bool running, uint64_t *matched, struct fault *f);
	const char *done_text;  /* "ready again" */
	const char *state_text; /* why another state does not do: "only dead and cancelled jobs can be retried" */
	bool dry_run;
	unsigned int extra; /* retry: attempts to add */
	bool running_too;   /* cancel */
	uint64_t limit;     /* of a filter; 0: none */
	uint64_t done, requested, failed;
	json_t *failures; /* with --json */
};

/* Both return an exit code and print the summary. filter->limit is used for paging; states: which to go through,
 * n of them. */
int bulk_named(struct bulk *b, char **ids);
int bulk_filter(struct bulk *b, struct job_filter *filter, const enum job_state *states, size_t n);

/* For dry runs: the state of a job, ADMIN_MISSING when there is none. */
enum db_class bulk_look(struct bulk *b, uint64_t id, struct bulk_answer *answer, struct fault *f);

#endif
