/* cmd_show.c - leasehold show: all that is known of one job. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/table.h"
#include "store/admin_store.h"

#include <inttypes.h>
#include <stdio.h>

static const struct table_column show_columns[] = {
	{.title = "CLAIM", .source = "claim_no", .right = true},
	{.title = "ATTEMPT", .source = "attempt", .right = true},
	{.title = "OUTCOME", .source = "outcome"},
	{.title = "FINISHED AT", .source = "finished_at"},
	{.title = "WORKER", .source = "worker"},
	{.title = "RSS KB", .source = "max_rss_kb", .right = true},
	{.title = "CPU MS", .source = "cpu_ms", .right = true},
	{.title = "CAUSE", .source = "cause", .cut = true},
};

static const struct table_column show_step_columns[] = {
	{ .title = "STEP", .source = "name" },
	{ .title = "CLAIM", .source = "claim_no", .right = true },
	{ .title = "SAVED AT", .source = "saved_at" },
	{ .title = "BYTES", .source = "bytes", .right = true },
	{ .title = "DATA", .source = "data", .cut = true },
};

static int show_json(struct db_rows *job, struct db_rows *attempts, struct db_rows *steps)
{
	json_t *object = output_json_row(job);

	if (object != NULL && (json_object_set_new(object, "attempts", output_json_rows(attempts)) != 0 ||
			       json_object_set_new(object, "steps", output_json_rows(steps)) != 0)) {
		json_decref(object);
		object = NULL;
	}
	return output_json(object);
}

static int show_table(const char *title, const struct table_column *columns, size_t n, struct db_rows *rows)
{
	struct table table;
	int status;

	if (db_rows_count(rows) == 0)
		return CLI_OK;
	printf("\n%s:\n", title);
	table_init(&table, columns, n);
	table_add_rows(&table, rows);
	status = table_print(&table);
	table_free(&table);
	return status;
}

static int show_text(struct db_rows *job, struct db_rows *attempts, struct db_rows *steps)
{
	int status;

	output_fields(job);
	status = show_table("Steps that its handler saved, for the next attempt", show_step_columns,
			    sizeof(show_step_columns) / sizeof(show_step_columns[0]), steps);
	if (status != CLI_OK)
		return status;
	return show_table("Attempts that the ledger holds (plain successes only where retention.ledger is \"all\")", show_columns,
			  sizeof(show_columns) / sizeof(show_columns[0]), attempts);
}

static int show_job(struct cli *cli, uint64_t id)
{
	struct db_rows *job = NULL, *attempts = NULL, *steps = NULL;
	struct fault f = {.code = LH_OK};
	enum db_class class = admin_store_show(cli->db, id, &job, &f);
	int status;

	if (class == DB_OK && db_rows_next(job))
		class = admin_store_attempts(cli->db, id, &attempts, &f);
	if (class == DB_OK && attempts != NULL)
		class = admin_store_steps(cli->db, id, &steps, &f);
	if (class != DB_OK) {
		status = cli_failed(cli, class, &f, "the job");
	} else if (attempts == NULL) {
		cli_say(cli, "there is no job %" PRIu64, id);
		status = CLI_FAILED;
	} else {
		status = cli->json ? show_json(job, attempts, steps) : show_text(job, attempts, steps);
	}
	db_rows_free(steps);
	db_rows_free(attempts);
	db_rows_free(job);
	return status;
}

static int show_run(struct cli *cli, int argc, char **argv)
{
	uint64_t id;
	int status;

	if (cli_next(cli, argc, argv) == CLI_STOP)
		return cli->status;
	if (argc - optind != 1)
		return cli_usage(cli, optind == argc ? "which job? It takes an id" : "one job at a time");
	if (!cli_take_id(cli, argv[optind], &id))
		return CLI_USAGE;
	status = cli_open(cli, CLI_READS);
	return status == CLI_OK ? show_job(cli, id) : status;
}

const struct cli_command cmd_show = {
	.name = "show",
	.operands = "ID",
	.summary = "Show one job with its payload, result, last error, steps and ledger",
	.notes = "Of the ledger, the 1000 newest rows of the job. It is status 1 when there is no such job.",
	.json = true,
	.run = show_run,
};
