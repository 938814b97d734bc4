/* promote_store.h - scheduled jobs whose time has come (layer: store; the promoter). */
#ifndef LEASEHOLD_STORE_PROMOTE_STORE_H
#define LEASEHOLD_STORE_PROMOTE_STORE_H

#include "store/store.h"

#define PROMOTE_PAGE 500

/* Due scheduled rows, oldest first. *next_ms: how long until the first one that is not yet due (-1: none is scheduled; 0 with a
 * full page). */
enum db_class promote_store_scan(struct db *db, uint64_t *ids, size_t *count, int64_t *next_ms, struct fault *f) LH_MUST_CHECK;
/* Those of ids (sorted, up to 500) still scheduled and due become ready. */
enum db_class promote_store_write(struct db *db, const uint64_t *ids, size_t n, uint64_t *promoted, struct fault *f) LH_MUST_CHECK;

/* The statements themselves, appended to sql: `check` asks the server how it would run them. */
void promote_store_add_scan(struct db *db, struct buf *sql);
void promote_store_add_write(struct buf *sql, const uint64_t *ids, size_t n);

#endif
