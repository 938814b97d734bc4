/* test_stream_set.c - the warm processes of an instance: how they start and fail to, how many there are, and when they go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stream_bench.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "runner/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char log_path[] = "/tmp/test_stream_set.XXXXXX";
static int log_fd = -1;

/* What was logged since the last call. */
static const char *logged(void)
{
	static char text[65536];
	ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);

	assert_int_equal(ftruncate(log_fd, 0), 0);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* Each of these costs its job nothing: it is put back for a while, and the log says why. */
static void test_failed_starts(void **state)
{
	static const struct {
		const char *mode, *why;
	} cases[] = {
		{"exit", "it ended before it was ready: exit status 3"},
		{"crash", "it ended before it was ready: killed by SIGSEGV"},
		{"silent", "it said nothing within start_timeout, 1s"},
		{"garbage", "protocol error: it is not JSON: "},
		{"version", "protocol error: it speaks version 2, and we version 1"},
		{"early", "protocol error: its first line is not a \"hello\""},
	};
	struct stream_bench s;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct run_facts *facts;
		const char *text;
		int64_t before;

		(void)logged();
		stream_bench_init(&s, cases[i].mode);
		s.b.handler.start_timeout_ms = 1000;
		s.b.handler.kill_grace_ms = 200;
		if (strcmp(cases[i].mode, "silent") != 0)
			s.b.handler.start_timeout_ms = 60000;
		facts = stream_bench_run(&s, "pass");
		assert_int_equal(facts->end, RUN_NOT_STARTED);
		assert_null(facts->exec_stage);
		assert_in_range(facts->put_back_ms, 1000, 2200);
		assert_int_equal(s.b.starts, 0);
		text = logged();
		assert_non_null(strstr(text, "kind=mail its process failed: "));
		if (strstr(text, cases[i].why) == NULL)
			fail_msg("%s: %s", cases[i].mode, text);
		if (i == 0)
			assert_non_null(strstr(text, "stderr: cannot find my library"));
		/* The next job does not even try, and nothing more is said. */
		before = clock_mono_ms();
		assert_int_equal(stream_bench_run(&s, "pass")->end, RUN_NOT_STARTED);
		assert_true(clock_mono_ms() - before < 100);
		assert_null(strstr(logged(), "failed"));
		stream_bench_free(&s);
	}
}

static void test_no_such_program(void **state)
{
	char missing[] = "/nonexistent/handler", *argv[] = {missing, NULL};
	struct runner_link *none = runner_link_new(NULL);
	struct stream_bench s;

	(void)state;
	(void)logged();
	stream_bench_init(&s, NULL);
	s.b.handler.command = argv;
	assert_int_equal(stream_bench_run(&s, "pass")->end, RUN_NOT_STARTED);
	assert_true(s.b.report.facts.put_back_ms > 0);
	assert_non_null(strstr(logged(), "cannot start it: execve: No such file or directory"));
	stream_bench_free(&s);
	stream_bench_init(&s, NULL);
	s.b.link = none;
	assert_int_equal(stream_bench_run(&s, "pass")->end, RUN_NOT_STARTED);
	assert_non_null(strstr(logged(), "cannot start it: no runner is running"));
	stream_bench_free(&s);
	runner_link_free(none);
}

/* The pause doubles with each failure, and a job that is done ends it. */
static void test_pauses(void **state)
{
	char born[] = "/tmp/test_stream_born.XXXXXX", variable[64], *env[] = {variable, NULL};
	int fd = mkstemp(born), tried = 0;
	int64_t began, most = 0;
	struct stream_bench s;

	(void)state;
	close(fd);
	unlink(born);
	snprintf(variable, sizeof(variable), "LH_BORN=%s", born);
	stream_bench_init(&s, "unborn");
	s.b.handler.env = env;
	began = clock_mono_ms();
	while (clock_mono_ms() - began < 1500) {
		int64_t before = clock_mono_ms();

		assert_int_equal(stream_bench_run(&s, "pass")->end, RUN_NOT_STARTED);
		tried += clock_mono_ms() - before > 5;
		most = s.b.report.facts.put_back_ms > most ? s.b.report.facts.put_back_ms : most;
		(void)poll(NULL, 0, 2);
	}
	/* After pauses of at least 50, 100, 200, 400 and 800 ms; without them there would be dozens. */
	assert_in_range(tried, 2, 6);
	fd = open(born, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	stream_bench_expect(&s, "pass", OUTCOME_SUCCEEDED, "");
	/* One failure now is a first one. */
	stream_bench_expect(&s, "os._exit(1)", OUTCOME_RETRY, NULL);
	began = clock_mono_ms();
	stream_bench_expect(&s, "pass", OUTCOME_SUCCEEDED, "");
	assert_true(clock_mono_ms() - began < 1000);
	unlink(born);
	stream_bench_free(&s);
}

/* A process that says something before it is asked never gets the job. */
static void test_chatter(void **state)
{
	struct stream_bench s;

	(void)state;
	(void)logged();
	stream_bench_init(&s, "chatter");
	s.b.handler.kill_grace_ms = 200;
	assert_int_equal(stream_bench_run(&s, "pass")->end, RUN_NOT_STARTED);
	assert_non_null(strstr(logged(), "protocol error: a line without"));
	stream_bench_free(&s);
}

/* It died, or was ended, while it had no job: the job is given to another one, and has cost nothing. */
static void test_died_while_idle(void **state)
{
	struct stream_bench s;
	pid_t pid, next;

	(void)state;
	stream_bench_init(&s, NULL);
	pid = stream_bench_pid(&s);
	bench_kill(pid);
	next = stream_bench_pid(&s);
	assert_true(next != pid);
	/* The sweep sees it, too. */
	bench_kill(next);
	stream_bench_await(&s, 0);
	/* Ended at the very moment at which it is given the job. */
	for (int i = 0; i < 20; i++) {
		pid = stream_bench_pid(&s);
		s.b.kill_at_start = pid;
		stream_bench_expect(&s, "pass", OUTCOME_SUCCEEDED, "");
		s.b.kill_at_start = 0;
	}
	stream_bench_free(&s);
}

static void test_not_wanted(void **state)
{
	struct stream_bench s;
	int64_t before = clock_mono_ms();
	pid_t pid;

	(void)state;
	/* Before it could be started. */
	stream_bench_init(&s, "silent");
	s.b.unwanted = true;
	assert_int_equal(stream_bench_run(&s, "pass")->end, RUN_NOT_STARTED);
	assert_int_equal(s.b.report.facts.put_back_ms, 0);
	assert_int_equal(stream_set_count(s.b.streams), 0);
	stream_bench_free(&s);
	assert_true(clock_mono_ms() - before < 5000);
	/* The lease was lost, or has lapsed, just then: the process stays. */
	stream_bench_init(&s, NULL);
	pid = stream_bench_pid(&s);
	s.b.refuse = true;
	assert_int_equal(stream_bench_run(&s, "pass")->end, RUN_NOT_STARTED);
	assert_null(s.b.report.facts.exec_stage);
	s.b.refuse = false;
	s.b.lease_left_ms = -1;
	assert_int_equal(stream_bench_run(&s, "pass")->end, RUN_NOT_STARTED);
	assert_null(s.b.report.facts.exec_stage);
	s.b.lease_left_ms = 600000;
	assert_int_equal(stream_bench_pid(&s), pid);
	stream_bench_free(&s);
}

static void test_end_of_lease(void **state)
{
	struct stream_bench s;
	int64_t began;

	(void)state;
	stream_bench_init(&s, NULL);
	s.b.handler.kill_grace_ms = 400;
	stream_bench_expect(&s, "pass", OUTCOME_SUCCEEDED, "");
	s.b.lease_left_ms = 1000;
	began = clock_mono_ms();
	stream_bench_expect(&s, "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)", OUTCOME_LEASE_LOST, NULL);
	assert_in_range(clock_mono_ms() - began, 950, 1000 + 3000);
	assert_true(s.b.report.facts.group_gone);
	stream_bench_free(&s);
}

/* An idle process is under nobody's lease. */
static void test_idle_has_no_deadline(void **state)
{
	struct stream_bench s;
	pid_t pid;

	(void)state;
	stream_bench_init(&s, NULL);
	s.b.handler.kill_grace_ms = 100;
	s.b.lease_left_ms = 800;
	s.b.handler.timeout_ms = 800;
	pid = stream_bench_pid(&s);
	(void)poll(NULL, 0, 1200);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(stream_bench_pid(&s), pid);
	stream_bench_free(&s);
}

/* What we end ourselves has not failed: the next one is started at once. */
static void test_ended_is_no_failure(void **state)
{
	struct stream_bench s;

	(void)state;
	stream_bench_init(&s, NULL);
	s.b.handler.kill_grace_ms = 200;
	for (int i = 0; i < 2; i++) {
		(void)logged();
		s.b.handler.timeout_ms = 100;
		assert_int_equal(stream_bench_run(&s, "time.sleep(1000)")->reason, END_TIMEOUT);
		s.b.handler.timeout_ms = 0;
		assert_int_equal(stream_bench_run(&s, "pass")->end, RUN_ANSWERED);
		assert_null(strstr(logged(), "failed"));
	}
	stream_bench_free(&s);
}

static void test_max_jobs(void **state)
{
	struct stream_bench s;
	pid_t pid;

	(void)state;
	stream_bench_init(&s, NULL);
	s.b.handler.max_jobs = 3;
	s.b.handler.kill_grace_ms = 20000;
	pid = stream_bench_pid(&s);
	assert_int_equal(stream_bench_pid(&s), pid);
	assert_int_equal(stream_bench_pid(&s), pid);
	assert_true(stream_bench_pid(&s) != pid);
	/* The old one ends by itself when its input does, long before it would be made to. */
	stream_bench_await(&s, 1);
	stream_bench_free(&s);
}

static void test_idle_timeout(void **state)
{
	struct stream_bench s;
	pid_t pid;

	(void)state;
	(void)logged();
	stream_bench_init(&s, NULL);
	s.b.handler.idle_timeout_ms = 1;
	pid = stream_bench_pid(&s);
	(void)poll(NULL, 0, 5);
	stream_bench_await(&s, 0);
	assert_int_equal(kill(pid, 0), -1);
	s.b.handler.idle_timeout_ms = 600000;
	pid = stream_bench_pid(&s);
	stream_set_sweep(s.b.streams);
	assert_int_equal(stream_bench_pid(&s), pid);
	/* What it says while it waits is told, with its process. */
	stream_bench_expect(&s, "import threading; threading.Timer(0.1, lambda: os.write(2, b'still here\\n')).start()",
			    OUTCOME_SUCCEEDED, "");
	for (int i = 0; i < 1000 && strstr(logged(), "kind=mail pid=") == NULL; i++) {
		(void)poll(NULL, 0, 5);
		stream_set_sweep(s.b.streams);
	}
	stream_bench_free(&s);
}

/* Idle ones go at once, busy ones as soon as they have answered. */
static void test_reload(void **state)
{
	struct settings *one = settings_new(), *two = settings_new();
	struct stream_bench s;
	pid_t pid;

	(void)state;
	stream_bench_init(&s, NULL);
	s.b.settings = one;
	stream_set_reload(s.b.streams, one);
	pid = stream_bench_pid(&s);
	stream_set_reload(s.b.streams, one);
	assert_int_equal(stream_bench_pid(&s), pid);
	stream_set_reload(s.b.streams, two);
	stream_bench_await(&s, 0);
	assert_int_equal(kill(pid, 0), -1);
	/* A job that still has the old settings starts one more process of theirs, which goes with it. */
	pid = stream_bench_pid(&s);
	stream_bench_await(&s, 0);
	s.b.settings = two;
	pid = stream_bench_pid(&s);
	assert_int_equal(stream_bench_pid(&s), pid);
	stream_bench_free(&s);
	settings_unref(one);
	settings_unref(two);
}

static void test_close(void **state)
{
	struct stream_bench s;
	pid_t pid;

	(void)state;
	stream_bench_init(&s, NULL);
	pid = stream_bench_pid(&s);
	stream_set_close(s.b.streams);
	stream_set_finish(s.b.streams);
	assert_int_equal(stream_set_count(s.b.streams), 0);
	assert_int_equal(kill(pid, 0), -1);
	/* One that still gets a job leaves when it is done; in a hurry, also one that does not want to. */
	stream_bench_expect(&s, "signal.signal(signal.SIGTERM, signal.SIG_IGN); sys.stdin = None; hear = lambda: time.sleep(1000)",
			    OUTCOME_SUCCEEDED, "");
	stream_set_hurry(s.b.streams, 50);
	stream_bench_await(&s, 0);
	stream_bench_free(&s);
}

/* The runner dies: with it the processes, idle or not. */
static void test_runner_dies(void **state)
{
	struct runner_link *link = *state;
	struct stream_bench s;
	struct fault f;
	pid_t pid;

	stream_bench_init(&s, NULL);
	stream_bench_expect(&s, "subprocess.Popen(['sleep', '1000'])", OUTCOME_SUCCEEDED, "");
	pid = stream_bench_pid(&s);
	assert_int_equal(kill(runner_link_pid(link), SIGKILL), 0);
	while (!runner_link_revive(link, &f))
		assert_int_equal(f.code, LH_OK);
	stream_set_sweep(s.b.streams);
	assert_int_equal(stream_set_count(s.b.streams), 0);
	assert_int_equal(kill(-pid, 0), -1);
	assert_true(stream_bench_pid(&s) != pid);
	s.b.kill_on_progress = runner_link_pid(link);
	assert_int_equal(stream_bench_run(&s, "say({**me, 'progress': 5}); time.sleep(1000)")->end, RUN_RUNNER_LOST);
	assert_true(s.b.report.facts.group_gone);
	s.b.kill_on_progress = 0;
	while (!runner_link_revive(link, &f))
		assert_int_equal(f.code, LH_OK);
	stream_bench_expect(&s, "pass", OUTCOME_SUCCEEDED, "");
	stream_bench_free(&s);
}

struct crowd {
	pthread_t thread;
	struct bench b;
	int jobs, wrong;
};

/* No assertions here: they belong to the main thread. */
static void *crowd_main(void *arg)
{
	struct crowd *c = arg;

	for (int i = 0; i < c->jobs; i++) {
		c->b.job.id++;
		bench_run_warm(&c->b);
		if (c->b.report.facts.end != RUN_ANSWERED || !c->b.report.facts.succeeded || c->b.starts != i + 1)
			c->wrong++;
		run_report_free(&c->b.report);
	}
	return NULL;
}

/* More workers than processes: each job gets one in its turn, and there are never more. */
static void test_many_at_once(void **state)
{
	static const char payload[] = "time.sleep(0.002)";
	struct crowd crowd[6] = {0};
	struct stream_bench s;
	struct fault f;

	(void)state;
	stream_bench_init(&s, NULL);
	s.b.handler.processes = 2;
	for (size_t i = 0; i < COUNT(crowd); i++) {
		crowd[i].b = s.b;
		crowd[i].b.job.id = 1000 * (i + 1);
		bench_payload(&crowd[i].b, payload, sizeof(payload) - 1);
		crowd[i].jobs = 20;
		assert_int_equal(thread_start(&crowd[i].thread, "crowd", crowd_main, &crowd[i], &f), LH_OK);
	}
	for (int i = 0; i < 50; i++) {
		assert_true(stream_set_count(s.b.streams) <= 2);
		stream_set_sweep(s.b.streams);
		(void)poll(NULL, 0, 2);
	}
	for (size_t i = 0; i < COUNT(crowd); i++) {
		pthread_join(crowd[i].thread, NULL);
		assert_int_equal(crowd[i].wrong, 0);
		free(crowd[i].b.job.payload);
	}
	assert_true(stream_set_count(s.b.streams) <= 2);
	stream_bench_free(&s);
}

static int setup(void **state)
{
	int result = bench_start_link(state);

	log_fd = mkstemp(log_path);
	unlink(log_path);
	unsetenv("JOURNAL_STREAM");
	(void)fcntl(log_fd, F_SETFL, O_APPEND);
	(void)fcntl(log_fd, F_SETFD, FD_CLOEXEC);
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, log_fd);
	return result;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failed_starts),
		cmocka_unit_test(test_no_such_program),
		cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_chatter),
		cmocka_unit_test(test_died_while_idle),
		cmocka_unit_test(test_not_wanted),
		cmocka_unit_test(test_end_of_lease),
		cmocka_unit_test(test_idle_has_no_deadline),
		cmocka_unit_test(test_ended_is_no_failure),
		cmocka_unit_test(test_max_jobs),
		cmocka_unit_test(test_idle_timeout),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_runner_dies),
		cmocka_unit_test(test_many_at_once),
	};

	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	return cmocka_run_group_tests(tests, setup, bench_stop_link);
}
