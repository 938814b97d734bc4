/* cli.c - finds the command, runs it, and speaks for it. */
#include "cli/cli.h"

#include "base/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define CLI_PROGRESS_MS 200
#define CLI_NEAR 2 /* most edits between a misspelt command and the one that was meant */
#define CLI_NAME_MAX 32

const struct cli_command *const cli_commands[] = {
	&cmd_run,    &cmd_check, &cmd_enqueue, &cmd_list,    &cmd_show,  &cmd_retry,   &cmd_cancel,
	&cmd_queues, &cmd_pause, &cmd_resume,  &cmd_workers, &cmd_stats, &cmd_version, NULL,
};

static const struct cli_command *cli_find(const char *name)
{
	for (size_t i = 0; cli_commands[i] != NULL; i++) {
		if (strcmp(cli_commands[i]->name, name) == 0)
			return cli_commands[i];
	}
	return NULL;
}

static size_t cli_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* How many letters have to be changed, added or left out (Levenshtein). Both names are shorter than CLI_NAME_MAX. */
static size_t cli_distance(const char *a, const char *b)
{
	size_t row[CLI_NAME_MAX + 1], len = strlen(b);

	for (size_t j = 0; j <= len; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1] != '\0'; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= len; j++) {
			size_t above = row[j];

			row[j] = cli_least(cli_least(above, row[j - 1]) + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1));
			diagonal = above;
		}
	}
	return row[len];
}

static const char *cli_nearest(const char *name)
{
	const char *best = NULL;
	size_t best_distance = CLI_NEAR + 1;

	if (strlen(name) >= CLI_NAME_MAX)
		return NULL;
	for (size_t i = 0; cli_commands[i] != NULL; i++) {
		size_t distance = cli_distance(name, cli_commands[i]->name);

		if (distance < best_distance) {
			best = cli_commands[i]->name;
			best_distance = distance;
		}
	}
	return best;
}

static void LH_PRINTF(2, 0) cli_vsay(struct cli *cli, const char *fmt, va_list args)
{
	cli_progress_end(cli);
	fflush(stdout);
	fprintf(stderr, "leasehold: ");
	if (cli->command != NULL)
		fprintf(stderr, "%s: ", cli->command->name);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
}

void cli_say(struct cli *cli, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	cli_vsay(cli, fmt, args);
	va_end(args);
}

int cli_usage(struct cli *cli, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	cli_vsay(cli, fmt, args);
	va_end(args);
	if (cli->command != NULL)
		fprintf(stderr, "Try 'leasehold %s --help'.\n", cli->command->name);
	else
		fprintf(stderr, "Try 'leasehold --help'.\n");
	return CLI_USAGE;
}

void cli_progress(struct cli *cli, uint64_t done, uint64_t total)
{
	int64_t now = clock_mono_ms();

	/* What is done at once needs none. */
	if (cli->progress_ms == 0)
		cli->progress_ms = now;
	if (now < cli->progress_ms + CLI_PROGRESS_MS || isatty(STDERR_FILENO) != 1)
		return;
	cli->progress_ms = now;
	cli->progress_shown = true;
	if (total > 0)
		fprintf(stderr, "\r%s: %llu of %llu\033[K", cli->command->name, (unsigned long long)done,
			(unsigned long long)total);
	else
		fprintf(stderr, "\r%s: %llu\033[K", cli->command->name, (unsigned long long)done);
}

void cli_progress_end(struct cli *cli)
{
	if (cli->progress_shown)
		fprintf(stderr, "\r\033[K");
	cli->progress_shown = false;
}

/* Options before the command. Returns CLI_END to go on with the command at optind, else CLI_STOP with cli->status. */
static int cli_global_options(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int key;

	opterr = 0;
	while ((key = getopt_long(argc, argv, "+:c:hV", options, NULL)) != -1) {
		if (key == 'c') {
			cli->config_file = optarg;
		} else if (key == 'h') {
			cli_help(stdout);
			return CLI_STOP;
		} else if (key == 'V') {
			cli->command = &cmd_version;
			return CLI_END;
		} else if (key == ':') {
			cli->status = cli_usage(cli, "%s needs a value", argv[optind - 1]);
			return CLI_STOP;
		} else {
			cli->status = cli_usage(cli, "%s is not an option that goes before the command", argv[optind - 1]);
			return CLI_STOP;
		}
	}
	return CLI_END;
}

static int cli_dispatch(struct cli *cli, int argc, char **argv)
{
	const char *name, *nearest;

	if (cli_global_options(cli, argc, argv) == CLI_STOP)
		return cli->status;
	if (cli->command != NULL) { /* --version */
		optind = 0;
		return cli->command->run(cli, 1, argv);
	}
	if (optind >= argc) {
		cli_help(stderr);
		return CLI_USAGE;
	}
	name = argv[optind];
	cli->command = cli_find(name);
	if (cli->command == NULL) {
		nearest = cli_nearest(name);
		return nearest == NULL ? cli_usage(cli, "there is no command '%s'", name)
				       : cli_usage(cli, "there is no command '%s'; did you mean '%s'?", name, nearest);
	}
	argc -= optind;
	argv += optind;
	optind = 0; /* glibc: start over, with another list of options */
	return cli->command->run(cli, argc, argv);
}

/* What was printed may not have arrived (a full disk). Whoever closed a pipe knows, and has all that he wanted. */
static int cli_flush(struct cli *cli, int status)
{
	if (fflush(stdout) == 0 && ferror(stdout) == 0)
		return status;
	if (errno != EPIPE)
		cli_say(cli, "cannot write to standard output: %m");
	return status == CLI_OK ? CLI_FAILED : status;
}

int cli_main(int argc, char **argv)
{
	struct cli cli = { .status = CLI_OK };
	int status = cli_dispatch(&cli, argc, argv);

	cli_progress_end(&cli);
	status = cli_flush(&cli, status);
	db_free(cli.db);
	if (cli.library)
		db_library_end();
	settings_unref(cli.settings);
	return status;
}
