/* lifecycle.h - how an instance is made, started, drained and ended: the order of it all (layer: worker; the thread that
 * supervises). */
#ifndef LEASEHOLD_WORKER_LIFECYCLE_H
#define LEASEHOLD_WORKER_LIFECYCLE_H

#include "base/fault.h"
#include "worker/instance.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* References settings; borrows runner, which may be NULL where no handler needs it, and must be running before lifecycle_start.
 * NULL: see f. */
struct instance *lifecycle_new(struct settings *settings, struct runner_link *runner, struct fault *f);
/* Starts every thread, heartbeats first, claimers last. */
enum lh_err lifecycle_start(struct instance *in, struct fault *f) LH_MUST_CHECK;
void lifecycle_free(struct instance *in); /* NULL is allowed; must not be running */

/* The steps of an end, for the supervisor. begin_drain: no further claim; what waits is given back. end_handlers: TERM to every
 * handler, KILL after grace_ms (< 0: each its own grace). busy: jobs that workers still have. finish: waits for the workers,
 * commits the last outcomes, and only then stops the heartbeats; false when something had to be left to its lease. */
void lifecycle_begin_drain(struct instance *in);
void lifecycle_end_handlers(struct instance *in, int64_t grace_ms);
size_t lifecycle_busy(struct instance *in);
/* No worker has a job, and no warm process is left, which lifecycle_end_handlers makes nobody wait for: finish does, for a
 * bounded time. */
bool lifecycle_is_quiet(struct instance *in);
bool lifecycle_finish(struct instance *in);

/* All of them: handlers get shutdown_ms to finish, then grace_ms as above. */
bool lifecycle_stop(struct instance *in, int64_t shutdown_ms, int64_t grace_ms);

#endif
