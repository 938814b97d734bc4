/* test_backoff.c - the delay before another attempt, for every attempt number a row can hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/backoff.h"
#include "model/job.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DAY_MS INT64_C(86400000)

static void test_ceiling(void **state)
{
	static const struct {
		struct backoff backoff;
		unsigned int attempt;
		int64_t expect;
	} table[] = {
		{{1000, 3600000}, 0, 1000},
		{{1000, 3600000}, 1, 1000},
		{{1000, 3600000}, 2, 2000},
		{{1000, 3600000}, 3, 4000},
		{{1000, 3600000}, 12, 2048000},
		{{1000, 3600000}, 13, 3600000},
		{{1000, 3600000}, 65535, 3600000},
		{{1000, 3600000}, UINT32_MAX, 3600000},
		{{1000, 1000}, 1, 1000},
		{{1000, 1000}, 2, 1000},
		{{1000, 1999}, 2, 1999},
		{{1000, 2000}, 2, 2000},
		{{1, 30 * DAY_MS}, 32, INT64_C(1) << 31},
		{{1, 30 * DAY_MS}, 33, 30 * DAY_MS},
		/* Values that no configuration can hold still give something sane. */
		{{0, 1000}, 1, 1},
		{{-5, 1000}, 3, 4},
		{{5000, 1000}, 1, 1000},
		{{5000, 1000}, 9, 1000},
		{{0, 0}, 5, 1},
		{{-1, -1}, 65535, 1},
		{{1, INT64_MAX}, 63, INT64_C(1) << 62},
		{{1, INT64_MAX}, 64, INT64_MAX},
		{{INT64_MAX, INT64_MAX}, 65535, INT64_MAX},
		{{INT64_MIN, INT64_MIN}, 2, 1},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		int64_t ceiling = backoff_ceiling_ms(&table[i].backoff, table[i].attempt);

		if (ceiling != table[i].expect)
			fail_msg("row %zu: %lld", i, (long long)ceiling);
	}
}

/* Attempts 0 to 65535 under each pair of settings: it never shrinks, never leaves 1 .. max, and doubles until it gets there. */
static void test_every_attempt(void **state)
{
	static const struct backoff settings[] = {
		{1, 1}, {1, 30 * DAY_MS}, {1000, 3600000}, {7, 12345}, {DAY_MS, DAY_MS}, {DAY_MS, 30 * DAY_MS}, {3600000, 3600001},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(settings); i++) {
		const struct backoff *b = &settings[i];
		int64_t before = backoff_ceiling_ms(b, 0);

		assert_true(before == b->base_ms);
		assert_true(backoff_ceiling_ms(b, 1) == b->base_ms);
		for (unsigned int attempt = 2; attempt <= JOB_ATTEMPT_MAX; attempt++) {
			int64_t now = backoff_ceiling_ms(b, attempt);

			if (now != (before * 2 < b->max_ms ? before * 2 : b->max_ms))
				fail_msg("base %lld attempt %u: %lld", (long long)b->base_ms, attempt, (long long)now);
			if (backoff_delay_ms(b, attempt, UINT64_MAX) > now || backoff_delay_ms(b, attempt, 0) != BACKOFF_FLOOR_MS)
				fail_msg("base %lld attempt %u: delay out of range", (long long)b->base_ms, attempt);
			before = now;
		}
	}
}

/* Full jitter: from the floor to the ceiling, all of it reachable, about evenly. */
static void test_jitter(void **state)
{
	const struct backoff b = {8, 64};
	unsigned int seen[65] = {0};

	(void)state;
	for (uint64_t random = 0; random < 65 * 10; random++) {
		int64_t delay = backoff_delay_ms(&b, 4, random);

		assert_in_range(delay, BACKOFF_FLOOR_MS, 64);
		seen[delay]++;
	}
	assert_int_equal(seen[0], 0);
	assert_int_equal(seen[1], 20); /* the floor stands for 0 too */
	for (size_t i = 2; i <= 64; i++)
		assert_int_equal(seen[i], 10);
}

static void test_delay_at_the_extremes(void **state)
{
	const struct backoff widest = {INT64_MAX, INT64_MAX};

	(void)state;
	assert_true(backoff_delay_ms(&widest, 1, UINT64_MAX) >= BACKOFF_FLOOR_MS);
	assert_true(backoff_delay_ms(&widest, 1, INT64_MAX) == INT64_MAX);
	assert_true(backoff_delay_ms(&widest, 1, (uint64_t)INT64_MAX + 1) == BACKOFF_FLOOR_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ceiling),
		cmocka_unit_test(test_every_attempt),
		cmocka_unit_test(test_jitter),
		cmocka_unit_test(test_delay_at_the_extremes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
