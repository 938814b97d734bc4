/* conf_scan.c - the lexical pass over one configuration file. It knows libconfig's tokens, not its grammar: what is no
 * token is passed on as it is, and libconfig refuses it. */
#include "config/conf_scan.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct conf_scan {
	struct conf_source *source;
	uint32_t file, line;
	const char *at, *end;
	bool line_start; /* nothing of this line was taken yet */
	/* The last token, when it was a name: a key, if "=" or ":" follows. */
	uint32_t name_start, name_len;
};

typedef bool conf_scan_class(char c);

static bool conf_scan_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool conf_scan_is_hex(char c)
{
	return conf_scan_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool conf_scan_is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '*';
}

static bool conf_scan_is_name(char c)
{
	return conf_scan_is_alpha(c) || conf_scan_is_digit(c) || c == '-' || c == '_';
}

static bool conf_scan_is_float(char c)
{
	return conf_scan_is_name(c) || c == '.' || c == '+';
}

static bool conf_scan_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* How many characters of the class come from p on. */
static size_t conf_scan_span(const struct conf_scan *scan, const char *p, conf_scan_class *is)
{
	const char *q = p;

	while (q < scan->end && is(*q))
		q++;
	return (size_t)(q - p);
}

static bool conf_scan_sees(const struct conf_scan *scan, const char *word)
{
	size_t len = strlen(word);

	return (size_t)(scan->end - scan->at) >= len && !memcmp(scan->at, word, len);
}

static void conf_scan_error(struct conf_scan *scan, uint32_t line, const char *what)
{
	conf_report_add(scan->source->report, scan->source->files[scan->file], line, "%s", what);
}

/* Passes len characters on. */
static void conf_scan_copy(struct conf_scan *scan, size_t len)
{
	buf_add(&scan->source->text, scan->at, len);
	for (; len; len--)
		if (*scan->at++ == '\n')
			conf_source_begin_line(scan->source, scan->file, ++scan->line);
}

static void conf_scan_line_comment(struct conf_scan *scan)
{
	const char *newline = memchr(scan->at, '\n', (size_t)(scan->end - scan->at));

	conf_scan_copy(scan, (size_t)((newline ? newline : scan->end) - scan->at));
}

static void conf_scan_block_comment(struct conf_scan *scan)
{
	uint32_t line = scan->line;

	conf_scan_copy(scan, 2);
	while (scan->at < scan->end && !conf_scan_sees(scan, "*/"))
		conf_scan_copy(scan, 1);
	if (scan->at == scan->end)
		conf_scan_error(scan, line, "this comment is never closed");
	else
		conf_scan_copy(scan, 2);
}

/* libconfig never frees a string that its grammar does not expect, so those do not get there. */
static bool conf_scan_is_string_place(const struct conf_source *source)
{
	char bracket = conf_source_bracket(source);

	if (source->last == '=' || source->last == ':' || source->last == CONF_SOURCE_STRING)
		return true;
	return (bracket == '(' || bracket == '[') && (source->last == bracket || source->last == ',');
}

static void conf_scan_string(struct conf_scan *scan)
{
	uint32_t line = scan->line;

	if (!conf_scan_is_string_place(scan->source))
		conf_scan_error(scan, line, "syntax error: a string cannot stand here: write name = value; or [ value, value ]");
	scan->source->last = CONF_SOURCE_STRING;

	conf_scan_copy(scan, 1);
	while (scan->at < scan->end && *scan->at != '"') {
		/* libconfig would end the string there. */
		if (conf_scan_sees(scan, "\\x00"))
			conf_scan_error(scan, scan->line, "a string cannot hold \\x00");
		conf_scan_copy(scan, *scan->at == '\\' && scan->end - scan->at > 1 ? 2 : 1);
	}
	if (scan->at == scan->end)
		conf_scan_error(scan, line, "this string is never closed");
	else
		conf_scan_copy(scan, 1);
}

/* The length of the integer at scan->at with its suffix, 0 when it is none that libconfig takes. *digits is without suffix. */
static size_t conf_scan_integer(const struct conf_scan *scan, size_t *digits)
{
	const char *p = scan->at;

	if (conf_scan_sees(scan, "0x") || conf_scan_sees(scan, "0X")) {
		p += 2 + conf_scan_span(scan, p + 2, conf_scan_is_hex);
	} else {
		p += *p == '-' || *p == '+';
		if (!conf_scan_span(scan, p, conf_scan_is_digit))
			return 0;
		p += conf_scan_span(scan, p, conf_scan_is_digit);
	}
	*digits = (size_t)(p - scan->at);
	while (p < scan->end && *p == 'L')
		p++;
	if (p < scan->end && conf_scan_is_float(*p))
		return 0;
	return (size_t)(p - scan->at);
}

/* The value of an integer without its suffix; the nearest one that fits where it does not fit 64 bits. */
static int64_t conf_scan_value(const char *digits, size_t len, bool hex)
{
	const char *end = digits + len;
	bool negative = *digits == '-';
	int64_t value = 0;

	digits += hex ? 2 : (*digits == '-' || *digits == '+');
	for (; digits < end; digits++) {
		int digit = conf_scan_is_digit(*digits) ? *digits - '0' : (*digits | 0x20) - 'a' + 10;

		if (__builtin_mul_overflow(value, hex ? 16 : 10, &value) ||
		    __builtin_add_overflow(value, negative ? -digit : digit, &value))
			return negative ? INT64_MIN : INT64_MAX;
	}
	return value;
}

/* A number that does not fit 32 bits is passed on with an L, and one that does not fit 64 bits as the nearest that does: no option
 * takes it, so it is refused there, with the option's name. */
static void conf_scan_number(struct conf_scan *scan)
{
	size_t digits = 0, len = conf_scan_integer(scan, &digits);
	bool hex = digits > 1 && (scan->at[1] == 'x' || scan->at[1] == 'X');
	int64_t value;

	scan->source->last = CONF_SOURCE_WORD;
	if (!len) {
		conf_scan_copy(scan, 1 + conf_scan_span(scan, scan->at + 1, conf_scan_is_float));
		return;
	}
	value = conf_scan_value(scan->at, digits, hex);
	if (value >= INT32_MIN && value <= INT32_MAX) {
		conf_scan_copy(scan, len);
		return;
	}
	buf_addf(&scan->source->text, "%" PRId64 "L", value);
	scan->at += len;
}

static void conf_scan_name(struct conf_scan *scan)
{
	size_t len = conf_scan_span(scan, scan->at, conf_scan_is_name);

	scan->source->last = CONF_SOURCE_WORD;
	scan->name_start = (uint32_t)scan->source->text.len;
	scan->name_len = (uint32_t)len;
	conf_scan_copy(scan, len);
}

/* The path in the quotes at p, with \" and \\ resolved, into path. Returns what follows the closing quote; NULL when
 * there is none in this line. */
static const char *conf_scan_include_path(const struct conf_scan *scan, const char *p, struct buf *path)
{
	for (p++; p < scan->end && *p != '\n' && *p != '\r'; p++) {
		if (*p == '"')
			return p + 1;
		if (*p == '\\' && scan->end - p > 1 && (p[1] == '"' || p[1] == '\\'))
			p++;
		buf_addc(path, *p);
	}
	return NULL;
}

/* Takes an "@include" at the start of a line. Returns false, having done nothing, when there is none. */
static bool conf_scan_include(struct conf_scan *scan)
{
	const char word[] = "@include";
	const char *p = scan->at + conf_scan_span(scan, scan->at, conf_scan_is_blank);
	const char *after;
	struct buf path;

	if ((size_t)(scan->end - p) < sizeof(word) || memcmp(p, word, sizeof(word) - 1) != 0)
		return false;
	p += sizeof(word) - 1;
	p += conf_scan_span(scan, p, conf_scan_is_blank);
	if (p == scan->end || *p != '"')
		return false;
	buf_init(&path, 4096);
	after = conf_scan_include_path(scan, p, &path);
	if (!after || !path.len || !buf_ok(&path)) {
		conf_scan_error(scan, scan->line, "@include needs the name of a file in double quotes");
	} else {
		conf_source_include(scan->source, scan->file, scan->line, path.data);
		/* What follows here cannot be a directive too: that would have a string where none may stand. */
		buf_addc(&scan->source->text, '\n');
		conf_source_begin_line(scan->source, scan->file, scan->line);
	}
	scan->at = after ? after : p;
	if (!after)
		conf_scan_line_comment(scan);
	buf_free(&path);
	return true;
}

/* Takes what ends a name or makes it a key. */
static void conf_scan_mark(struct conf_scan *scan)
{
	char c = *scan->at;

	if ((c == '=' || c == ':') && scan->name_len && buf_ok(&scan->source->text))
		conf_source_add_key(scan->source, scan->name_start, scan->name_len);
	if (c == '{' || c == '(' || c == '[')
		conf_source_open(scan->source, c);
	if (c == '}' || c == ')' || c == ']')
		conf_source_close(scan->source, c);
	scan->name_len = 0;
	scan->source->last = c;
	conf_scan_copy(scan, 1);
}

static void conf_scan_token(struct conf_scan *scan)
{
	char c = *scan->at;
	size_t left = (size_t)(scan->end - scan->at);
	bool number = conf_scan_is_digit(c) || ((c == '-' || c == '+') && left > 1 && conf_scan_is_digit(scan->at[1]));

	if (c == '#' || conf_scan_sees(scan, "//"))
		conf_scan_line_comment(scan);
	else if (conf_scan_sees(scan, "/*"))
		conf_scan_block_comment(scan);
	else if (c == '"')
		conf_scan_string(scan);
	else if (conf_scan_is_alpha(c))
		conf_scan_name(scan);
	else if (number)
		conf_scan_number(scan);
	else if (conf_scan_is_blank(c) || c == '\r' || c == '\n' || c == '\f')
		conf_scan_copy(scan, 1);
	else
		conf_scan_mark(scan);
}

void conf_scan(struct conf_source *source, uint32_t file, const char *text, size_t len)
{
	struct conf_scan scan = {.source = source, .file = file, .line = 1, .at = text, .end = text + len, .line_start = true};

	while (scan.at < scan.end && !source->report->no_memory) {
		if (scan.line_start && conf_scan_include(&scan)) {
			scan.line_start = false;
			continue;
		}
		conf_scan_token(&scan);
		scan.line_start = scan.at > text && scan.at[-1] == '\n';
	}
}
