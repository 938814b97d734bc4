/* handback.h - giving claimed jobs back, or ending them, without running them (layer: worker; claimers, workers, heartbeats, the
 * supervisor). */
#ifndef LEASEHOLD_WORKER_HANDBACK_H
#define LEASEHOLD_WORKER_HANDBACK_H

#include "model/job.h"
#include "model/settlement.h"
#include "worker/instance.h"

/* Moves the job's entry to settling and sends the settlement to the completer; when the entry is lost or settled already, it is
 * forgotten. Borrows job. */
void handback_job(struct instance *in, const struct job *job, enum settle_action action, int64_t delay_ms, const char *cause);
/* Nothing of the job is to be written any more, and nothing of it runs: its slot, if it has one, is freed, and its entry, which is
 * lost or settled, is forgotten. Borrows job; takes s, a settlement of it that is not needed, which may be NULL. */
void handback_slot(struct instance *in, const struct job *job, struct settlement *s);
/* A claim that turned up too late to be run. */
void handback_late(struct instance *in, const struct store_held *held);
/* Everything that waits in a pool's handoff. Returns how many. */
size_t handback_waiting(struct instance *in, struct pool *pool);
/* The entry leaves the register, and its slot is offered to the claimer. */
void handback_forget(struct instance *in, uint64_t id, const char *lease);

#endif
