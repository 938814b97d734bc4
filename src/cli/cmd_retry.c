/* cmd_retry.c - leasehold retry: dead and cancelled jobs become ready again. */
#include "cli/bulk.h"
#include "cli/cli.h"

enum { RETRY_DEAD = 256, RETRY_QUEUE = 'q', RETRY_KIND = 'k', RETRY_LIMIT = 'n', RETRY_ATTEMPTS = 'a', RETRY_DRY_RUN = 257 };

static const struct cli_option retry_options[] = {
	{"dead", RETRY_DEAD, NULL, "all dead jobs, instead of jobs by their ids"},
	{"queue", RETRY_QUEUE, "QUEUE", "with --dead: only jobs of this queue"},
	{"kind", RETRY_KIND, "KIND", "with --dead: only jobs of exactly this kind"},
	{"limit", RETRY_LIMIT, "N", "with --dead: at most so many, 1 to 1000000000 (default: all)"},
	{"attempts", RETRY_ATTEMPTS, "N", "how many more attempts each may start, 1 to 1000 (default: 1)"},
	{"dry-run", RETRY_DRY_RUN, NULL, "change nothing, say what would be done"},
	{NULL, 0, NULL, NULL},
};

struct retry_request {
	struct bulk bulk;
	struct job_filter filter;
	bool dead, narrowed;
};

static bool retry_take(struct cli *cli, int key, struct retry_request *r)
{
	int64_t number;

	switch (key) {
	case RETRY_DEAD:
		r->dead = true;
		return true;
	case RETRY_QUEUE:
		r->narrowed = true;
		r->filter.queue = cli->value;
		return cli_take_name(cli, "--queue", cli->value, JOB_QUEUE_MAX);
	case RETRY_KIND:
		r->narrowed = true;
		r->filter.kind = cli->value;
		return cli_take_name(cli, "--kind", cli->value, JOB_KIND_MAX);
	case RETRY_LIMIT:
		r->narrowed = true;
		if (!cli_take_number(cli, "--limit", 1, 1000000000, &number))
			return false;
		r->bulk.limit = (uint64_t)number;
		return true;
	case RETRY_ATTEMPTS:
		if (!cli_take_number(cli, "--attempts", 1, ADMIN_RETRY_MAX, &number))
			return false;
		r->bulk.extra = (unsigned int)number;
		return true;
	case RETRY_DRY_RUN:
		r->bulk.dry_run = true;
		return true;
	default:
		return false;
	}
}

static enum db_class retry_act(struct bulk *b, uint64_t id, struct bulk_answer *answer, struct fault *f)
{
	enum db_class class;

	if (!b->dry_run)
		return admin_store_retry(b->cli->db, id, b->extra, &answer->result, &answer->state, &answer->twin, f);
	class = bulk_look(b, id, answer, f);
	if (answer->result == ADMIN_NOT_THAT_STATE && job_may_move(answer->state, JOB_READY, JOB_BY_OPERATOR))
		answer->result = ADMIN_DONE;
	return class;
}

static enum db_class retry_act_many(struct bulk *b, const uint64_t *ids, size_t n, bool running, uint64_t *matched, struct fault *f)
{
	(void)running;
	return admin_store_retry_many(b->cli->db, ids, n, b->extra, matched, f);
}

static int retry_run(struct cli *cli, int argc, char **argv)
{
	static const enum job_state dead = JOB_DEAD;
	struct retry_request r = {
		.bulk = {.cli = cli,
			 .act = retry_act,
			 .act_many = retry_act_many,
			 .done_text = "ready again",
			 .state_text = "only dead and cancelled jobs can be retried",
			 .extra = 1},
	};
	int key;

	while ((key = cli_next(cli, argc, argv)) != CLI_END) {
		if (key == CLI_STOP)
			return cli->status;
		if (!retry_take(cli, key, &r))
			return CLI_USAGE;
	}
	if (r.dead && optind < argc)
		return cli_usage(cli, "either ids or --dead, not both");
	if (!r.dead && optind == argc)
		return cli_usage(cli, "which jobs? It takes ids, or --dead for all dead ones");
	if (!r.dead && r.narrowed)
		return cli_usage(cli, "--queue, --kind and --limit go with --dead only");
	return r.dead ? bulk_filter(&r.bulk, &r.filter, &dead, 1) : bulk_named(&r.bulk, argv + optind);
}

const struct cli_command cmd_retry = {
	.name = "retry",
	.operands = "ID... | --dead [OPTION...]",
	.summary = "Make dead and cancelled jobs ready again",
	.options = retry_options,
	.notes = "A job keeps its number of attempts and may start that many more. One whose unique key another unfinished job "
		 "holds by now is told of and left as it is; the status is then 1, as it is for every job that could not be "
		 "retried.",
	.json = true,
	.run = retry_run,
};
