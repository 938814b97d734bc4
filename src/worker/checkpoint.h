/* checkpoint.h - the part of the completer that saves handlers' steps (layer: worker; the completer's thread).
 *
 * A step is answered as saved only once it is known to be committed; until then it stays here, however long the database is
 * away. One that meets a locked row is put aside, for its own handler may be what holds the lock: whatever comes after it of the
 * same job waits behind it, and all others go on. Owns what it was given until it is answered or handed back. */
#ifndef LEASEHOLD_WORKER_CHECKPOINT_H
#define LEASEHOLD_WORKER_CHECKPOINT_H

#include "model/settlement.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct role;

struct checkpoint {
	struct role *completer;          /* whose session and gate it uses */
	struct fifo_link *first, **last; /* what was put aside, in order */
	int64_t again_ms;                /* CLOCK_MONOTONIC: when it is tried again */
	int64_t tell_ms;                 /* ... and when it is told of */
	struct fault why;
	struct db_identity lost; /* a session that may have a step in flight; number 0: none */
};

#define CHECKPOINT_MOST 100 /* items in one call */

void checkpoint_init(struct checkpoint *k, struct role *completer);
bool checkpoint_waits(const struct checkpoint *k); /* something was put aside */
/* How long the completer may sleep, not more than most_ms. */
int64_t checkpoint_rest_ms(const struct checkpoint *k, int64_t most_ms);
/* Takes n items that workers gave to the completer: saves the steps among them. Returns the settlements that may be written now,
 * in ready (room for n). Returns how many. */
size_t checkpoint_save(struct checkpoint *k, struct fifo_link **items, size_t n, struct settlement **ready);
/* What was put aside, as a list to be given to checkpoint_save once more; NULL when it is not time yet. */
struct fifo_link *checkpoint_recall(struct checkpoint *k);
/* At the end: refuses every step that still waits. The settlements behind them are returned as a list. */
struct fifo_link *checkpoint_give_up(struct checkpoint *k);

#endif
