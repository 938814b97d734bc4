/* test_runner_assign.c - a process that goes on from one run to the next, and is asked before it is ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "probe.h"
#include "runner/runner.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void assign(struct probe *h, struct runner_command command)
{
	struct fault f;

	command.verb = RUNNER_ASSIGN;
	command.next_run = command.run;
	command.run = h->run;
	assert_int_equal(runner_send(probe_socket, &command, NULL, &f), LH_OK);
}

static struct runner_report expect_news(struct probe *h, uint32_t news, uint64_t run)
{
	struct runner_report report;

	assert_true(probe_news(h, &report));
	assert_int_equal(report.news, news);
	assert_int_equal(report.run, run);
	return report;
}

/* A new number for what is sent from now; the old one, and with it a late word on the former run, means nothing any more. */
static void test_goes_on(void **state)
{
	struct runner_command next = probe_defaults();
	struct runner_report report;
	int64_t before = clock_boot_ms();
	struct probe h, old;

	(void)state;
	probe_start_shell(&h, probe_defaults(), "read x; exit 5");
	probe_expect_started(&h);
	old = h;
	assign(&h, next);
	report = expect_news(&h, RUNNER_ASSIGNED, next.run);
	assert_true(report.started_ms >= before);
	assert_int_equal(report.pid, h.pid);
	h.run = next.run;
	probe_send_deadline(&old, clock_boot_ms() - 1);
	probe_send_end(&old, END_CANCEL, 0);
	next = probe_defaults();
	assign(&h, next);
	expect_news(&h, RUNNER_ASSIGNED, next.run);
	probe_close_stdin(&h);
	report = probe_expect_ended(&h);
	assert_int_equal(WEXITSTATUS(report.wait_status), 5);
	assert_int_equal(report.reason, END_NONE);
	assert_int_equal(report.run, next.run);
}

/* Its times count from the assignment. */
static void test_times_start_anew(void **state)
{
	struct runner_command first = probe_defaults(), next = probe_defaults();
	struct runner_report report, end;
	struct probe h;

	(void)state;
	first.kill_at_ms = clock_boot_ms() + 1500;
	probe_start_shell(&h, first, "exec sleep 1000");
	probe_expect_started(&h);
	next.timeout_ms = 2000;
	assign(&h, next);
	report = expect_news(&h, RUNNER_ASSIGNED, next.run);
	end = probe_expect_ended(&h);
	assert_int_equal(end.reason, END_TIMEOUT);
	assert_int_equal(end.started_ms, report.started_ms);
	probe_expect_between(end.ended_ms, report.started_ms + 2000);
}

static void test_deadline_has_passed(void **state)
{
	struct runner_command late = probe_defaults();
	struct probe h;

	(void)state;
	probe_start_shell(&h, probe_defaults(), "read x; exit 0");
	probe_expect_started(&h);
	late.kill_at_ms = clock_boot_ms() - 1;
	assign(&h, late);
	assert_int_equal(expect_news(&h, RUNNER_NOT_ASSIGNED, late.run).error, 0);
	/* It is what it was. */
	probe_close_stdin(&h);
	assert_int_equal(WEXITSTATUS(probe_expect_ended(&h).wait_status), 0);
}

/* It has ended, and the runner has not yet looked: it is not promised for anything any more. */
static void test_has_ended(void **state)
{
	struct runner_command next = probe_defaults();
	struct runner_report report;
	struct probe h;
	int status;

	(void)state;
	probe_start_shell(&h, probe_defaults(), "read x; exit 8");
	probe_expect_started(&h);
	assert_int_equal(kill(probe_runner, SIGSTOP), 0);
	assert_int_equal(waitpid(probe_runner, &status, WUNTRACED), probe_runner);
	probe_close_stdin(&h);
	while (read(h.fds[RUNNER_FD_STDOUT], &status, sizeof(status)) > 0)
		;
	probe_pause_ms(50); /* its pipes close a moment before it has ended */
	assign(&h, next);
	assert_int_equal(kill(probe_runner, SIGCONT), 0);
	assert_true(probe_news(&h, &report));
	if (report.news == RUNNER_NOT_ASSIGNED)
		assert_true(report.error != 0 && probe_news(&h, &report));
	assert_int_equal(report.news, RUNNER_ENDED);
	assert_int_equal(WEXITSTATUS(report.wait_status), 8);
	probe_close(&h);
}

/* The number of another run is not taken from it. */
static void test_number_is_taken(void **state)
{
	struct runner_command command = probe_defaults();
	struct probe h, other;

	(void)state;
	probe_start_shell(&h, probe_defaults(), "read x");
	probe_expect_started(&h);
	probe_start_shell(&other, command, "read x; exit 7");
	probe_expect_started(&other);
	assign(&h, command);
	assert_true(expect_news(&h, RUNNER_NOT_ASSIGNED, command.run).error != 0);
	probe_close_stdin(&other);
	assert_int_equal(WEXITSTATUS(probe_expect_ended(&other).wait_status), 7);
	probe_close_stdin(&h);
	(void)probe_expect_ended(&h);
}

/* First the word, then TERM, then KILL. */
static void test_asked_first(void **state)
{
	struct runner_command command = probe_defaults();
	int64_t asked_at, kill_at = clock_boot_ms() + 2000;
	struct runner_report end;
	struct probe h;

	(void)state;
	command.kill_at_ms = kill_at;
	command.grace_ms = 1200;
	command.ask_ms = 600;
	probe_start_shell(&h, command, "trap 'echo 1' TERM; while :; do sleep 0.01; done");
	probe_expect_started(&h);
	assert_int_equal(expect_news(&h, RUNNER_ENDING, command.run).reason, END_LEASE);
	asked_at = clock_boot_ms();
	probe_expect_between(asked_at, kill_at - 1200);
	assert_int_equal(probe_read_number(&h), 1);
	probe_expect_between(clock_boot_ms(), kill_at - 600);
	end = probe_expect_ended(&h);
	probe_expect_between(end.ended_ms, kill_at);
	assert_int_equal(WTERMSIG(end.wait_status), SIGKILL);
	assert_int_equal(end.reason, END_LEASE);
}

/* Who gives in before TERM goes on; who does not, does not. */
static void test_assigned_after_the_word(void **state)
{
	struct runner_command command = probe_defaults(), next = probe_defaults();
	struct runner_report end;
	struct probe h;

	(void)state;
	command.grace_ms = 60000;
	command.ask_ms = 30000;
	probe_start_shell(&h, command, "trap '' TERM; echo 1; read x; exit 3");
	probe_expect_started(&h);
	(void)probe_read_number(&h);
	probe_send_end(&h, END_CANCEL, 60000);
	assert_int_equal(expect_news(&h, RUNNER_ENDING, command.run).reason, END_CANCEL);
	assign(&h, next);
	expect_news(&h, RUNNER_ASSIGNED, next.run);
	h.run = next.run;
	/* The end is called off, and with it its reason: this is a new one. TERM at once, for it is not asked. */
	probe_send_end(&h, END_TIMEOUT, 60000);
	next = probe_defaults();
	assign(&h, next);
	assert_true(expect_news(&h, RUNNER_NOT_ASSIGNED, next.run).error != 0);
	probe_close_stdin(&h);
	end = probe_expect_ended(&h);
	assert_int_equal(WEXITSTATUS(end.wait_status), 3);
	assert_int_equal(end.reason, END_TIMEOUT);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, probe_setup, probe_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_goes_on),         TEST(test_times_start_anew), TEST(test_deadline_has_passed),
		TEST(test_has_ended),       TEST(test_number_is_taken),  TEST(test_asked_first),
		TEST(test_assigned_after_the_word),
	};

	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		return EXIT_FAILURE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
