#include "worker/promoter.h"

#include "base/clock.h"
#include "base/random.h"
#include "model/scan.h"
#include "store/promote_store.h"
#include "worker/presence.h"
#include "worker/role.h"
#include "worker/slot_keeper.h"


#define PROMOTER_CHUNK 125 /* with others at work on the same due rows, each takes a random part */
#define PROMOTER_SEARCH_MS 50   /* from one try that met a lock to the next, beside three times of what it took */
#define PROMOTER_STUCK 16       /* locked rows that are left alone for a while */
#define PROMOTER_STUCK_MS 1000  /* and for how long, beside ten times of what the try took */

struct promoter {
	struct role role; /* first */
	int64_t shown_ms; /* when our row in job_workers was last refreshed, 0 = never */
	size_t hold_chunk;     /* holds cleared at once: smaller while a locked row among them is looked for */
	bool hold_won;         /* the last so many could be */
	int64_t hold_pause_ms; /* CLOCK_MONOTONIC: none before that */
	struct {
		uint64_t id;
		int64_t until_ms;
	} stuck[PROMOTER_STUCK];
	size_t stuck_next;
	struct promote_found found;
	struct promote_parked parked[PROMOTE_PAGE];
};

/* A part of n ids, at most so many, sorted; *count of them. */
static uint64_t *promoter_part(uint64_t *ids, size_t n, size_t most, size_t *count)
{
	size_t offset = scan_choose(n, most, random_below(UINT64_MAX), count);

	store_sort_ids(ids + offset, *count);
	return ids + offset;
}

static size_t promoter_share(const struct promoter *p)
{
	return atomic_load(&p->role.instance->peers) <= 1 ? PROMOTE_PAGE : PROMOTER_CHUNK;
}

static enum db_class promoter_promote(struct promoter *p, int64_t *wait_ms, struct fault *f)
{
	uint64_t promoted = 0, *ids;
	size_t count;
	enum db_class c;

	if (p->found.due_count == 0)
		return DB_OK;
	ids = promoter_part(p->found.due, p->found.due_count, promoter_share(p), &count);
	c = promote_store_write(p->role.session.db, ids, count, &promoted, f);
	if (c != DB_OK)
		return c;
	atomic_fetch_add(&p->role.instance->count.promoted, promoted);
	if (promoted > 0) {
		log_debug("promote", "%llu due jobs are ready now", (unsigned long long)promoted);
		instance_nudge_claimers(p->role.instance);
	}
	*wait_ms = 0;
	return DB_OK;
}

static bool promoter_is_stuck(const struct promoter *p, uint64_t id, int64_t now_ms)
{
	for (size_t i = 0; i < PROMOTER_STUCK; i++)
		if (p->stuck[i].id == id && p->stuck[i].until_ms > now_ms)
			return true;
	return false;
}

/* The holds that are to be cleared next. While a locked row is looked for: the first of what there is, in the order of ids, so
 * that a half that failed is halved again. */
static uint64_t *promoter_next_holds(struct promoter *p, int64_t now_ms, size_t *count)
{
	uint64_t *holds = p->found.holds;
	size_t n = 0;

	for (size_t i = 0; i < p->found.hold_count; i++)
		if (!promoter_is_stuck(p, holds[i], now_ms))
			holds[n++] = holds[i];
	if (p->hold_chunk >= promoter_share(p))
		return promoter_part(holds, n, promoter_share(p), count);
	store_sort_ids(holds, n);
	*count = n < p->hold_chunk ? n : p->hold_chunk;
	return holds;
}

/* One of count holds is locked. A server that made us wait to learn that is asked less often. */
static void promoter_search(struct promoter *p, const uint64_t *ids, size_t count, int64_t began_ms, int64_t *wait_ms)
{
	int64_t now_ms = clock_mono_ms(), took_ms = now_ms - began_ms, pause_ms = PROMOTER_SEARCH_MS + 3 * took_ms;

	if (count > 1) {
		p->hold_chunk = count / 2;
	} else {
		p->stuck[p->stuck_next].id = ids[0];
		p->stuck[p->stuck_next].until_ms = now_ms + PROMOTER_STUCK_MS + 10 * took_ms;
		p->stuck_next = (p->stuck_next + 1) % PROMOTER_STUCK;
		p->hold_chunk = PROMOTE_PAGE;
	}
	p->hold_won = false;
	p->hold_pause_ms = now_ms + pause_ms;
	if (pause_ms < *wait_ms)
		*wait_ms = pause_ms;
}

/* Holds that have ended. A handler or a producer may keep a row or a key locked for as long as its transaction is open: that one
 * waits, and must hold up neither the others nor the due jobs. So it is looked for by halves, one try a round, and left alone
 * for a while. */
static enum db_class promoter_release(struct promoter *p, int64_t *wait_ms, struct fault *f)
{
	int64_t began_ms = clock_mono_ms();
	uint64_t released = 0, *ids;
	enum db_class c;
	size_t count;

	if (p->found.hold_count == 0 || began_ms < p->hold_pause_ms)
		return DB_OK;
	ids = promoter_next_holds(p, began_ms, &count);
	if (count == 0)
		return DB_OK;
	c = promote_store_release(p->role.session.db, ids, count, &released, f);
	if (c == DB_RETRY) {
		log_debug("promote", "%zu holds on unique keys, from job=%llu on, could not be cleared: %s", count,
			  (unsigned long long)ids[0], f->text);
		promoter_search(p, ids, count, began_ms, wait_ms);
		return DB_OK;
	}
	/* Of two halves one should have failed: the lock is gone. */
	if (p->hold_won && p->hold_chunk < PROMOTE_PAGE)
		p->hold_chunk *= 2;
	p->hold_won = true;
	*wait_ms = 0;
	return c;
}

/* Jobs that were put back here for want of a handler, and have one since a reload. */
static enum db_class promoter_wake(struct promoter *p, struct fault *f)
{
	struct parking *parking = p->role.instance->parking;
	enum db_class c = DB_OK;
	uint64_t woken, total = 0;
	size_t n;

	while (c == DB_OK && (n = parking_due(parking, p->parked, PROMOTE_PAGE)) > 0) {
		c = promote_store_wake(p->role.session.db, p->parked, n, &woken, f);
		if (c != DB_OK)
			break;
		parking_done(parking, n);
		total += woken;
	}
	if (total > 0) {
		log_info("promote", "%llu jobs that waited for a handler of their kind are ready now", (unsigned long long)total);
		instance_nudge_claimers(p->role.instance);
	}
	return c;
}

/* One scan, and a write for each kind of thing that it found. *wait_ms: until the next is expected, at most the interval. */
static enum db_class promoter_round(struct promoter *p, int64_t *wait_ms, struct fault *f)
{
	enum db_class c = promote_store_scan(p->role.session.db, &p->found, f);

	if (c == DB_OK && p->found.next_ms > 0 && p->found.next_ms < *wait_ms)
		*wait_ms = p->found.next_ms;
	if (c == DB_OK)
		c = promoter_promote(p, wait_ms, f);
	return c == DB_OK ? promoter_release(p, wait_ms, f) : c;
}

static int64_t promoter_step(struct role *role)
{
	struct promoter *p = (struct promoter *)role;
	struct settings *settings = instance_settings(role->instance);
	int64_t wait_ms = settings->recovery.promote_ms, now_ms = clock_mono_ms();
	struct fault f = { 0 };
	enum db_class c = session_connect(&role->session, &f);

	settings_unref(settings);
	if (c == DB_OK && (p->shown_ms == 0 || now_ms - p->shown_ms >= role->instance->heartbeat_ms)) {
		c = presence_show(role->instance, role->session.db, &f);
		if (c == DB_OK)
			p->shown_ms = now_ms;
	}
	if (c == DB_OK)
		c = promoter_wake(p, &f);
	if (c == DB_OK)
		c = slot_keeper_step(role->instance->slot_keeper, role->session.db, &wait_ms, &f);
	if (c == DB_OK)
		c = promoter_round(p, &wait_ms, &f);
	return session_outcome(&role->session, c, &f, wait_ms);
}

static void promoter_leave(struct role *role)
{
	struct fault f = { 0 };

	if (db_is_open(role->session.db) && presence_leave(role->instance, role->session.db, &f) != DB_OK)
		log_debug("promote", "our row in job_workers stays until others clear it: %s", f.text);
}

struct role *promoter_new(struct instance *in)
{
	static const struct role_ops ops = {
		.thread = "lh-promote", .area = "promote", .step = promoter_step, .leave = promoter_leave
	};

	struct promoter *p = role_new(sizeof(*p), &ops, in, &(struct role_options){ .lock_wait_s = 1, .most_wait_ms = 2000 });

	if (p == NULL)
		return NULL;
	p->hold_chunk = PROMOTE_PAGE;
	return &p->role;
}
