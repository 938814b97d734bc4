/* cli_options.c - options, their values, and the help that is made from the same tables. */
#include "cli/cli.h"

#include "base/parse.h"
#include "model/job.h"

#include <string.h>

#define CLI_HELP_COLUMN 28
#define CLI_HELP_WIDTH 79
#define CLI_KEY_CONFIG 'c'
#define CLI_KEY_HELP 'h'
#define CLI_KEY_JSON 1000 /* no letter: long only */

static const struct cli_option cli_common[] = {
	{ "config", CLI_KEY_CONFIG, "FILE",
	  "configuration file (default: $LEASEHOLD_CONFIG, else " LEASEHOLD_SYSCONFDIR "/leasehold/leasehold.conf)" },
	{ "help", CLI_KEY_HELP, NULL, "show this text" },
};
#define CLI_COMMON (sizeof(cli_common) / sizeof(cli_common[0]))

static const struct cli_option cli_json = { "json", CLI_KEY_JSON, NULL, "print JSON" };

/* ---- Parsing
 * ------------------------------------------------------------------------------------------------------------------ */

static size_t cli_add_option(struct cli *cli, size_t n, const struct cli_option *option)
{
	size_t len = strlen(cli->short_options);

	if (n >= CLI_OPTIONS_MAX)
		return n;
	cli->long_options[n] =
		(struct option){ option->name, option->value != NULL ? required_argument : no_argument, NULL, option->key };
	if (option->key < 256) {
		cli->short_options[len++] = (char)option->key;
		if (option->value != NULL)
			cli->short_options[len++] = ':';
		cli->short_options[len] = '\0';
	}
	return n + 1;
}

static void cli_prepare(struct cli *cli)
{
	size_t n = 0;

	memcpy(cli->short_options, ":", 2);
	for (const struct cli_option *o = cli->command->options; o != NULL && o->name != NULL; o++)
		n = cli_add_option(cli, n, o);
	if (cli->command->json)
		n = cli_add_option(cli, n, &cli_json);
	for (size_t i = 0; i < CLI_COMMON; i++)
		n = cli_add_option(cli, n, &cli_common[i]);
	cli->long_options[n] = (struct option){ NULL, 0, NULL, 0 };
}

static int cli_stop(struct cli *cli, int status)
{
	cli->status = status;
	return CLI_STOP;
}

int cli_next(struct cli *cli, int argc, char **argv)
{
	if (cli->short_options[0] == '\0')
		cli_prepare(cli);
	for (;;) {
		int key = getopt_long(argc, argv, cli->short_options, cli->long_options, NULL);

		cli->value = optarg;
		switch (key) {
		case -1:
			if (cli->command->bare && optind < argc)
				return cli_stop(cli, cli_usage(cli, "'%s' is too much: it takes no operands", argv[optind]));
			return CLI_END;
		case CLI_KEY_CONFIG:
			cli->config_file = optarg;
			break;
		case CLI_KEY_JSON:
			cli->json = true;
			break;
		case CLI_KEY_HELP:
			cli_help_command(cli->command, stdout);
			return cli_stop(cli, CLI_OK);
		case ':':
			return cli_stop(cli, cli_usage(cli, "%s needs a value", argv[optind - 1]));
		case '?':
			/* optopt holds a short option that is not there, or the key of a long one that was given a value and
			 * takes none. */
			if (optopt != 0 && strncmp(argv[optind - 1], "--", 2) != 0)
				return cli_stop(cli, cli_usage(cli, "there is no option -%c", optopt));
			return cli_stop(cli, cli_usage(cli,
						       optopt != 0 ? "%s: the option takes no value"
								   : "there is no option %s, or more than one that begins so",
						       argv[optind - 1]));
		default:
			return key;
		}
	}
}

/* ---- Help
 * --------------------------------------------------------------------------------------------------------------------- */

/* Prints text in lines of CLI_HELP_WIDTH, each but the first after indent blanks; the first one begins at the column at. */
static void cli_help_wrap(FILE *out, const char *text, size_t at, size_t indent)
{
	while (*text != '\0') {
		size_t word = strcspn(text, " ");

		if (at > indent && at + 1 + word > CLI_HELP_WIDTH) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (at > indent) {
			fputc(' ', out);
			at++;
		}
		fprintf(out, "%.*s", (int)word, text);
		at += word;
		text += word + strspn(text + word, " ");
	}
	fputc('\n', out);
}

static void cli_help_option(const struct cli_option *option, FILE *out)
{
	int width = option->key < 256 ? fprintf(out, "  -%c, --%s", option->key, option->name)
				      : fprintf(out, "      --%s", option->name);

	if (option->value != NULL)
		width += fprintf(out, " %s", option->value);
	if (width > CLI_HELP_COLUMN - 2) {
		fputc('\n', out);
		width = 0;
	}
	fprintf(out, "%*s", CLI_HELP_COLUMN - width, "");
	cli_help_wrap(out, option->help, CLI_HELP_COLUMN, CLI_HELP_COLUMN);
}

void cli_help_command(const struct cli_command *command, FILE *out)
{
	fprintf(out, "usage: leasehold [-c FILE] %s%s%s\n\n%s.\n\n", command->name, command->operands[0] == '\0' ? "" : " ",
		command->operands, command->summary);
	for (const struct cli_option *o = command->options; o != NULL && o->name != NULL; o++)
		cli_help_option(o, out);
	if (command->json)
		cli_help_option(&cli_json, out);
	for (size_t i = 0; i < CLI_COMMON; i++)
		cli_help_option(&cli_common[i], out);
	if (command->notes != NULL) {
		fputc('\n', out);
		cli_help_wrap(out, command->notes, 0, 0);
	}
	fputc('\n', out);
	cli_help_wrap(out,
		      "Exit status: 0 done, 1 failed, 64 wrong usage, 69 the database cannot be reached or refuses the connection, "
		      "78 configuration or schema.",
		      0, 0);
}

void cli_help(FILE *out)
{
	fprintf(out, "usage: leasehold [-c FILE] COMMAND [OPTION...] [OPERAND...]\n\nRuns and looks after jobs in MariaDB and "
		     "MySQL.\n\n");
	for (size_t i = 0; cli_commands[i] != NULL; i++)
		fprintf(out, "  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
	fprintf(out, "\n'leasehold COMMAND --help' tells of one command, leasehold(8) of all.\n");
}

/* ---- Values
 * ------------------------------------------------------------------------------------------------------------------- */

bool cli_take_number(struct cli *cli, const char *option, int64_t min, int64_t max, int64_t *value)
{
	struct fault f;

	if (parse_i64(cli->value, min, max, value, &f) == LH_OK)
		return true;
	cli_usage(cli, "%s: %s (it takes %lld to %lld)", option, f.text, (long long)min, (long long)max);
	return false;
}

bool cli_take_duration(struct cli *cli, const char *option, int64_t max_ms, int64_t *ms)
{
	char most[32];
	struct fault f;

	if (parse_duration_ms(cli->value, ms, &f) != LH_OK) {
		cli_usage(cli, "%s: %s", option, f.text);
		return false;
	}
	if (*ms <= max_ms)
		return true;
	cli_usage(cli, "%s: %s is more than %s", option, cli->value, parse_format_duration(max_ms, most, sizeof(most)));
	return false;
}

bool cli_take_name(struct cli *cli, const char *what, const char *text, size_t max)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++) {
		if (text[i] <= ' ' || text[i] > '~') {
			cli_usage(cli, "%s: '%s' may hold printable ASCII characters only, and no blanks", what, text);
			return false;
		}
	}
	if (len >= 1 && len <= max)
		return true;
	cli_usage(cli, "%s: '%s' has %zu characters, 1 to %zu are possible", what, text, len, max);
	return false;
}

bool cli_take_id(struct cli *cli, const char *text, uint64_t *id)
{
	struct fault f;

	if (parse_u64(text, 1, UINT64_MAX, id, &f) == LH_OK)
		return true;
	cli_usage(cli, "'%s' is not the id of a job", text);
	return false;
}
