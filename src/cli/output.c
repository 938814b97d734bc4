/* output.c - see output.h. */
#include "cli/output.h"

#include "base/utf8.h"
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define OUTPUT_TEXT_MAX (64u * 1024 * 1024)
#define OUTPUT_TERMINAL_MAX 4096 /* bytes of one value that a terminal is shown */
#define OUTPUT_NAME_WIDTH 20

enum output_kind { OUTPUT_TEXT, OUTPUT_NUMBER, OUTPUT_PERCENT, OUTPUT_TIME, OUTPUT_FLAG };

static const char *const output_numbers[] = {
	"id",        "priority",  "attempt", "max_attempts", "claim_no", "timeout_ms", "lease_ms", "reclaims", "orphan_streak",
	"exit_code", "signal",  "max_rss_kb",   "cpu_ms",   "pid",        "threads",  "running",  "ready",
	"scheduled", "dead",      "jobs",    "oldest_s",     "seen_s",   "attempts",   "bytes",    NULL,
};

static bool output_ends(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

static enum output_kind output_kind_of(const char *name)
{
	if (output_ends(name, "_at") || output_ends(name, "_until"))
		return OUTPUT_TIME;
	if (strcmp(name, "stale") == 0)
		return OUTPUT_FLAG;
	if (strcmp(name, "progress") == 0)
		return OUTPUT_PERCENT;
	for (size_t i = 0; output_numbers[i] != NULL; i++) {
		if (strcmp(name, output_numbers[i]) == 0)
			return OUTPUT_NUMBER;
	}
	return OUTPUT_TEXT;
}

bool output_is_terminal(void)
{
	return isatty(STDOUT_FILENO) == 1;
}

bool output_has_colour(void)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	return output_is_terminal() && (no_color == NULL || no_color[0] == '\0') && (term == NULL || strcmp(term, "dumb") != 0);
}

size_t output_width(void)
{
	struct winsize size;

	return output_is_terminal() && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* ---- Text ------------------------------------------------------------------------------------------------------------------- */

/* The second byte of a C1 control character in UTF-8: terminals obey those too. */
static bool output_is_c1(const char *text, size_t left)
{
	return left >= 2 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] <= 0x9f;
}

void output_escape(struct buf *out, const char *text, size_t len, bool keep_newlines)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\n' || c == '\t') {
			if (keep_newlines)
				buf_addc(out, (char)c);
			else
				buf_adds(out, c == '\n' ? "\\n" : "\\t");
		} else if (c < 0x20 || c == 0x7f) {
			buf_addf(out, "\\x%02x", c);
		} else if (output_is_c1(text + i, len - i)) {
			i++;
			buf_addf(out, "\\u%04x", (unsigned char)text[i]);
		} else {
			buf_addc(out, (char)c);
		}
	}
}

char *output_time(const char *text, bool seconds, char out[OUTPUT_TIME_MAX])
{
	size_t len = strlen(text);

	/* "2026-01-31 23:59:59.123456" */
	if (len < 19 || len + 2 > OUTPUT_TIME_MAX || text[10] != ' ') {
		snprintf(out, OUTPUT_TIME_MAX, "%s", text);
		return out;
	}
	snprintf(out, OUTPUT_TIME_MAX, "%.10sT%.*sZ", text, seconds ? 8 : (int)(len - 11), text + 11);
	return out;
}

/* "40.00" is 40%, "33.30" is 33.3%. */
static char *output_percent(const char *text, char *out, size_t size)
{
	size_t len = strlen(text);

	while (strchr(text, '.') != NULL && len > 0 && text[len - 1] == '0')
		len--;
	if (len > 0 && text[len - 1] == '.')
		len--;
	snprintf(out, size, "%.*s%%", (int)len, text);
	return out;
}

char *output_age(int64_t seconds, char *out, size_t size)
{
	if (seconds < 120)
		snprintf(out, size, "%" PRId64 "s", seconds);
	else if (seconds < 120 * 60)
		snprintf(out, size, "%" PRId64 "m", seconds / 60);
	else if (seconds < 48 * 3600)
		snprintf(out, size, "%" PRId64 "h", seconds / 3600);
	else
		snprintf(out, size, "%" PRId64 "d", seconds / 86400);
	return out;
}

int output_column(const struct db_rows *rows, const char *name)
{
	for (unsigned int i = 0; i < db_rows_columns(rows); i++) {
		if (strcmp(db_column_name(rows, i), name) == 0)
			return (int)i;
	}
	return -1;
}

void output_cell(struct buf *out, const struct db_rows *rows, int column)
{
	char time[OUTPUT_TIME_MAX];
	size_t len = 0;
	const char *text = column < 0 ? NULL : db_text(rows, (unsigned int)column, &len);

	if (text == NULL || len == 0) {
		buf_addc(out, '-');
		return;
	}
	switch (output_kind_of(db_column_name(rows, (unsigned int)column))) {
	case OUTPUT_TIME:
		buf_adds(out, output_time(text, output_is_terminal(), time));
		return;
	case OUTPUT_PERCENT:
		buf_adds(out, output_percent(text, time, sizeof(time)));
		return;
	default:
		output_escape(out, text, len, false);
	}
}

/* ---- JSON ------------------------------------------------------------------------------------------------------------------- */

json_t *output_json_text(const char *text, size_t len)
{
	struct buf clean;
	json_t *value;

	if (text == NULL)
		return json_null();
	if (utf8_valid(text, len))
		return json_stringn(text, len);
	buf_init(&clean, OUTPUT_TEXT_MAX);
	utf8_sanitise(&clean, text, len);
	value = buf_ok(&clean) ? json_stringn(clean.data, clean.len) : NULL;
	buf_free(&clean);
	return value;
}

json_t *output_json_id(uint64_t id)
{
	return id <= INT64_MAX ? json_integer((json_int_t)id) : json_sprintf("%" PRIu64, id);
}

/* A decimal number becomes a real, and one that no JSON library could hold stays a string. */
static json_t *output_json_number(const char *text, size_t len)
{
	json_error_t error;
	json_t *value = json_loadb(text, len, JSON_DECODE_ANY, &error);

	return json_is_number(value) ? value : output_json_text(text, len);
}

json_t *output_json_value(const struct db_rows *rows, unsigned int column)
{
	char time[OUTPUT_TIME_MAX];
	size_t len = 0;
	const char *text = db_text(rows, column, &len);

	if (text == NULL)
		return json_null();
	switch (output_kind_of(db_column_name(rows, column))) {
	case OUTPUT_NUMBER:
	case OUTPUT_PERCENT:
		return output_json_number(text, len);
	case OUTPUT_TIME:
		output_time(text, false, time);
		return output_json_text(time, strlen(time));
	case OUTPUT_FLAG:
		return json_boolean(strcmp(text, "0") != 0);
	case OUTPUT_TEXT:
		break;
	}
	return output_json_text(text, len);
}

json_t *output_json_row(const struct db_rows *rows)
{
	json_t *object = json_object();

	for (unsigned int i = 0; object != NULL && i < db_rows_columns(rows); i++) {
		if (json_object_set_new(object, db_column_name(rows, i), output_json_value(rows, i)) != 0) {
			json_decref(object);
			object = NULL;
		}
	}
	return object;
}

json_t *output_json_rows(struct db_rows *rows)
{
	json_t *array = json_array();

	while (array != NULL && db_rows_next(rows)) {
		if (json_array_append_new(array, output_json_row(rows)) != 0) {
			json_decref(array);
			array = NULL;
		}
	}
	return array;
}

int output_json(json_t *value)
{
	int failed = value == NULL ? -1 : json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);

	json_decref(value);
	if (failed != 0 && ferror(stdout) == 0) {
		fprintf(stderr, "leasehold: out of memory\n");
		return CLI_FAILED;
	}
	putchar('\n');
	return CLI_OK;
}

/* ---- One row ---------------------------------------------------------------------------------------------------------------- */

/* Text of several lines goes below its name, each line indented. */
static void output_block(const char *name, const char *text, size_t len)
{
	const char *end = text + len;

	printf("%s\n", name);
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t line = newline == NULL ? (size_t)(end - text) : (size_t)(newline - text);

		printf("    %.*s\n", (int)line, text);
		text += line + 1;
	}
}

static void output_field(const char *name, const char *text, size_t len)
{
	char time[OUTPUT_TIME_MAX];
	size_t shown = len;
	struct buf clean;

	if (output_kind_of(name) == OUTPUT_TIME) {
		text = output_time(text, false, time);
		shown = len = strlen(text);
	} else if (output_kind_of(name) == OUTPUT_PERCENT) {
		text = output_percent(text, time, sizeof(time));
		shown = len = strlen(text);
	} else if (output_is_terminal() && len > OUTPUT_TERMINAL_MAX) {
		shown = utf8_cut(text, OUTPUT_TERMINAL_MAX);
	}
	buf_init(&clean, OUTPUT_TEXT_MAX);
	output_escape(&clean, text, shown, true);
	if (memchr(clean.data, '\n', clean.len) != NULL)
		output_block(name, clean.data, clean.len);
	else
		printf("%-*s%s\n", OUTPUT_NAME_WIDTH, name, clean.data);
	if (shown < len)
		printf("    (%zu bytes more: --json shows all)\n", len - shown);
	buf_free(&clean);
}

void output_fields(const struct db_rows *rows)
{
	for (unsigned int i = 0; i < db_rows_columns(rows); i++) {
		size_t len = 0;
		const char *text = db_text(rows, i, &len);

		if (text != NULL)
			output_field(db_column_name(rows, i), text, len);
	}
}
