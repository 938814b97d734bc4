#include "worker/inflight_private.h"

#include "model/trust.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const inflight_names[INFLIGHT_STATES] = { "claiming", "queued", "running", "settling", "settled", "lost" };

/* inflight_moves[from] is the set of states to which an entry may go; the bit INFLIGHT_STATES stands for leaving the register. */
#define MOVE_OUT MOVE(INFLIGHT_STATES)
static const unsigned int inflight_moves[INFLIGHT_STATES + 1] = {
	[INFLIGHT_CLAIMING] = MOVE(INFLIGHT_QUEUED) | MOVE(INFLIGHT_SETTLING) | MOVE_OUT,
	[INFLIGHT_QUEUED] = MOVE(INFLIGHT_RUNNING) | MOVE(INFLIGHT_SETTLING) | MOVE(INFLIGHT_LOST),
	[INFLIGHT_RUNNING] = MOVE(INFLIGHT_SETTLING) | MOVE(INFLIGHT_SETTLED) | MOVE(INFLIGHT_LOST),
	[INFLIGHT_SETTLING] = MOVE(INFLIGHT_SETTLED) | MOVE(INFLIGHT_LOST),
	[INFLIGHT_SETTLED] = MOVE_OUT,
	[INFLIGHT_LOST] = MOVE_OUT,
	[INFLIGHT_STATES] = MOVE(INFLIGHT_CLAIMING),
};

const char *inflight_state_name(enum inflight_state state)
{
	return state < INFLIGHT_STATES ? inflight_names[state] : "absent";
}

bool inflight_may_move(enum inflight_state from, enum inflight_state to)
{
	return from <= INFLIGHT_STATES && to <= INFLIGHT_STATES && (inflight_moves[from] & MOVE(to)) != 0;
}

struct inflight *inflight_new(size_t capacity, unsigned int pools, const struct inflight_signals *signals)
{
	struct inflight *r = calloc(1, sizeof(*r));
	size_t buckets = 16;

	if (r == NULL)
		return NULL;
	while (buckets < 2 * capacity)
		buckets *= 2;
	r->entries = calloc(capacity, sizeof(*r->entries));
	r->buckets = calloc(buckets, sizeof(struct inflight_entry *));
	r->occupied = calloc(pools, sizeof(*r->occupied));
	if (r->entries == NULL || r->buckets == NULL || r->occupied == NULL) {
		inflight_free(r);
		return NULL;
	}
	pthread_mutex_init(&r->lock, NULL);
	r->signals = *signals;
	r->mask = buckets - 1;
	for (size_t i = 0; i < capacity; i++) {
		r->entries[i].next = r->spare;
		r->spare = &r->entries[i];
	}
	return r;
}

void inflight_free(struct inflight *r)
{
	if (r == NULL)
		return;
	for (struct inflight_entry *e = r->all; e != NULL; e = e->all_next)
		free(e->note);
	free(r->entries);
	free(r->buckets);
	free(r->occupied);
	free(r);
}

static struct inflight_entry **inflight_bucket(struct inflight *r, uint64_t id)
{
	return &r->buckets[(id * UINT64_C(0x9E3779B97F4A7C15) >> 20) & r->mask];
}

static struct inflight_entry *inflight_find_id(struct inflight *r, uint64_t id)
{
	struct inflight_entry *e = *inflight_bucket(r, id);

	while (e != NULL && e->id != id)
		e = e->next;
	return e;
}

struct inflight_entry *inflight_find(struct inflight *r, uint64_t id, const char *lease)
{
	struct inflight_entry *e = inflight_find_id(r, id);

	return e != NULL && strcmp(e->lease, lease) == 0 ? e : NULL;
}

/* The only place that changes a state. False, and no change, when the table has no such arrow. */
bool inflight_move(struct inflight_entry *e, enum inflight_state to)
{
	if (!inflight_may_move(e->state, to))
		return false;
	e->state = to;
	return true;
}

static void inflight_enter(struct inflight *r, unsigned int pool, uint64_t id, const char *lease, int64_t lease_ms, int64_t sent_ms)
{
	struct inflight_entry *e = r->spare, **bucket = inflight_bucket(r, id);

	r->spare = e->next;
	*e = (struct inflight_entry){ .id = id, .pool = pool, .lease_ms = lease_ms, .percent = -1 };
	memcpy(e->lease, lease, sizeof(e->lease));
	e->state = INFLIGHT_CLAIMING;
	e->trust_ms = e->lease_trust_ms = trust_until_ms(sent_ms, lease_ms);
	e->slot_trust_ms = INT64_MAX;
	e->next = *bucket;
	*bucket = e;
	e->all_next = r->all;
	e->all_link = &r->all;
	if (r->all != NULL)
		r->all->all_link = &e->all_next;
	r->all = e;
	r->occupied[pool]++;
}

static void inflight_remove(struct inflight *r, struct inflight_entry *e)
{
	struct inflight_entry **link = inflight_bucket(r, e->id);

	while (*link != e)
		link = &(*link)->next;
	*link = e->next;
	*e->all_link = e->all_next;
	if (e->all_next != NULL)
		e->all_next->all_link = e->all_link;
	r->occupied[e->pool]--;
	free(e->note);
	e->note = NULL;
	e->next = r->spare;
	r->spare = e;
}

size_t inflight_claim(struct inflight *r, unsigned int pool, uint64_t *ids, size_t n, const char *lease, int64_t lease_ms,
		      int64_t sent_ms)
{
	size_t entered = 0;

	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < n && r->spare != NULL; i++) {
		if (inflight_find_id(r, ids[i]) != NULL)
			continue;
		inflight_enter(r, pool, ids[i], lease, lease_ms, sent_ms);
		ids[entered++] = ids[i];
	}
	pthread_mutex_unlock(&r->lock);
	return entered;
}

bool inflight_holds(struct inflight *r, uint64_t id)
{
	bool held;

	pthread_mutex_lock(&r->lock);
	held = inflight_find_id(r, id) != NULL;
	pthread_mutex_unlock(&r->lock);
	return held;
}

/* Finds the entry and moves it, in one step under the lock. */
static bool inflight_change(struct inflight *r, uint64_t id, const char *lease, enum inflight_state from, enum inflight_state to)
{
	struct inflight_entry *e;
	bool changed;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	changed = e != NULL && e->state == from && inflight_move(e, to);
	pthread_mutex_unlock(&r->lock);
	return changed;
}

bool inflight_won(struct inflight *r, uint64_t id, const char *lease)
{
	return inflight_change(r, id, lease, INFLIGHT_CLAIMING, INFLIGHT_QUEUED);
}

void inflight_set_trace(struct inflight *r, uint64_t id, const char *lease, const char *trace)
{
	struct inflight_entry *e;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	if (e != NULL)
		memcpy(e->trace, trace, strnlen(trace, TRACE_ID_LEN));
	pthread_mutex_unlock(&r->lock);
}

void inflight_trace(struct inflight *r, uint64_t id, const char *lease, char out[TRACE_ID_LEN + 1])
{
	const struct inflight_entry *e;

	out[0] = '\0';
	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	if (e != NULL)
		memcpy(out, e->trace, sizeof(e->trace));
	pthread_mutex_unlock(&r->lock);
}

static bool inflight_leave(struct inflight *r, uint64_t id, const char *lease, bool claiming, unsigned int *pool)
{
	struct inflight_entry *e;
	bool left;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	left = e != NULL && (e->state == INFLIGHT_CLAIMING) == claiming && inflight_may_move(e->state, INFLIGHT_STATES);
	if (left) {
		if (pool != NULL)
			*pool = e->pool;
		inflight_remove(r, e);
	}
	pthread_mutex_unlock(&r->lock);
	return left;
}

bool inflight_missed(struct inflight *r, uint64_t id, const char *lease)
{
	return inflight_leave(r, id, lease, true, NULL);
}

bool inflight_forget(struct inflight *r, uint64_t id, const char *lease, unsigned int *pool)
{
	return inflight_leave(r, id, lease, false, pool);
}

void inflight_doubt(struct inflight *r, uint64_t id, const char *lease, int64_t until_ms)
{
	struct inflight_entry *e;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	if (e != NULL && e->state == INFLIGHT_CLAIMING)
		e->doubt_until_ms = until_ms;
	pthread_mutex_unlock(&r->lock);
}

static enum inflight_go inflight_may_run(const struct inflight *r, const struct inflight_entry *e, enum inflight_state from,
					 int64_t now_ms)
{
	if (e == NULL || e->state != from)
		return INFLIGHT_GO_LOST;
	if (e->cancelled)
		return INFLIGHT_GO_CANCELLED;
	if (r->closed)
		return INFLIGHT_GO_CLOSED;
	return e->trust_ms > now_ms ? INFLIGHT_GO : INFLIGHT_GO_LAPSED;
}

enum inflight_go inflight_check(struct inflight *r, uint64_t id, const char *lease, int64_t now_ms)
{
	enum inflight_go go;

	pthread_mutex_lock(&r->lock);
	go = inflight_may_run(r, inflight_find(r, id, lease), INFLIGHT_QUEUED, now_ms);
	pthread_mutex_unlock(&r->lock);
	return go;
}

static enum inflight_go inflight_run_from(struct inflight *r, uint64_t id, const char *lease, enum inflight_state from,
					  uint64_t run, int64_t grace_ms, int64_t now_ms,
					  bool (*send)(void *arg, int64_t kill_at_ms), void *arg)
{
	struct inflight_entry *e;
	enum inflight_go go;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	go = inflight_may_run(r, e, from, now_ms);
	if (go == INFLIGHT_GO && !send(arg, e->trust_ms))
		go = INFLIGHT_GO_UNSENT;
	if (go == INFLIGHT_GO && (from == INFLIGHT_RUNNING || inflight_move(e, INFLIGHT_RUNNING))) {
		e->run = run;
		e->grace_ms = grace_ms;
	}
	pthread_mutex_unlock(&r->lock);
	return go;
}

enum inflight_go inflight_run(struct inflight *r, uint64_t id, const char *lease, uint64_t run, int64_t grace_ms, int64_t now_ms,
			      bool (*send)(void *arg, int64_t kill_at_ms), void *arg)
{
	return inflight_run_from(r, id, lease, INFLIGHT_QUEUED, run, grace_ms, now_ms, send, arg);
}

enum inflight_go inflight_run_again(struct inflight *r, uint64_t id, const char *lease, uint64_t run, int64_t grace_ms,
				    int64_t now_ms, bool (*send)(void *arg, int64_t kill_at_ms), void *arg)
{
	return inflight_run_from(r, id, lease, INFLIGHT_RUNNING, run, grace_ms, now_ms, send, arg);
}

bool inflight_settle(struct inflight *r, uint64_t id, const char *lease, enum inflight_state *state)
{
	struct inflight_entry *e;
	bool moved = false;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	*state = e != NULL ? e->state : INFLIGHT_STATES;
	if (e != NULL) {
		e->run = 0; /* the handler has ended, or never ran: the number must not reach the runner again */
		e->doubt_until_ms = 0;
		moved = inflight_move(e, INFLIGHT_SETTLING);
	}
	pthread_mutex_unlock(&r->lock);
	return moved;
}

bool inflight_abandon(struct inflight *r, uint64_t id, const char *lease)
{
	return inflight_change(r, id, lease, INFLIGHT_RUNNING, INFLIGHT_LOST);
}

void inflight_progress(struct inflight *r, uint64_t id, const char *lease, double percent, const char *note)
{
	char *copy = note != NULL ? strdup(note) : NULL;
	struct inflight_entry *e;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	if (e != NULL && e->state == INFLIGHT_RUNNING) {
		if (percent >= 0)
			e->percent = percent;
		if (copy != NULL) {
			char *old = e->note;

			e->note = copy;
			copy = old;
		}
		e->progress_new = true;
	}
	pthread_mutex_unlock(&r->lock);
	free(copy);
}

static int inflight_by_id(const void *a, const void *b)
{
	const struct store_held *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static void inflight_copy(struct store_held *out, const struct inflight_entry *e)
{
	out->id = e->id;
	memcpy(out->lease, e->lease, sizeof(out->lease));
}

/* Those of a pool in the given states that are still trusted. */
static size_t inflight_list(struct inflight *r, unsigned int pool, unsigned int states, int64_t now_ms, struct store_held *out)
{
	size_t n = 0;

	pthread_mutex_lock(&r->lock);
	for (const struct inflight_entry *e = r->all; e != NULL; e = e->all_next)
		if (e->pool == pool && (states & MOVE(e->state)) != 0 && e->trust_ms > now_ms)
			inflight_copy(&out[n++], e);
	pthread_mutex_unlock(&r->lock);
	qsort(out, n, sizeof(*out), inflight_by_id);
	return n;
}

size_t inflight_list_held(struct inflight *r, unsigned int pool, int64_t now_ms, struct store_held *out)
{
	return inflight_list(r, pool, MOVE(INFLIGHT_QUEUED) | MOVE(INFLIGHT_RUNNING) | MOVE(INFLIGHT_SETTLING), now_ms, out);
}

size_t inflight_list_running(struct inflight *r, unsigned int pool, int64_t now_ms, struct store_held *out)
{
	return inflight_list(r, pool, MOVE(INFLIGHT_RUNNING), now_ms, out);
}

size_t inflight_list_doubt(struct inflight *r, unsigned int pool, int64_t now_ms, struct store_held *out)
{
	size_t n = 0;

	pthread_mutex_lock(&r->lock);
	for (struct inflight_entry *e = r->all, *next; e != NULL; e = next) {
		next = e->all_next;
		if (e->pool != pool || e->state != INFLIGHT_CLAIMING || e->doubt_until_ms == 0)
			continue;
		if (e->doubt_until_ms > now_ms)
			inflight_copy(&out[n++], e);
		else
			inflight_remove(r, e);
	}
	pthread_mutex_unlock(&r->lock);
	qsort(out, n, sizeof(*out), inflight_by_id);
	return n;
}

/* One of the two has moved; the lock is held. */
static void inflight_trust(struct inflight *r, struct inflight_entry *e)
{
	int64_t until = e->lease_trust_ms < e->slot_trust_ms ? e->lease_trust_ms : e->slot_trust_ms;

	if (until <= e->trust_ms)
		return;
	e->trust_ms = until;
	if ((e->state == INFLIGHT_RUNNING || e->state == INFLIGHT_SETTLED) && e->run != 0)
		r->signals.deadline(r->signals.owner, e->run, until);
}

void inflight_extend(struct inflight *r, uint64_t id, const char *lease, bool slot, int64_t sent_ms, int64_t now_ms)
{
	struct inflight_entry *e;
	int64_t until, *trust;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	/* A trust that has passed does not come back: the runner may have ended the handler already. */
	if (e != NULL && e->trust_ms > now_ms) {
		until = trust_until_ms(sent_ms, e->lease_ms);
		trust = slot ? &e->slot_trust_ms : &e->lease_trust_ms;
		if (until > *trust)
			*trust = until;
		inflight_trust(r, e);
	}
	pthread_mutex_unlock(&r->lock);
}

void inflight_renewed(struct inflight *r, uint64_t id, const char *lease, int64_t sent_ms, int64_t now_ms)
{
	inflight_extend(r, id, lease, false, sent_ms, now_ms);
}

/* Ends a running handler; the lock is held. */
void inflight_end(struct inflight *r, struct inflight_entry *e, enum end_reason reason, int64_t grace_ms)
{
	if (e->run == 0 || e->state == INFLIGHT_QUEUED)
		return;
	/* A second END matters only when it is harsher: the runner keeps the first reason. */
	if (e->ending && grace_ms > 0)
		return;
	e->ending = true;
	r->signals.end(r->signals.owner, e->run, reason, grace_ms);
}

bool inflight_cancel(struct inflight *r, uint64_t id, const char *lease)
{
	struct inflight_entry *e;
	bool first = false;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	if (e != NULL && !e->cancelled && (e->state == INFLIGHT_QUEUED || e->state == INFLIGHT_RUNNING)) {
		first = e->cancelled = true;
		inflight_end(r, e, END_CANCEL, e->grace_ms);
	}
	pthread_mutex_unlock(&r->lock);
	return first;
}

bool inflight_lose(struct inflight *r, uint64_t id, const char *lease)
{
	struct inflight_entry *e;
	bool lost = false;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	if (e != NULL && (e->state == INFLIGHT_QUEUED || e->state == INFLIGHT_RUNNING)) {
		/* Another holder may be at work already: no grace. */
		inflight_end(r, e, END_LEASE, 0);
		lost = inflight_move(e, INFLIGHT_LOST);
	}
	pthread_mutex_unlock(&r->lock);
	return lost;
}

bool inflight_settled_by_handler(struct inflight *r, uint64_t id, const char *lease)
{
	struct inflight_entry *e;
	bool settled = false;

	pthread_mutex_lock(&r->lock);
	e = inflight_find(r, id, lease);
	if (e != NULL && e->state == INFLIGHT_RUNNING) {
		settled = inflight_move(e, INFLIGHT_SETTLED);
		/* The row is finished: nobody can claim it again, so the handler may take its time until its own timeout, as
		 * long as it keeps the slot. */
		e->lease_trust_ms = INT64_MAX;
		inflight_trust(r, e);
	}
	pthread_mutex_unlock(&r->lock);
	return settled;
}

bool inflight_settled(struct inflight *r, uint64_t id, const char *lease)
{
	return inflight_change(r, id, lease, INFLIGHT_SETTLING, INFLIGHT_SETTLED);
}

bool inflight_refused(struct inflight *r, uint64_t id, const char *lease)
{
	return inflight_change(r, id, lease, INFLIGHT_SETTLING, INFLIGHT_LOST);
}

static void inflight_copy_note(struct inflight_note *out, const struct inflight_entry *e)
{
	out->id = e->id;
	memcpy(out->lease, e->lease, sizeof(out->lease));
	out->percent = e->percent;
	out->has_note = e->note != NULL;
	out->note[0] = '\0';
	if (e->note != NULL) {
		size_t len = strnlen(e->note, sizeof(out->note) - 1);

		memcpy(out->note, e->note, len);
		out->note[len] = '\0';
	}
}

size_t inflight_take_progress(struct inflight *r, int64_t before_ms, int64_t now_ms, struct inflight_note *out, size_t max)
{
	size_t n = 0;

	pthread_mutex_lock(&r->lock);
	for (struct inflight_entry *e = r->all; e != NULL && n < max; e = e->all_next) {
		if (e->state != INFLIGHT_RUNNING || !e->progress_new || e->progress_saved_ms > before_ms)
			continue;
		inflight_copy_note(&out[n++], e);
		e->progress_new = false;
		e->progress_saved_ms = now_ms;
	}
	pthread_mutex_unlock(&r->lock);
	return n;
}

void inflight_close(struct inflight *r)
{
	pthread_mutex_lock(&r->lock);
	r->closed = true;
	pthread_mutex_unlock(&r->lock);
}

void inflight_end_all(struct inflight *r, enum end_reason reason, int64_t most_grace_ms)
{
	pthread_mutex_lock(&r->lock);
	for (struct inflight_entry *e = r->all; e != NULL; e = e->all_next) {
		bool own = most_grace_ms < 0 || e->grace_ms < most_grace_ms;

		inflight_end(r, e, reason, own ? e->grace_ms : most_grace_ms);
	}
	pthread_mutex_unlock(&r->lock);
}

size_t inflight_occupied(struct inflight *r, unsigned int pool)
{
	size_t n;

	pthread_mutex_lock(&r->lock);
	n = r->occupied[pool];
	pthread_mutex_unlock(&r->lock);
	return n;
}

void inflight_count(struct inflight *r, struct inflight_counts *out)
{
	*out = (struct inflight_counts){ .oldest_trust_ms = INT64_MAX };
	pthread_mutex_lock(&r->lock);
	for (const struct inflight_entry *e = r->all; e != NULL; e = e->all_next) {
		out->by_state[e->state]++;
		out->doubtful += e->doubt_until_ms != 0;
		if (e->state <= INFLIGHT_SETTLING && e->trust_ms < out->oldest_trust_ms)
			out->oldest_trust_ms = e->trust_ms;
	}
	pthread_mutex_unlock(&r->lock);
}
