/* buf.h - a growing byte buffer with an upper bound (layer: base; one thread at a time).
 *
 * The buffer owns its memory; data is always NUL-terminated at data[len] (the NUL is not counted), so text can be passed on
 * as a string. Appending beyond the bound or without memory makes the buffer "bad": what was appended stays, later appends
 * do nothing, and the one check at the end (buf_ok) sees it. So that SQL is built without a test per piece. */
#ifndef LEASEHOLD_BASE_BUF_H
#define LEASEHOLD_BASE_BUF_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *data; /* "" (static) while nothing was appended; never NULL after buf_init */
	size_t len;
	size_t cap;   /* bytes allocated */
	size_t limit; /* most bytes it may hold */
	bool bad;
};

void buf_init(struct buf *b, size_t limit); /* allocates nothing */
void buf_free(struct buf *b);               /* leaves it as after buf_init with the same limit */
void buf_clear(struct buf *b);              /* empty and good again; keeps the memory */
bool buf_ok(const struct buf *b);
void buf_add(struct buf *b, const void *bytes, size_t len);
void buf_adds(struct buf *b, const char *text);
void buf_addc(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) LH_PRINTF(2, 3);
/* Room for len more bytes at the end, or NULL (and the buffer is bad). buf_grow then counts those that were written. */
char *buf_room(struct buf *b, size_t len);
void buf_grow(struct buf *b, size_t len);
/* Removes the first len bytes. */
void buf_drop(struct buf *b, size_t len);
/* Hands the memory to the caller (free() it; never NULL unless memory ran out); the buffer is empty afterwards. */
char *buf_take(struct buf *b);

#endif
