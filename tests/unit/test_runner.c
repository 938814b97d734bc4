/* test_runner.c - how the runner ends real handlers: by themselves, in time, on request, and when the daemon or the runner dies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "probe.h"
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

static void test_exit_codes(void **state)
{
	static const int codes[] = {0, 1, 65, 75, 126, 127, 255};
	struct runner_report end;
	struct probe h;
	char script[32];

	(void)state;
	for (size_t i = 0; i < COUNT(codes); i++) {
		snprintf(script, sizeof(script), "exit %d", codes[i]);
		probe_start_shell(&h, probe_defaults(), script);
		probe_expect_started(&h);
		end = probe_expect_ended(&h);
		assert_true(WIFEXITED(end.wait_status));
		assert_int_equal(WEXITSTATUS(end.wait_status), codes[i]);
		assert_int_equal(end.error, 0);
		assert_int_equal(end.reason, END_NONE);
		assert_int_equal(end.group_gone, 1);
		assert_true(end.max_rss_kb > 0);
	}
}

static void test_signals(void **state)
{
	static const int signals[] = {SIGSEGV, SIGKILL, SIGPIPE, SIGTERM, SIGHUP, SIGABRT};
	struct runner_report end;
	struct probe h;
	char script[32];

	(void)state;
	for (size_t i = 0; i < COUNT(signals); i++) {
		snprintf(script, sizeof(script), "kill -%d $$", signals[i]);
		probe_start_shell(&h, probe_defaults(), script);
		probe_expect_started(&h);
		end = probe_expect_ended(&h);
		assert_true(WIFSIGNALED(end.wait_status));
		assert_int_equal(WTERMSIG(end.wait_status), signals[i]);
		assert_int_equal(end.error, 0);
		assert_int_equal(end.reason, END_NONE);
	}
}

static void test_use_of_resources(void **state)
{
	struct runner_report end;
	struct probe h;

	(void)state;
	probe_start_shell(&h, probe_defaults(), "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
	probe_expect_started(&h);
	end = probe_expect_ended(&h);
	assert_true(end.cpu_ms > 0);
	assert_true(end.cpu_ms <= end.ended_ms - end.started_ms + PROBE_LATE_MS);
}

static void test_deadline_has_passed(void **state)
{
	struct runner_command command = probe_defaults();
	struct runner_report news;
	struct probe h;

	(void)state;
	command.kill_at_ms = clock_boot_ms();
	probe_start_shell(&h, command, "exit 0");
	assert_true(probe_news(&h, &news));
	assert_int_equal(news.news, RUNNER_NOT_STARTED);
	assert_int_equal(news.error, 0);
	assert_int_equal(news.reason, END_NONE);
	assert_false(probe_news(&h, &news));
	probe_close(&h);
}

static void test_timeout(void **state)
{
	struct runner_command command = probe_defaults();
	struct runner_report end;
	struct probe h;

	(void)state;
	/* Ends on TERM. */
	command.timeout_ms = 300;
	command.grace_ms = 60000;
	probe_start_shell(&h, command, "sleep 1000");
	probe_expect_started(&h);
	end = probe_expect_ended(&h);
	assert_int_equal(WTERMSIG(end.wait_status), SIGTERM);
	assert_int_equal(end.reason, END_TIMEOUT);
	probe_expect_between(end.ended_ms, end.started_ms + 300);
	/* Does not. */
	command = probe_defaults();
	command.timeout_ms = 300;
	command.grace_ms = 300;
	probe_start_shell(&h, command, "trap '' TERM; while :; do sleep 1000; done");
	probe_expect_started(&h);
	end = probe_expect_ended(&h);
	assert_int_equal(WTERMSIG(end.wait_status), SIGKILL);
	assert_int_equal(end.reason, END_TIMEOUT);
	probe_expect_between(end.ended_ms, end.started_ms + 600);
	/* The next run has its full time. */
	command = probe_defaults();
	command.timeout_ms = 60000;
	probe_start_shell(&h, command, "read x; exit 7");
	probe_expect_started(&h);
	probe_close_stdin(&h);
	end = probe_expect_ended(&h);
	assert_int_equal(WEXITSTATUS(end.wait_status), 7);
}

static void test_exit_after_term_is_kept(void **state)
{
	struct runner_command command = probe_defaults();
	struct runner_report end;
	struct probe h;

	(void)state;
	command.timeout_ms = 200;
	command.grace_ms = 60000;
	probe_start_shell(&h, command, "trap 'exit 3' TERM; while :; do sleep 0.01; done");
	probe_expect_started(&h);
	end = probe_expect_ended(&h);
	assert_true(WIFEXITED(end.wait_status));
	assert_int_equal(WEXITSTATUS(end.wait_status), 3);
	assert_int_equal(end.reason, END_TIMEOUT);
}

static void test_end_of_lease(void **state)
{
	struct runner_command command = probe_defaults();
	int64_t kill_at = clock_boot_ms() + 800;
	struct runner_report end;
	struct probe h;
	int64_t term_at;

	(void)state;
	command.kill_at_ms = kill_at;
	command.grace_ms = 400;
	probe_start_shell(&h, command, "trap 'echo 1' TERM; while :; do sleep 0.01; done");
	probe_expect_started(&h);
	assert_int_equal(probe_read_number(&h), 1);
	term_at = clock_boot_ms();
	end = probe_expect_ended(&h);
	probe_expect_between(term_at, kill_at - 400);
	probe_expect_between(end.ended_ms, kill_at);
	assert_int_equal(WTERMSIG(end.wait_status), SIGKILL);
	assert_int_equal(end.reason, END_LEASE);
}

static void test_renewed_lease(void **state)
{
	struct runner_command command = probe_defaults();
	struct runner_report end;
	struct probe h;

	(void)state;
	command.kill_at_ms = clock_boot_ms() + 500;
	command.grace_ms = 100;
	probe_start_shell(&h, command, "read x; exit 5");
	probe_expect_started(&h);
	probe_send_deadline(&h, clock_boot_ms() + PROBE_FAR_MS);
	/* Nothing happens when the first deadline passes. */
	assert_false(probe_readable(h.fds[RUNNER_FD_STATUS], command.kill_at_ms + 100));
	probe_close_stdin(&h);
	end = probe_expect_ended(&h);
	assert_int_equal(WEXITSTATUS(end.wait_status), 5);
	assert_int_equal(end.reason, END_NONE);
	/* And a deadline that is brought forward counts at once. */
	probe_start_shell(&h, probe_defaults(), "sleep 1000");
	probe_expect_started(&h);
	probe_send_deadline(&h, clock_boot_ms() - 1);
	end = probe_expect_ended(&h);
	assert_int_equal(end.reason, END_LEASE);
	assert_int_equal(WTERMSIG(end.wait_status), SIGKILL);
}

/* A renewal that waits in the queue while the old deadline passes (the runner was held up) is read before anyone is killed. */
static void test_messages_before_deadlines(void **state)
{
	struct runner_command command = probe_defaults();
	struct runner_report end;
	struct probe h;
	int status;

	(void)state;
	command.kill_at_ms = clock_boot_ms() + 3000; /* long enough to stop the runner on a busy machine */
	command.grace_ms = 0;
	probe_start_shell(&h, command, "read x; exit 6");
	probe_expect_started(&h);
	assert_int_equal(kill(probe_runner, SIGSTOP), 0);
	assert_int_equal(waitpid(probe_runner, &status, WUNTRACED), probe_runner);
	for (int i = 0; i < 50; i++)
		probe_send_deadline(&(struct probe){.run = 1u << 30}, 0); /* runs that it does not know */
	probe_send_deadline(&h, clock_boot_ms() + PROBE_FAR_MS);
	while (clock_boot_ms() <= command.kill_at_ms)
		probe_pause_ms(10);
	assert_int_equal(kill(probe_runner, SIGCONT), 0);
	probe_close_stdin(&h);
	end = probe_expect_ended(&h);
	assert_int_equal(end.reason, END_NONE);
	assert_true(WIFEXITED(end.wait_status));
	assert_int_equal(WEXITSTATUS(end.wait_status), 6);
}

static void test_end_on_request(void **state)
{
	struct runner_report end;
	struct probe h;

	(void)state;
	probe_start_shell(&h, probe_defaults(), "sleep 1000");
	probe_expect_started(&h);
	probe_send_end(&h, END_CANCEL, 60000);
	end = probe_expect_ended(&h);
	assert_int_equal(WTERMSIG(end.wait_status), SIGTERM);
	assert_int_equal(end.reason, END_CANCEL);
	/* At once. The first reason stands. */
	probe_start_shell(&h, probe_defaults(), "trap '' TERM; echo 1; while :; do sleep 1000; done");
	probe_expect_started(&h);
	assert_int_equal(probe_read_number(&h), 1);
	probe_send_end(&h, END_CANCEL, 60000);
	probe_send_end(&h, END_SHUTDOWN, 0);
	end = probe_expect_ended(&h);
	assert_int_equal(WTERMSIG(end.wait_status), SIGKILL);
	assert_int_equal(end.reason, END_CANCEL);
	/* Right behind the START: whatever the new process was doing just then, it does not get away. */
	for (int i = 0; i < 50; i++) {
		struct runner_report news;

		probe_start_shell(&h, probe_defaults(), "sleep 1000");
		probe_send_end(&h, END_CANCEL, 60000);
		do
			assert_true(probe_news(&h, &news));
		while (news.news == RUNNER_STARTED);
		assert_int_equal(news.news, RUNNER_ENDED);
		assert_int_equal(WTERMSIG(news.wait_status), SIGTERM);
		probe_close(&h);
	}
}

static void test_stopped_handler(void **state)
{
	struct runner_command command = probe_defaults();
	struct runner_report end;
	struct probe h;

	(void)state;
	command.timeout_ms = 200;
	command.grace_ms = 60000;
	probe_start_shell(&h, command, "kill -STOP $$; sleep 1000");
	probe_expect_started(&h);
	end = probe_expect_ended(&h);
	assert_int_equal(WTERMSIG(end.wait_status), SIGTERM);
	command = probe_defaults();
	command.timeout_ms = 200;
	command.grace_ms = 200;
	probe_start_shell(&h, command, "trap '' TERM; while :; do kill -STOP $$; done");
	probe_expect_started(&h);
	end = probe_expect_ended(&h);
	assert_int_equal(WTERMSIG(end.wait_status), SIGKILL);
}

/* What a handler left in its group is ended with it, also what it disowned; and the news comes after that. */
static void test_group_ends_with_its_leader(void **state)
{
	struct runner_command command = probe_defaults();
	struct runner_report end;
	struct probe h;
	pid_t child, orphan;

	(void)state;
	probe_start_shell(&h, probe_defaults(), "sleep 1000 & echo $!; (trap '' TERM HUP; sleep 1000 & echo $!); exit 4");
	probe_expect_started(&h);
	child = (pid_t)probe_read_number(&h);
	orphan = (pid_t)probe_read_number(&h);
	end = probe_expect_ended(&h);
	assert_int_equal(kill(child, 0), -1);
	assert_int_equal(kill(orphan, 0), -1);
	assert_int_equal(WEXITSTATUS(end.wait_status), 4);
	assert_int_equal(end.group_gone, 1);
	/* As a group they also get the TERM of a timeout. */
	command.timeout_ms = 300;
	command.grace_ms = 60000;
	probe_start_shell(&h, command, "trap : TERM; sleep 1000; exit 9");
	probe_expect_started(&h);
	end = probe_expect_ended(&h);
	assert_int_equal(WEXITSTATUS(end.wait_status), 9);
}

static void test_same_number_twice(void **state)
{
	struct runner_command command = probe_defaults();
	struct runner_report news;
	struct probe first, second;

	(void)state;
	probe_start_shell(&first, command, "read x; exit 8");
	probe_start_shell(&second, command, "exit 0");
	probe_expect_started(&first);
	assert_true(probe_news(&second, &news));
	assert_int_equal(news.news, RUNNER_NOT_STARTED);
	assert_int_equal(news.error, EEXIST);
	probe_close(&second);
	probe_close_stdin(&first);
	assert_int_equal(WEXITSTATUS(probe_expect_ended(&first).wait_status), 8);
}

static void test_runner_is_killed(void **state)
{
	struct runner_report news;
	struct probe h;

	(void)state;
	probe_start_shell(&h, probe_defaults(), "trap '' TERM HUP; while :; do sleep 1000; done");
	probe_expect_started(&h);
	assert_int_equal(kill(probe_runner, SIGKILL), 0);
	/* End of file, without a final word: and the handler is dead. What it had started is the daemon's to end; here, ours. */
	assert_false(probe_news(&h, &news));
	probe_expect_gone(h.pid);
	(void)kill(-h.pid, SIGKILL);
	probe_close(&h);
	assert_int_equal(waitpid(probe_runner, NULL, 0), probe_runner);
	close(probe_socket);
	probe_spawn_runner();
}

static void test_socket_closes(void **state)
{
	struct probe handlers[5];
	pid_t children[5];

	(void)state;
	for (size_t i = 0; i < COUNT(handlers); i++) {
		probe_start_shell(&handlers[i], probe_defaults(), "trap '' TERM HUP INT; sleep 1000 & echo $!; wait; sleep 1000");
		probe_expect_started(&handlers[i]);
		children[i] = (pid_t)probe_read_number(&handlers[i]);
	}
	close(probe_socket);
	probe_socket = -1;
	for (size_t i = 0; i < COUNT(handlers); i++) {
		struct runner_report end = probe_expect_ended(&handlers[i]);

		assert_int_equal(WTERMSIG(end.wait_status), SIGKILL);
		assert_int_equal(end.reason, END_SHUTDOWN);
		assert_int_equal(end.group_gone, 1);
		assert_int_equal(kill(children[i], 0), -1);
	}
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, probe_setup, probe_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_exit_codes),
		TEST(test_signals),
		TEST(test_use_of_resources),
		TEST(test_deadline_has_passed),
		TEST(test_timeout),
		TEST(test_exit_after_term_is_kept),
		TEST(test_end_of_lease),
		TEST(test_renewed_lease),
		TEST(test_messages_before_deadlines),
		TEST(test_end_on_request),
		TEST(test_stopped_handler),
		TEST(test_group_ends_with_its_leader),
		TEST(test_same_number_twice),
		TEST(test_runner_is_killed),
		TEST(test_socket_closes),
	};

	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	/* What a dead runner leaves comes to us, to be seen and reaped. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		return EXIT_FAILURE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
