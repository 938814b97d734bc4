/* plan.h - when a run is to be ended, and why (layer: runner; pure).
 *
 * TERM goes out at min(kill_at - grace, started + timeout) or when the daemon says so, KILL at min(kill_at, term + grace). The
 * first reason to end a run stands. A deadline that is moved counts at any time, also after TERM. All times are CLOCK_BOOTTIME
 * in milliseconds; sums that leave the range of 64 bits end at its ends. */
#ifndef LEASEHOLD_RUNNER_PLAN_H
#define LEASEHOLD_RUNNER_PLAN_H

#include "model/outcome.h"

#include <stdint.h>

#define PLAN_NEVER INT64_MAX

enum plan_phase {
	PLAN_RUNNING,
	PLAN_ENDING, /* TERM was sent */
	PLAN_KILLED, /* KILL was sent: what is left is to wait */
	PLAN_EMPTYING /* the leader has been reaped; its group may still hold others */
};

enum plan_action { PLAN_WAIT, PLAN_TERM, PLAN_KILL, PLAN_LOOK /* whether the group is empty now */, PLAN_GIVE_UP };

struct plan {
	enum plan_phase phase;
	enum end_reason reason;
	int64_t started_ms, kill_at_ms;
	int64_t timeout_ms; /* 0: none */
	int64_t grace_ms;
	int64_t term_ms;    /* when TERM was sent */
	int64_t look_ms;    /* EMPTYING: the next look */
	int64_t pause_ms;
	int64_t give_up_ms;
};

void plan_init(struct plan *p, int64_t started_ms, int64_t kill_at_ms, int64_t timeout_ms, int64_t grace_ms);

/* When something is to be done next; PLAN_NEVER when only the world can change it. */
int64_t plan_due_ms(const struct plan *p);

/* What is to be done at now_ms; the plan takes it as done. */
enum plan_action plan_step(struct plan *p, int64_t now_ms);

/* The daemon asks for the end: what is to be done at once. A second request can only make it sooner. */
enum plan_action plan_end(struct plan *p, enum end_reason reason, int64_t grace_ms, int64_t now_ms);

/* The leader was reaped: from now the group is looked at, at growing intervals and for PLAN_EMPTY_MS at most. */
void plan_emptying(struct plan *p, int64_t now_ms);
#define PLAN_EMPTY_MS 2000

#endif
