/* instance.h - one instance: what its threads share (layer: worker; any thread). lifecycle.h makes, starts and ends it.
 *
 * Threads: the caller's (signals, supervision), per pool one claimer, N workers, one heartbeat; one completer, one recovery, one
 * promoter; and the runner process. They share the register (inflight), per pool a handoff (claimer to workers), the settlements
 * (workers to completer), the runner's socket, and the counters and flags below. Nothing else. src/README.md has the tables of
 * threads and locks. */
#ifndef LEASEHOLD_WORKER_INSTANCE_H
#define LEASEHOLD_WORKER_INSTANCE_H

#include "base/fifo.h"
#include "base/gate.h"
#include "handler/runner_link.h"
#include "model/settings.h"
#include "worker/inflight.h"
#include "worker/parking.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define INSTANCE_WORKER_MAX 128 /* locked_by: VARCHAR(128) */

enum instance_mode {
	INSTANCE_RUNNING,
	INSTANCE_QUIET,    /* claims nothing, goes on with what it has */
	INSTANCE_DRAINING, /* as quiet, on the way out: handlers may finish */
	INSTANCE_STOPPING  /* handlers are being ended */
};
const char *instance_mode_name(int mode);

/* Since the start; for the status dump and the log. */
struct instance_counters {
	atomic_ullong claimed, succeeded, retried, dead, cancelled, snoozed, parked, released, lost, stale, by_handler;
	atomic_ullong recovered, promoted, reconnects;
	atomic_ullong slot_waits, slot_promoted, slots_lost; /* jobs that became waiters, waiters made ready, runs that lost one */
};

struct instance;
struct role;
struct slot_keeper;
struct stream_set;
struct wake;

struct pool {
	struct instance *instance;
	unsigned int index;
	const char *name;
	size_t slots; /* threads + prefetch */
	struct fifo handoff;
	struct role *claimer;
	struct role *heartbeat;
	struct workers *workers;
	atomic_llong beat_ok_ms;      /* CLOCK_BOOTTIME of the last renewal round or ping that succeeded; 0 = none yet */
};

struct instance {
	struct settings *startup; /* of options that need a restart: one reference for the instance's life */
	pthread_mutex_t settings_lock;
	struct settings *current; /* for reloadable options: through instance_settings */
	char worker[INSTANCE_WORKER_MAX + 1];
	int64_t lease_ms, heartbeat_ms;
	struct runner_link *runner;
	struct stream_set *streams;
	struct inflight *inflight;
	struct fifo settlements;
	struct pool *pools;
	unsigned int pool_count;
	struct parking *parking;
	struct slot_keeper *slot_keeper;
	struct role *completer, *recovery, *promoter;
	struct wake *wake;
	struct instance_counters count;
	atomic_int mode;
	atomic_uint route; /* grows when the server turned out read-only: every session then connects anew */
	atomic_llong crowded_until_ms; /* CLOCK_BOOTTIME: claimers keep their connections closed until then */
	atomic_ullong peers; /* live instances, as last counted */
	atomic_llong unstarted_told_ms; /* when it was last told that no handler can be started; 0 = never */
	atomic_ullong lapsed; /* leases of ours whose trust passed */
	int64_t started_ms;
};

/* The current settings with a reference of the caller's own: settings_unref after use. */
struct settings *instance_settings(struct instance *in);
void instance_swap_settings(struct instance *in, struct settings *settings); /* takes the reference */
void instance_nudge_claimers(struct instance *in);
/* A heartbeat or the completer found no connection to be had: claimers give up theirs for a while. */
void instance_crowded(struct instance *in);
bool instance_claims(const struct instance *in); /* mode permits new claims */

#endif
