/* presence.h - our row in job_workers: which instances live, and which leases they promise (layer: worker; the promoter's
 * thread). */
#ifndef LEASEHOLD_WORKER_PRESENCE_H
#define LEASEHOLD_WORKER_PRESENCE_H

#include "store/store.h"
#include "worker/instance.h"

enum db_class presence_show(struct instance *in, struct db *db, struct fault *f) LH_MUST_CHECK;
enum db_class presence_leave(struct instance *in, struct db *db, struct fault *f) LH_MUST_CHECK;

#endif
