/* enqueue_store.h - adding a job as any producer does (layer: store; the CLI's one thread). */
#ifndef LEASEHOLD_STORE_ENQUEUE_STORE_H
#define LEASEHOLD_STORE_ENQUEUE_STORE_H

#include "model/job.h"
#include "store/store.h"

struct enqueue_request {
	const char *kind;
	const char *queue;   /* NULL: 'default' */
	const char *payload; /* NULL: the column's default '{}' */
	size_t payload_len;
	bool has_priority;
	int priority;
	int64_t delay_ms;                      /* -1: not given */
	const char *at;                        /* NULL: not given; UTC "YYYY-MM-DD HH:MM:SS[.ffffff]" */
	const char *unique_key;                /* NULL: none */
	int64_t hold_ms;                       /* with unique_key: how long, from now, it is held at least; -1: not given */
	unsigned int max_attempts;             /* 0: NULL */
	int64_t timeout_ms;                    /* -1: NULL */
	const char *traceparent, *enqueued_by; /* NULL: none */
};
/* Names only columns that were given, and reads nothing: a producer's privileges are enough. DB_DUPLICATE: the key is held by
 * another job. */
enum db_class enqueue_store_insert(struct db *db, const struct enqueue_request *r, uint64_t *id, struct fault *f) LH_MUST_CHECK;

struct enqueue_holder {
	uint64_t id; /* 0: nobody holds the key by now */
	enum job_state state;
	char hold_until[32]; /* as printed; "" = no hold: an unfinished job has the key until it ends */
};
/* Who holds the key. Reading takes more than a producer's privileges: DB_DENIED, then. */
enum db_class enqueue_store_holder(struct db *db, const char *kind, const char *unique_key, struct enqueue_holder *out,
				   struct fault *f) LH_MUST_CHECK;

#endif
