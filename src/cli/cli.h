/* cli.h - what the sub-commands share: options, configuration, connection, messages, exit codes (layer: cli; one thread).
 *
 * A command is a struct cli_command in its own file, and a line of the table in cli.c. Its function loops over cli_next, opens
 * the database with cli_open, works, prints to stdout, says what went wrong with cli_say, and returns the exit code. Nothing
 * here ends the process. cli.c dispatches and speaks, cli_options.c parses and helps, cli_db.c loads and connects, output.c and
 * table.c print. */
#ifndef LEASEHOLD_CLI_CLI_H
#define LEASEHOLD_CLI_CLI_H

#include "db/db.h"
#include "model/settings.h"

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* As sysexits.h has them: leasehold(8) lists what each command means by them. */
#define CLI_OK 0
#define CLI_FAILED 1
#define CLI_USAGE 64
#define CLI_UNREACHABLE 69 /* the database cannot be reached, or refuses the connection */
#define CLI_CONFIG 78      /* configuration or schema */

#define CLI_OPTIONS_MAX 24

struct cli;

/* One option of a command: getopt and the help are made from it. */
struct cli_option {
	const char *name;  /* without the dashes; NULL ends a list */
	int key;           /* what cli_next returns; a letter is a short option too */
	const char *value; /* what its argument is called in the help; NULL: it takes none */
	const char *help;  /* unit, range, default */
};

struct cli_command {
	const char *name;
	const char *operands; /* of the usage line */
	bool bare;            /* takes options only: cli_next refuses operands */
	const char *summary;  /* one line, no full stop */
	const struct cli_option *options;
	const char *notes; /* what the help says after the options; NULL: nothing */
	bool json;         /* takes --json */
	int (*run)(struct cli *cli, int argc, char **argv);
};

/* In the order of the overview; ends with NULL. */
extern const struct cli_command *const cli_commands[];

extern const struct cli_command cmd_cancel, cmd_check, cmd_enqueue, cmd_list, cmd_pause, cmd_queues, cmd_resume, cmd_retry, cmd_run,
	cmd_show, cmd_stats, cmd_version, cmd_workers;

struct cli {
	const struct cli_command *command;
	const char *config_file; /* NULL: the default */
	bool json;
	int status;                        /* what to return when cli_next has returned CLI_STOP */
	const char *value;                 /* the argument of the option that cli_next returned; NULL: it takes none */
	struct settings *settings;         /* cli_load */
	struct database_settings database; /* a shallow copy of settings->database */
	bool library;                      /* db_library_init was called */
	struct db *db;                     /* cli_open */
	bool progress_shown;
	int64_t progress_ms;
	struct option long_options[CLI_OPTIONS_MAX + 1];
	char short_options[CLI_OPTIONS_MAX * 2 + 2];
};

/* The whole program but for the runner. Returns the exit code. */
int cli_main(int argc, char **argv);

#define CLI_END 0
#define CLI_STOP (-1)
/* "usage: ..." of one command with its options and exit codes, or the overview of all commands. */
void cli_help_command(const struct cli_command *command, FILE *out);
void cli_help(FILE *out);

/* The key of the next option of the command; CLI_END after the last (optind is then at the operands); CLI_STOP when the command
 * has to return cli->status: the help was printed, or an option was wrong. -c, --json and --help are dealt with inside. */
int cli_next(struct cli *cli, int argc, char **argv);

/* "leasehold: COMMAND: text" to stderr. */
void cli_say(struct cli *cli, const char *fmt, ...) LH_PRINTF(2, 3);
/* As cli_say, and points to --help. Returns CLI_USAGE. */
int cli_usage(struct cli *cli, const char *fmt, ...) LH_PRINTF(2, 3);
/* Tells of a failed database call and returns the exit code for it. doing: "job 17", "the list": what did not come about. */
int cli_failed(struct cli *cli, enum db_class class, const struct fault *f, const char *doing);

/* Which file is the configuration: -c, else $LEASEHOLD_CONFIG, else the one in sysconfdir. */
const char *cli_config_file(const struct cli *cli);
/* Loads it; every error is told. Returns CLI_OK or CLI_CONFIG. */
int cli_load(struct cli *cli);

enum cli_mode {
	CLI_READS, /* a read-only server will do */
	CLI_WRITES,
	CLI_PRODUCES /* as CLI_WRITES, by an account that may not read the schema's version */
};
/* Connects, after cli_load. Tells nothing. */
enum db_class cli_connect(struct cli *cli, enum cli_mode mode, struct fault *f) LH_MUST_CHECK;
/* The exit code for a cli_connect that failed. */
int cli_refused(enum db_class class);
/* cli_load, cli_connect, and makes sure that the schema fits. Returns an exit code; anything but CLI_OK has been told. */
int cli_open(struct cli *cli, enum cli_mode mode);

/* For statements that a deadlock or a lock wait rolled back: cli_again waits a little and returns true while it is worth trying
 * again, until the time that cli_patience gave. */
int64_t cli_patience(void);
bool cli_again(enum db_class class, int64_t until_ms);

/* "retry: 1200 of 5000" on stderr, when that is a terminal, a few times a second. total 0: not known. */
void cli_progress(struct cli *cli, uint64_t done, uint64_t total);
void cli_progress_end(struct cli *cli);

/* "login@host" of whoever runs this, valid UTF-8, cut to fit. Returns out. */
char *cli_person(char *out, size_t size);

/* Values of options. Each tells what is wrong, naming the option, and returns false. */
bool cli_take_number(struct cli *cli, const char *option, int64_t min, int64_t max, int64_t *value);
bool cli_take_duration(struct cli *cli, const char *option, int64_t max_ms, int64_t *ms);
/* A queue or a kind: 1 to max printable ASCII characters without blanks. what: "--queue", "KIND". */
bool cli_take_name(struct cli *cli, const char *what, const char *text, size_t max);
/* A job's id, from 1 up. */
bool cli_take_id(struct cli *cli, const char *text, uint64_t *id);

#endif
