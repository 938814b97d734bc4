/* instance_store.h - the schema's version and the table of live instances (layer: store). */
#ifndef LEASEHOLD_STORE_INSTANCE_STORE_H
#define LEASEHOLD_STORE_INSTANCE_STORE_H

#include "store/store.h"

/* The migrations that this build cannot work without, in their order. A database may have others. */
struct instance_migration {
	unsigned int version;
	const char *file;
};
extern const struct instance_migration instance_store_needed[];
extern const size_t instance_store_needed_count;
/* The newest of them: what `leasehold version` calls the schema, and what a newer schema has to be compatible with. */
unsigned int instance_store_schema_version(void);

/* LH_OK-like check that this build can work on the schema: DB_SCHEMA with a text that names the missing migrations or the too new
 * schema. *version, the newest one that was applied, may be NULL. */
enum db_class instance_store_check_schema(struct db *db, unsigned int *version, struct fault *f) LH_MUST_CHECK;

struct instance_row {
	const char *worker;   /* host:pid:random, the primary key */
	const char *name;
	const char *host;
	uint64_t pid;
	const char *version;
	uint32_t lease_ms;
	uint64_t threads, running;
	const char *queues;   /* comma-separated, cut to fit */
	const char *status;   /* "running", "quiet", "draining" */
};
/* Inserts or refreshes our row (seen_at = now). The first beat, which inserts it, drops rows of instances not seen for a day. */
enum db_class instance_store_beat(struct db *db, const struct instance_row *row, struct fault *f) LH_MUST_CHECK;
enum db_class instance_store_leave(struct db *db, const char *worker, struct fault *f) LH_MUST_CHECK;
/* The smallest lease_ms of instances seen within their own lease, and how many there are; ours is one of them once it has a row.
 * 0 and 0: none. */
enum db_class instance_store_peers(struct db *db, uint32_t *min_lease_ms, uint64_t *instances, struct fault *f) LH_MUST_CHECK;

#endif
