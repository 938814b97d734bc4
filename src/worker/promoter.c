#include "worker/promoter.h"

#include "base/clock.h"
#include "base/random.h"
#include "model/scan.h"
#include "store/promote_store.h"
#include "worker/presence.h"
#include "worker/role.h"

#include <stdlib.h>

#define PROMOTER_CHUNK 125 /* with others at work on the same due rows, each takes a random part */
#define PROMOTER_HOLD_PAUSE_MS 1000 /* after a hold could not be cleared because its row is locked */

struct promoter {
	struct role role; /* first */
	int64_t shown_ms; /* when our row in job_workers was last refreshed, 0 = never */
	size_t hold_chunk;       /* holds cleared at once: smaller while a row among them is locked */
	int64_t hold_pause_ms;   /* CLOCK_MONOTONIC: none before that */
	struct promote_found found;
	struct promote_parked parked[PROMOTE_PAGE];
};

static int promoter_by_id(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* A part of n ids, at most so many, sorted; *count of them. */
static uint64_t *promoter_part(uint64_t *ids, size_t n, size_t most, size_t *count)
{
	size_t offset = scan_choose(n, most, random_below(UINT64_MAX), count);

	qsort(ids + offset, *count, sizeof(*ids), promoter_by_id);
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

/* Holds that have ended. A handler or a producer may keep a row or a key locked for as long as its transaction is open: that one
 * waits, and must hold up neither the others nor the due jobs. So smaller and smaller parts are tried, each somewhere else. */
static enum db_class promoter_release(struct promoter *p, int64_t *wait_ms, struct fault *f)
{
	size_t count, most = promoter_share(p);
	int64_t began_ms = clock_mono_ms();
	uint64_t released = 0, *ids;
	enum db_class c;

	if (p->found.hold_count == 0 || began_ms < p->hold_pause_ms)
		return DB_OK;
	ids = promoter_part(p->found.holds, p->found.hold_count, p->hold_chunk < most ? p->hold_chunk : most, &count);
	c = promote_store_release(p->role.session.db, ids, count, &released, f);
	if (c == DB_RETRY) {
		log_debug("promote", "%zu holds on unique keys, from job=%llu on, could not be cleared: %s", count,
			  (unsigned long long)ids[0], f->text);
		if (count == 1) /* a server that makes us wait for a lock is asked less often */
			p->hold_pause_ms = 10 * clock_mono_ms() - 9 * began_ms + PROMOTER_HOLD_PAUSE_MS;
		else
			*wait_ms = 0;
		p->hold_chunk = count > 1 ? count / 2 : 1;
		return DB_OK;
	}
	p->hold_chunk = p->hold_chunk < PROMOTE_PAGE ? 2 * p->hold_chunk : PROMOTE_PAGE;
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
