#include "worker/promoter.h"

#include "base/clock.h"
#include "base/random.h"
#include "model/scan.h"
#include "store/promote_store.h"
#include "worker/presence.h"
#include "worker/role.h"

#include <stdlib.h>

#define PROMOTER_CHUNK 125 /* with others at work on the same due rows, each takes a random part */

struct promoter {
	struct role role; /* first */
	int64_t shown_ms; /* when our row in job_workers was last refreshed, 0 = never */
	uint64_t ids[PROMOTE_PAGE];
};

static int promoter_by_id(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* One scan, and one write of what it found. *wait_ms: until the next due row is expected, at most the interval. */
static enum db_class promoter_promote(struct promoter *p, int64_t *wait_ms, struct fault *f)
{
	bool alone = atomic_load(&p->role.instance->peers) <= 1;
	size_t n = 0, count, offset;
	uint64_t promoted = 0;
	int64_t next_ms = -1;
	enum db_class c = promote_store_scan(p->role.session.db, p->ids, &n, &next_ms, f);

	if (c != DB_OK || n == 0) {
		if (next_ms >= 0 && next_ms < *wait_ms)
			*wait_ms = next_ms;
		return c;
	}
	offset = scan_choose(n, alone ? PROMOTE_PAGE : PROMOTER_CHUNK, random_below(UINT64_MAX), &count);
	qsort(p->ids + offset, count, sizeof(*p->ids), promoter_by_id);
	c = promote_store_write(p->role.session.db, p->ids + offset, count, &promoted, f);
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
		c = promoter_promote(p, &wait_ms, &f);
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

	return role_new(sizeof(struct promoter), &ops, in, &(struct role_options){ .lock_wait_s = 1, .most_wait_ms = 2000 });
}
