/* plan.h - when a run is to be ended, and why (layer: runner; pure).
 *
 * The end begins at min(kill_at - grace, started + timeout) or when the daemon says so, and KILL comes at min(kill_at, begin +
 * grace). TERM goes out at the begin; where the process is to be asked first, then after ask, which is never more than half of
 * the grace, and leaves the rest of it before KILL. The first reason to end a run stands. A deadline that is moved counts at any
 * time, also after TERM. All times are CLOCK_BOOTTIME in milliseconds; sums that leave the range of 64 bits end at its ends. */
#ifndef LEASEHOLD_RUNNER_PLAN_H
#define LEASEHOLD_RUNNER_PLAN_H

#include "model/outcome.h"

#include <stdbool.h>
#include <stdint.h>

#define PLAN_NEVER INT64_MAX

enum plan_phase {
	PLAN_RUNNING,
	PLAN_ASKED,  /* its end has begun, and no signal was sent yet */
	PLAN_ENDING, /* TERM was sent */
	PLAN_KILLED, /* KILL was sent: what is left is to wait */
	PLAN_EMPTYING /* the leader has been reaped; its group may still hold others */
};

enum plan_action { PLAN_WAIT, PLAN_ASK, PLAN_TERM, PLAN_KILL, PLAN_LOOK /* whether the group is empty now */, PLAN_GIVE_UP };

struct plan {
	enum plan_phase phase;
	enum end_reason reason;
	int64_t started_ms, kill_at_ms;
	int64_t timeout_ms; /* 0: none */
	int64_t grace_ms;
	int64_t ask_ms;     /* 0: not asked, TERM at once */
	int64_t end_ms;     /* when the end began */
	int64_t look_ms;    /* EMPTYING: the next look */
	int64_t pause_ms;
	int64_t give_up_ms;
};

/* Running, and nobody is asked: who wants that sets ask_ms. */
void plan_init(struct plan *p, int64_t started_ms, int64_t kill_at_ms, int64_t timeout_ms, int64_t grace_ms);

/* No signal was sent yet: the run may go on as another. */
bool plan_is_open(const struct plan *p);

/* When something is to be done next; PLAN_NEVER when only the world can change it. */
int64_t plan_due_ms(const struct plan *p);

/* What is to be done at now_ms; the plan takes it as done. */
enum plan_action plan_step(struct plan *p, int64_t now_ms);

/* The daemon wants the end: what is to be done at once. A second request can only make it sooner. END_NONE: the process is not
 * asked, or not any longer. */
enum plan_action plan_end(struct plan *p, enum end_reason reason, int64_t grace_ms, int64_t now_ms);

/* The leader was reaped: from now the group is looked at, at growing intervals and for PLAN_EMPTY_MS at most. */
void plan_emptying(struct plan *p, int64_t now_ms);
#define PLAN_EMPTY_MS 2000

#endif
