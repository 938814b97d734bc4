/* test_runs.c - the runner's table: thousands of runs, found by number, by process, and by what is due. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runner/runs.h"

#include <stdio.h>
#include <stdlib.h>

#define MANY 5000

static uint64_t seed = 88172645463325252ull;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static struct run *add(struct runs *t, uint64_t number, int64_t kill_at_ms)
{
	struct run *run = runs_new(t);

	assert_non_null(run);
	run->number = number;
	run->pid = (pid_t)(number * 3 + 2);
	plan_init(&run->plan, 0, kill_at_ms, 0, 0);
	runs_add(t, run);
	return run;
}

static void test_many(void **state)
{
	struct runs *t = malloc(sizeof(*t));
	int64_t last = INT64_MIN;

	(void)state;
	assert_non_null(t);
	runs_init(t);
	assert_null(runs_first(t));
	for (uint64_t i = 0; i < MANY; i++)
		add(t, i * 7, (int64_t)(next_random() % 100000));
	/* Move half of them, take a third out. */
	for (uint64_t i = 0; i < MANY; i += 2) {
		struct run *run = runs_find(t, i * 7);

		assert_non_null(run);
		run->plan.kill_at_ms = (int64_t)(next_random() % 200000);
		runs_moved(t, run);
	}
	/* Others get other numbers, and then their own again. */
	for (uint64_t i = 1; i < MANY; i += 5)
		runs_renumber(t, runs_find(t, i * 7), i * 7 + 1);
	for (uint64_t i = 1; i < MANY; i += 5) {
		assert_null(runs_find(t, i * 7));
		assert_int_equal(runs_find(t, i * 7 + 1)->pid, (pid_t)(i * 21 + 2));
		runs_renumber(t, runs_find(t, i * 7 + 1), i * 7);
	}
	for (uint64_t i = 0; i < MANY; i += 3)
		runs_remove(t, runs_find_pid(t, (pid_t)(i * 21 + 2)));
	for (uint64_t i = 0; i < MANY; i++) {
		struct run *run = runs_find(t, i * 7);

		assert_int_equal(run == NULL, i % 3 == 0);
		assert_ptr_equal(runs_find_pid(t, (pid_t)(i * 21 + 2)), run);
		assert_null(runs_find(t, i * 7 + 1));
	}
	/* They come out in order. */
	while (runs_first(t) != NULL) {
		int64_t due = plan_due_ms(&runs_first(t)->plan);

		assert_true(due >= last);
		last = due;
		runs_remove(t, runs_first(t));
	}
	assert_int_equal(t->count, 0);
	runs_free(t);
	free(t);
}

static void test_free_with_runs_left(void **state)
{
	struct runs t;

	(void)state;
	runs_init(&t);
	for (uint64_t i = 0; i < 100; i++)
		add(&t, i, (int64_t)i);
	runs_drop(runs_new(&t));
	runs_drop(NULL);
	runs_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_free_with_runs_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
