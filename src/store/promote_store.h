/* promote_store.h - scheduled jobs whose time has come, and unique keys whose hold has ended (layer: store; the promoter). */
#ifndef LEASEHOLD_STORE_PROMOTE_STORE_H
#define LEASEHOLD_STORE_PROMOTE_STORE_H

#include "store/store.h"

#define PROMOTE_PAGE 500

struct promote_found {
	uint64_t due[PROMOTE_PAGE]; /* scheduled and due, oldest first */
	size_t due_count;
	uint64_t holds[PROMOTE_PAGE]; /* unique_hold_until has passed, oldest first */
	size_t hold_count;
	int64_t next_ms; /* until the first of either that is still to come; -1: there is none; 0 with a full page */
};
/* One statement for both. */
enum db_class promote_store_scan(struct db *db, struct promote_found *out, struct fault *f) LH_MUST_CHECK;
/* Those of ids (sorted, up to PROMOTE_PAGE) still scheduled and due become ready. */
enum db_class promote_store_write(struct db *db, const uint64_t *ids, size_t n, uint64_t *promoted, struct fault *f) LH_MUST_CHECK;
/* A scheduled job, known by the claim after which it was put back: with another claim_no it has been somewhere else since. */
struct promote_parked {
	uint64_t id;
	uint32_t claim_no;
};
/* Those of rows (sorted by id, up to PROMOTE_PAGE) still scheduled since that claim become ready and due now. */
enum db_class promote_store_wake(struct db *db, const struct promote_parked *rows, size_t n, uint64_t *woken,
				 struct fault *f) LH_MUST_CHECK;
/* Clears the hold of those of ids (sorted, up to PROMOTE_PAGE) where it has passed. DB_RETRY when one of the rows, or the entry of
 * its key, is locked: MariaDB says so at once, MySQL after the session's lock wait. */
enum db_class promote_store_release(struct db *db, const uint64_t *ids, size_t n, uint64_t *released,
				    struct fault *f) LH_MUST_CHECK;

/* The statements themselves, appended to sql: `check` asks the server how it would run them. The scan is the two first ones
 * together. */
void promote_store_add_due(struct db *db, struct buf *sql);
void promote_store_add_ended(struct db *db, struct buf *sql);
void promote_store_add_write(struct buf *sql, const uint64_t *ids, size_t n);
void promote_store_add_wake(struct db *db, struct buf *sql, const struct promote_parked *rows, size_t n);
void promote_store_add_release(struct buf *sql, const uint64_t *ids, size_t n);

#endif
