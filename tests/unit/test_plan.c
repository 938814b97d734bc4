/* test_plan.c - when the runner sends TERM and KILL, and why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runner/plan.h"

#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void expect(struct plan *p, int64_t due_ms, enum plan_action action)
{
	assert_int_equal(plan_due_ms(p), due_ms);
	assert_int_equal(plan_step(p, due_ms - 1), PLAN_WAIT);
	assert_int_equal(plan_step(p, due_ms), action);
}

static void test_first_and_last_signal(void **state)
{
	static const struct {
		const char *name;
		int64_t started, kill_at, timeout, grace;
		int64_t term, kill; /* kill == term: no TERM */
		enum end_reason reason;
	} cases[] = {
		{"the lease", 100, 5000, 0, 1000, 4000, 5000, END_LEASE},
		{"the timeout", 100, 5000, 2000, 1000, 2100, 3100, END_TIMEOUT},
		{"the timeout, its grace cut by the lease", 100, 5000, 3500, 1000, 3600, 4600, END_TIMEOUT},
		{"the timeout just before the lease", 100, 5000, 3899, 1500, 3500, 5000, END_LEASE},
		{"both at once: the lease", 0, 5000, 4000, 1000, 4000, 5000, END_LEASE},
		{"no grace", 100, 5000, 0, 0, 5000, 5000, END_LEASE},
		{"no grace, timeout", 100, 5000, 50, 0, 150, 150, END_TIMEOUT},
		{"timeout and no lease", 100, PLAN_NEVER, 50, 10, 150, 160, END_TIMEOUT},
		{"times as far as they go", 100, INT64_MAX - 1, INT64_MAX, 1, INT64_MAX - 2, INT64_MAX - 1, END_LEASE},
	};
	struct plan p;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		print_message("case: %s\n", cases[i].name);
		plan_init(&p, cases[i].started, cases[i].kill_at, cases[i].timeout, cases[i].grace);
		if (cases[i].term < cases[i].kill)
			expect(&p, cases[i].term, PLAN_TERM);
		expect(&p, cases[i].kill, PLAN_KILL);
		assert_int_equal(p.reason, cases[i].reason);
		assert_int_equal(plan_due_ms(&p), PLAN_NEVER);
	}
}

static void test_never(void **state)
{
	struct plan p;

	(void)state;
	plan_init(&p, 0, PLAN_NEVER, 0, 1000);
	assert_int_equal(plan_due_ms(&p), PLAN_NEVER);
	/* Nor do sums leave the range at the other end. */
	plan_init(&p, 0, INT64_MIN, 0, INT64_MAX);
	assert_int_equal(plan_due_ms(&p), INT64_MIN);
	assert_int_equal(plan_step(&p, 0), PLAN_KILL);
}

static void test_late(void **state)
{
	struct plan p;

	(void)state;
	/* Past the deadline there is nothing to be polite about. */
	plan_init(&p, 0, 5000, 0, 1000);
	assert_int_equal(plan_step(&p, 5000), PLAN_KILL);
	assert_int_equal(p.reason, END_LEASE);
	/* Late for TERM but not for KILL. */
	plan_init(&p, 0, 5000, 0, 1000);
	assert_int_equal(plan_step(&p, 4990), PLAN_TERM);
	expect(&p, 5000, PLAN_KILL);
	/* After a long pause both had passed: what came first is the reason. */
	plan_init(&p, 0, 5000, 3000, 1000);
	assert_int_equal(plan_step(&p, 90000), PLAN_KILL);
	assert_int_equal(p.reason, END_TIMEOUT);
}

static void test_moved_deadline(void **state)
{
	struct plan p;

	(void)state;
	plan_init(&p, 0, 5000, 0, 1000);
	p.kill_at_ms = 8000;
	expect(&p, 7000, PLAN_TERM);
	/* After TERM too: later does not help, the grace has begun; earlier does count. */
	p.kill_at_ms = 20000;
	assert_int_equal(plan_due_ms(&p), 8000);
	p.kill_at_ms = 7500;
	expect(&p, 7500, PLAN_KILL);
	plan_init(&p, 0, 5000, 0, 1000);
	p.kill_at_ms = 10;
	assert_int_equal(plan_step(&p, 20), PLAN_KILL);
}

static void test_end(void **state)
{
	struct plan p;

	(void)state;
	plan_init(&p, 0, 50000, 40000, 1000);
	assert_int_equal(plan_end(&p, END_CANCEL, 700, 100), PLAN_TERM);
	expect(&p, 800, PLAN_KILL);
	assert_int_equal(p.reason, END_CANCEL);
	/* At once. */
	plan_init(&p, 0, 50000, 0, 1000);
	assert_int_equal(plan_end(&p, END_SHUTDOWN, 0, 100), PLAN_KILL);
	assert_int_equal(plan_end(&p, END_CANCEL, 0, 100), PLAN_WAIT);
	assert_int_equal(p.reason, END_SHUTDOWN);
	/* The grace never reaches beyond the lease. */
	plan_init(&p, 0, 5000, 0, 1000);
	assert_int_equal(plan_end(&p, END_CANCEL, 90000, 3000), PLAN_TERM);
	expect(&p, 5000, PLAN_KILL);
}

static void test_second_end(void **state)
{
	struct plan p;

	(void)state;
	plan_init(&p, 0, 50000, 100, 10000);
	expect(&p, 100, PLAN_TERM);
	/* Sooner, but the first reason stands; and never later. */
	assert_int_equal(plan_end(&p, END_SHUTDOWN, 500, 1100), PLAN_WAIT);
	assert_int_equal(plan_due_ms(&p), 1600);
	assert_int_equal(plan_end(&p, END_CANCEL, 30000, 1200), PLAN_WAIT);
	assert_int_equal(plan_due_ms(&p), 1600);
	assert_int_equal(plan_end(&p, END_CANCEL, 0, 1300), PLAN_KILL);
	assert_int_equal(p.reason, END_TIMEOUT);
}

/* A process that is asked first has some of its grace for that, and the rest of it after TERM. */
static void test_asked(void **state)
{
	struct plan p;

	(void)state;
	plan_init(&p, 0, 50000, 2000, 1000);
	p.ask_ms = 500;
	assert_true(plan_is_open(&p));
	expect(&p, 2000, PLAN_ASK);
	assert_true(plan_is_open(&p));
	expect(&p, 2500, PLAN_TERM);
	assert_false(plan_is_open(&p));
	expect(&p, 3000, PLAN_KILL);
	assert_int_equal(p.reason, END_TIMEOUT);
	/* Never more than half of the grace; also of the grace of a request. */
	plan_init(&p, 0, 50000, 0, 1000);
	p.ask_ms = 900;
	assert_int_equal(plan_end(&p, END_CANCEL, 400, 100), PLAN_ASK);
	expect(&p, 300, PLAN_TERM);
	expect(&p, 500, PLAN_KILL);
	/* The lease cuts the asking short, not what comes after TERM. */
	plan_init(&p, 0, 5000, 0, 1000);
	p.ask_ms = 400;
	assert_int_equal(plan_end(&p, END_CANCEL, 1000, 4300), PLAN_ASK);
	expect(&p, 4400, PLAN_TERM);
	expect(&p, 5000, PLAN_KILL);
	plan_init(&p, 0, 5000, 0, 1000);
	p.ask_ms = 400;
	assert_int_equal(plan_end(&p, END_CANCEL, 1000, 4400), PLAN_TERM);
	/* No grace: nobody is asked. */
	plan_init(&p, 0, 5000, 0, 1000);
	p.ask_ms = 400;
	assert_int_equal(plan_end(&p, END_CANCEL, 0, 100), PLAN_KILL);
	/* Too late for all of it. */
	plan_init(&p, 0, 5000, 0, 1000);
	p.ask_ms = 400;
	assert_int_equal(plan_step(&p, 5000), PLAN_KILL);
}

static void test_asked_and_hurried(void **state)
{
	struct plan p;

	(void)state;
	/* A second request makes it sooner, and the first reason stands. */
	plan_init(&p, 0, 50000, 0, 10000);
	p.ask_ms = 5000;
	expect(&p, 40000, PLAN_ASK);
	assert_int_equal(plan_end(&p, END_SHUTDOWN, 20000, 40100), PLAN_WAIT);
	assert_int_equal(plan_due_ms(&p), 45000);
	assert_int_equal(plan_end(&p, END_SHUTDOWN, 1000, 41000), PLAN_TERM);
	expect(&p, 42000, PLAN_KILL);
	assert_int_equal(p.reason, END_LEASE);
	plan_init(&p, 0, 50000, 0, 10000);
	p.ask_ms = 5000;
	assert_int_equal(plan_end(&p, END_CANCEL, 10000, 100), PLAN_ASK);
	assert_int_equal(plan_end(&p, END_LEASE, 0, 200), PLAN_KILL);
	assert_int_equal(p.reason, END_CANCEL);
	/* A deadline that moves closer counts. */
	plan_init(&p, 0, 50000, 0, 1000);
	p.ask_ms = 500;
	assert_int_equal(plan_end(&p, END_CANCEL, 1000, 100), PLAN_ASK);
	p.kill_at_ms = 800;
	expect(&p, 300, PLAN_TERM);
	expect(&p, 800, PLAN_KILL);
	/* Without a reason there is nothing to ask, or to wait for any longer. */
	plan_init(&p, 0, 50000, 0, 1000);
	p.ask_ms = 500;
	assert_int_equal(plan_end(&p, END_NONE, 1000, 100), PLAN_TERM);
	expect(&p, 1100, PLAN_KILL);
	plan_init(&p, 0, 50000, 0, 1000);
	p.ask_ms = 500;
	assert_int_equal(plan_end(&p, END_CANCEL, 1000, 100), PLAN_ASK);
	assert_int_equal(plan_end(&p, END_NONE, 1000, 200), PLAN_TERM);
	expect(&p, 1100, PLAN_KILL);
	assert_int_equal(p.reason, END_CANCEL);
}

static void test_emptying(void **state)
{
	int64_t now = 1000, before;
	enum plan_action action;
	int looks = 0;
	struct plan p;

	(void)state;
	plan_init(&p, 0, 50000, 100, 10000);
	plan_emptying(&p, now);
	for (;;) {
		before = now;
		now = plan_due_ms(&p);
		assert_true(now > before);
		action = plan_step(&p, now);
		if (action != PLAN_LOOK)
			break;
		looks++;
	}
	assert_int_equal(action, PLAN_GIVE_UP);
	assert_int_equal(now, 1000 + PLAN_EMPTY_MS);
	assert_in_range(looks, 5, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_and_last_signal), cmocka_unit_test(test_never),      cmocka_unit_test(test_late),
		cmocka_unit_test(test_moved_deadline),        cmocka_unit_test(test_end),        cmocka_unit_test(test_second_end),
		cmocka_unit_test(test_emptying), cmocka_unit_test(test_asked), cmocka_unit_test(test_asked_and_hurried),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
