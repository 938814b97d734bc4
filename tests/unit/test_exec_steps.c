/* test_exec_steps.c - descriptor 3 both ways: steps that a handler saves, what it is answered, and what it got from before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec_bench.h"

#include "runner/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_saved_and_answered(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "echo '{\"step\":\"charged\",\"data\":{\"n\":[1,2]}}' >&3; read -r one <&3; echo \"$one\";"
		       "echo '{\"step\":\"mailed\",\"progress\":50}' >&3; read -r two <&3; echo \"$two\"; echo $LEASEHOLD_STEPS");
	bench_run(&b);
	assert_string_equal(b.steps, "charged={\"n\":[1,2]};mailed=null;");
	assert_string_equal(b.report.result.data, "{\"step\":{\"name\":\"charged\",\"saved\":true}}\n"
						  "{\"step\":{\"name\":\"mailed\",\"saved\":true}}\n0\n");
	assert_true(b.percent == 50);
	bench_free(&b);
	bench_init(&b, "echo '{\"step\":\"a\"}' >&3; read -r one <&3; echo \"$one\"; echo '{\"step\":\"b c\"}' >&3;"
		       "read -r two <&3; echo \"$two\"");
	b.step_why = "the lease is lost";
	bench_run(&b);
	assert_string_equal(b.report.result.data, "{\"step\":{\"name\":\"a\",\"saved\":false,\"why\":\"the lease is lost\"}}\n"
						  "{\"step\":{\"name\":\"b c\",\"saved\":false,\"why\":\"a name has 1 to 64 "
						  "characters of A-Z a-z 0-9 _ . : -\"}}\n");
	bench_free(&b);
	bench_init(&b, "echo '{\"step\":\"a\"}' >&3; read -r one <&3; echo \"$one\"");
	b.no_steps = true;
	bench_run(&b);
	assert_non_null(strstr(b.report.result.data, "\"saved\":false"));
	bench_free(&b);
}

/* What earlier attempts saved is the first line, however long it is. */
static void test_handed_back(void **state)
{
	size_t size = JOB_STEPS_BYTES_MAX;
	char *big = malloc(size + 1), one[] = "{\"n\":1}";
	struct job_step saved[] = {{.name = "charged", .data = one, .data_len = strlen(one)}, {.name = "big", .data = big}};
	struct bench b;

	(void)state;
	assert_non_null(big);
	memset(big, 'x', size);
	big[0] = big[size - 1] = '"';
	big[size] = '\0';
	saved[1].data_len = size;
	bench_init(&b, "read -r line <&3; echo \"$line\"; echo $LEASEHOLD_STEPS");
	b.job.steps = saved;
	b.job.step_count = 1;
	bench_run(&b);
	assert_string_equal(b.report.result.data, "{\"steps\":{\"charged\":{\"n\":1}}}\n1\n");
	bench_free(&b);
	bench_init(&b, "head -n 1 <&3 | tr -d x; echo $LEASEHOLD_STEPS");
	b.job.steps = saved;
	b.job.step_count = 2;
	bench_run(&b);
	assert_string_equal(b.report.result.data, "{\"steps\":{\"charged\":{\"n\":1},\"big\":\"\"}}\n2\n");
	bench_free(&b);
	/* Who does not read it is not held up. */
	bench_init(&b, "exit 0");
	b.job.steps = saved;
	b.job.step_count = 2;
	bench_run(&b);
	assert_true(b.report.facts.exited && b.report.facts.exit_code == 0);
	bench_free(&b);
	free(big);
}

/* What was said before the end counts, whether or not the handler waited for an answer. */
static void test_said_and_gone(void **state)
{
	static const char *const scripts[] = {
		"echo '{\"step\":\"a\",\"data\":1}' >&3; printf '{\"step\":\"b\",\"data\":2}' >&3",
		"echo '{\"step\":\"a\",\"data\":1}' >&3; printf '{\"step\":\"b\",\"data\":2}' >&3; exec 3>&-; sleep 0.1",
		"echo '{\"step\":\"a\",\"data\":1}' >&3; printf '{\"step\":\"b\",\"data\":2}' >&3; kill -9 $$",
	};
	struct bench b;

	(void)state;
	for (size_t i = 0; i < COUNT(scripts); i++) {
		for (int keep = 0; keep <= 1; keep++) {
			bench_init(&b, scripts[i]);
			b.keep_steps = keep;
			bench_run(&b);
			assert_string_equal(b.steps, "a=1;b=2;");
			bench_free(&b);
		}
	}
}

/* A handler that never reads its answers loses none of its steps, and is not held up by them. */
static void test_answers_are_not_read(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "yes '{\"step\":\"a\",\"data\":[1,2,3]}' | head -n 20000 >&3");
	bench_run(&b);
	assert_int_equal(b.step_count, 20000);
	assert_true(b.report.facts.exited && b.report.facts.exit_code == 0);
	bench_free(&b);
}

/* One that saves without end, while nothing is written, is read no further: that costs a bounded amount of memory. */
static void test_nothing_is_written(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "yes '{\"step\":\"a\"}' >&3");
	b.keep_steps = true;
	b.handler.timeout_ms = 500;
	b.handler.kill_grace_ms = 100;
	bench_run(&b);
	assert_int_equal(b.report.facts.reason, END_TIMEOUT);
	/* One read beyond the limit, and what the socket held when it ended. */
	assert_in_range(b.step_count, 64, 100000);
	bench_free(&b);
}

/* It is a socket for the handler, with all that a handler in a shell may do with it. */
static void test_shell_idioms(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "{ echo '{\"step\":\"a\"}'; echo '{\"note\":\"x\"}'; } >&3; (echo '{\"step\":\"b\"}' >&3);"
		       "read -r l <&3 && echo $l; exec 4<&3; read -r l <&4 && echo $l; echo '{\"result\":\"r\"}' >&4");
	bench_run(&b);
	assert_string_equal(b.steps, "a=null;b=null;");
	assert_string_equal(b.note, "x");
	assert_string_equal(b.report.result.data, "r");
	bench_free(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_saved_and_answered),   cmocka_unit_test(test_handed_back),
		cmocka_unit_test(test_said_and_gone),        cmocka_unit_test(test_answers_are_not_read),
		cmocka_unit_test(test_nothing_is_written),   cmocka_unit_test(test_shell_idioms),
	};

	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	return cmocka_run_group_tests(tests, bench_start_link, bench_stop_link);
}
