/* cmd_stats.c - leasehold stats: how much there is of what. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/table.h"
#include "store/admin_store.h"

#include <inttypes.h>
#include <stdio.h>

static const struct table_column stats_state_columns[] = {
	{.title = "STATE", .state = true},
	{.title = "JOBS", .right = true},
	{.title = "OLDEST", .right = true},
};
static const struct table_column stats_kind_columns[] = {
	{.title = "KIND", .source = "kind"},
	{.title = "READY", .source = "ready", .right = true},
	{.title = "SCHEDULED", .source = "scheduled", .right = true},
	{.title = "RUNNING", .source = "running", .right = true},
	{.title = "DEAD", .source = "dead", .right = true},
};
static const struct table_column stats_ledger_columns[] = {
	{.title = "LAST HOUR", .source = "outcome"},
	{.title = "ATTEMPTS", .source = "attempts", .right = true},
};

static const struct table_column stats_slot_columns[] = {
	{.title = "CONCURRENCY KEY", .source = "concurrency_key"},
	{.title = "SLOTS HELD", .source = "held", .right = true},
	{.title = "WAITING", .source = "waiting", .right = true},
};

/* The results of the store, in the order in which they are shown. */
struct stats {
	struct db_rows *states, *kinds, *ledger, *slots; /* slots: NULL where this account may not look */
};

static enum db_class stats_read(struct cli *cli, struct stats *s, struct fault *f)
{
	enum db_class class = admin_store_stats(cli->db, &s->states, f);

	if (class == DB_OK)
		class = admin_store_stats_kinds(cli->db, &s->kinds, f);
	if (class == DB_OK)
		class = admin_store_stats_ledger(cli->db, &s->ledger, f);
	if (class == DB_OK) {
		class = admin_store_stats_slots(cli->db, &s->slots, f);
		class = class == DB_DENIED ? DB_OK : class;
	}
	return class;
}

static int stats_json(struct stats *s)
{
	return output_json(json_pack("{so, so, so, so, sI, sI, sI}", "states", output_json_rows(s->states), "kinds",
				     output_json_rows(s->kinds), "ledger_last_hour", output_json_rows(s->ledger), "slots",
				     s->slots != NULL ? output_json_rows(s->slots) : json_null(), "count_max",
				     (json_int_t)ADMIN_COUNT_MAX, "kinds_sample_max", (json_int_t)ADMIN_SAMPLE_MAX,
				     "ledger_sample_max", (json_int_t)ADMIN_LEDGER_MAX));
}

static int stats_states(struct db_rows *rows)
{
	unsigned int state = (unsigned int)output_column(rows, "state"), jobs = (unsigned int)output_column(rows, "jobs"),
		     oldest = (unsigned int)output_column(rows, "oldest_s");
	struct table table;
	char age[32];
	int status;

	table_init(&table, stats_state_columns, sizeof(stats_state_columns) / sizeof(stats_state_columns[0]));
	while (db_rows_next(rows)) {
		table_add(&table, db_text(rows, state, NULL));
		table_add_count(&table, db_u64(rows, jobs), ADMIN_COUNT_MAX);
		table_add(&table, db_is_null(rows, oldest) ? "" : output_age(db_i64(rows, oldest), age, sizeof(age)));
	}
	status = table_print(&table);
	table_free(&table);
	return status;
}

static int stats_rows(struct db_rows *rows, const struct table_column *columns, size_t count)
{
	struct table table;
	int status;

	if (db_rows_count(rows) == 0)
		return CLI_OK;
	putchar('\n');
	table_init(&table, columns, count);
	table_add_rows(&table, rows);
	status = table_print(&table);
	table_free(&table);
	return status;
}

static int stats_text(struct stats *s)
{
	int status = stats_states(s->states);

	if (status == CLI_OK)
		status = stats_rows(s->kinds, stats_kind_columns, sizeof(stats_kind_columns) / sizeof(stats_kind_columns[0]));
	if (status == CLI_OK)
		status =
			stats_rows(s->ledger, stats_ledger_columns, sizeof(stats_ledger_columns) / sizeof(stats_ledger_columns[0]));
	if (status == CLI_OK && s->slots != NULL)
		status = stats_rows(s->slots, stats_slot_columns, sizeof(stats_slot_columns) / sizeof(stats_slot_columns[0]));
	return status;
}

static int stats_run(struct cli *cli, int argc, char **argv)
{
	struct stats s = {NULL, NULL, NULL, NULL};
	struct fault f = {.code = LH_OK};
	enum db_class class;
	int status;

	if (cli_next(cli, argc, argv) == CLI_STOP)
		return cli->status;
	status = cli_open(cli, CLI_READS);
	if (status != CLI_OK)
		return status;
	class = stats_read(cli, &s, &f);
	if (class != DB_OK)
		status = cli_failed(cli, class, &f, "the figures");
	else
		status = cli->json ? stats_json(&s) : stats_text(&s);
	db_rows_free(s.slots);
	db_rows_free(s.ledger);
	db_rows_free(s.kinds);
	db_rows_free(s.states);
	return status;
}

const struct cli_command cmd_stats = {
	.name = "stats",
	.operands = "",
	.bare = true,
	.summary = "Count jobs by state and kind, the last hour's attempts, and fleet slots",
	.notes = "It may be asked often, for its cost is bounded: counts by state stop at 100000 index entries each (100000+), "
		 "kinds are counted among the first 10000 jobs of each state, and the last hour is looked for in the 20000 "
		 "newest ledger rows. OLDEST is how long the ready job that waits longest has been due. Of fleet slots, up to 100 "
		 "keys with held slots and 100 with waiters are shown.",
	.json = true,
	.run = stats_run,
};
