/* scan.c - see scan.h. */
#include "model/scan.h"

#include <string.h>

void scan_init(struct scan *s)
{
	memset(s, 0, sizeof(*s));
	s->factor = 1;
}

size_t scan_window(struct scan *s, size_t batch, int64_t now_ms)
{
	if (!s->cursor.set || now_ms - s->head_ms >= SCAN_HEAD_MS) {
		s->cursor.set = false;
		s->head_ms = now_ms;
	}
	return batch * s->factor;
}

size_t scan_choose(size_t n, size_t batch, uint64_t random, size_t *count)
{
	if (n <= batch) {
		*count = n;
		return 0;
	}
	*count = batch;
	return (size_t)(random % (n - batch + 1));
}

static void scan_adapt(struct scan *s, size_t count, size_t won)
{
	if (count == 0)
		return;
	if (won < count) {
		s->calm = 0;
		if (s->factor < SCAN_WINDOW_MAX)
			s->factor *= 2;
	} else if (++s->calm >= SCAN_CALM_CLAIMS) {
		s->calm = 0;
		if (s->factor > 1)
			s->factor /= 2;
	}
}

void scan_skip(struct scan *s, const struct scan_row *last)
{
	s->cursor.set = true;
	s->cursor.priority = last->priority;
	s->cursor.id = last->id;
	memcpy(s->cursor.run_at, last->run_at, sizeof(s->cursor.run_at));
}

void scan_advance(struct scan *s, const struct scan_row *rows, size_t n, size_t offset, size_t count, size_t won)
{
	size_t passed = 0;

	if (n == 0) {
		s->cursor.set = false;
		return;
	}
	scan_adapt(s, count, won);
	/* An early row is put back, not tried: it is in nobody's way. */
	while (passed < n && (rows[passed].early || (passed >= offset && passed - offset < count)))
		passed++;
	if (passed == 0)
		return;
	scan_skip(s, &rows[passed - 1]);
}
