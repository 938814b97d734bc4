/* parse.c - see parse.h. */
#include "base/parse.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct parse_unit {
	const char *name;
	uint64_t factor;
};

static const struct parse_unit parse_durations[] = { /* ascending, for parse_format_duration */
	{"ms", 1},
	{"s", 1000},
	{"m", UINT64_C(60) * 1000},
	{"h", UINT64_C(3600) * 1000},
	{"d", UINT64_C(86400) * 1000},
};

static const struct parse_unit parse_sizes[] = {
	{"", 1},
	{"KiB", UINT64_C(1) << 10},
	{"MiB", UINT64_C(1) << 20},
	{"GiB", UINT64_C(1) << 30},
};

#define PARSE_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Reads the digits at text. Returns what follows them, NULL when there are none; *fits is false when the number is too
 * large for 64 bits. */
static const char *parse_digits(const char *text, uint64_t *value, bool *fits)
{
	const char *p = text;

	*value = 0;
	*fits = true;
	for (; *p >= '0' && *p <= '9'; p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (*value > (UINT64_MAX - digit) / 10)
			*fits = false;
		else
			*value = *value * 10 + digit;
	}
	return p == text ? NULL : p;
}

enum lh_err parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *value, struct fault *f)
{
	uint64_t number;
	bool fits;
	const char *rest = parse_digits(text, &number, &fits);

	if (rest == NULL || *rest != '\0')
		return fault_set(f, LH_ERR_INPUT, "\"%.100s\" is not a whole number from %" PRIu64 " to %" PRIu64, text, min, max);
	if (!fits || number < min || number > max)
		return fault_set(f, LH_ERR_INPUT, "\"%.100s\" is out of range: it takes %" PRIu64 " to %" PRIu64, text, min, max);
	*value = number;
	return LH_OK;
}

enum lh_err parse_i64(const char *text, int64_t min, int64_t max, int64_t *value, struct fault *f)
{
	bool negative = text[0] == '-', fits;
	uint64_t number, most = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
	const char *rest = parse_digits(negative ? text + 1 : text, &number, &fits);
	int64_t signed_number = 0;

	if (rest == NULL || *rest != '\0')
		return fault_set(f, LH_ERR_INPUT, "\"%.100s\" is not a whole number from %" PRId64 " to %" PRId64, text, min, max);
	fits = fits && number <= most;
	if (fits && number > 0)
		signed_number = negative ? -(int64_t)(number - 1) - 1 : (int64_t)number;
	if (!fits || signed_number < min || signed_number > max)
		return fault_set(f, LH_ERR_INPUT, "\"%.100s\" is out of range: it takes %" PRId64 " to %" PRId64, text, min, max);
	*value = signed_number;
	return LH_OK;
}

static const struct parse_unit *parse_find_unit(const struct parse_unit *units, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(units[i].name, name) == 0)
			return &units[i];
	}
	return NULL;
}

enum lh_err parse_duration_ms(const char *text, int64_t *ms, struct fault *f)
{
	const struct parse_unit *unit = NULL;
	uint64_t number;
	bool fits;
	const char *rest = parse_digits(text, &number, &fits);

	if (rest != NULL && *rest == '\0')
		return fault_set(f, LH_ERR_INPUT,
				 "\"%.100s\" has no unit: write a duration as \"250ms\", \"30s\", \"5m\", \"2h\" or \"7d\"", text);
	if (rest != NULL)
		unit = parse_find_unit(parse_durations, PARSE_COUNT(parse_durations), rest);
	if (unit == NULL)
		return fault_set(f, LH_ERR_INPUT,
				 "\"%.100s\" is not a duration: write a whole number and ms, s, m, h or d, as in \"30s\"", text);
	if (!fits || number > (uint64_t)INT64_MAX / unit->factor)
		return fault_set(f, LH_ERR_INPUT, "\"%.100s\" is too long for a duration", text);
	*ms = (int64_t)(number * unit->factor);
	return LH_OK;
}

enum lh_err parse_size(const char *text, uint64_t *bytes, struct fault *f)
{
	const struct parse_unit *unit = NULL;
	uint64_t number;
	bool fits;
	const char *rest = parse_digits(text, &number, &fits);

	if (rest != NULL)
		unit = parse_find_unit(parse_sizes, PARSE_COUNT(parse_sizes), rest);
	if (unit == NULL)
		return fault_set(f, LH_ERR_INPUT,
				 "\"%.100s\" is not a size: write bytes, or a whole number and KiB, MiB or GiB, as in \"64KiB\"",
				 text);
	if (!fits || number > UINT64_MAX / unit->factor)
		return fault_set(f, LH_ERR_INPUT, "\"%.100s\" is too large for a size", text);
	*bytes = number * unit->factor;
	return LH_OK;
}

char *parse_format_duration(int64_t ms, char *out, size_t size)
{
	uint64_t magnitude = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
	size_t unit = PARSE_COUNT(parse_durations) - 1;

	if (magnitude == 0)
		unit = 1; /* "0s" */
	while (magnitude % parse_durations[unit].factor != 0)
		unit--;
	snprintf(out, size, "%s%" PRIu64 "%s", ms < 0 ? "-" : "", magnitude / parse_durations[unit].factor,
		 parse_durations[unit].name);
	return out;
}
