/* heartbeat.h - the role that renews the leases of a pool (layer: worker; one per pool).
 *
 * Between two renewals it reads, once a second and only while handlers run, what became of their rows: one SELECT for each hundred.
 * Own connection, opened before any claim is made and used for nothing else. The last role to stop. */
#ifndef LEASEHOLD_WORKER_HEARTBEAT_H
#define LEASEHOLD_WORKER_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct role;

struct role *heartbeat_new(struct pool *pool); /* NULL without memory */
/* Whether a claim may be sent: the last round, or ping when idle, succeeded within a heartbeat interval (and a little for the
 * round itself). Any thread. */
bool heartbeat_is_fresh(const struct pool *pool, int64_t boot_now_ms);

#endif
