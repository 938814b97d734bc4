/* outflow.c - see outflow.h. */
#include "handler/outflow.h"

#include <errno.h>
#include <unistd.h>

void outflow_init(struct outflow *o, size_t limit)
{
	o->borrowed = NULL;
	o->borrowed_len = 0;
	buf_init(&o->own, limit);
	o->at = 0;
}

void outflow_free(struct outflow *o)
{
	buf_free(&o->own);
	outflow_init(o, o->own.limit);
}

void outflow_borrow(struct outflow *o, const char *bytes, size_t len)
{
	o->borrowed = bytes;
	o->borrowed_len = len;
}

/* What has been written makes room again. */
static void outflow_compact(struct outflow *o)
{
	if (o->at > 0)
		buf_drop(&o->own, o->at);
	o->at = 0;
}

bool outflow_add(struct outflow *o, const char *bytes, size_t len)
{
	outflow_compact(o);
	if (len > o->own.limit - o->own.len)
		return false;
	buf_add(&o->own, bytes, len);
	if (buf_ok(&o->own))
		return true;
	o->own.bad = false; /* no memory: what was there before still goes out */
	return false;
}

bool outflow_take(struct outflow *o, struct buf *text)
{
	bool good = buf_ok(text) && text->len <= o->own.limit;

	outflow_compact(o);
	if (good && o->own.len == 0) {
		size_t limit = o->own.limit;

		buf_free(&o->own);
		o->own = *text;
		o->own.limit = limit;
		buf_init(text, text->limit);
		return true;
	}
	good = good && outflow_add(o, text->data, text->len);
	buf_free(text);
	return good;
}

bool outflow_pending(const struct outflow *o)
{
	return o->borrowed_len > 0 || o->own.len > o->at;
}

/* Returns how many bytes went; -1 when none ever will. */
static ssize_t outflow_push(int fd, const char *bytes, size_t len)
{
	ssize_t n = write(fd, bytes, len);

	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

bool outflow_write(struct outflow *o, int fd)
{
	ssize_t n;

	if (o->borrowed_len > 0) {
		n = outflow_push(fd, o->borrowed, o->borrowed_len);
		if (n > 0) {
			o->borrowed += n;
			o->borrowed_len -= (size_t)n;
		}
		return n >= 0;
	}
	n = outflow_push(fd, o->own.data + o->at, o->own.len - o->at);
	if (n > 0)
		o->at += (size_t)n;
	/* A long line's memory is not kept for the next ones. */
	if (o->at == o->own.len) {
		buf_free(&o->own);
		o->at = 0;
	}
	return n >= 0;
}
