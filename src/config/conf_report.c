/* conf_report.c - collecting the errors of one load. */
#include "config/conf_report.h"

#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONF_REPORT_TEXT 1024

void conf_report_init(struct conf_report *report, struct conf_errors *errors)
{
	*errors = (struct conf_errors){0};
	*report = (struct conf_report){.errors = errors};
}

void conf_errors_free(struct conf_errors *e)
{
	for (size_t i = 0; i < e->count; i++)
		free(e->lines[i]);
	free(e->lines);
	*e = (struct conf_errors){0};
}

/* Takes line, also when it cannot be kept. */
static void conf_report_keep(struct conf_report *report, char *line)
{
	struct conf_errors *e = report->errors;

	if (!e->lines)
		e->lines = calloc(CONF_REPORT_MAX + 1, sizeof(*e->lines));
	if (!e->lines || !line) {
		report->no_memory = true;
		free(line);
		return;
	}
	e->lines[e->count++] = line;
}

void conf_report_add(struct conf_report *report, const char *file, unsigned int line, const char *fmt, ...)
{
	char text[CONF_REPORT_TEXT];
	struct buf out;
	va_list args;

	report->failed = true;
	if (report->errors->count > CONF_REPORT_MAX || report->no_memory)
		return;
	if (report->errors->count == CONF_REPORT_MAX) {
		conf_report_keep(report, strdup("more than 100 errors: the others are not shown"));
		return;
	}
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	buf_init(&out, 16384);
	if (line)
		buf_addf(&out, "%s:%u: %s", file, line, text);
	else
		buf_addf(&out, "%s: %s", file, text);
	conf_report_keep(report, buf_ok(&out) ? buf_take(&out) : NULL);
	buf_free(&out);
}

/* Writes one byte as it is quoted into out, which has 5 bytes. Returns its length. */
static size_t conf_report_escape(unsigned char c, char *out)
{
	if (c == '"' || c == '\\')
		return (size_t)snprintf(out, 5, "\\%c", c);
	if (c >= 0x20 && c < 0x7f)
		return (size_t)snprintf(out, 5, "%c", c);
	return (size_t)snprintf(out, 5, "\\x%02x", c);
}

char *conf_report_quote(const char *text, char *out)
{
	const size_t room = CONF_QUOTE_SIZE - sizeof("...\"") - 4;
	size_t len = 0;

	out[len++] = '"';
	while (*text && len < room)
		len += conf_report_escape((unsigned char)*text++, out + len);
	snprintf(out + len, CONF_QUOTE_SIZE - len, "%s", *text ? "...\"" : "\"");
	return out;
}
