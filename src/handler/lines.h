/* lines.h - a stream of bytes, cut into lines of a bounded length (layer: handler; pure). */
#ifndef LEASEHOLD_HANDLER_LINES_H
#define LEASEHOLD_HANDLER_LINES_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct lines {
	struct buf line; /* the one under way */
	bool skipping;   /* inside a line that is too long */
	void *owner;
	void (*take)(void *owner, const char *bytes, size_t len); /* a line without its end; never an empty one */
	void (*too_long)(void *owner);                            /* once for each; the rest of it is dropped */
};

/* The callbacks are the caller's to set. */
void lines_init(struct lines *l, size_t longest);
void lines_free(struct lines *l);
void lines_feed(struct lines *l, const char *bytes, size_t len);
void lines_end(struct lines *l); /* end of file: an unfinished line counts */

#endif
