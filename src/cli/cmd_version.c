/* cmd_version.c - leasehold version: what this is, and which options its configuration file takes. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/table.h"
#include "config/conf.h"
#include "store/instance_store.h"

#include <stdio.h>
#include <string.h>

enum { VERSION_OPTIONS = 256 };

static const struct cli_option version_options[] = {
	{"options", VERSION_OPTIONS, NULL, "list the options of the configuration file instead"},
	{NULL, 0, NULL, NULL},
};

static const struct table_column version_columns[] = {
	{.title = "OPTION"}, {.title = "TYPE"},       {.title = "DEFAULT"},
	{.title = "TAKES"},  {.title = "CHANGED BY"}, {.title = "MEANING", .cut = true},
};

static const char *version_default(const struct conf_option *o)
{
	if (o->required)
		return "(required)";
	return o->fallback != NULL ? o->fallback : o->computed;
}

static int version_options_json(void)
{
	json_t *array = json_array();
	char range[128];

	for (size_t i = 0; i < conf_option_count && array != NULL; i++) {
		const struct conf_option *o = &conf_options[i];
		const char *fallback = o->fallback;
		json_t *row = json_pack("{ss, ss, ss, ss?, ss?, ss, sb, sb, ss}", "group", o->group, "name", o->name, "type",
					conf_type_name(o->type), "default", fallback, "computed", o->computed, "takes",
					conf_option_range(o, range, sizeof(range)), "required", o->required, "reloads", o->reloads,
					"help", o->help);

		if (json_array_append_new(array, row) != 0) {
			json_decref(array);
			array = NULL;
		}
	}
	return output_json(array);
}

static int version_options_text(void)
{
	struct table table;
	char range[128];
	int status;

	table_init(&table, version_columns, sizeof(version_columns) / sizeof(version_columns[0]));
	for (size_t i = 0; i < conf_option_count; i++) {
		const struct conf_option *o = &conf_options[i];

		table_addf(&table, "%s.%s", o->group, o->name);
		table_add(&table, conf_type_name(o->type));
		table_add(&table, version_default(o));
		table_add(&table, conf_option_range(o, range, sizeof(range)));
		table_add(&table, o->reloads ? "reload" : "restart");
		table_add(&table, o->help);
	}
	status = table_print(&table);
	table_free(&table);
	return status;
}

/* The files that this build cannot work without. */
static json_t *version_migrations(void)
{
	json_t *files = json_array();

	for (size_t i = 0; i < instance_store_needed_count; i++)
		(void)json_array_append_new(files, json_string(instance_store_needed[i].file));
	return files;
}

static int version_run(struct cli *cli, int argc, char **argv)
{
	bool options = false;
	int key;

	while ((key = cli_next(cli, argc, argv)) != CLI_END) {
		if (key == CLI_STOP)
			return cli->status;
		options = options || key == VERSION_OPTIONS;
	}
	if (options)
		return cli->json ? version_options_json() : version_options_text();
	if (cli->json)
		return output_json(json_pack("{ss, si, so}", "version", PACKAGE_VERSION, "schema",
					     (int)instance_store_schema_version(), "migrations", version_migrations()));
	printf("leasehold %s (schema %u)\n", PACKAGE_VERSION, instance_store_schema_version());
	return CLI_OK;
}

const struct cli_command cmd_version = {
	.name = "version",
	.operands = "[--options]",
	.bare = true,
	.summary = "Show the version, or the options of the configuration file",
	.options = version_options,
	.json = true,
	.run = version_run,
};
