/* inflight_private.h - inside the register (layer: worker; inflight.c and inflight_slots.c alone). The functions are called with
 * the lock held, except inflight_extend. */
#ifndef LEASEHOLD_WORKER_INFLIGHT_PRIVATE_H
#define LEASEHOLD_WORKER_INFLIGHT_PRIVATE_H

#include "worker/inflight.h"

#include <pthread.h>

struct inflight_entry {
	struct inflight_entry *next; /* in its bucket, or in the free list */
	struct inflight_entry *all_next, **all_link;
	uint64_t id;
	char lease[UUID_TEXT_LEN + 1];
	char trace[TRACE_ID_LEN + 1];
	enum inflight_state state;
	unsigned int pool;
	int64_t lease_ms;
	int64_t trust_ms; /* the earlier of the two below */
	int64_t lease_trust_ms, slot_trust_ms; /* INT64_MAX: does not bound it */
	struct job_slot slot;
	int64_t doubt_until_ms; /* 0 = not in doubt */
	uint64_t run;           /* while a handler may be running */
	int64_t grace_ms;
	bool cancelled;
	bool ending; /* END was sent: the first reason stands */
	bool progress_new;
	int64_t progress_saved_ms;
	double percent;
	char *note;
};

struct inflight {
	pthread_mutex_t lock;
	struct inflight_signals signals;
	struct inflight_entry *entries, *spare, *all, **buckets;
	size_t mask;
	bool closed;
	size_t *occupied;
};

#define MOVE(state) (1u << (state)) /* a set of states */

struct inflight_entry *inflight_find(struct inflight *r, uint64_t id, const char *lease); /* NULL: not under this lease */
bool inflight_move(struct inflight_entry *e, enum inflight_state to);
void inflight_end(struct inflight *r, struct inflight_entry *e, enum end_reason reason, int64_t grace_ms);
/* A renewal of the lease, or of the slot, is known to be committed; takes the lock. */
void inflight_extend(struct inflight *r, uint64_t id, const char *lease, bool slot, int64_t sent_ms, int64_t now_ms);

#endif
