/* outflow.h - bytes on their way to a handler, which reads them when it likes (layer: handler; one thread at a time).
 *
 * Nothing here waits: the descriptor is non-blocking, and what it does not take stays until it is writable again. What has been
 * borrowed goes first and must stay where it is until it is written. */
#ifndef LEASEHOLD_HANDLER_OUTFLOW_H
#define LEASEHOLD_HANDLER_OUTFLOW_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct outflow {
	const char *borrowed;
	size_t borrowed_len;
	struct buf own;
	size_t at; /* written of own */
};

void outflow_init(struct outflow *o, size_t limit); /* of what is its own, at any time */
void outflow_free(struct outflow *o);
void outflow_borrow(struct outflow *o, const char *bytes, size_t len);
/* All of it or nothing: false when there is no room. */
bool outflow_add(struct outflow *o, const char *bytes, size_t len);
/* Takes the contents of text, which is empty afterwards. False as above, or when text is bad; text is empty then too. */
bool outflow_take(struct outflow *o, struct buf *text);
bool outflow_pending(const struct outflow *o);
/* Writes what the descriptor takes. False when it never will again: nobody reads any more. */
bool outflow_write(struct outflow *o, int fd);

#endif
