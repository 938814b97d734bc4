/* cmd_queues.c - leasehold queues, pause, resume. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/table.h"
#include "store/admin_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct table_column queues_columns[] = {
	{.title = "QUEUE"},
	{.title = "READY", .right = true},
	{.title = "OLDEST", .right = true},
	{.title = "SCHEDULED", .right = true},
	{.title = "RUNNING", .right = true},
	{.title = "DEAD", .right = true},
	{.title = "STATE", .state = true},
	{.title = "SINCE"},
	{.title = "BY", .cut = true},
};

struct queues_output {
	struct table table;
	json_t *json; /* NULL: the table it is; or memory ran out */
};

static void queues_each_text(void *arg, const struct admin_queue *q)
{
	struct queues_output *out = arg;
	char age[32] = "", time[OUTPUT_TIME_MAX] = "";
	bool paused = q->paused_at[0] != '\0';

	if (q->oldest_ready_s >= 0)
		output_age(q->oldest_ready_s, age, sizeof(age));
	if (paused)
		output_time(q->paused_at, output_is_terminal(), time);
	table_add(&out->table, q->queue);
	table_add_count(&out->table, q->ready, ADMIN_COUNT_MAX);
	table_add(&out->table, age);
	table_add_count(&out->table, q->scheduled, ADMIN_COUNT_MAX);
	table_add_count(&out->table, q->running, ADMIN_COUNT_MAX);
	table_add_count(&out->table, q->dead, ADMIN_COUNT_MAX);
	table_add(&out->table, paused ? "paused" : "open");
	table_add(&out->table, time);
	table_add(&out->table, q->paused_by);
}

static void queues_each_json(void *arg, const struct admin_queue *q)
{
	struct queues_output *out = arg;
	char time[OUTPUT_TIME_MAX];
	bool paused = q->paused_at[0] != '\0';
	json_t *row = json_pack("{so, sI, sI, sI, sI, so, so, so}", "queue", output_json_text(q->queue, strlen(q->queue)), "ready",
				(json_int_t)q->ready, "scheduled", (json_int_t)q->scheduled, "running", (json_int_t)q->running,
				"dead", (json_int_t)q->dead, "oldest_ready_s",
				q->oldest_ready_s < 0 ? json_null() : json_integer(q->oldest_ready_s), "paused_at",
				paused ? json_string(output_time(q->paused_at, false, time)) : json_null(), "paused_by",
				paused ? output_json_text(q->paused_by, strlen(q->paused_by)) : json_null());

	if (out->json != NULL && json_array_append_new(out->json, row) != 0) {
		json_decref(out->json);
		out->json = NULL;
	}
}

static int queues_show(struct cli *cli)
{
	struct queues_output out = {.json = cli->json ? json_array() : NULL};
	struct fault f = {.code = LH_OK};
	enum db_class class;
	int status;

	table_init(&out.table, queues_columns, sizeof(queues_columns) / sizeof(queues_columns[0]));
	class = admin_store_queues(cli->db, cli->json ? queues_each_json : queues_each_text, &out, &f);
	if (class != DB_OK) {
		status = cli_failed(cli, class, &f, "the queues");
		json_decref(out.json);
	} else {
		status = cli->json ? output_json(out.json) : table_print(&out.table);
	}
	table_free(&out.table);
	return status;
}

static int queues_run(struct cli *cli, int argc, char **argv)
{
	int status;

	if (cli_next(cli, argc, argv) == CLI_STOP)
		return cli->status;
	status = cli_open(cli, CLI_READS);
	return status == CLI_OK ? queues_show(cli) : status;
}

/* ---- Pause and resume
 * --------------------------------------------------------------------------------------------------------- */

/* Returns an exit code. *was: it was paused before. */
static int queues_set(struct cli *cli, const char *queue, bool pause, bool *was)
{
	struct fault f = {.code = LH_OK};
	int64_t until_ms = cli_patience();
	enum db_class class;
	char by[129];

	cli_person(by, sizeof(by));
	do {
		class = pause ? admin_store_pause(cli->db, queue, by, was, &f) : admin_store_resume(cli->db, queue, was, &f);
	} while (cli_again(class, until_ms));
	return class == DB_OK ? CLI_OK : cli_failed(cli, class, &f, queue);
}

static int queues_change(struct cli *cli, int argc, char **argv, bool pause)
{
	json_t *json = NULL;
	bool was = false;
	int status;

	if (cli_next(cli, argc, argv) == CLI_STOP)
		return cli->status;
	if (optind == argc)
		return cli_usage(cli, "which queue? It takes one or more names");
	for (int i = optind; i < argc; i++) {
		if (!cli_take_name(cli, "QUEUE", argv[i], JOB_QUEUE_MAX))
			return CLI_USAGE;
	}
	status = cli_open(cli, CLI_WRITES);
	json = status == CLI_OK && cli->json ? json_array() : NULL;
	for (int i = optind; i < argc && status == CLI_OK; i++) {
		status = queues_set(cli, argv[i], pause, &was);
		if (status == CLI_OK && cli->json)
			(void)json_array_append_new(
				json, json_pack("{ss, sb, sb}", "queue", argv[i], "paused", pause, "changed", was != pause));
		else if (status == CLI_OK)
			printf("queue %s: %s%s\n", argv[i], was == pause ? "was already " : "", pause ? "paused" : "open");
	}
	if (json != NULL && status == CLI_OK)
		return output_json(json);
	json_decref(json);
	return status;
}

static int queues_pause(struct cli *cli, int argc, char **argv)
{
	return queues_change(cli, argc, argv, true);
}

static int queues_resume(struct cli *cli, int argc, char **argv)
{
	return queues_change(cli, argc, argv, false);
}

const struct cli_command cmd_queues = {
	.name = "queues",
	.operands = "",
	.bare = true,
	.summary = "Show queues: what waits, runs and died in each, and which are paused",
	.notes = "OLDEST is how long the job that waits longest has been due. Counts stop at 100000, shown as 100000+. Queues "
		 "without such jobs are shown only where they were paused once.",
	.json = true,
	.run = queues_run,
};

const struct cli_command cmd_pause = {
	.name = "pause",
	.operands = "QUEUE...",
	.summary = "Stop claiming from queues, on all instances",
	.notes = "Jobs that run go on. Jobs may still be enqueued.",
	.json = true,
	.run = queues_pause,
};

const struct cli_command cmd_resume = {
	.name = "resume",
	.operands = "QUEUE...",
	.summary = "Claim from paused queues again",
	.json = true,
	.run = queues_resume,
};
