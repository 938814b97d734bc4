/* check_say.c - see check_say.h. */
#include "store/check_say.h"

#include <stdio.h>

#define CHECK_TEXT_MAX 1024

static void LH_PRINTF(4, 0) check_tell(struct check *c, enum check_level level, const char *subject, const char *fmt, va_list args)
{
	char text[CHECK_TEXT_MAX];

	if (level < c->least)
		return;
	if (vsnprintf(text, sizeof(text), fmt, args) < 0)
		text[0] = '\0';
	c->say(c->arg, level, subject, text);
}

void check_ok(struct check *c, const char *subject, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	check_tell(c, CHECK_OK, subject, fmt, args);
	va_end(args);
}

void check_warn(struct check *c, const char *subject, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	check_tell(c, CHECK_WARN, subject, fmt, args);
	va_end(args);
}

void check_fail(struct check *c, const char *subject, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	check_tell(c, CHECK_FAIL, subject, fmt, args);
	va_end(args);
}
