/* lines.c - see lines.h. */
#include "handler/lines.h"

#include <string.h>

#define LINES_KEEP (64 * 1024) /* of memory from one line to the next */

void lines_init(struct lines *l, size_t longest)
{
	memset(l, 0, sizeof(*l));
	buf_init(&l->line, longest);
}

void lines_free(struct lines *l)
{
	buf_free(&l->line);
}

/* One more piece of the line under way. */
static void lines_gather(struct lines *l, const char *bytes, size_t len)
{
	if (l->skipping)
		return;
	buf_add(&l->line, bytes, len);
	if (buf_ok(&l->line))
		return;
	l->skipping = true;
	buf_free(&l->line);
	l->too_long(l->owner);
}

static void lines_finish(struct lines *l)
{
	if (!l->skipping && l->line.len > 0)
		l->take(l->owner, l->line.data, l->line.len);
	l->skipping = false;
	if (l->line.cap > LINES_KEEP)
		buf_free(&l->line);
	else
		buf_clear(&l->line);
}

void lines_feed(struct lines *l, const char *bytes, size_t len)
{
	const char *end = bytes + len, *newline;

	while (bytes < end && (newline = memchr(bytes, '\n', (size_t)(end - bytes))) != NULL) {
		lines_gather(l, bytes, (size_t)(newline - bytes));
		lines_finish(l);
		bytes = newline + 1;
	}
	lines_gather(l, bytes, (size_t)(end - bytes));
}

void lines_end(struct lines *l)
{
	lines_finish(l);
}
