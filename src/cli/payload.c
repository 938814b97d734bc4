/* payload.c - see payload.h. */
#include "cli/payload.h"

#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD_CHUNK 65536
/* What is too long is still counted, so that the message can say how long; up to here, for a source without an end. */
#define PAYLOAD_COUNT_MAX ((size_t)1024 * 1024 * 1024)

static enum lh_err payload_too_long(size_t len, size_t max, struct fault *f)
{
	return fault_set(f, LH_ERR_LIMIT, "the payload has %s%zu bytes, instance.max_payload allows %zu",
			 len >= PAYLOAD_COUNT_MAX ? "at least " : "", len, max);
}

static enum lh_err payload_read_fd(int fd, const char *name, size_t max, struct buf *out, struct fault *f)
{
	char chunk[PAYLOAD_CHUNK];
	size_t total = 0;

	while (total < PAYLOAD_COUNT_MAX) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fault_set_errno(f, errno, "cannot read the payload from %s", name);
		if (n == 0)
			break;
		total += (size_t)n;
		if (total <= max)
			buf_add(out, chunk, (size_t)n);
	}
	if (total > max)
		return payload_too_long(total, max, f);
	return buf_ok(out) ? LH_OK : fault_set(f, LH_ERR_MEMORY, "no memory for a payload of %zu bytes", total);
}

enum lh_err payload_read(const char *value, size_t max, struct buf *out, struct fault *f)
{
	enum lh_err err;
	int fd;

	if (strcmp(value, "-") == 0)
		return payload_read_fd(STDIN_FILENO, "standard input", max, out, f);
	if (value[0] != '@') {
		if (strlen(value) > max)
			return payload_too_long(strlen(value), max, f);
		buf_adds(out, value);
		return buf_ok(out) ? LH_OK : fault_set(f, LH_ERR_MEMORY, "no memory for the payload");
	}
	fd = open(value + 1, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fault_set_errno(f, errno, "cannot open the payload's file %s", value + 1);
	err = payload_read_fd(fd, value + 1, max, out, f);
	close(fd);
	return err;
}

enum lh_err payload_check(const char *text, size_t len, bool json, struct fault *f)
{
	json_error_t error;
	json_t *value;

	if (!utf8_valid(text, len))
		return fault_set(f, LH_ERR_INPUT,
				 "the payload is not UTF-8 text (without NUL): the table holds text only; encode binary data, for "
				 "example in base64");
	if (!json)
		return LH_OK;
	/* Numbers are not judged by what fits into an integer of ours. */
	value = json_loadb(text, len, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &error);
	if (value == NULL)
		return fault_set(f, LH_ERR_INPUT, "the payload is not JSON: line %d, column %d: %s (--raw takes any text)",
				 error.line, error.column, error.text);
	json_decref(value);
	return LH_OK;
}

/* "[:SS[.ffffff]][Z]" after the minutes: into seconds and micros; false when it is something else. */
static bool payload_seconds(const char *text, int *seconds, char micros[7])
{
	size_t digits = 0;

	memcpy(micros, "000000", 7);
	*seconds = 0;
	if (text[0] == ':') {
		if (text[1] < '0' || text[1] > '5' || text[2] < '0' || text[2] > '9')
			return false;
		*seconds = (text[1] - '0') * 10 + (text[2] - '0');
		text += 3;
		if (text[0] == '.') {
			for (text++; text[digits] >= '0' && text[digits] <= '9' && digits < 6; digits++)
				micros[digits] = text[digits];
			if (digits == 0)
				return false;
			text += digits;
		}
	}
	return strcmp(text, "") == 0 || strcmp(text, "Z") == 0;
}

enum lh_err payload_time(const char *text, char *out, size_t size, struct fault *f)
{
	struct tm tm = {.tm_isdst = 0};
	char micros[7];
	const char *rest;
	int day;

	rest = strptime(text, "%Y-%m-%d", &tm);
	if (rest != NULL && (*rest == ' ' || *rest == 'T'))
		rest = strptime(rest + 1, "%H:%M", &tm);
	else
		rest = NULL;
	if (rest == NULL || !payload_seconds(rest, &tm.tm_sec, micros))
		return fault_set(f, LH_ERR_INPUT, "'%s' is not a time: it takes UTC, as in 2026-01-31T23:59:59Z", text);
	/* A day that does not exist becomes another one. */
	day = tm.tm_mday;
	if (timegm(&tm) < 0 || tm.tm_mday != day || tm.tm_year > 9999 - 1900)
		return fault_set(f, LH_ERR_INPUT, "'%s': there is no such day between the years 1970 and 9999", text);
	snprintf(out, size, "%04d-%02d-%02d %02d:%02d:%02d.%s", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
		 tm.tm_sec, micros);
	return LH_OK;
}
