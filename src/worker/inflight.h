/* inflight.h - the one register of what this instance holds, and the only state machine in the daemon (layer: worker; any
 * thread).
 *
 * An entry is a job id with the lease it was (or is being) claimed under. Candidates enter before the claim is sent; an entry
 * leaves only when it is known whose the row is and nothing of ours acts on it any more. While an id is here it is never claimed
 * again.
 *
 *   claiming -> queued     claimer     inflight_won            the read-back says it is ours
 *   claiming -> (out)      claimer     inflight_missed         it is known not to be ours
 *   claiming -> settling   heartbeat   inflight_settle         it turned up late: to be released
 *   queued   -> running    worker      inflight_run            the START was sent under the lock
 *   queued   -> settling   worker      inflight_settle         dead, parked, cancelled or released without running
 *   running  -> settling   worker      inflight_settle         the handler ended
 *   running  -> settled    heartbeat   inflight_settled        the handler settled the job in its own transaction
 *   settling -> settled    completer   inflight_settled        the outcome is committed
 *   queued, running -> lost  heartbeat, worker  inflight_lose, inflight_abandon   the row is not ours any more, or its trust ended
 *   settling -> lost       completer   inflight_refused        the closing UPDATE did not match
 *   settled, lost -> (out) worker, completer  inflight_forget
 *
 * Every call names the lease as well as the id: news of an earlier lease changes nothing. The lock is a leaf, with one exception
 * that the lease protocol needs: START, DEADLINE and END go to the runner's socket under it, so that they arrive in the order in
 * which the register changed. */
#ifndef LEASEHOLD_WORKER_INFLIGHT_H
#define LEASEHOLD_WORKER_INFLIGHT_H

#include "base/fault.h"
#include "base/random.h"
#include "model/outcome.h"
#include "model/trace.h"
#include "store/slot_store.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum inflight_state {
	INFLIGHT_CLAIMING,
	INFLIGHT_QUEUED,
	INFLIGHT_RUNNING,
	INFLIGHT_SETTLING,
	INFLIGHT_SETTLED,
	INFLIGHT_LOST,
	INFLIGHT_STATES
};
const char *inflight_state_name(enum inflight_state state);
/* The table above; `INFLIGHT_STATES` stands for "not in the register". */
bool inflight_may_move(enum inflight_state from, enum inflight_state to);

/* How the register reaches running handlers. Called with the lock held; must not wait for long. */
struct inflight_signals {
	void *owner;
	void (*deadline)(void *owner, uint64_t run, int64_t kill_at_ms);
	void (*end)(void *owner, uint64_t run, enum end_reason reason, int64_t grace_ms);
};

struct inflight;

/* capacity: the most entries at once (all pools' threads and prefetch together). pools: how many. NULL without memory. */
struct inflight *inflight_new(size_t capacity, unsigned int pools, const struct inflight_signals *signals);
void inflight_free(struct inflight *r);

/* Claimer. Enters n ids under one lease; ids already here are left out: ids[] is compacted to those entered, their number
 * returned. The lease counts from sent_ms, CLOCK_BOOTTIME, taken before the claim goes out. */
size_t inflight_claim(struct inflight *r, unsigned int pool, uint64_t *ids, size_t n, const char *lease, int64_t lease_ms,
		      int64_t sent_ms);
bool inflight_holds(struct inflight *r, uint64_t id);
bool inflight_won(struct inflight *r, uint64_t id, const char *lease);
/* The trace that the job belongs to, for the log; out is "" when there is none, or no such entry. */
void inflight_set_trace(struct inflight *r, uint64_t id, const char *lease, const char *trace);
void inflight_trace(struct inflight *r, uint64_t id, const char *lease, char out[TRACE_ID_LEN + 1]);
bool inflight_missed(struct inflight *r, uint64_t id, const char *lease);
/* A queued job holds this slot too, by a write that was sent at sent_ms. From now on it is trusted only as long as both are: the
 * lease and the slot. False: it is not queued any more. */
bool inflight_took_slot(struct inflight *r, uint64_t id, const char *lease, const struct job_slot *slot, int64_t sent_ms);
/* The fate of a claim cannot be known yet: the heartbeat watches the id until until_ms, then it counts as missed. */
void inflight_doubt(struct inflight *r, uint64_t id, const char *lease, int64_t until_ms);

/* Worker. */
enum inflight_go {
	INFLIGHT_GO,
	INFLIGHT_GO_LOST,
	INFLIGHT_GO_CANCELLED,
	INFLIGHT_GO_LAPSED,
	INFLIGHT_GO_CLOSED,
	INFLIGHT_GO_UNSENT
};
/* What would happen to a queued job if it were run now, without changing anything. */
enum inflight_go inflight_check(struct inflight *r, uint64_t id, const char *lease, int64_t now_ms);
/* queued -> running. send(arg, kill_at_ms) is called under the lock with the trust of this moment; when it fails the entry stays
 * queued (INFLIGHT_GO_UNSENT). */
enum inflight_go inflight_run(struct inflight *r, uint64_t id, const char *lease, uint64_t run, int64_t grace_ms, int64_t now_ms,
			      bool (*send)(void *arg, int64_t kill_at_ms), void *arg);
/* As inflight_run for a job that is running under a number whose process never got to it: not begun, so it may go to another. */
enum inflight_go inflight_run_again(struct inflight *r, uint64_t id, const char *lease, uint64_t run, int64_t grace_ms,
				    int64_t now_ms, bool (*send)(void *arg, int64_t kill_at_ms), void *arg);
/* To settling. False: the entry is settled or lost already (or not here): *state tells which, INFLIGHT_STATES for not here. */
bool inflight_settle(struct inflight *r, uint64_t id, const char *lease, enum inflight_state *state);
/* The handler was killed because its trust ended (or cannot be proved dead): to lost, without a write. True when it changed. */
bool inflight_abandon(struct inflight *r, uint64_t id, const char *lease);
void inflight_progress(struct inflight *r, uint64_t id, const char *lease, double percent, const char *note);

/* Heartbeat and completer. */
/* Entries of a pool to be renewed, sorted by id: queued, running or settling, and still trusted. out has room for the register's
 * capacity. */
size_t inflight_list_held(struct inflight *r, unsigned int pool, int64_t now_ms, struct store_held *out);
/* Those of them that run, to be looked at between two renewals. */
size_t inflight_list_running(struct inflight *r, unsigned int pool, int64_t now_ms, struct store_held *out);
/* Slots of a pool to be renewed, sorted by key and number: of entries that are still trusted, also of a job that its handler
 * settled, as long as that runs. The same room. */
size_t inflight_list_slots(struct inflight *r, unsigned int pool, int64_t now_ms, struct slot_held *out);
/* Claims in doubt of a pool; those whose time has passed leave the register instead and are not listed. */
size_t inflight_list_doubt(struct inflight *r, unsigned int pool, int64_t now_ms, struct store_held *out);
/* A renewal sent at sent_ms is known to be committed. Trust never moves back, and never comes back once it has passed. */
void inflight_renewed(struct inflight *r, uint64_t id, const char *lease, int64_t sent_ms, int64_t now_ms);
/* The same for its slot. */
void inflight_slot_renewed(struct inflight *r, uint64_t id, const char *lease, int64_t sent_ms, int64_t now_ms);
bool inflight_cancel(struct inflight *r, uint64_t id, const char *lease); /* true the first time */
/* queued or running -> lost; a running handler is killed at once. True when it changed */
bool inflight_lose(struct inflight *r, uint64_t id, const char *lease);
/* Its slot is held by somebody else: the same, though the lease may still be ours. A handler that settled its job is killed too;
 * its entry stays settled. */
bool inflight_lose_slot(struct inflight *r, uint64_t id, const char *lease);
/* running -> settled (by the handler itself) or settling -> settled. True when it changed. */
bool inflight_settled_by_handler(struct inflight *r, uint64_t id, const char *lease);
bool inflight_settled(struct inflight *r, uint64_t id, const char *lease);
bool inflight_refused(struct inflight *r, uint64_t id, const char *lease); /* settling -> lost */
/* settled or lost leaves the register. *pool is the slot's pool. */
bool inflight_forget(struct inflight *r, uint64_t id, const char *lease, unsigned int *pool);

/* Progress that was not yet saved, for jobs last saved before before_ms. Marks them saved at now_ms. */
struct inflight_note {
	uint64_t id;
	char lease[UUID_TEXT_LEN + 1];
	double percent; /* < 0: unchanged */
	bool has_note;
	char note[256 * 4];
};
size_t inflight_take_progress(struct inflight *r, int64_t before_ms, int64_t now_ms, struct inflight_note *out, size_t max);

/* Supervisor. */
void inflight_close(struct inflight *r); /* no run starts any more */
/* every running handler; most_grace_ms < 0: each its own */
void inflight_end_all(struct inflight *r, enum end_reason reason, int64_t most_grace_ms);
size_t inflight_occupied(struct inflight *r, unsigned int pool);
struct inflight_counts {
	size_t by_state[INFLIGHT_STATES];
	size_t doubtful;
	int64_t oldest_trust_ms; /* the earliest moment at which a trust ends; INT64_MAX when nothing is held */
};
void inflight_count(struct inflight *r, struct inflight_counts *out);

#endif
