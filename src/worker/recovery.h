/* recovery.h - the role that takes back jobs whose lease lapsed (layer: worker; one per instance).
 *
 * Looks at all queues and kinds, also those not served here. Trusts the server's clock only while that is steady
 * (model/lapse.h). Nudge it when a lease of our own may have lapsed. */
#ifndef LEASEHOLD_WORKER_RECOVERY_H
#define LEASEHOLD_WORKER_RECOVERY_H

struct instance;
struct role;

struct role *recovery_new(struct instance *in); /* NULL without memory */

#endif
