/* test_gate.c - waiting, nudging and stopping, with real threads. Nothing here sleeps: a wait that is never ended would
 * hang, and the deadline of a wait is only ever one that has passed or one that is never reached. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/gate.h"
#include "base/thread.h"

#define NEVER_MS (INT64_C(3600) * 1000)

static void test_nudge_is_kept(void **state)
{
	struct gate g;
	int64_t start = clock_mono_ms();

	(void)state;
	gate_init(&g);
	gate_nudge(&g);
	gate_nudge(&g);
	assert_true(gate_wait(&g, NEVER_MS));
	assert_true(clock_mono_ms() - start < NEVER_MS);
	assert_true(gate_wait(&g, 0)); /* two nudges are one */
	assert_false(g.nudged);
	gate_destroy(&g);
}

static void test_timeout(void **state)
{
	static const int64_t timeouts[] = {0, 1, 20};
	struct gate g;

	(void)state;
	gate_init(&g);
	for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
		int64_t start = clock_boot_us();

		assert_true(gate_wait(&g, timeouts[i]));
		assert_true(clock_boot_us() - start >= timeouts[i] * 1000 - 1000);
	}
	gate_destroy(&g);
}

static void test_stop_is_for_good(void **state)
{
	struct gate g;

	(void)state;
	gate_init(&g);
	assert_false(gate_stopped(&g));
	gate_nudge(&g);
	gate_stop(&g);
	assert_true(gate_stopped(&g));
	assert_false(gate_wait(&g, -1));
	gate_nudge(&g);
	assert_false(gate_wait(&g, NEVER_MS));
	assert_false(gate_wait(&g, 0));
	gate_destroy(&g);
}

struct pair {
	struct gate there, back;
	int rounds;
	bool stopped;
};

static void *pair_main(void *arg)
{
	struct pair *p = arg;

	while (gate_wait(&p->there, -1)) {
		p->rounds++;
		gate_nudge(&p->back);
	}
	p->stopped = true;
	return NULL;
}

static void test_wakes_a_waiting_thread(void **state)
{
	struct pair p = {.rounds = 0};
	pthread_t thread;

	(void)state;
	gate_init(&p.there);
	gate_init(&p.back);
	assert_int_equal(thread_start(&thread, "gate-test", pair_main, &p, NULL), LH_OK);
	for (int i = 0; i < 200; i++) {
		gate_nudge(&p.there);
		gate_wait(&p.back, -1);
	}
	gate_stop(&p.there);
	pthread_join(thread, NULL);
	assert_int_equal(p.rounds, 200);
	assert_true(p.stopped);
	gate_destroy(&p.there);
	gate_destroy(&p.back);
}

static void test_clock_mono_after(void **state)
{
	static const struct {
		int64_t ms, least_ms, most_ms;
	} table[] = {
		{-5, 0, 0}, {INT64_MIN, 0, 0}, {0, 0, 0}, {1, 1, 1}, {999, 999, 999}, {1000, 1000, 1000}, {61999, 61999, 61999},
		{INT64_MAX, NEVER_MS, INT64_MAX},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int64_t before = clock_mono_ms();
		struct timespec at = clock_mono_after(table[i].ms);
		int64_t after = clock_mono_ms(), ms = (int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000;

		assert_in_range(at.tv_nsec, 0, 999999999);
		assert_true(ms >= before + table[i].least_ms);
		assert_true(table[i].most_ms == INT64_MAX || ms <= after + table[i].most_ms);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nudge_is_kept),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_stop_is_for_good),
		cmocka_unit_test(test_wakes_a_waiting_thread),
		cmocka_unit_test(test_clock_mono_after),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
