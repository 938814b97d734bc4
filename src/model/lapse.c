/* lapse.c - see lapse.h. */
#include "model/lapse.h"

#include <stdlib.h>
#include <string.h>

#define LAPSE_LOCKED_AT_SIZE 32

void lapse_clock_init(struct lapse_clock *c, int64_t margin_ms, int64_t lease_ms)
{
	memset(c, 0, sizeof(*c));
	c->margin_us = margin_ms * 1000;
	c->lease_ms = lease_ms;
}

static struct lapse_span lapse_join(struct lapse_span a, struct lapse_span b)
{
	struct lapse_span both = {a.lo_us < b.lo_us ? a.lo_us : b.lo_us, a.hi_us > b.hi_us ? a.hi_us : b.hi_us};

	return both;
}

static void lapse_clock_restart(struct lapse_clock *c, struct lapse_span span, uint64_t server, int64_t now_ms)
{
	c->known = true;
	c->server = server;
	c->recent = span;
	c->older = span;
	c->turned_ms = now_ms;
	c->steady_since_ms = now_ms;
}

void lapse_clock_read(struct lapse_clock *c, int64_t server_us, int64_t before_us, int64_t after_us, uint64_t server)
{
	struct lapse_span span = {server_us - after_us, server_us - before_us}, all;
	int64_t now_ms = after_us / 1000;

	if (c->known && c->server != server)
		c->known = false;
	if (span.hi_us < span.lo_us || span.hi_us - span.lo_us > c->margin_us) {
		c->steady_since_ms = now_ms;
		return;
	}
	c->read_ms = before_us / 1000;
	all = lapse_join(span, lapse_join(c->recent, c->older));
	if (!c->known || all.hi_us - all.lo_us > c->margin_us) {
		lapse_clock_restart(c, span, server, now_ms);
		return;
	}
	if (now_ms - c->turned_ms < c->lease_ms) {
		c->recent = lapse_join(c->recent, span);
		return;
	}
	/* The half that becomes the older one covers at least a whole lease, and holds the reading before this one however
	 * long ago that was. */
	c->older = c->recent;
	c->recent = span;
	c->turned_ms = now_ms;
}

bool lapse_clock_trusted_for(const struct lapse_clock *c, int64_t lease_ms, int64_t now_ms)
{
	int64_t steady_ms = lease_ms > c->lease_ms ? lease_ms : c->lease_ms;

	return c->known && c->read_ms - c->steady_since_ms >= steady_ms && now_ms - c->read_ms <= c->lease_ms;
}

bool lapse_clock_trusted(const struct lapse_clock *c, int64_t now_ms)
{
	return lapse_clock_trusted_for(c, 0, now_ms);
}

/* Rows in chains by id; all memory is set aside at the start, so that seeing a row cannot fail but for a full table. */
struct lapse_seen {
	struct lapse_seen *next; /* in its chain, or in the free list */
	uint64_t id;
	int64_t since_ms; /* first seen like this */
	int64_t seen_ms;  /* last seen */
	char lease[UUID_TEXT_LEN + 1];
	char locked_at[LAPSE_LOCKED_AT_SIZE];
};

struct lapse_watch {
	size_t max, count;
	struct lapse_seen *rows;
	size_t fresh;              /* rows from here on were never used: their memory is not touched before it is needed */
	struct lapse_seen *unused; /* used before, and free again */
	struct lapse_seen **chains; /* max of them */
};

struct lapse_watch *lapse_watch_new(size_t max_rows)
{
	struct lapse_watch *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->max = max_rows > 0 ? max_rows : 1;
	w->rows = calloc(w->max, sizeof(*w->rows));
	w->chains = calloc(w->max, sizeof(struct lapse_seen *));
	if (w->rows == NULL || w->chains == NULL) {
		lapse_watch_free(w);
		return NULL;
	}
	return w;
}

void lapse_watch_free(struct lapse_watch *w)
{
	if (w == NULL)
		return;
	free(w->rows);
	free(w->chains);
	free(w);
}

static struct lapse_seen *lapse_watch_find(struct lapse_watch *w, uint64_t id)
{
	struct lapse_seen *row = w->chains[id % w->max];

	while (row != NULL && row->id != id)
		row = row->next;
	return row;
}

static struct lapse_seen *lapse_watch_add(struct lapse_watch *w, uint64_t id)
{
	struct lapse_seen *row = w->unused;

	if (row != NULL)
		w->unused = row->next;
	else if (w->fresh < w->max)
		row = &w->rows[w->fresh++];
	else
		return NULL;
	row->id = id;
	row->next = w->chains[id % w->max];
	w->chains[id % w->max] = row;
	w->count++;
	return row;
}

static void lapse_copy(char *to, size_t size, const char *from)
{
	size_t len = strnlen(from, size - 1);

	memcpy(to, from, len);
	to[len] = '\0';
}

bool lapse_watch_see(struct lapse_watch *w, uint64_t id, const char *lease, const char *locked_at, int64_t lease_ms, int64_t now_ms)
{
	struct lapse_seen *row = lapse_watch_find(w, id);
	bool same = row != NULL && strncmp(row->lease, lease, sizeof(row->lease) - 1) == 0 &&
		    strncmp(row->locked_at, locked_at, sizeof(row->locked_at) - 1) == 0;

	if (row == NULL)
		row = lapse_watch_add(w, id);
	if (row == NULL)
		return false;
	if (!same) {
		lapse_copy(row->lease, sizeof(row->lease), lease);
		lapse_copy(row->locked_at, sizeof(row->locked_at), locked_at);
		row->since_ms = now_ms;
	}
	row->seen_ms = now_ms;
	return now_ms - row->since_ms >= lease_ms;
}

void lapse_watch_sweep(struct lapse_watch *w, int64_t before_ms)
{
	for (size_t i = 0; i < w->max; i++) {
		struct lapse_seen **at = &w->chains[i];

		while (*at != NULL) {
			struct lapse_seen *row = *at;

			if (row->seen_ms >= before_ms) {
				at = &row->next;
				continue;
			}
			*at = row->next;
			row->next = w->unused;
			w->unused = row;
			w->count--;
		}
	}
}

size_t lapse_watch_count(const struct lapse_watch *w)
{
	return w->count;
}
