/* output.h - what a handler writes, kept within a bound and made fit for a text column (layer: handler; pure).
 *
 * A capture keeps the first bytes, a tail the last; both count them all. Neither allocates before there is something to keep. */
#ifndef LEASEHOLD_HANDLER_OUTPUT_H
#define LEASEHOLD_HANDLER_OUTPUT_H

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

struct capture {
	struct buf kept;
	uint64_t total;
};

void capture_init(struct capture *c, size_t limit);
void capture_free(struct capture *c);
void capture_feed(struct capture *c, const char *bytes, size_t len);

struct tail {
	char *ring; /* size bytes; NULL while nothing came, or without memory */
	size_t size, at;
	uint64_t total;
};

void tail_init(struct tail *t, size_t size);
void tail_free(struct tail *t);
void tail_feed(struct tail *t, const char *bytes, size_t len);
/* Appends the kept bytes to out as valid UTF-8, after a mark when they are not all that came; out's limit is never passed. */
void tail_finish(const struct tail *t, struct buf *out);

/* Appends to out (empty) the first len of total bytes as valid UTF-8. What does not fit into out's limit is cut on a character
 * boundary, and then, or when total > len, a mark says so within the limit: " [truncated: 1234567 bytes in all]". */
void output_fit(struct buf *out, const char *bytes, size_t len, uint64_t total);

#endif
