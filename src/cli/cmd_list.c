/* cmd_list.c - leasehold list: jobs, newest first. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/table.h"
#include "store/admin_store.h"

#define LIST_DEFAULT 50

enum { LIST_STATE = 's', LIST_QUEUE = 'q', LIST_KIND = 'k', LIST_LIMIT = 'n', LIST_AFTER = 256, LIST_OLDEST };

static const struct cli_option list_options[] = {
	{"state", LIST_STATE, "STATE", "only jobs that are ready, scheduled, running, succeeded, dead or cancelled"},
	{"queue", LIST_QUEUE, "QUEUE", "only jobs of this queue"},
	{"kind", LIST_KIND, "KIND", "only jobs of exactly this kind"},
	{"limit", LIST_LIMIT, "N", "at most so many, 1 to 10000 (default: 50)"},
	{"after", LIST_AFTER, "ID", "go on after this job, the last of the page before"},
	{"oldest-first", LIST_OLDEST, NULL, "in the order in which they were enqueued"},
	{NULL, 0, NULL, NULL},
};

static const struct table_column list_columns[] = {
	{.title = "ID", .source = "id", .right = true},
	{.title = "STATE", .source = "state", .state = true},
	{.title = "QUEUE", .source = "queue"},
	{.title = "KIND", .source = "kind"},
	{.title = "PRIO", .source = "priority", .right = true},
	{.title = "ATTEMPT", .source = "attempt", .right = true},
	{.title = "RUN AT", .source = "run_at"},
	{.title = "SLOT OF", .source = "slot_wait", .optional = true},
	{.title = "WORKER", .source = "locked_by", .optional = true},
	{.title = "PROGRESS", .source = "progress", .right = true, .optional = true},
	{.title = "NOTE", .source = "progress_note", .cut = true, .optional = true},
	{.title = "ERROR", .source = "last_error", .cut = true},
};

static bool list_take(struct cli *cli, int key, struct job_filter *filter)
{
	enum job_state state;
	int64_t limit;

	switch (key) {
	case LIST_STATE:
		if (!job_state_parse(cli->value, &state)) {
			cli_usage(cli, "--state: '%s' is none of ready, scheduled, running, succeeded, dead, cancelled",
				  cli->value);
			return false;
		}
		filter->state = (int)state;
		return true;
	case LIST_QUEUE:
		filter->queue = cli->value;
		return cli_take_name(cli, "--queue", cli->value, JOB_QUEUE_MAX);
	case LIST_KIND:
		filter->kind = cli->value;
		return cli_take_name(cli, "--kind", cli->value, JOB_KIND_MAX);
	case LIST_LIMIT:
		if (!cli_take_number(cli, "--limit", 1, ADMIN_PAGE_MAX, &limit))
			return false;
		filter->limit = (uint64_t)limit;
		return true;
	case LIST_AFTER:
		return cli_take_id(cli, cli->value, &filter->after_id);
	case LIST_OLDEST:
		filter->newest_first = false;
		return true;
	default:
		return false;
	}
}

static int list_print(struct cli *cli, struct db_rows *rows)
{
	struct table table;
	int status;

	if (cli->json)
		return output_json(output_json_rows(rows));
	table_init(&table, list_columns, sizeof(list_columns) / sizeof(list_columns[0]));
	table_add_rows(&table, rows);
	status = table_print(&table);
	table_free(&table);
	return status;
}

static int list_run(struct cli *cli, int argc, char **argv)
{
	struct job_filter filter = {.state = -1, .limit = LIST_DEFAULT, .newest_first = true};
	struct db_rows *rows = NULL;
	struct fault f = {.code = LH_OK};
	enum db_class class;
	int key, status;

	while ((key = cli_next(cli, argc, argv)) != CLI_END) {
		if (key == CLI_STOP)
			return cli->status;
		if (!list_take(cli, key, &filter))
			return CLI_USAGE;
	}
	if (optind < argc)
		return cli_usage(cli, "'%s' is too much: jobs are chosen by options ('show' takes an id)", argv[optind]);
	status = cli_open(cli, CLI_READS);
	if (status != CLI_OK)
		return status;
	class = admin_store_list(cli->db, &filter, &rows, &f);
	status = class == DB_OK ? list_print(cli, rows) : cli_failed(cli, class, &f, "the list");
	db_rows_free(rows);
	return status;
}

const struct cli_command cmd_list = {
	.name = "list",
	.operands = "[--state STATE] [--queue QUEUE] [--kind KIND] [OPTION...]",
	.summary = "Show jobs, the newest first",
	.options = list_options,
	.notes = "Payloads and results are not shown: 'leasehold show ID' has them. Times are UTC. Without --json, and not on "
		 "a terminal, cells are separated by TABs; on one, columns in which there is nothing are left out.",
	.json = true,
	.run = list_run,
};
