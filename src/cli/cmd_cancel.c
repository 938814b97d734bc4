/* cmd_cancel.c - leasehold cancel: jobs that wait are cancelled, those that run are asked to end. */
#include "cli/bulk.h"
#include "cli/cli.h"

enum { CANCEL_QUEUE = 'q', CANCEL_KIND = 'k', CANCEL_STATE = 's', CANCEL_RUNNING = 256, CANCEL_DRY_RUN };

static const struct cli_option cancel_options[] = {
	{"queue", CANCEL_QUEUE, "QUEUE", "all unfinished jobs of this queue, instead of jobs by their ids"},
	{"kind", CANCEL_KIND, "KIND", "all unfinished jobs of exactly this kind"},
	{"state", CANCEL_STATE, "STATE", "all jobs that are ready, scheduled or running (together with --running)"},
	{"running", CANCEL_RUNNING, NULL, "with those: running jobs too"},
	{"dry-run", CANCEL_DRY_RUN, NULL, "change nothing, say what would be done"},
	{NULL, 0, NULL, NULL},
};

struct cancel_request {
	struct bulk bulk;
	struct job_filter filter; /* state -1: all that --running permits */
	bool chosen;              /* by options, not by ids */
	bool running;
};

static bool cancel_take(struct cli *cli, int key, struct cancel_request *r)
{
	enum job_state state;

	switch (key) {
	case CANCEL_QUEUE:
		r->chosen = true;
		r->filter.queue = cli->value;
		return cli_take_name(cli, "--queue", cli->value, JOB_QUEUE_MAX);
	case CANCEL_KIND:
		r->chosen = true;
		r->filter.kind = cli->value;
		return cli_take_name(cli, "--kind", cli->value, JOB_KIND_MAX);
	case CANCEL_STATE:
		r->chosen = true;
		if (!job_state_parse(cli->value, &state) || job_state_finished(state)) {
			cli_usage(cli, "--state: '%s' is none of ready, scheduled, running", cli->value);
			return false;
		}
		r->filter.state = (int)state;
		return true;
	case CANCEL_RUNNING:
		r->running = true;
		return true;
	case CANCEL_DRY_RUN:
		r->bulk.dry_run = true;
		return true;
	default:
		return false;
	}
}

static enum db_class cancel_act(struct bulk *b, uint64_t id, struct bulk_answer *answer, struct fault *f)
{
	enum db_class class;

	if (!b->dry_run)
		return admin_store_cancel(b->cli->db, id, b->running_too, &answer->result, &answer->state, f);
	class = bulk_look(b, id, answer, f);
	if (answer->result == ADMIN_NOT_THAT_STATE && answer->state == JOB_RUNNING)
		answer->result = ADMIN_REQUESTED;
	else if (answer->result == ADMIN_NOT_THAT_STATE && job_may_move(answer->state, JOB_CANCELLED, JOB_BY_OPERATOR))
		answer->result = ADMIN_DONE;
	return class;
}

static enum db_class cancel_act_many(struct bulk *b, const uint64_t *ids, size_t n, bool running, uint64_t *matched,
				     struct fault *f)
{
	return admin_store_cancel_many(b->cli->db, ids, n, running, matched, f);
}

static int cancel_chosen(struct cancel_request *r)
{
	static const enum job_state all[] = {JOB_SCHEDULED, JOB_READY, JOB_RUNNING};
	enum job_state one = (enum job_state)r->filter.state;

	r->bulk.running_too = r->running;
	if (r->filter.state >= 0)
		return bulk_filter(&r->bulk, &r->filter, &one, 1);
	return bulk_filter(&r->bulk, &r->filter, all, r->running ? 3 : 2);
}

static int cancel_run(struct cli *cli, int argc, char **argv)
{
	struct cancel_request r = {
		.bulk = {.cli = cli,
			 .act = cancel_act,
			 .act_many = cancel_act_many,
			 .done_text = "cancelled",
			 .state_text = "it is finished",
			 .running_too = true},
		.filter = {.state = -1},
	};
	int key;

	while ((key = cli_next(cli, argc, argv)) != CLI_END) {
		if (key == CLI_STOP)
			return cli->status;
		if (!cancel_take(cli, key, &r))
			return CLI_USAGE;
	}
	if (r.chosen && optind < argc)
		return cli_usage(cli, "either ids or --queue, --kind and --state, not both");
	if (!r.chosen && optind == argc)
		return cli_usage(cli, "which jobs? It takes ids, or at least one of --queue, --kind and --state");
	if (!r.chosen && r.running)
		return cli_usage(
			cli,
			"--running goes with --queue, --kind and --state: a job that is named by its id is cancelled in any case");
	if (r.filter.state == JOB_RUNNING && !r.running)
		return cli_usage(cli, "running jobs are cancelled only when --running says so too");
	return r.chosen ? cancel_chosen(&r) : bulk_named(&r.bulk, argv + optind);
}

const struct cli_command cmd_cancel = {
	.name = "cancel",
	.operands = "ID... | [--queue QUEUE] [--kind KIND] [--state STATE] [OPTION...]",
	.summary = "Cancel jobs that wait, and ask running ones to end",
	.options = cancel_options,
	.notes = "A job that runs when its id is named is asked to end: within two seconds the instance that runs it "
		 "sends SIGTERM, then SIGKILL. Jobs chosen by options are left alone while they run, unless --running is "
		 "given.",
	.json = true,
	.run = cancel_run,
};
