/* role.h - a thread with a database connection of its own: what claimer, heartbeat, completer, recovery and promoter have in
 * common (layer: worker).
 *
 * A role's struct embeds a struct role as its FIRST member and sets the operations; the instance then starts, stops, watches and
 * frees all of them alike. role_nudge and role_age_ms: any thread. The rest: the thread that supervises. */
#ifndef LEASEHOLD_WORKER_ROLE_H
#define LEASEHOLD_WORKER_ROLE_H

#include "base/gate.h"
#include "worker/session.h"

#include <pthread.h>

struct role;

struct role_ops {
	const char *thread; /* its name, as `top -H` shows it */
	const char *area;   /* of its log lines, and its name in the status dump */
	/* The thread's body. NULL: step after step, with the pause that each asks for, until the role is stopped. */
	void (*loop)(struct role *r);
	/* One round; returns the milliseconds until the next one (< 0: until nudged). */
	int64_t (*step)(struct role *r);
	void (*leave)(struct role *r); /* on the thread, after the loop; NULL: nothing */
	void (*free)(struct role *r);  /* what the role owns beside itself; NULL: nothing */
};

struct role {
	const struct role_ops *ops;
	struct instance *instance;
	struct gate gate;
	struct session session;
	pthread_t thread;
	bool started;
};

struct role_options {
	int64_t timeout_ms;       /* for one answer of the database; 0 = database.timeout */
	unsigned int lock_wait_s; /* see db.h */
	int64_t most_wait_ms;     /* the longest pause between two tries */
};

/* A zeroed struct of size bytes that starts with a ready role. NULL without memory. */
void *role_new(size_t size, const struct role_ops *ops, struct instance *in, const struct role_options *options);
void role_free(struct role *r); /* NULL is allowed; must not be running */
enum lh_err role_start(struct role *r, struct fault *f) LH_MUST_CHECK;
void role_nudge(struct role *r); /* NULL is allowed */
void role_stop(struct role *r);  /* stops the gate and waits for the thread; NULL, or one that never started, is allowed */
int64_t role_age_ms(const struct role *r, int64_t now_ms); /* since its last success, CLOCK_MONOTONIC */

#endif
