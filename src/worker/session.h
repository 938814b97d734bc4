/* session.h - how a thread keeps its database connection (layer: worker; the thread that owns it, except session_age_ms).
 *
 * Connects when there is none; after a failure says how long to pause (backoff with jitter), for as long as it takes; tells of
 * trouble once and then at most once a minute; knows when it last succeeded. It never re-sends anything: the thread's own loop
 * does, knowing what its statement was. */
#ifndef LEASEHOLD_WORKER_SESSION_H
#define LEASEHOLD_WORKER_SESSION_H

#include "base/log.h"
#include "store/store.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct instance;

struct session {
	struct instance *instance;
	struct db *db;
	const char *area; /* of its log lines */
	int64_t most_wait_ms;
	unsigned int failures; /* in a row */
	unsigned int route;    /* of instance->route, when it connected */
	bool connected;        /* the last connect worked, and nothing has failed since */
	bool was_open;         /* once: a further connect is a reconnect */
	struct log_limit limit;
	int64_t failing_since_ms; /* 0 = not failing */
	atomic_llong ok_ms;       /* CLOCK_MONOTONIC of the last success; the start before the first */
};

/* timeout_ms: for one answer. lock_wait_s: see db.h. most_wait_ms: the longest pause between two tries. */
enum lh_err session_init(struct session *s, struct instance *in, const char *area, int64_t timeout_ms, unsigned int lock_wait_s,
			 int64_t most_wait_ms) LH_MUST_CHECK;
void session_end(struct session *s);

/* Makes sure that there is a connection. Anything but DB_OK goes to session_outcome, like the failure of a statement. */
enum db_class session_connect(struct session *s, struct fault *f) LH_MUST_CHECK;
/* The same, and ends the session *lost (none when its number is 0), of which something is in doubt; waits at most wait_ms for its
 * end. */
enum db_class session_connect_after(struct session *s, const struct db_identity *lost, int64_t wait_ms,
				    struct fault *f) LH_MUST_CHECK;
/* After a unit of work: notes success, or tells of the failure and closes what is of no use any more. Returns how long to wait:
 * ok_wait_ms after a success, else the pause before the next try. */
int64_t session_outcome(struct session *s, enum db_class c, const struct fault *f, int64_t ok_wait_ms);
int64_t session_age_ms(const struct session *s, int64_t now_ms);

#endif
