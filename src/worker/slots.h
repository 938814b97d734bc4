/* slots.h - a claimer's dealings with fleet slots (layer: worker; one for each claimer, used by its thread alone).
 *
 * Around one scan and one claim: slots_sift takes out what has to wait, slots_choose gives each chosen job that needs one a free
 * slot to try for, slots_claimed keeps back the jobs of the claim that have one in prospect, slots_take takes the slots and hands
 * those jobs over, and slots_park turns what has to wait into waiters. Takings whose fate is unknown stay pending, as claims do,
 * and are resolved by slots_take before anything else is claimed. Does nothing, and asks nothing, where no handler has a limit. */
#ifndef LEASEHOLD_WORKER_SLOTS_H
#define LEASEHOLD_WORKER_SLOTS_H

#include "base/fault.h"
#include "model/job.h"
#include "model/scan.h"
#include "model/settings.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>

struct pool;
struct slots;

/* most_rows: the largest window of a scan. most_jobs: the largest claim. NULL without memory. */
struct slots *slots_new(struct pool *pool, size_t most_rows, size_t most_jobs);
void slots_free(struct slots *s); /* nothing may be pending */

/* How many rows to scan where `window` are wanted: more, while waiters-to-be fill the queue, so that few statements park many. */
size_t slots_window(const struct slots *s, size_t window);
/* Takes out of rows (in claim order) those whose key is full. What they are is kept until the next call. */
enum db_class slots_sift(struct slots *s, struct db *db, const struct settings *settings, struct scan_row *rows, size_t *n,
			 struct fault *f) LH_MUST_CHECK;
/* Of the ids to be claimed, in claim order, leaves those that can start. A job that needs a slot is claimed only while a thread is
 * free for it (threads: how many are); nothing behind it is claimed before. *tried: how many were looked at until then. One whose
 * key has no slot left, after those before it, is left out; *again: there was one. */
enum db_class slots_choose(struct slots *s, struct db *db, size_t threads, uint64_t *ids, size_t *n, size_t *tried, bool *again,
			   struct fault *f) LH_MUST_CHECK;

/* A job of the claim: true when it needs its slot first. Then it is kept here. */
bool slots_claimed(struct slots *s, struct job *job);
bool slots_pending(const struct slots *s);
/* Takes the slots of all that is pending, or finds out what became of an earlier try. Each job that has its slot goes to
 * each(arg, job), any other becomes a waiter. Anything but DB_OK: still pending. */
enum db_class slots_take(struct slots *s, struct db *db, void (*each)(void *arg, struct job *job), void *arg,
			 struct fault *f) LH_MUST_CHECK;
/* Gives back what is pending: the end of the claimer. */
void slots_leave(struct slots *s);

/* What slots_sift took out becomes waiters. *parked: something of it was there to be parked. */
enum db_class slots_park(struct slots *s, struct db *db, bool *parked, struct fault *f) LH_MUST_CHECK;

#endif
