/* slot_keeper.h - sees to it that free slots find their waiters, and that slots of the dead come free (layer: worker).
 *
 * Whoever frees slots, or makes waiters, says so (slot_keeper_touch: any thread), after the commit. The promoter's thread then
 * promotes as many of the oldest waiters as slots came free. What was missed on the way, because an instance died in between, a
 * limit was raised, or the like, the sweep finds: it looks at every key with waiters, at the start, after a reload, every
 * recovery.interval while there are any, and once a lease otherwise. */
#ifndef LEASEHOLD_WORKER_SLOT_KEEPER_H
#define LEASEHOLD_WORKER_SLOT_KEEPER_H

#include "base/fault.h"
#include "model/job.h"
#include "store/store.h"

struct instance;
struct slot_keeper;

struct slot_keeper *slot_keeper_new(struct instance *in); /* NULL without memory */
void slot_keeper_free(struct slot_keeper *k);

/* Something happened to the slots or waiters of this key. limit counts for waiters of kinds that have no handler here; 0: not
 * known. */
void slot_keeper_touch(struct slot_keeper *k, const struct job_slot *slot);
/* The settings have changed: a sweep is due, and may promote as many as there are slots. */
void slot_keeper_renew(struct slot_keeper *k);

/* On the promoter's thread: does what is due. Lowers *wait_ms to when the next is. */
enum db_class slot_keeper_step(struct slot_keeper *k, struct db *db, int64_t *wait_ms, struct fault *f) LH_MUST_CHECK;

#endif
