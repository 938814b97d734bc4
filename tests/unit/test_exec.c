/* test_exec.c - the exec handler and the link to the runner, from the worker's side: what is run, and what is reported of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec_bench.h"

#include "base/clock.h"
#include "runner/runner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_success(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "cat; echo bye >&2");
	bench_payload(&b, "{\"to\":\"a@b\"}", 12);
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_EXITED);
	assert_true(b.report.facts.exited && b.report.facts.exit_code == 0 && b.report.facts.group_gone);
	assert_int_equal(b.report.facts.reason, END_NONE);
	assert_true(b.report.has_result);
	assert_string_equal(b.report.result.data, "{\"to\":\"a@b\"}");
	assert_string_equal(b.report.stderr_tail.data, "bye\n");
	assert_true(b.report.max_rss_kb > 0);
	bench_free(&b);
	/* Nothing printed is no result. */
	bench_init(&b, "exit 0");
	bench_run(&b);
	assert_true(b.report.facts.exited && !b.report.has_result);
	assert_int_equal(b.report.stderr_tail.len, 0);
	bench_free(&b);
}

static void test_ends(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "exit 75");
	bench_run(&b);
	assert_true(b.report.facts.exited && b.report.facts.exit_code == 75);
	bench_free(&b);
	bench_init(&b, "kill -SEGV $$");
	bench_run(&b);
	assert_false(b.report.facts.exited);
	assert_int_equal(b.report.facts.signal, SIGSEGV);
	bench_free(&b);
	bench_init(&b, "sleep 1000");
	b.handler.timeout_ms = 100;
	bench_run(&b);
	assert_int_equal(b.report.facts.reason, END_TIMEOUT);
	assert_int_equal(b.report.facts.signal, SIGTERM);
	assert_true(b.report.ran_ms >= 100);
	bench_free(&b);
	/* The row's own timeout goes before the handler's; 0 is none. */
	bench_init(&b, "sleep 1000");
	b.handler.timeout_ms = 600000;
	b.job.timeout_set = true;
	b.job.timeout_ms = 100;
	bench_run(&b);
	assert_int_equal(b.report.facts.reason, END_TIMEOUT);
	bench_free(&b);
	bench_init(&b, "sleep 0.3");
	b.handler.timeout_ms = 100;
	b.job.timeout_set = true;
	bench_run(&b);
	assert_int_equal(b.report.facts.reason, END_NONE);
	assert_true(b.report.facts.exited);
	bench_free(&b);
}

/* What was asked of the runner while the handler runs reaches it: here from the start hook, so right behind the START. */
static void test_cancelled(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "sleep 1000");
	b.end_with = END_CANCEL;
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_EXITED);
	assert_int_equal(b.report.facts.reason, END_CANCEL);
	assert_int_equal(b.report.facts.signal, SIGTERM);
	bench_free(&b);
}

static void test_not_started(void **state)
{
	struct runner_link *none = runner_link_new(NULL);
	struct bench b;

	(void)state;
	/* The lease was not held any more. */
	bench_init(&b, "exit 0");
	b.refuse = true;
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_NOT_STARTED);
	assert_true(b.report.facts.group_gone);
	bench_free(&b);
	/* Its trust had passed when the runner got to it. */
	bench_init(&b, "exit 0");
	b.lease_left_ms = 0;
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_NOT_STARTED);
	assert_int_equal(b.report.facts.reason, END_NONE);
	bench_free(&b);
	/* No runner. */
	bench_init(&b, "exit 0");
	b.link = none;
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_NOT_STARTED);
	assert_string_equal(b.report.facts.exec_stage, "runner");
	bench_free(&b);
	assert_int_equal(runner_link_pid(none), 0);
	runner_link_deadline(none, 1, 1);
	runner_link_end(none, 1, END_CANCEL, 1);
	assert_false(runner_link_revive(none, NULL));
	runner_link_free(none);
}

static void test_cannot_be_executed(void **state)
{
	char big[140 * 1024] = "BIG=", missing[] = "/nonexistent/handler", cwd[] = "/nonexistent";
	char *argv[] = {missing, NULL}, *env[] = {big, NULL};
	struct bench b;

	(void)state;
	bench_init(&b, "exit 0");
	b.handler.command = argv;
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_EXEC_FAILED);
	assert_int_equal(b.report.facts.exec_errno, ENOENT);
	assert_string_equal(b.report.facts.exec_stage, "execve");
	assert_true(b.report.facts.group_gone);
	bench_free(&b);
	bench_init(&b, "exit 0");
	b.handler.cwd = cwd;
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_EXEC_FAILED);
	assert_string_equal(b.report.facts.exec_stage, "chdir");
	bench_free(&b);
	/* BR-55: too much for the environment is the job's failure. */
	memset(big + 4, 'x', sizeof(big) - 5);
	bench_init(&b, "exit 0");
	b.handler.env = env;
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_EXEC_FAILED);
	assert_int_equal(b.report.facts.exec_errno, E2BIG);
	bench_free(&b);
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The whole environment, sorted. */
static void expect_environment(struct bench *b, const char *const *want)
{
	char *lines[64], *line, *rest;
	size_t count = 0;

	for (line = strtok_r(b->report.result.data, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
		assert_true(count < COUNT(lines));
		lines[count++] = line;
	}
	qsort(lines, count, sizeof(lines[0]), compare_lines);
	for (size_t i = 0; i < count; i++) {
		assert_non_null(want[i]);
		assert_string_equal(lines[i], want[i]);
	}
	assert_null(want[count]);
}

static void test_environment(void **state)
{
	char program[] = "/usr/bin/env", one[] = "EXTRA=a b=c", two[] = "PATH=/opt", forged[] = "LEASEHOLD_JOB_ID=1";
	char again[] = "EXTRA=last", home[] = "HOME=/tmp";
	char *argv[] = {program, NULL}, *env[] = {one, two, forged, again, home, NULL};
	struct bench b;

	(void)state;
	setenv("TZ", "Europe/Vienna", 1);
	setenv("LANG", "C.UTF-8", 1);
	setenv("SECRET", "hidden", 1);
	bench_init(&b, "");
	b.handler.command = argv;
	b.handler.env = env;
	b.handler.timeout_ms = 300000;
	strcpy(b.job.traceparent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
	bench_run(&b);
	expect_environment(&b, (const char *const[]){"EXTRA=last",
						     "HOME=/tmp",
						     "LANG=C.UTF-8",
						     "LEASEHOLD_ATTEMPT=2",
						     "LEASEHOLD_CLAIM_NO=5",
						     "LEASEHOLD_CONTROL_FD=3",
						     "LEASEHOLD_JOB_ID=18446744073709551615",
						     "LEASEHOLD_KIND=mail",
						     "LEASEHOLD_LEASE_ID=123e4567-e89b-42d3-a456-426614174000",
						     "LEASEHOLD_LEASE_MS=60000",
						     "LEASEHOLD_MAX_ATTEMPTS=10",
						     "LEASEHOLD_QUEUE=default",
						     "LEASEHOLD_STEPS=0",
						     "LEASEHOLD_TIMEOUT_MS=300000",
						     "PATH=/opt",
						     "TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
						     "TZ=Europe/Vienna",
						     NULL});
	bench_free(&b);
	unsetenv("TZ");
	unsetenv("LANG");
	bench_init(&b, "echo \"$PATH|$HOME|${TRACEPARENT-none}|${TZ-none}|${LANG-none}\"");
	bench_run(&b);
	assert_memory_equal(b.report.result.data, "/usr/local/sbin:", 16);
	assert_non_null(strstr(b.report.result.data, "|none|none|none\n"));
	assert_null(strstr(b.report.result.data, "||"));
	bench_free(&b);
}

/* BR-55. The bytes are those of the row, whatever their number and nature. */
static void test_payload_arrives(void **state)
{
	static const size_t sizes[] = {0, 1, 4096, 4097, 65536, 65537, 10 * 1024 * 1024};
	static const char text[] = "a\r\n'\"$(rm -rf x)`y`\\ \xff\xfe\0\t%s";
	char *payload = malloc(sizes[COUNT(sizes) - 1]), command[128], path[] = "/tmp/test_exec.XXXXXX", want[80];
	struct bench b;
	FILE *sum;
	int fd;

	(void)state;
	assert_non_null(payload);
	for (size_t i = 0; i < sizes[COUNT(sizes) - 1]; i++)
		payload[i] = text[i % sizeof(text)];
	for (size_t i = 0; i < COUNT(sizes); i++) {
		strcpy(path, "/tmp/test_exec.XXXXXX");
		fd = mkstemp(path);
		assert_int_equal(write(fd, payload, sizes[i]), sizes[i]);
		close(fd);
		snprintf(command, sizeof(command), "sha256sum <%s", path);
		sum = popen(command, "r");
		assert_non_null(fgets(want, sizeof(want), sum));
		pclose(sum);
		unlink(path);
		bench_init(&b, "sha256sum");
		bench_payload(&b, payload, sizes[i]);
		bench_run(&b);
		assert_string_equal(b.report.result.data, want);
		bench_free(&b);
	}
	free(payload);
}

/* A handler may leave its payload alone, or some of it. */
static void test_payload_is_not_read(void **state)
{
	static const char *const scripts[] = {"exit 0", "exec <&-; sleep 0.05; exit 0", "head -c 100000 >/dev/null"};
	size_t size = 4 * 1024 * 1024;
	char *payload = calloc(1, size);
	struct bench b;

	(void)state;
	assert_non_null(payload);
	for (size_t i = 0; i < COUNT(scripts); i++) {
		bench_init(&b, scripts[i]);
		bench_payload(&b, payload, size);
		bench_run(&b);
		assert_true(b.report.facts.exited && b.report.facts.exit_code == 0);
		bench_free(&b);
	}
	free(payload);
}

/* BR-74, BR-51: no amount of output blocks a handler or grows the daemon. */
static void test_much_output(void **state)
{
	static const struct {
		const char *script;
		bool result, tail;
	} cases[] = {
		{"head -c 100000000 /dev/zero | tr '\\0' x >&2", false, true},
		{"head -c 10000000 /dev/zero | tr '\\0' y", true, false},
		{"head -c 10000000 /dev/zero | tr '\\0' y & head -c 10000000 /dev/zero | tr '\\0' x >&2; wait", true, true},
		{"yes 'a line of some length' | head -c 10000000 >&2", false, true},
		{"head -c 10000000 /dev/zero >&3", false, false},
		{"exec >&-; head -c 1000000 /dev/zero >&2", false, true},
	};
	long before = bench_peak_kb();
	struct bench b;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		bench_init(&b, cases[i].script);
		bench_run(&b);
		assert_true(b.report.facts.exited && b.report.facts.exit_code == 0);
		assert_int_equal(b.report.has_result, cases[i].result);
		if (cases[i].result)
			assert_non_null(strstr(b.report.result.data, " [truncated: 10000000 bytes in all]"));
		assert_true(b.report.result.len <= (size_t)b.handler.max_result);
		assert_int_equal(b.report.stderr_tail.len > 0, cases[i].tail);
		if (cases[i].tail)
			assert_memory_equal(b.report.stderr_tail.data, "[the end of 1", 13);
		assert_true(b.report.stderr_tail.len <= (size_t)b.handler.max_stderr_tail);
		bench_free(&b);
	}
	/* A sanitizer keeps freed memory for a while. */
	assert_true(bench_peak_kb() - before < (BENCH_SANITIZED ? 300 * 1024 : 4 * 1024));
}

/* BR-52. */
static void test_output_of_any_bytes(void **state)
{
	static const char *const script = "printf '\\377\\376\\222a \\360\\237\\221\\215 \\0 tail' | tee /dev/fd/2";
	struct bench b;

	(void)state;
	bench_init(&b, script);
	bench_run(&b);
	assert_string_equal(b.report.result.data, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" "a \xf0\x9f\x91\x8d \xef\xbf\xbd tail");
	assert_string_equal(b.report.stderr_tail.data, b.report.result.data);
	bench_free(&b);
}

static void test_control_channel(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "echo plain; echo '{\"progress\":10,\"note\":\"one\"}' >&3; echo '{\"progress\":20}' >&3;"
		       "echo nonsense >&$LEASEHOLD_CONTROL_FD; echo '{\"result\":{\"n\":1},\"retry_after_ms\":5}' >&3;"
		       "printf '{\"snooze_ms\":7,\"dead\":\"no\"}' >&3; exit 3");
	bench_run(&b);
	assert_int_equal(b.report.facts.exit_code, 3);
	assert_true(b.report.has_result);
	assert_string_equal(b.report.result.data, "{\"n\":1}");
	assert_int_equal(b.report.facts.asked.retry_after_ms, 5);
	assert_int_equal(b.report.facts.asked.snooze_ms, 7);
	assert_true(b.report.facts.asked.dead);
	assert_string_equal(b.report.facts.asked.dead_reason, "no");
	assert_true(b.percent == 20);
	assert_string_equal(b.note, "one");
	bench_free(&b);
	bench_init(&b, "exit 0");
	bench_run(&b);
	assert_int_equal(b.report.facts.asked.retry_after_ms, -1);
	assert_int_equal(b.report.facts.asked.snooze_ms, -1);
	bench_free(&b);
}

/* A process that left the group, and holds the pipes, holds up nothing: it is ended with the handler. */
static void test_pipes_are_kept_open(void **state)
{
	struct bench b;
	pid_t escaped;

	(void)state;
	/* The shell waits on a fifo until the other has moved out, so that it is not ended with the group. */
	bench_init(&b, "d=$(mktemp -d); mkfifo $d/f; setsid sh -c \"echo out >$d/f; exec sleep 1000\" &"
		       "read x <$d/f; rm -r $d; echo $!");
	bench_run(&b);
	assert_true(b.report.facts.exited && b.report.facts.exit_code == 0 && b.report.facts.group_gone);
	assert_true(b.report.has_result);
	escaped = (pid_t)strtol(b.report.result.data, NULL, 10);
	assert_true(escaped > 1);
	assert_int_equal(kill(escaped, 0), -1);
	bench_free(&b);
	/* One that writes without end is not listened to for ever either. */
	bench_init(&b, "d=$(mktemp -d); mkfifo $d/f; setsid sh -c \"echo out >$d/f; exec yes\" &"
		       "read x <$d/f; rm -r $d; echo $! >&2");
	b.handler.log_stderr = false;
	bench_run(&b);
	assert_true(b.report.facts.exited && b.report.facts.group_gone);
	escaped = (pid_t)strtol(b.report.stderr_tail.data, NULL, 10);
	assert_true(escaped > 1);
	assert_int_equal(kill(escaped, 0), -1);
	bench_free(&b);
}

/* The runner dies: so does the handler with its group, the worker is told, and a new runner takes over. */
static void test_runner_dies(void **state)
{
	struct runner_link *link = *state;
	pid_t old = runner_link_pid(link), background;
	int subreaper = 0;
	struct fault f;
	struct bench b;

	assert_false(runner_link_revive(link, &f));
	assert_int_equal(f.code, LH_OK);
	assert_int_equal(prctl(PR_GET_CHILD_SUBREAPER, &subreaper), 0);
	assert_int_equal(subreaper, 1);
	bench_init(&b, "trap '' TERM; sleep 1000 & echo $!; echo '{\"note\":\"ready\"}' >&3; wait");
	b.kill_on_progress = old;
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_RUNNER_LOST);
	assert_true(b.report.facts.group_gone);
	assert_true(b.report.has_result); /* what it had said is kept */
	background = (pid_t)strtol(b.report.result.data, NULL, 10);
	assert_true(background > 1);
	assert_int_equal(kill(background, 0), -1);
	bench_free(&b);
	while (!runner_link_revive(link, &f))
		assert_int_equal(f.code, LH_OK);
	assert_non_null(strstr(f.text, "SIGKILL"));
	assert_true(runner_link_pid(link) != old);
	bench_init(&b, "echo again");
	bench_run(&b);
	assert_string_equal(b.report.result.data, "again\n");
	bench_free(&b);
	/* Killed before it could read the START: the handler never ran. */
	bench_init(&b, "echo ran");
	b.kill_before_send = runner_link_pid(link);
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_NOT_STARTED);
	assert_true(b.report.facts.group_gone);
	bench_free(&b);
	while (!runner_link_revive(link, &f))
		assert_int_equal(f.code, LH_OK);
}

/* What the handler wrote before it ended counts, even when nobody had looked at it by then. */
static void test_late_reader(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "echo \"{\\\"note\\\":\\\"$$\\\"}\" >&3; head -c 60000 /dev/zero | tr '\\0' y; printf e >&2");
	b.wait_for_noted_pid = true;
	bench_run(&b);
	assert_int_equal(b.report.result.len, 60000);
	assert_string_equal(b.report.stderr_tail.data, "e");
	bench_free(&b);
}

/* A START waits for room in the queue of a runner that is busy, for a moment. */
static void test_queue_full(void **state)
{
	struct runner_link *link = *state;
	pid_t runner = runner_link_pid(link);
	int64_t before;
	struct bench b;

	assert_int_equal(kill(runner, SIGSTOP), 0);
	do {
		before = clock_mono_ms();
		runner_link_deadline(link, UINT64_MAX, 0);
	} while (clock_mono_ms() - before < 150);
	bench_init(&b, "echo here");
	b.wake_later = runner;
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_EXITED);
	assert_string_equal(b.report.result.data, "here\n");
	bench_free(&b);
}

static void test_many_at_once(void **state)
{
	(void)state;
	assert_int_equal(bench_run_threads(4, BENCH_SANITIZED ? 15 : 100), 0);
}

static void test_noop(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "");
	b.ops = handler_ops_for(HANDLER_NOOP);
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_EXITED);
	assert_true(b.report.facts.exited && b.report.facts.exit_code == 0 && b.report.facts.group_gone && !b.report.has_result);
	bench_free(&b);
	bench_init(&b, "");
	b.ops = &handler_noop;
	b.refuse = true;
	bench_run(&b);
	assert_int_equal(b.report.facts.end, RUN_NOT_STARTED);
	bench_free(&b);
	assert_ptr_equal(handler_ops_for(HANDLER_EXEC), &handler_exec);
	assert_null(handler_ops_for((enum handler_type)99));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_success),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_not_started),
		cmocka_unit_test(test_cannot_be_executed),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_payload_arrives),
		cmocka_unit_test(test_payload_is_not_read),
		cmocka_unit_test(test_much_output),
		cmocka_unit_test(test_output_of_any_bytes),
		cmocka_unit_test(test_control_channel),
		cmocka_unit_test(test_pipes_are_kept_open),
		cmocka_unit_test(test_runner_dies),
		cmocka_unit_test(test_late_reader),
		cmocka_unit_test(test_queue_full),
		cmocka_unit_test(test_many_at_once),
		cmocka_unit_test(test_noop),
	};

	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	return cmocka_run_group_tests(tests, bench_start_link, bench_stop_link);
}
