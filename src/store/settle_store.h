/* settle_store.h - the closing statements of a claimed job (layer: store; the completer).
 *
 * Every path re-states id, lease and state='running', and recognises its own earlier success: so a batch may be sent again after
 * a lost reply. */
#ifndef LEASEHOLD_STORE_SETTLE_STORE_H
#define LEASEHOLD_STORE_SETTLE_STORE_H

#include "model/settlement.h"
#include "store/store.h"

enum settle_result {
	SETTLE_PENDING = 0,
	SETTLE_DONE,      /* written now, or found written by us before */
	SETTLE_BY_HANDLER,/* the handler had settled the job itself, under our lease */
	SETTLE_CANCELLED, /* would have gone back to ready or scheduled: a cancel was requested, it is cancelled now */
	SETTLE_LOST       /* the row is not ours any more: nothing changed; a stale_result row is in the ledger */
};

/* Settles all n in one transaction, with the slots that they hold (a single autocommit statement when all are bare successes
 * without a slot and all match). items are sorted by id here. On DB_OK results[i] tells of items[i]; on anything else nothing is
 * known to be written and results are undefined. On DB_DATA the caller bisects. worker: for the ledger. again: an earlier call
 * with any of these items did not return DB_OK, so that they may have been written (after DB_UNCERTAIN: once that session has been
 * ended): what is found written then counts as DONE. Rows are read with a lock before LOST is said, always. */
enum db_class settle_store_write(struct db *db, struct settlement **items, size_t n, const char *worker, bool again,
				 enum settle_result *results, struct fault *f) LH_MUST_CHECK;

/* Bytes the settlement needs in statements, escaping included. */
size_t settle_store_size(const struct settlement *s);

/* Saves progress for a running job under its lease; a zero match is no error. percent < 0: leave; note NULL: leave. */
enum db_class settle_store_progress(struct db *db, uint64_t id, const char *lease, double percent, const char *note,
				    struct fault *f) LH_MUST_CHECK;

#endif
