/* test_runner_link.c - the daemon's end of the runner: what is left of a runner that died, and whose a run is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec_bench.h"
#include "handler/handler.h"
#include "runner/runner.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What had left its group outlives the runner, but not for long, whoever notices the death first. What the daemon had before it is
 * left alone. */
static void test_escaped_from_a_dead_runner(void **state)
{
	const char escape[] = "d=$(mktemp -d); mkfifo $d/f;"
			      "setsid sh -c \"echo out >$d/f; exec sleep 1000\" >/dev/null 2>&1 3>&- &"
			      "read x <$d/f; rm -r $d; echo $!; echo '{\"note\":\"ready\"}' >&3; wait";
	struct runner_link *link = *state;
	pid_t stranger = fork(), escaped;
	struct bench b;
	struct fault f;

	assert_true(stranger >= 0);
	if (stranger == 0) {
		for (;;)
			pause();
	}
	assert_false(runner_link_revive(link, &f)); /* the supervisor's tick */
	for (int i = 0; i < 2; i++) {
		bench_init(&b, escape);
		b.kill_on_progress = runner_link_pid(link);
		bench_run(&b);
		assert_int_equal(b.report.facts.end, RUN_RUNNER_LOST);
		assert_true(b.report.facts.group_gone);
		escaped = (pid_t)strtol(b.report.result.data, NULL, 10);
		bench_free(&b);
		assert_true(escaped > 1);
		assert_int_equal(kill(escaped, 0), -1);
		assert_int_equal(errno, ESRCH);
		while (!runner_link_revive(link, &f))
			assert_int_equal(f.code, LH_OK);
		assert_false(runner_link_revive(link, &f));
	}
	assert_int_equal(kill(stranger, SIGKILL), 0);
	while (kill(stranger, 0) == 0)
		(void)runner_link_revive(link, &f); /* and does not lie around dead */
}

/* A number that was drawn for a runner is of no use to the next: what was to be started is given back. */
static void test_run_of_an_earlier_runner(void **state)
{
	struct runner_link *link = *state;
	uint64_t run = runner_link_next_run(link);
	char program[] = "/bin/true", *argv[] = {program, NULL}, *env[] = {NULL};
	struct runner_start start = {.command = {.run = run, .kill_at_ms = INT64_MAX}, .argv = argv, .env = env};
	struct fault f;

	assert_int_equal(kill(runner_link_pid(link), SIGKILL), 0);
	while (!runner_link_revive(link, &f))
		assert_int_equal(f.code, LH_OK);
	assert_true(runner_link_next_run(link) > run);
	assert_int_equal(runner_link_send_start(link, &start, &f), LH_ERR_LOST);
	assert_true(runner_link_clear(link, run));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_escaped_from_a_dead_runner),
		cmocka_unit_test(test_run_of_an_earlier_runner),
	};

	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	return cmocka_run_group_tests(tests, bench_start_link, bench_stop_link);
}
