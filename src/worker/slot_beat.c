#include "worker/slot_beat.h"

#include "base/clock.h"
#include "store/slot_store.h"
#include "worker/instance.h"

#include <stdlib.h>

#define SLOT_BEAT_CHUNK 100

struct slot_beat {
	struct pool *pool;
	struct slot_held *held;
};

struct slot_beat *slot_beat_new(struct pool *pool)
{
	struct slot_beat *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	b->pool = pool;
	b->held = calloc(pool->slots, sizeof(*b->held));
	if (b->held == NULL) {
		slot_beat_free(b);
		return NULL;
	}
	return b;
}

void slot_beat_free(struct slot_beat *b)
{
	if (b == NULL)
		return;
	free(b->held);
	free(b);
}

static void slot_beat_lost(struct instance *in, const struct slot_held *held)
{
	if (!inflight_lose_slot(in->inflight, held->id, held->lease))
		return;
	atomic_fetch_add(&in->count.slots_lost, 1);
	log_warn("beat", "job=%llu key=%s its slot %u is held by somebody else: its handler is ended as if the lease were lost",
		 (unsigned long long)held->id, held->slot.key, held->slot.number);
}

/* One chunk. When fewer matched than were named, the rows tell which: some may just have been freed by the completer. A lock wait
 * halves the chunk, until the locked row stands alone. */
static enum db_class slot_beat_chunk(struct slot_beat *b, struct db *db, const struct slot_held *rows, size_t n, struct fault *f)
{
	struct instance *in = b->pool->instance;
	int64_t sent_ms = clock_boot_ms();
	bool ours[SLOT_BEAT_CHUNK] = { false };
	uint64_t matched = 0;
	enum db_class c = slot_store_renew(db, rows, n, &matched, f);

	if (c == DB_RETRY && n > 1) {
		c = slot_beat_chunk(b, db, rows, n / 2, f);
		return c == DB_OK ? slot_beat_chunk(b, db, rows + n / 2, n - n / 2, f) : c;
	}
	if (c == DB_RETRY) {
		log_debug("beat", "job=%llu its slot could not be renewed: %s", (unsigned long long)rows[0].id, f->text);
		return DB_OK;
	}
	if (c == DB_OK && matched < n)
		c = slot_store_check(db, rows, n, ours, f);
	for (size_t i = 0; i < n && c == DB_OK; i++) {
		if (matched >= n || ours[i])
			inflight_slot_renewed(in->inflight, rows[i].id, rows[i].lease, sent_ms, clock_boot_ms());
		else
			slot_beat_lost(in, &rows[i]);
	}
	return c;
}

enum db_class slot_beat_round(struct slot_beat *b, struct db *db, struct fault *f)
{
	size_t n = inflight_list_slots(b->pool->instance->inflight, b->pool->index, clock_boot_ms(), b->held);
	enum db_class c = DB_OK;

	for (size_t at = 0; at < n && c == DB_OK; at += SLOT_BEAT_CHUNK)
		c = slot_beat_chunk(b, db, b->held + at, n - at < SLOT_BEAT_CHUNK ? n - at : SLOT_BEAT_CHUNK, f);
	return c;
}
