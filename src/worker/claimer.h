/* claimer.h - the role that claims jobs for a pool (layer: worker; one per pool).
 *
 * Scans the pool's queues in order, claims into free slots, and hands what is known to be ours to the workers. A claim whose
 * outcome is unknown is resolved here, on new connections, before anything else is claimed. Nudge it when a slot came free or
 * work turned up. */
#ifndef LEASEHOLD_WORKER_CLAIMER_H
#define LEASEHOLD_WORKER_CLAIMER_H

#include <stdbool.h>

struct pool;
struct role;

struct role *claimer_new(struct pool *pool); /* NULL without memory */
/* Sends no further claim, and ends once no claim is in doubt; abandon: ends now, and leaves a claim in doubt to its lease. Any
 * thread. */
void claimer_leave(struct role *claimer, bool abandon);

#endif
