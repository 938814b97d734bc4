/* settle_shape.h - the UPDATE that closes a claim, for each action (layer: store; used by settle_store.c alone). Pure building
 * of SQL. */
#ifndef LEASEHOLD_STORE_SETTLE_SHAPE_H
#define LEASEHOLD_STORE_SETTLE_SHAPE_H

#include "model/settlement.h"
#include "store/store.h"

/* The state that the action leads to when no cancel was requested. */
enum job_state settle_shape_state(enum settle_action action);

/* The action gives the row back to the queue: then a requested cancel wins. */
bool settle_shape_returns(enum settle_action action);

/* The action's one promise is that the row is not ours any more: nothing is lost when that is so already. */
bool settle_shape_only_lets_go(enum settle_action action);

/* Appends the UPDATE of one row, fenced by id, lease and state. */
void settle_shape_add(struct db *db, struct buf *sql, const struct settlement *s);

/* Appends the UPDATE of n bare successes, sorted by id. */
void settle_shape_add_bare(struct db *db, struct buf *sql, const struct store_held *rows, size_t n);

#endif
