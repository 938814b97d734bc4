/* test_runner_escape.c - processes that leave their handler's group or session, or are disowned, end with it all the same; and
 * nobody else's do. The handlers are this program itself, so that each process of a run carries the run's mark in its arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "probe.h"
#include "runner/children.h"
#include "runner/runner.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PLAY "--play"
#define PLAY_MS 20000 /* what nobody ended ends then by itself */
#define OTHER_USER 54321

/* ---- The handlers */

static _Noreturn void play_stay(void)
{
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	(void)poll(NULL, 0, PLAY_MS);
	_exit(0);
}

static _Noreturn void play_tell_and_stay(void)
{
	printf("%d\n", (int)getpid());
	fflush(stdout);
	play_stay();
}

/* A new session, and nothing open: nothing but its parent tells whose it is. */
static void play_setsid(void)
{
	if (fork() == 0) {
		setsid();
		play_tell_and_stay();
	}
}

static void play_daemon(void)
{
	if (fork() != 0)
		return;
	setsid();
	if (fork() != 0)
		_exit(0);
	printf("%d\n", (int)getpid());
	fflush(stdout);
	for (int fd = 0; fd < 64; fd++)
		close(fd);
	play_stay();
}

/* It collects the orphans below it, so that they come up only when it has gone. */
static void play_reaper(void)
{
	if (fork() != 0)
		return;
	setsid();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int depth = 0; depth < 4; depth++) {
		if (fork() == 0) {
			setsid();
			prctl(PR_SET_CHILD_SUBREAPER, 1);
			play_daemon();
			if (depth == 3)
				play_stay();
		} else {
			play_stay();
		}
	}
}

static void play_other_user(void)
{
	if (fork() != 0)
		return;
	setsid();
	if (setresgid(OTHER_USER, OTHER_USER, OTHER_USER) != 0 || setresuid(OTHER_USER, OTHER_USER, OTHER_USER) != 0)
		_exit(1);
	play_tell_and_stay();
}

/* Never the same process for long, never the same group. */
static void play_chain(void)
{
	int64_t until_ms = clock_boot_ms() + PLAY_MS;

	if (fork() != 0)
		return;
	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (clock_boot_ms() < until_ms) {
		setsid();
		if (fork() != 0)
			_exit(0);
	}
	_exit(0);
}

/* 64 of them, most of them disowned, each in a session of its own. */
static void play_bomb(void)
{
	for (int i = 0; i < 6; i++) {
		if (fork() == 0)
			setsid();
	}
}

static int play(const char *part)
{
	static const struct {
		const char *name;
		void (*play)(void);
	} parts[] = {
		{"setsid", play_setsid}, {"daemon", play_daemon}, {"reaper", play_reaper}, {"user", play_other_user},
		{"chain", play_chain},   {"bomb", play_bomb},
	};
	pid_t leader = getpid();

	for (size_t i = 0; i < COUNT(parts); i++) {
		if (strcmp(part, parts[i].name) == 0)
			parts[i].play();
	}
	if (getpid() != leader)
		play_stay();
	(void)!read(STDIN_FILENO, &(char){0}, 1); /* until the test has seen enough */
	return 0;
}

/* ---- What the test sees of them */

static const char *mark_of(const struct probe *h)
{
	static char mark[64];

	snprintf(mark, sizeof(mark), "mark-%d-%llu", (int)getpid(), (unsigned long long)h->run);
	return mark;
}

static void start_part(struct probe *h, struct runner_command command, const char *part)
{
	h->run = command.run;
	probe_start(h, command, NULL, (const char *const[]){probe_self(), PLAY, part, mark_of(h), NULL});
	probe_expect_started(h);
}

static bool carries(const char *pid, const char *mark)
{
	char path[64], line[4096];
	bool found = false;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%.32s/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, line, sizeof(line) - 1);
	close(fd);
	line[n > 0 ? n : 0] = '\0';
	for (ssize_t at = 0; at < n && !found; at += (ssize_t)strlen(line + at) + 1)
		found = strcmp(line + at, mark) == 0;
	return found;
}

/* How many processes of a run there are; the dead have no arguments any more. */
static int count_marked(const struct probe *h)
{
	const char *mark = mark_of(h);
	const struct dirent *entry;
	DIR *proc = opendir("/proc");
	int count = 0;

	assert_non_null(proc);
	while ((entry = readdir(proc)) != NULL) {
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			count += carries(entry->d_name, mark);
	}
	closedir(proc);
	return count;
}

static void expect_gone(const struct probe *h, const struct runner_report *end)
{
	assert_int_equal(end->group_gone, 1);
	assert_int_equal(count_marked(h), 0);
}

/* ---- The tests */

static void test_escapes_end_with_their_leader(void **state)
{
	static const char *const parts[] = {"setsid", "daemon", "reaper", "user"};
	struct runner_report end;
	struct probe h;

	(void)state;
	for (size_t i = 0; i < COUNT(parts); i++) {
		if (strcmp(parts[i], "user") == 0 && geteuid() != 0)
			continue;
		start_part(&h, probe_defaults(), parts[i]);
		assert_true(probe_read_number(&h) > 1);
		assert_true(count_marked(&h) >= 2);
		probe_close_stdin(&h);
		end = probe_expect_ended(&h);
		assert_true(WIFEXITED(end.wait_status));
		expect_gone(&h, &end);
	}
}

/* The same where the handler is ended instead of ending. */
static void test_escapes_end_with_a_killed_leader(void **state)
{
	static const char *const parts[] = {"setsid", "daemon", "reaper"};
	struct runner_command command = probe_defaults();
	struct runner_report end;
	struct probe h;

	(void)state;
	for (size_t i = 0; i < COUNT(parts); i++) {
		command = probe_defaults();
		command.timeout_ms = 500;
		command.grace_ms = 100;
		start_part(&h, command, parts[i]);
		assert_true(probe_read_number(&h) > 1);
		end = probe_expect_ended(&h);
		assert_int_equal(end.reason, END_TIMEOUT);
		expect_gone(&h, &end);
	}
}

static void test_those_that_fork_all_the_time(void **state)
{
	static const char *const parts[] = {"chain", "bomb"};
	struct runner_report end;
	struct probe h;

	(void)state;
	for (size_t i = 0; i < COUNT(parts); i++) {
		start_part(&h, probe_defaults(), parts[i]);
		if (i == 0)
			assert_true(probe_read_number(&h) > 1);
		probe_close_stdin(&h);
		end = probe_expect_ended(&h);
		expect_gone(&h, &end);
	}
}

static void test_many_at_once(void **state)
{
	struct probe many[24], bystander;
	struct runner_report end;
	pid_t other;

	(void)state;
	start_part(&bystander, probe_defaults(), "daemon");
	other = (pid_t)probe_read_number(&bystander);
	for (size_t i = 0; i < COUNT(many); i++)
		start_part(&many[i], probe_defaults(), i % 3 == 0 ? "setsid" : i % 3 == 1 ? "daemon" : "reaper");
	for (size_t i = 0; i < COUNT(many); i++)
		assert_true(probe_read_number(&many[i]) > 1);
	for (size_t i = 0; i < COUNT(many); i++)
		probe_close_stdin(&many[i]);
	for (size_t i = 0; i < COUNT(many); i++) {
		end = probe_expect_ended(&many[i]);
		expect_gone(&many[i], &end);
	}
	/* The one that did not end still has what it disowned. */
	assert_int_equal(kill(other, 0), 0);
	assert_int_equal(count_marked(&bystander), 2);
	probe_close_stdin(&bystander);
	end = probe_expect_ended(&bystander);
	expect_gone(&bystander, &end);
}

/* One that is dead but cannot be reaped, because somebody traces it: its run is reported after a bounded time, and as not gone. A
 * run that began while it was there does not wait for it. */
static void test_one_that_stays(void **state)
{
	struct runner_report end;
	struct probe h, next;
	int64_t began_ms;
	pid_t held;

	(void)state;
	start_part(&h, probe_defaults(), "daemon");
	start_part(&next, probe_defaults(), "daemon");
	held = (pid_t)probe_read_number(&h);
	assert_true(probe_read_number(&next) > 1);
	if (ptrace(PTRACE_SEIZE, held, NULL, NULL) != 0) {
		print_message("tracing is not allowed here\n");
		probe_close_stdin(&h);
		probe_close_stdin(&next);
		probe_expect_ended(&h);
		probe_expect_ended(&next);
		skip();
	}
	began_ms = clock_boot_ms();
	probe_close_stdin(&h);
	assert_false(probe_readable(h.fds[RUNNER_FD_STATUS], began_ms + 300));
	began_ms = clock_boot_ms();
	probe_close_stdin(&next);
	end = probe_expect_ended(&next);
	expect_gone(&next, &end);
	assert_true(clock_boot_ms() - began_ms < 1000 + PROBE_LATE_MS);
	end = probe_expect_ended(&h);
	assert_int_equal(end.group_gone, 0);
	assert_int_equal(WEXITSTATUS(end.wait_status), 0);
	/* Once it can be reaped, it is. */
	assert_int_equal(waitpid(held, NULL, 0), held);
	probe_expect_gone(held);
}

/* The daemon has gone, or closed its socket: with the handlers goes what left them. */
static void test_socket_closes(void **state)
{
	struct probe h;
	struct runner_report end;

	(void)state;
	start_part(&h, probe_defaults(), "daemon");
	assert_true(probe_read_number(&h) > 1);
	close(probe_socket);
	probe_socket = -1;
	end = probe_expect_ended(&h);
	assert_int_equal(end.reason, END_SHUTDOWN);
	expect_gone(&h, &end);
}

/* Both ways of finding children find the same, in the same order. */
static void test_children(void **state)
{
	struct children by_list, by_scan;
	pid_t pids[40];

	(void)state;
	children_init(&by_list);
	children_init(&by_scan);
	by_scan.scan = true;
	for (size_t i = 0; i < COUNT(pids); i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			prctl(PR_SET_NAME, ") R 1 1"); /* a name that tries to look like the rest of the line */
			if (i % 2 == 0)
				_exit(0);
			for (;;)
				pause();
		}
	}
	assert_true(children_list(&by_list));
	assert_true(children_list(&by_scan));
	assert_int_equal(by_list.count, COUNT(pids) + 1); /* and the runner */
	assert_int_equal(by_scan.count, COUNT(pids) + 1);
	for (size_t i = 0; i < COUNT(pids); i++) {
		size_t at = 0;

		assert_int_equal(by_list.pids[i + 1], pids[i]);
		while (at < by_scan.count && by_scan.pids[at] != pids[i])
			at++;
		assert_true(at < by_scan.count);
	}
	for (size_t i = 0; i < COUNT(pids); i++) {
		kill(pids[i], SIGKILL);
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	}
	assert_true(children_list(&by_list));
	assert_int_equal(by_list.count, 1);
	children_free(&by_list);
	children_free(&by_scan);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, probe_setup, probe_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_escapes_end_with_their_leader),
		TEST(test_escapes_end_with_a_killed_leader),
		TEST(test_those_that_fork_all_the_time),
		TEST(test_many_at_once),
		TEST(test_one_that_stays),
		TEST(test_socket_closes),
		TEST(test_children),
	};

	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	if (argc == 4 && strcmp(argv[1], PLAY) == 0)
		return play(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
