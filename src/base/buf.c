/* buf.c - see buf.h. */
#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST 64

/* What data points to while nothing is allocated. All buffers share it, in all threads: it is never written to. */
static char buf_nothing[1];

void buf_init(struct buf *b, size_t limit)
{
	b->data = buf_nothing;
	b->len = 0;
	b->cap = 0;
	b->limit = limit;
	b->bad = false;
}

void buf_free(struct buf *b)
{
	if (b->cap > 0)
		free(b->data);
	buf_init(b, b->limit);
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->bad = false;
	if (b->cap > 0)
		b->data[0] = '\0';
}

bool buf_ok(const struct buf *b)
{
	return !b->bad;
}

/* Makes room for len more bytes and the NUL. */
static bool buf_reserve(struct buf *b, size_t len)
{
	size_t need, cap;
	char *data;

	if (b->bad || len > b->limit - b->len || len >= SIZE_MAX - b->len) {
		b->bad = true;
		return false;
	}
	need = b->len + len + 1;
	if (need <= b->cap)
		return true;
	cap = b->cap > SIZE_MAX / 2 ? SIZE_MAX : b->cap * 2;
	if (cap < BUF_FIRST)
		cap = BUF_FIRST;
	if (cap > b->limit)
		cap = b->limit + 1;
	if (cap < need)
		cap = need;
	data = realloc(b->cap > 0 ? b->data : NULL, cap);
	if (data == NULL) {
		b->bad = true;
		return false;
	}
	data[b->len] = '\0';
	b->data = data;
	b->cap = cap;
	return true;
}

void buf_add(struct buf *b, const void *bytes, size_t len)
{
	if (!buf_reserve(b, len) || len == 0)
		return;
	memcpy(b->data + b->len, bytes, len);
	buf_grow(b, len);
}

void buf_adds(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

void buf_addc(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (len < 0) {
		b->bad = true;
		return;
	}
	if (!buf_reserve(b, (size_t)len))
		return;
	va_start(args, fmt);
	vsnprintf(b->data + b->len, (size_t)len + 1, fmt, args);
	va_end(args);
	b->len += (size_t)len;
}

char *buf_room(struct buf *b, size_t len)
{
	return buf_reserve(b, len) ? b->data + b->len : NULL;
}

void buf_grow(struct buf *b, size_t len)
{
	if (b->cap == 0)
		return;
	if (len > b->cap - 1 - b->len)
		len = b->cap - 1 - b->len;
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_drop(struct buf *b, size_t len)
{
	if (b->cap == 0 || len == 0)
		return;
	if (len > b->len)
		len = b->len;
	memmove(b->data, b->data + len, b->len - len + 1);
	b->len -= len;
}

char *buf_take(struct buf *b)
{
	char *data = b->cap > 0 ? b->data : calloc(1, 1);

	if (data != NULL)
		buf_init(b, b->limit);
	return data;
}
