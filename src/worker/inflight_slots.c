/* inflight_slots.c - what the register knows of fleet slots. See inflight.h. */
#include "worker/inflight_private.h"

#include "model/trust.h"

#include <stdlib.h>
#include <string.h>

bool inflight_took_slot(struct inflight *r, uint64_t id, const char *lease, const struct job_slot *slot, int64_t sent_ms)
{
	struct inflight_entry *e;
	bool queued;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	queued = e != NULL && e->state == INFLIGHT_QUEUED;
	if (queued) {
		e->slot = *slot;
		e->slot_trust_ms = trust_until_ms(sent_ms, e->lease_ms);
		if (e->slot_trust_ms < e->trust_ms)
			e->trust_ms = e->slot_trust_ms;
	}
	pthread_mutex_unlock(&r->lock);
	return queued;
}

static int inflight_by_slot(const void *a, const void *b)
{
	const struct slot_held *x = a, *y = b;
	int order = strcmp(x->slot.key, y->slot.key);

	return order != 0 ? order : (x->slot.number > y->slot.number) - (x->slot.number < y->slot.number);
}

size_t inflight_list_slots(struct inflight *r, unsigned int pool, int64_t now_ms, struct slot_held *out)
{
	const unsigned int renewed =
		MOVE(INFLIGHT_QUEUED) | MOVE(INFLIGHT_RUNNING) | MOVE(INFLIGHT_SETTLING) | MOVE(INFLIGHT_SETTLED);
	size_t n = 0;

	pthread_mutex_lock(&r->lock);
	for (const struct inflight_entry *e = r->all; e != NULL; e = e->all_next) {
		if (e->pool != pool || e->slot.key[0] == '\0' || (renewed & MOVE(e->state)) == 0 || e->trust_ms <= now_ms)
			continue;
		out[n].id = e->id;
		memcpy(out[n].lease, e->lease, sizeof(out[n].lease));
		out[n++].slot = e->slot;
	}
	pthread_mutex_unlock(&r->lock);
	qsort(out, n, sizeof(*out), inflight_by_slot);
	return n;
}

void inflight_slot_renewed(struct inflight *r, uint64_t id, const char *lease, int64_t sent_ms, int64_t now_ms)
{
	inflight_extend(r, id, lease, true, sent_ms, now_ms);
}

bool inflight_lose_slot(struct inflight *r, uint64_t id, const char *lease)
{
	struct inflight_entry *e;
	bool lost = false;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	if (e != NULL && e->slot.key[0] != '\0' &&
	    (e->state == INFLIGHT_QUEUED || e->state == INFLIGHT_RUNNING || e->state == INFLIGHT_SETTLED)) {
		inflight_end(r, e, END_LEASE, 0);
		if (e->state != INFLIGHT_SETTLED)
			inflight_move(e, INFLIGHT_LOST);
		e->slot.key[0] = '\0';
		lost = true;
	}
	pthread_mutex_unlock(&r->lock);
	return lost;
}
