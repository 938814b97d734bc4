/* cmd_run.c - leasehold run: the daemon, in the foreground. */
#include "cli/cli.h"
#include "config/conf.h"
#include "worker/supervisor.h"

#include <unistd.h>

struct run_source {
	const char *file;
	bool as_root; /* started so: handlers may be other users, also after instance.user took root away */
};

/* What else must hold before new settings may replace those of a running instance. */
static bool run_may_replace(const struct settings *running, const struct settings *loaded, const char *file)
{
	const struct handler_settings *who;

	/* Ranges such as kill_grace were checked against the new length, but leases go on with the old one. */
	if (loaded->lease.length_ms != running->lease.length_ms) {
		log_error("reload", "%s: lease.length changed, which needs a restart, and other settings are checked against it",
			  file);
		return false;
	}
	if (loaded->pool_count != running->pool_count) {
		log_error("reload", "%s: the number of pools changed, which needs a restart", file);
		return false;
	}
	if ((settings_group_needs(loaded, &who) & ~settings_group_needs(running, &who)) != 0) {
		log_error("reload", "%s: limits.cgroup_* that no handler had at the start need a restart", file);
		return false;
	}
	return true;
}

static struct settings *run_reload(void *arg, const struct settings *running)
{
	const struct run_source *source = arg;
	struct conf_errors errors = { 0 };
	struct settings *loaded = NULL;
	struct buf restart;

	conf_assume_root(source->as_root);
	if (conf_load(source->file, &loaded, &errors) != LH_OK) {
		for (size_t i = 0; i < errors.count; i++)
			log_error("reload", "%s", errors.lines[i]);
		conf_errors_free(&errors);
		return NULL;
	}
	conf_errors_free(&errors);
	if (!run_may_replace(running, loaded, source->file)) {
		settings_unref(loaded);
		return NULL;
	}
	buf_init(&restart, 8192);
	conf_restart_needed(running, loaded, &restart);
	if (restart.len > 0)
		log_warn("reload", "%s: changed, but only a restart makes it so: %s", source->file, restart.data);
	buf_free(&restart);
	return loaded;
}

static int run_run(struct cli *cli, int argc, char **argv)
{
	struct run_source source;
	struct supervisor_reload reload = { .load = run_reload, .arg = &source };
	int status;

	if (cli_next(cli, argc, argv) == CLI_STOP)
		return cli->status;
	status = cli_load(cli);
	if (status != CLI_OK)
		return status;
	source = (struct run_source){ .file = cli_config_file(cli), .as_root = geteuid() == 0 };
	return supervisor_run(cli->settings, &reload);
}

const struct cli_command cmd_run = {
	.name = "run",
	.operands = "",
	.bare = true,
	.summary = "Run jobs, in the foreground, until it is told to stop",
	.notes = "Signals: TERM and INT finish what runs and stop (a second one: at once), QUIT stops at once and gives the "
		 "jobs back, USR2 claims nothing more, HUP reads the configuration again, USR1 writes the status to the log. "
		 "Status 1: jobs had to be left to the end of their leases.",
	.run = run_run,
};
