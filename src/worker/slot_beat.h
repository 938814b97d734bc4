/* slot_beat.h - the heartbeat's part that renews fleet slots (layer: worker; a heartbeat's thread). */
#ifndef LEASEHOLD_WORKER_SLOT_BEAT_H
#define LEASEHOLD_WORKER_SLOT_BEAT_H

#include "base/fault.h"
#include "store/store.h"

struct pool;
struct slot_beat;

struct slot_beat *slot_beat_new(struct pool *pool); /* NULL without memory */
void slot_beat_free(struct slot_beat *b);
/* Renews every slot of the pool's jobs, and ends the runs of those that are held by somebody else. Asks for nothing where there is
 * none. A slot whose row is locked is left to the next round. */
enum db_class slot_beat_round(struct slot_beat *b, struct db *db, struct fault *f) LH_MUST_CHECK;

#endif
