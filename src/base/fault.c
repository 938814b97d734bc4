/* fault.c - see fault.h. */
#include "base/fault.h"

#include <stdio.h>
#include <string.h>

/* Text comes from users, servers and handlers: a control character in it would break the promise of one line. */
static void fault_flatten(char *text)
{
	for (; *text != '\0'; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = ' ';
	}
}

static void fault_append(char *text, size_t size, const char *piece)
{
	size_t have = strlen(text), room = size - 1 - have, len = strlen(piece);

	if (len > room)
		len = room;
	memcpy(text + have, piece, len);
	text[have + len] = '\0';
}

/* Formats aside first: an argument may well be the text that f holds already. */
static void LH_PRINTF(5, 0) fault_fill(struct fault *f, enum lh_err code, unsigned int number, const char *suffix, const char *fmt,
					va_list args)
{
	char text[sizeof(f->text)];

	if (vsnprintf(text, sizeof(text), fmt, args) < 0)
		text[0] = '\0';
	fault_append(text, sizeof(text), suffix);
	fault_flatten(text);
	f->code = code;
	f->number = number;
	f->sqlstate[0] = '\0';
	memcpy(f->text, text, sizeof(text));
}

enum lh_err fault_set(struct fault *f, enum lh_err code, const char *fmt, ...)
{
	va_list args;

	if (f != NULL) {
		va_start(args, fmt);
		fault_fill(f, code, 0, "", fmt, args);
		va_end(args);
	}
	return code;
}

enum lh_err fault_set_errno(struct fault *f, int errno_value, const char *fmt, ...)
{
	char reason[128], suffix[160];
	va_list args;

	if (f != NULL) {
		snprintf(suffix, sizeof(suffix), ": %s", strerror_r(errno_value, reason, sizeof(reason)));
		va_start(args, fmt);
		fault_fill(f, LH_ERR_SYSTEM, (unsigned int)errno_value, suffix, fmt, args);
		va_end(args);
	}
	return LH_ERR_SYSTEM;
}

void fault_prefix(struct fault *f, const char *fmt, ...)
{
	char text[sizeof(f->text)];
	va_list args;
	int len;

	if (f == NULL)
		return;
	va_start(args, fmt);
	len = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (len < 0)
		return;
	fault_append(text, sizeof(text), ": ");
	fault_append(text, sizeof(text), f->text);
	fault_flatten(text);
	memcpy(f->text, text, sizeof(text));
}
