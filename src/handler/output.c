/* output.c - see output.h. */
#include "handler/output.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_MARK_SIZE 80
#define OUTPUT_EXPANSION 3 /* a byte that is not UTF-8 becomes U+FFFD, of three */
#define OUTPUT_CHARACTER_MAX 4

void capture_init(struct capture *c, size_t limit)
{
	/* A little more than the limit, so that a result which just fits is told from one that was cut. */
	buf_init(&c->kept, limit + OUTPUT_CHARACTER_MAX);
	c->total = 0;
}

void capture_free(struct capture *c)
{
	buf_free(&c->kept);
}

void capture_feed(struct capture *c, const char *bytes, size_t len)
{
	size_t room = c->kept.limit - c->kept.len;

	c->total += len;
	if (room > 0)
		buf_add(&c->kept, bytes, len < room ? len : room);
}

void tail_init(struct tail *t, size_t size)
{
	*t = (struct tail){.size = size};
}

void tail_free(struct tail *t)
{
	free(t->ring);
	t->ring = NULL;
}

void tail_feed(struct tail *t, const char *bytes, size_t len)
{
	size_t part;

	t->total += len;
	if (t->size == 0)
		return;
	if (t->ring == NULL)
		t->ring = malloc(t->size);
	if (t->ring == NULL)
		return;
	if (len > t->size) {
		/* The place in the ring does not matter: all of it is overwritten. */
		bytes += len - t->size;
		len = t->size;
	}
	part = len < t->size - t->at ? len : t->size - t->at;
	memcpy(t->ring + t->at, bytes, part);
	memcpy(t->ring, bytes + part, len - part);
	t->at = (t->at + len) % t->size;
}

/* The kept bytes in order, without a character whose beginning was lost. */
static void tail_copy(const struct tail *t, struct buf *out)
{
	size_t skip = 0;

	if (t->total <= t->size) {
		buf_add(out, t->ring, (size_t)t->total);
		return;
	}
	buf_add(out, t->ring + t->at, t->size - t->at);
	buf_add(out, t->ring, t->at);
	while (skip < OUTPUT_CHARACTER_MAX - 1 && skip < out->len && ((unsigned char)out->data[skip] & 0xc0) == 0x80)
		skip++;
	buf_drop(out, skip);
}

/* The last characters of text that fit into room bytes. */
static const char *tail_end_of(const char *text, size_t len, size_t room)
{
	size_t from = len > room ? len - room : 0;

	while (from < len && ((unsigned char)text[from] & 0xc0) == 0x80)
		from++;
	return text + from;
}

void tail_finish(const struct tail *t, struct buf *out)
{
	size_t room = out->limit - out->len;
	struct buf raw, text;
	const char *end;

	if (t->ring == NULL)
		return;
	buf_init(&raw, t->size);
	tail_copy(t, &raw);
	buf_init(&text, raw.len * OUTPUT_EXPANSION);
	utf8_sanitise(&text, raw.data, raw.len);
	if (t->total > t->size || text.len > room) {
		char mark[OUTPUT_MARK_SIZE];
		int len = snprintf(mark, sizeof(mark), "[the end of %" PRIu64 " bytes] ", t->total);

		if ((size_t)len <= room)
			buf_adds(out, mark);
	}
	end = tail_end_of(text.data, text.len, out->limit - out->len);
	buf_add(out, end, text.len - (size_t)(end - text.data));
	buf_free(&text);
	buf_free(&raw);
}

void output_fit(struct buf *out, const char *bytes, size_t len, uint64_t total)
{
	struct buf text;
	size_t room;

	if (total > len)
		len = utf8_cut(bytes, len);
	buf_init(&text, len * OUTPUT_EXPANSION);
	utf8_sanitise(&text, bytes, len);
	room = out->limit - out->len;
	if (total <= len && text.len <= room && buf_ok(&text)) {
		buf_add(out, text.data, text.len);
	} else {
		char mark[OUTPUT_MARK_SIZE];
		size_t mark_len = (size_t)snprintf(mark, sizeof(mark), " [truncated: %" PRIu64 " bytes in all]", total), keep;

		if (mark_len > room)
			mark_len = 0;
		keep = text.len < room - mark_len ? text.len : room - mark_len;
		buf_add(out, text.data, utf8_cut(text.data, keep));
		buf_add(out, mark, mark_len);
	}
	buf_free(&text);
}
