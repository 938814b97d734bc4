/* plan.c - see plan.h. */
#include "runner/plan.h"

#define PLAN_LOOK_FIRST_MS 2
#define PLAN_LOOK_MOST_MS 100

static int64_t plan_add(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return b > 0 ? INT64_MAX : INT64_MIN;
	return sum;
}

static int64_t plan_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void plan_init(struct plan *p, int64_t started_ms, int64_t kill_at_ms, int64_t timeout_ms, int64_t grace_ms)
{
	*p = (struct plan){.phase = PLAN_RUNNING,
			   .reason = END_NONE,
			   .started_ms = started_ms,
			   .kill_at_ms = kill_at_ms,
			   .timeout_ms = timeout_ms,
			   .grace_ms = grace_ms};
}

static int64_t plan_lease_term_ms(const struct plan *p)
{
	return p->kill_at_ms == PLAN_NEVER ? PLAN_NEVER : plan_add(p->kill_at_ms, -p->grace_ms);
}

static int64_t plan_timeout_term_ms(const struct plan *p)
{
	return p->timeout_ms > 0 ? plan_add(p->started_ms, p->timeout_ms) : PLAN_NEVER;
}

static int64_t plan_kill_ms(const struct plan *p)
{
	return plan_min(p->kill_at_ms, plan_add(p->end_ms, p->grace_ms));
}

/* What is left of the grace after the asking stays before KILL, also where the lease cuts the grace short. */
static int64_t plan_asked_term_ms(const struct plan *p)
{
	int64_t ask = plan_min(p->ask_ms, p->grace_ms / 2);

	return plan_add(plan_kill_ms(p), ask - p->grace_ms);
}

bool plan_is_open(const struct plan *p)
{
	return p->phase == PLAN_RUNNING || p->phase == PLAN_ASKED;
}

int64_t plan_due_ms(const struct plan *p)
{
	switch (p->phase) {
	case PLAN_RUNNING:
		return plan_min(plan_lease_term_ms(p), plan_timeout_term_ms(p));
	case PLAN_ASKED:
		return plan_asked_term_ms(p);
	case PLAN_ENDING:
		return plan_kill_ms(p);
	case PLAN_EMPTYING:
		return p->look_ms;
	default:
		return PLAN_NEVER;
	}
}

/* TERM now, or KILL where no time is left between the two. */
static enum plan_action plan_signal(struct plan *p, int64_t now_ms)
{
	p->phase = PLAN_ENDING;
	if (plan_due_ms(p) > now_ms)
		return PLAN_TERM;
	p->phase = PLAN_KILLED;
	return PLAN_KILL;
}

static enum plan_action plan_begin_end(struct plan *p, enum end_reason reason, int64_t now_ms)
{
	p->reason = reason;
	p->end_ms = now_ms;
	p->phase = PLAN_ASKED;
	if (p->ask_ms > 0 && reason != END_NONE && plan_due_ms(p) > now_ms)
		return PLAN_ASK;
	return plan_signal(p, now_ms);
}

static enum plan_action plan_look(struct plan *p, int64_t now_ms)
{
	if (now_ms >= p->give_up_ms)
		return PLAN_GIVE_UP;
	p->look_ms = plan_min(plan_add(now_ms, p->pause_ms), p->give_up_ms);
	p->pause_ms = plan_min(p->pause_ms * 2, PLAN_LOOK_MOST_MS);
	return PLAN_LOOK;
}

enum plan_action plan_step(struct plan *p, int64_t now_ms)
{
	if (plan_due_ms(p) > now_ms)
		return PLAN_WAIT;
	switch (p->phase) {
	case PLAN_RUNNING:
		return plan_begin_end(p, plan_timeout_term_ms(p) < plan_lease_term_ms(p) ? END_TIMEOUT : END_LEASE, now_ms);
	case PLAN_ASKED:
		return plan_signal(p, now_ms);
	case PLAN_ENDING:
		p->phase = PLAN_KILLED;
		return PLAN_KILL;
	case PLAN_EMPTYING:
		return plan_look(p, now_ms);
	default:
		return PLAN_WAIT;
	}
}

enum plan_action plan_end(struct plan *p, enum end_reason reason, int64_t grace_ms, int64_t now_ms)
{
	if (p->phase == PLAN_RUNNING) {
		p->grace_ms = grace_ms;
		return plan_begin_end(p, reason, now_ms);
	}
	if (p->phase == PLAN_ASKED || p->phase == PLAN_ENDING) {
		/* Counted from now, but the end began earlier. */
		p->grace_ms = plan_min(p->grace_ms, plan_add(now_ms - p->end_ms, grace_ms));
		if (p->phase == PLAN_ASKED && reason == END_NONE)
			return plan_signal(p, now_ms);
		return plan_step(p, now_ms);
	}
	return PLAN_WAIT;
}

void plan_emptying(struct plan *p, int64_t now_ms)
{
	p->phase = PLAN_EMPTYING;
	p->give_up_ms = plan_add(now_ms, PLAN_EMPTY_MS);
	p->pause_ms = PLAN_LOOK_FIRST_MS;
	p->look_ms = plan_add(now_ms, p->pause_ms);
}
