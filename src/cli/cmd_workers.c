/* cmd_workers.c - leasehold workers: which instances are there. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/table.h"
#include "store/admin_store.h"

#include <inttypes.h>

static const struct table_column workers_columns[] = {
	{.title = "WORKER"},
	{.title = "NAME"},
	{.title = "STATE", .state = true},
	{.title = "MODE"},
	{.title = "RUNNING", .right = true},
	{.title = "THREADS", .right = true},
	{.title = "LEASE MS", .right = true},
	{.title = "SEEN", .right = true},
	{.title = "STARTED AT"},
	{.title = "VERSION"},
	{.title = "QUEUES", .cut = true},
};

static void workers_add_cell(struct table *table, const struct db_rows *rows, const char *column)
{
	struct buf cell;

	buf_init(&cell, 8192);
	output_cell(&cell, rows, output_column(rows, column));
	table_add(table, cell.data);
	buf_free(&cell);
}

static int workers_table(struct db_rows *rows)
{
	int stale = output_column(rows, "stale"), seen = output_column(rows, "seen_s");
	struct table table;
	char age[32];
	int status;

	table_init(&table, workers_columns, sizeof(workers_columns) / sizeof(workers_columns[0]));
	while (db_rows_next(rows)) {
		int64_t seen_s = db_i64(rows, (unsigned int)seen);

		workers_add_cell(&table, rows, "worker");
		workers_add_cell(&table, rows, "name");
		table_add(&table, db_u64(rows, (unsigned int)stale) != 0 ? "stale" : "live");
		workers_add_cell(&table, rows, "status");
		workers_add_cell(&table, rows, "running");
		workers_add_cell(&table, rows, "threads");
		workers_add_cell(&table, rows, "lease_ms");
		table_add(&table, output_age(seen_s < 0 ? 0 : seen_s, age, sizeof(age)));
		workers_add_cell(&table, rows, "started_at");
		workers_add_cell(&table, rows, "version");
		workers_add_cell(&table, rows, "queues");
	}
	status = table_print(&table);
	table_free(&table);
	return status;
}

static int workers_run(struct cli *cli, int argc, char **argv)
{
	struct db_rows *rows = NULL;
	struct fault f = {.code = LH_OK};
	enum db_class class;
	int status;

	if (cli_next(cli, argc, argv) == CLI_STOP)
		return cli->status;
	status = cli_open(cli, CLI_READS);
	if (status != CLI_OK)
		return status;
	class = admin_store_workers(cli->db, &rows, &f);
	if (class != DB_OK)
		status = cli_failed(cli, class, &f, "the workers");
	else
		status = cli->json ? output_json(output_json_rows(rows)) : workers_table(rows);
	db_rows_free(rows);
	return status;
}

const struct cli_command cmd_workers = {
	.name = "workers",
	.operands = "",
	.bare = true,
	.summary = "Show instances, live and stale ones",
	.notes = "An instance is stale when it has not been seen for longer than its own lease: it is dead, frozen or cut off, "
		 "and what it held is being given to others. A row leaves the list a day after it was last seen.",
	.json = true,
	.run = workers_run,
};
