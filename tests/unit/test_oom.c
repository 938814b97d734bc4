/* test_oom.c - reading the kernel's count of processes that it ended for want of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runner/oom.h"

static void test_parse(void **state)
{
	uint64_t count = 7;

	(void)state;
	/* memory.events, memory.oom_control and vmstat */
	assert_true(oom_parse("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n", &count));
	assert_int_equal(count, 2);
	assert_true(oom_parse("oom_kill_disable 0\nunder_oom 0\noom_kill 41\n", &count));
	assert_int_equal(count, 41);
	assert_true(oom_parse("oom_kill 18446744073709551615", &count));
	assert_true(count == UINT64_MAX);
	count = 7;
	assert_false(oom_parse("", &count));
	assert_false(oom_parse("oom_kill_disable 0\nunder_oom 0\n", &count));
	assert_false(oom_parse("xoom_kill 4\n", &count));
	assert_int_equal(count, 7);
}

static void test_staleness(void **state)
{
	struct oom o;

	(void)state;
	oom_init(&o);
	(void)oom_count(&o, 5000);
	if (o.fd < 0)
		skip(); /* a kernel that does not count */
	assert_int_equal(o.read_ms, 5000);
	(void)oom_count_about(&o, 5000 + OOM_STALE_MS - 1);
	assert_int_equal(o.read_ms, 5000);
	(void)oom_count_about(&o, 5000 + OOM_STALE_MS);
	assert_int_equal(o.read_ms, 5000 + OOM_STALE_MS);
	(void)oom_count_about(&o, 4000);
	assert_int_equal(o.read_ms, 4000);
	oom_free(&o);
	assert_int_equal(o.fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_staleness),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
