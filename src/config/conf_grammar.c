/* conf_grammar.c - the form of names, kinds, commands and environments. */
#include "config/conf_check.h"

#include <stdint.h>
#include <string.h>

#define CONF_GRAMMAR_QUEUE_MAX 64
/* The runner takes a handler's strings in one message (RUNNER_MESSAGE_MAX); the rest is for the variables that each
 * attempt adds. */
#define CONF_GRAMMAR_START_MAX ((size_t)96 * 1024)

/* Printable ASCII other than the space. */
static bool conf_grammar_is_graphic(const char *text)
{
	for (; *text; text++)
		if (*text <= 0x20 || *text >= 0x7f)
			return false;
	return true;
}

static bool conf_grammar_is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool conf_grammar_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static void conf_grammar_instance(struct conf_state *state)
{
	const struct conf_key key = {"instance", CONF_NO_INDEX, "name"};
	char quoted[CONF_QUOTE_SIZE];

	if (!conf_grammar_is_graphic(state->settings->instance.name))
		conf_state_refuse(state, key, "must be printable ASCII without spaces, not %s",
				  conf_report_quote(state->settings->instance.name, quoted));
}

static void conf_grammar_pool_name(struct conf_state *state, int index)
{
	const char *name = state->settings->pools[index].name;
	char quoted[CONF_QUOTE_SIZE];

	for (const char *c = name; *c; c++) {
		if (conf_grammar_is_alpha(*c) || conf_grammar_is_digit(*c) || strchr("._-", *c))
			continue;
		conf_state_refuse(state, (struct conf_key){"pools", index, "name"},
				  "may hold letters, digits, \".\", \"_\" and \"-\", not %s", conf_report_quote(name, quoted));
		return;
	}
}

/* The column pads with spaces when it compares, so one at the end would make two names one. */
static bool conf_grammar_is_queue(const char *name)
{
	size_t len = strlen(name);

	if (!len || len > CONF_GRAMMAR_QUEUE_MAX || name[0] == ' ' || name[len - 1] == ' ')
		return false;
	for (; *name; name++)
		if (*name < 0x20 || *name >= 0x7f)
			return false;
	return true;
}

static void conf_grammar_queues(struct conf_state *state, int index)
{
	char **queues = state->settings->pools[index].queues;
	char quoted[CONF_QUOTE_SIZE];

	for (size_t i = 0; queues[i]; i++)
		if (!conf_grammar_is_queue(queues[i]))
			conf_state_refuse(
				state, (struct conf_key){"pools", index, "queues"},
				"entry %zu must be 1 to %d printable ASCII characters without a space at its ends, not %s", i + 1,
				CONF_GRAMMAR_QUEUE_MAX, conf_report_quote(queues[i], quoted));
}

/* A star may only stand alone or after the last dot of a prefix. */
static bool conf_grammar_is_pattern(const char *kind)
{
	const char *star = strchr(kind, '*');

	if (!star || !strcmp(kind, "*"))
		return true;
	return !star[1] && star - kind >= 2 && star[-1] == '.';
}

static void conf_grammar_kind(struct conf_state *state, int index)
{
	const struct conf_key key = {"handlers", index, "kind"};
	const char *kind = state->settings->handlers[index].kind;
	char quoted[CONF_QUOTE_SIZE];

	if (!kind)
		return;
	if (!conf_grammar_is_graphic(kind))
		conf_state_refuse(state, key, "must be printable ASCII without spaces, not %s", conf_report_quote(kind, quoted));
	else if (!conf_grammar_is_pattern(kind))
		conf_state_refuse(state, key, "must be an exact kind, \"prefix.*\" or \"*\", not %s",
				  conf_report_quote(kind, quoted));
}

static void conf_grammar_command(struct conf_state *state, int index)
{
	char **command = state->settings->handlers[index].command;
	char quoted[CONF_QUOTE_SIZE];

	if (command && command[0][0] != '/')
		conf_state_refuse(state, (struct conf_key){"handlers", index, "command"},
				  "must start with the absolute path of a program, not %s (no shell and no PATH is used)",
				  conf_report_quote(command[0], quoted));
}

/* The length of the NAME of "NAME=value", 0 when the entry is none. */
static size_t conf_grammar_env_name(const char *entry)
{
	size_t len = 0;

	while (conf_grammar_is_alpha(entry[len]) || entry[len] == '_' || (len && conf_grammar_is_digit(entry[len])))
		len++;
	return entry[len] == '=' ? len : 0;
}

static bool conf_grammar_env_is_taken(char *const *env, size_t index, size_t name_len)
{
	for (size_t i = 0; i < index; i++)
		if (!strncmp(env[i], env[index], name_len + 1))
			return true;
	return false;
}

static void conf_grammar_env(struct conf_state *state, int index)
{
	const struct conf_key key = {"handlers", index, "env"};
	char **env = state->settings->handlers[index].env;

	for (size_t i = 0; env && env[i]; i++) {
		size_t name_len = conf_grammar_env_name(env[i]);

		/* Values are not shown: they may be secrets. */
		if (!name_len)
			conf_state_refuse(state, key, "entry %zu must be \"NAME=value\", with a NAME of letters, digits and \"_\"",
					  i + 1);
		else if (!strncmp(env[i], "LEASEHOLD_", strlen("LEASEHOLD_")))
			conf_state_refuse(state, key,
					  "entry %zu: names that start with LEASEHOLD_ are set by the daemon itself: %.*s", i + 1,
					  (int)name_len, env[i]);
		else if (conf_grammar_env_is_taken(env, i, name_len))
			conf_state_refuse(state, key, "entry %zu sets %.*s a second time", i + 1, (int)name_len, env[i]);
	}
}

static size_t conf_grammar_size(char *const *list)
{
	size_t size = 0;

	for (; list && *list; list++)
		size += strlen(*list) + 1;
	return size;
}

static void conf_grammar_start(struct conf_state *state, int index)
{
	const struct handler_settings *handler = &state->settings->handlers[index];
	size_t size = conf_grammar_size(handler->command) + conf_grammar_size(handler->env);

	if (size > CONF_GRAMMAR_START_MAX)
		conf_state_refuse(state, (struct conf_key){"handlers", index, "command"},
				  "must have at most %zu bytes together with env, not %zu", CONF_GRAMMAR_START_MAX, size);
}

void conf_grammar_check(struct conf_state *state)
{
	conf_grammar_instance(state);
	for (size_t i = 0; i < state->settings->pool_count; i++) {
		conf_grammar_pool_name(state, (int)i);
		conf_grammar_queues(state, (int)i);
	}
	for (size_t i = 0; i < state->settings->handler_count; i++) {
		conf_grammar_kind(state, (int)i);
		conf_grammar_command(state, (int)i);
		conf_grammar_env(state, (int)i);
		conf_grammar_start(state, (int)i);
	}
}
