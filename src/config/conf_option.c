/* conf_option.c - what an option takes, in words. */
#include "config/conf_option.h"

#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *conf_type_name(enum conf_type type)
{
	static const char *const names[] = {
		[CONF_STRING] = "string",           [CONF_INT] = "whole number", [CONF_BOOL] = "boolean",
		[CONF_DURATION] = "duration",       [CONF_SIZE] = "size",        [CONF_CHOICE] = "word",
		[CONF_STRINGS] = "list of strings",
	};

	return names[type];
}

static void conf_option_format_size(int64_t bytes, char *out, size_t size)
{
	static const char *const units[] = {"", "KiB", "MiB", "GiB"};
	size_t unit = 0;

	while (bytes && bytes % 1024 == 0 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		bytes /= 1024;
		unit++;
	}
	snprintf(out, size, "%" PRId64 "%s", bytes, units[unit]);
}

char *conf_option_format(const struct conf_option *option, int64_t value, char *out, size_t size)
{
	if (option->type == CONF_DURATION)
		parse_format_duration(value, out, size);
	else if (option->type == CONF_SIZE)
		conf_option_format_size(value, out, size);
	else
		snprintf(out, size, "%" PRId64, value);
	return out;
}

/* "off|required|verify" as "off, required or verify". */
static void conf_option_list_choices(const char *choices, char *out, size_t size)
{
	size_t len = 0;

	for (const char *p = choices; *p && len + 8 < size; p++) {
		const char *gap = strchr(p + 1, '|') ? ", " : " or ";

		if (*p == '|')
			len += (size_t)snprintf(out + len, size - len, "%s", gap);
		else
			out[len++] = *p;
	}
	out[len] = '\0';
}

char *conf_option_range(const struct conf_option *option, char *out, size_t size)
{
	const char *zero = option->type == CONF_DURATION ? "0s (none) or " : "0 (none) or ";
	const char *unit = option->type == CONF_STRING ? " characters" : option->type == CONF_STRINGS ? " entries" : "";
	char min[32], max[32];

	if (option->type == CONF_BOOL) {
		snprintf(out, size, "true or false");
	} else if (option->type == CONF_CHOICE) {
		conf_option_list_choices(option->choices, out, size);
	} else {
		conf_option_format(option, option->min, min, sizeof(min));
		conf_option_format(option, option->max, max, sizeof(max));
		snprintf(out, size, "%s%s to %s%s", option->zero ? zero : "", min, max, unit);
	}
	return out;
}

bool conf_option_allows(const struct conf_option *option, int64_t value)
{
	return (option->zero && !value) || (value >= option->min && value <= option->max);
}

int conf_option_choice(const struct conf_option *option, const char *word)
{
	size_t len = strlen(word);
	int index = 0;

	for (const char *p = option->choices; p; index++) {
		if (strcspn(p, "|") == len && !strncmp(p, word, len))
			return index;
		p = strchr(p, '|');
		if (p)
			p++;
	}
	return -1;
}
