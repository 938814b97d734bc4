/* test_thread.c - what a thread starts with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/gate.h"
#include "base/thread.h"

#include <limits.h>
#include <signal.h>

struct probe {
	struct gate named; /* opened when thread_start has returned, after which the name holds */
	char name[16];
	sigset_t mask;
	size_t stack_bytes;
};

static void *probe_main(void *arg)
{
	struct probe *p = arg;
	pthread_attr_t attr;

	pthread_sigmask(SIG_SETMASK, NULL, &p->mask);
	gate_wait(&p->named, -1);
	pthread_getname_np(pthread_self(), p->name, sizeof(p->name));
	if (pthread_getattr_np(pthread_self(), &attr) == 0) {
		pthread_attr_getstacksize(&attr, &p->stack_bytes);
		pthread_attr_destroy(&attr);
	}
	return p;
}

static void probe_run(struct probe *p, const char *name)
{
	pthread_t thread;
	void *result;

	gate_init(&p->named);
	assert_int_equal(thread_start(&thread, name, probe_main, p, NULL), LH_OK);
	gate_nudge(&p->named);
	pthread_join(thread, &result);
	assert_ptr_equal(result, p);
	gate_destroy(&p->named);
}

static void test_name(void **state)
{
	struct probe p;

	(void)state;
	probe_run(&p, "lh-w03");
	assert_string_equal(p.name, "lh-w03");
	probe_run(&p, "a name that is too long");
	assert_string_equal(p.name, "a name that is ");
}

static void test_signals_are_blocked_there_and_not_here(void **state)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD, SIGUSR1, SIGQUIT};
	struct probe p;
	sigset_t mine;

	(void)state;
	probe_run(&p, "signals");
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		assert_true(sigismember(&p.mask, signals[i]));
		assert_false(sigismember(&mine, signals[i]));
	}
}

static void test_stack(void **state)
{
	struct probe p;

	(void)state;
	probe_run(&p, "stack");
	assert_true(p.stack_bytes >= 256 * 1024);
	assert_true(p.stack_bytes >= (size_t)PTHREAD_STACK_MIN);
	assert_true(p.stack_bytes <= 4 * 1024 * 1024); /* not the 8 MiB that every thread would reserve by default */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name),
		cmocka_unit_test(test_signals_are_blocked_there_and_not_here),
		cmocka_unit_test(test_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
