/* cmd_check.c - leasehold check: would it work? Configuration, programs, database. Changes nothing. */
#include "cli/cli.h"
#include "cli/output.h"
#include "config/conf.h"
#include "runner/cgroup.h"
#include "store/check_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHECK_CONFIG_ONLY = 256 };

static const struct cli_option check_options[] = {
	{ "config-only", CHECK_CONFIG_ONLY, NULL, "the configuration and its programs, without connecting" },
	{ NULL, 0, NULL, NULL },
};

struct check_report {
	struct cli *cli;
	json_t *json; /* with --json: what was said */
	bool failed;
};

static void check_print(void *arg, enum check_level level, const char *subject, const char *text)
{
	static const char *const names[] = { [CHECK_OK] = "ok", [CHECK_WARN] = "warn", [CHECK_FAIL] = "FAIL" };
	static const char *const colours[] = { [CHECK_OK] = "\033[32m", [CHECK_WARN] = "\033[33m", [CHECK_FAIL] = "\033[31m" };
	struct check_report *report = arg;
	bool colour = output_has_colour();
	struct buf clean;

	report->failed = report->failed || level == CHECK_FAIL;
	if (report->cli->json) {
		(void)json_array_append_new(report->json, json_pack("{ss, ss, so}", "level", names[level], "subject", subject,
								    "text", output_json_text(text, strlen(text))));
		return;
	}
	buf_init(&clean, 65536);
	output_escape(&clean, text, strlen(text), false);
	printf("%s%-4s%s %s: %s\n", colour ? colours[level] : "", names[level], colour ? "\033[0m" : "", subject, clean.data);
	fflush(stdout);
	buf_free(&clean);
}

static void LH_PRINTF(4, 5)
	check_printf(struct check_report *report, enum check_level level, const char *subject, const char *fmt, ...)
{
	char text[1024];
	va_list args;

	va_start(args, fmt);
	if (vsnprintf(text, sizeof(text), fmt, args) < 0)
		text[0] = '\0';
	va_end(args);
	check_print(report, level, subject, text);
}

/* ---- Configuration
 * -------------------------------------------------------------------------------------------------------------- */

static int check_config(struct check_report *report)
{
	struct cli *cli = report->cli;
	struct conf_errors errors = { 0 };
	enum lh_err err;

	conf_assume_root(true);
	err = conf_load(cli_config_file(cli), &cli->settings, &errors);
	for (size_t i = 0; i < errors.count; i++)
		check_print(report, CHECK_FAIL, "config", errors.lines[i]);
	if (err == LH_OK)
		check_printf(report, CHECK_OK, "config", "%s: %zu %s, %zu %s", cli_config_file(cli), cli->settings->pool_count,
			     cli->settings->pool_count == 1 ? "pool" : "pools", cli->settings->handler_count,
			     cli->settings->handler_count == 1 ? "handler" : "handlers");
	conf_errors_free(&errors);
	return err == LH_OK ? CLI_OK : CLI_CONFIG;
}

/* The interpreter that a script names in its first line, into out; "" when it is no script, or cannot be read. */
static void check_interpreter(const char *program, char *out, size_t size)
{
	char line[256] = "";
	ssize_t n = -1;
	size_t start = 2;
	int fd = open(program, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	out[0] = '\0';
	if (fd >= 0) {
		n = read(fd, line, sizeof(line) - 1);
		close(fd);
	}
	if (n < 3 || line[0] != '#' || line[1] != '!')
		return;
	line[n] = '\0';
	start += strspn(line + start, " \t");
	line[start + strcspn(line + start, " \t\r\n")] = '\0';
	snprintf(out, size, "%s", line + start);
}

/* An executable file, as far as can be seen from here: the handler's own user may have other rights. */
static bool check_executable(struct check_report *report, const char *kind, const char *what, const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		check_printf(report, CHECK_WARN, "handler", "%s: %s %s: %s", kind, what, path, strerrordesc_np(errno));
	else if (!S_ISREG(st.st_mode))
		check_printf(report, CHECK_WARN, "handler", "%s: %s %s is not a file", kind, what, path);
	else if ((st.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) == 0)
		check_printf(report, CHECK_WARN, "handler", "%s: %s %s is not executable: chmod +x", kind, what, path);
	else
		return true;
	return false;
}

static bool check_handler(struct check_report *report, const struct handler_settings *h)
{
	char interpreter[256];
	struct stat st;
	bool good;

	if (h->type == HANDLER_NOOP)
		return true;
	good = check_executable(report, h->kind, "the program", h->command[0]);
	if (good) {
		check_interpreter(h->command[0], interpreter, sizeof(interpreter));
		good = interpreter[0] == '\0' || check_executable(report, h->kind, "the interpreter", interpreter);
	}
	if (h->cwd != NULL && (stat(h->cwd, &st) != 0 || !S_ISDIR(st.st_mode))) {
		check_printf(report, CHECK_WARN, "handler", "%s: cwd %s is not a directory", h->kind, h->cwd);
		good = false;
	}
	if (h->switch_user && geteuid() != 0) {
		check_printf(report, CHECK_WARN, "handler",
			     "%s: another user than the daemon's: `leasehold run` has to be started by root", h->kind);
		good = false;
	}
	return good;
}

static void check_handlers(struct check_report *report)
{
	const struct settings *s = report->cli->settings;
	size_t good = 0;

	for (size_t i = 0; i < s->handler_count; i++)
		good += check_handler(report, &s->handlers[i]);
	if (good == s->handler_count)
		check_printf(report, CHECK_OK, "handler",
			     good == 1 ? "its program can be executed" : "all %zu programs can be executed", good);
}

/* Whether the service may make groups shows only when it starts. */
static void check_groups(struct check_report *report)
{
	const struct settings *s = report->cli->settings;
	const struct handler_settings *who;
	unsigned int needs = settings_group_needs(s, &who);
	struct fault f = { .code = LH_OK };

	if (needs == 0)
		return;
	if (cgroup_check(needs, &f) == LH_OK)
		check_print(report, CHECK_OK, "cgroup",
			    "what limits.cgroup_* or instance.cgroup ask for can be had where the instance is given a control "
			    "group of its own (Delegate=yes)");
	else if (who == NULL)
		check_printf(report, CHECK_FAIL, "cgroup", "instance.cgroup is \"always\", but %s", f.text);
	else
		check_printf(report, CHECK_FAIL, "cgroup", "%s of %s cannot be had: %s",
			     who->group_memory > 0 ? "limits.cgroup_memory" : "limits.cgroup_cpu", who->kind, f.text);
}

/* ---- Database
 * ------------------------------------------------------------------------------------------------------------------- */

/* Quoted, a payload may be twice as long. */
static void check_payload(struct check_report *report)
{
	size_t max = (size_t)report->cli->settings->instance.max_payload, packet = db_packet_max(report->cli->db);

	if (max > packet / 2)
		check_printf(
			report, CHECK_WARN, "packet",
			"instance.max_payload is %zu bytes, but a statement may have %zu here, and quoting can double a payload",
			max, packet);
}

static void check_connected(struct check_report *report)
{
	const struct database_settings *d = &report->cli->database;
	char where[512];

	if (d->host != NULL)
		snprintf(where, sizeof(where), "%s:%" PRId64, d->host, d->port);
	else
		snprintf(where, sizeof(where), "socket %s", d->socket != NULL ? d->socket : "(the library's default)");
	check_printf(report, CHECK_OK, "connection", "%s as %s, database %s", where, d->user, d->name);
}

static int check_database(struct check_report *report)
{
	struct cli *cli = report->cli;
	struct fault f = { .code = LH_OK };
	enum db_class class;

	class = cli_connect(cli, CLI_READS, &f);
	if (class != DB_OK) {
		check_print(report, CHECK_FAIL, "connection", f.text);
		return cli_refused(class);
	}
	check_connected(report);
	class = check_store_run(cli->db, check_print, report, &f);
	if (class == DB_OK && settings_use_slots(cli->settings))
		class = check_store_slots(cli->db, true, check_print, report, &f);
	check_payload(report);
	if (class == DB_OK || class == DB_READONLY) /* of the second it was told */
		return report->failed ? CLI_FAILED : CLI_OK;
	if (class != DB_SCHEMA && class != DB_DENIED)
		check_print(report, CHECK_FAIL, "connection", f.text);
	return class == DB_SCHEMA ? CLI_CONFIG : class == DB_DENIED ? CLI_FAILED : CLI_UNREACHABLE;
}

static int check_run(struct cli *cli, int argc, char **argv)
{
	struct check_report report = { .cli = cli };
	bool config_only = false;
	int key, status;

	while ((key = cli_next(cli, argc, argv)) != CLI_END) {
		if (key == CLI_STOP)
			return cli->status;
		config_only = config_only || key == CHECK_CONFIG_ONLY;
	}
	report.json = cli->json ? json_array() : NULL;
	status = check_config(&report);
	if (status == CLI_OK)
		check_handlers(&report);
	if (status == CLI_OK)
		check_groups(&report);
	if (status == CLI_OK && !config_only)
		status = check_database(&report);
	if (status == CLI_OK && report.failed)
		status = CLI_FAILED;
	if (cli->json && output_json(report.json) != CLI_OK)
		return CLI_FAILED;
	return status;
}

const struct cli_command cmd_check = {
	.name = "check",
	.operands = "[--config-only]",
	.bare = true,
	.summary = "Check the configuration, the programs it names, and the database",
	.options = check_options,
	.notes = "A line for each thing: ok, warn (it works, but read it) or FAIL (it does not). Nothing is changed: what "
		 "writes is rolled back. Status 1: something failed. 78: the configuration or the schema.",
	.json = true,
	.run = check_run,
};
