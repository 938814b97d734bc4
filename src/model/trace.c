/* trace.c - see trace.h. */
#include "model/trace.h"

#include <stddef.h>
#include <string.h>

#define TRACE_PARENT_LEN 16
#define TRACE_LEN (2 + 1 + TRACE_ID_LEN + 1 + TRACE_PARENT_LEN + 1 + 2)
#define TRACE_HEX "0123456789abcdef"

/* The first n characters: hex digits, followed by anything else. */
static bool trace_is_hex(const char *text, size_t n)
{
	return strspn(text, TRACE_HEX) == n;
}

static bool trace_is_id(const char *text, size_t n)
{
	return trace_is_hex(text, n) && strspn(text, "0") != n;
}

bool trace_parse(const char *traceparent, char out[TRACE_ID_LEN + 1])
{
	const char *id, *parent, *flags;

	out[0] = '\0';
	if (strlen(traceparent) < TRACE_LEN)
		return false;
	id = traceparent + 3;
	parent = id + TRACE_ID_LEN + 1;
	flags = parent + TRACE_PARENT_LEN + 1;
	if (!trace_is_hex(traceparent, 2) || traceparent[2] != '-' || strncmp(traceparent, "ff", 2) == 0)
		return false;
	if (!trace_is_id(id, TRACE_ID_LEN) || id[TRACE_ID_LEN] != '-')
		return false;
	if (!trace_is_id(parent, TRACE_PARENT_LEN) || parent[TRACE_PARENT_LEN] != '-' || !trace_is_hex(flags, 2))
		return false;
	/* Version 00 ends here. */
	if (flags[2] != '\0' && (flags[2] != '-' || strncmp(traceparent, "00", 2) == 0))
		return false;
	memcpy(out, id, TRACE_ID_LEN);
	out[TRACE_ID_LEN] = '\0';
	return true;
}
