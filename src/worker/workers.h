/* workers.h - the threads that run the jobs of a pool, one job at a time each (layer: worker). They have no database connection. */
#ifndef LEASEHOLD_WORKER_WORKERS_H
#define LEASEHOLD_WORKER_WORKERS_H

#include "base/fault.h"

#include <stddef.h>

struct pool;
struct workers;

struct workers *workers_new(struct pool *pool, size_t threads); /* NULL without memory */
enum lh_err workers_start(struct workers *w, struct fault *f) LH_MUST_CHECK;
/* The pool's handoff was closed: waits until every thread has finished its job. */
void workers_join(struct workers *w);
size_t workers_busy(const struct workers *w); /* threads that have a job now */
size_t workers_alive(const struct workers *w); /* threads that have not ended */
void workers_free(struct workers *w);

#endif
