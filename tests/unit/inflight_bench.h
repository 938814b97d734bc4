/* inflight_bench.h - for tests of the register: one with a runner that only remembers what it was told, and ways to bring a job
 * into a state. */
#ifndef LEASEHOLD_TESTS_INFLIGHT_BENCH_H
#define LEASEHOLD_TESTS_INFLIGHT_BENCH_H

#include "worker/inflight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LEASE "11111111-1111-4111-8111-111111111111"
#define OTHER "22222222-2222-4222-8222-222222222222"
#define LEASE_MS 10000
#define SENT_MS 1000

struct news {
	unsigned int deadlines, ends;
	uint64_t run;
	int64_t kill_at_ms, grace_ms;
	enum end_reason reason;
	unsigned int starts;
	bool refuse;
};

static inline void news_deadline(void *owner, uint64_t run, int64_t kill_at_ms)
{
	struct news *n = owner;

	n->deadlines++;
	n->run = run;
	n->kill_at_ms = kill_at_ms;
}

static inline void news_end(void *owner, uint64_t run, enum end_reason reason, int64_t grace_ms)
{
	struct news *n = owner;

	n->ends++;
	n->run = run;
	n->reason = reason;
	n->grace_ms = grace_ms;
}

static inline bool news_send(void *arg, int64_t kill_at_ms)
{
	struct news *n = arg;

	n->kill_at_ms = kill_at_ms;
	n->starts++;
	return !n->refuse;
}

static inline struct inflight *fresh(struct news *n, size_t capacity)
{
	const struct inflight_signals signals = { .owner = n, .deadline = news_deadline, .end = news_end };
	struct inflight *r = inflight_new(capacity, 2, &signals);

	memset(n, 0, sizeof(*n));
	assert_non_null(r);
	return r;
}

static inline void claim(struct inflight *r, uint64_t id)
{
	assert_int_equal(inflight_claim(r, 0, &id, 1, LEASE, LEASE_MS, SENT_MS), 1);
}

static inline enum inflight_go run(struct inflight *r, struct news *n, uint64_t id, int64_t now_ms)
{
	return inflight_run(r, id, LEASE, 77, 500, now_ms, news_send, n);
}

/* Brings job 1 into a state by legal calls alone. */
static inline void bring_to(struct inflight *r, struct news *n, enum inflight_state state)
{
	enum inflight_state seen;

	claim(r, 1);
	if (state == INFLIGHT_CLAIMING)
		return;
	assert_true(inflight_won(r, 1, LEASE));
	if (state == INFLIGHT_QUEUED)
		return;
	assert_int_equal(run(r, n, 1, SENT_MS), INFLIGHT_GO);
	if (state == INFLIGHT_SETTLING || state == INFLIGHT_SETTLED)
		assert_true(inflight_settle(r, 1, LEASE, &seen));
	if (state == INFLIGHT_SETTLED)
		assert_true(inflight_settled(r, 1, LEASE));
	if (state == INFLIGHT_LOST)
		assert_true(inflight_lose(r, 1, LEASE));
}

static inline enum inflight_state state_of(struct inflight *r)
{
	struct inflight_counts counts;

	inflight_count(r, &counts);
	for (unsigned int s = 0; s < INFLIGHT_STATES; s++)
		if (counts.by_state[s] == 1)
			return (enum inflight_state)s;
	return INFLIGHT_STATES;
}

#endif
