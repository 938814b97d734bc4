/* probe.c - see probe.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe.h"

#include "base/clock.h"
#include "runner/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int probe_socket = -1;
pid_t probe_runner;

static uint64_t probe_last_run;

void probe_pause_ms(int ms)
{
	(void)poll(NULL, 0, ms);
}

struct runner_command probe_defaults(void)
{
	return (struct runner_command){.verb = RUNNER_START,
				       .run = ++probe_last_run,
				       .kill_at_ms = clock_boot_ms() + PROBE_FAR_MS,
				       .grace_ms = 400,
				       .limits = {-1, -1, -1, -1, -1, -1}};
}

static void probe_send(struct runner_command command)
{
	struct fault f;

	assert_int_equal(runner_send(probe_socket, &command, NULL, &f), LH_OK);
}

void probe_send_deadline(const struct probe *h, int64_t kill_at_ms)
{
	probe_send((struct runner_command){.verb = RUNNER_DEADLINE, .run = h->run, .kill_at_ms = kill_at_ms});
}

void probe_send_end(const struct probe *h, enum end_reason reason, int64_t grace_ms)
{
	probe_send((struct runner_command){.verb = RUNNER_END, .run = h->run, .reason = reason, .grace_ms = grace_ms});
}

void probe_start(struct probe *h, struct runner_command command, const char *cwd, const char *const *argv)
{
	struct runner_start start = {.command = command, .cwd = cwd};
	char *copies[8] = {NULL}, path[] = "PATH=/usr/bin:/bin", *env[] = {path, NULL};
	struct fault f;
	int pair[2];

	for (size_t i = 0; argv[i] != NULL; i++) {
		copies[i] = strdup(argv[i]);
		assert_non_null(copies[i]);
	}
	start.argv = copies;
	start.env = env;
	h->run = command.run;
	h->pid = 0;
	for (int i = 0; i < RUNNER_FDS; i++) {
		assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
		h->fds[i] = pair[i == RUNNER_FD_STDIN];
		start.fds[i] = pair[i != RUNNER_FD_STDIN];
	}
	assert_int_equal(runner_send(probe_socket, &start.command, &start, &f), LH_OK);
	for (int i = 0; i < RUNNER_FDS; i++)
		close(start.fds[i]);
	for (size_t i = 0; copies[i] != NULL; i++)
		free(copies[i]);
}

void probe_start_shell(struct probe *h, struct runner_command command, const char *script)
{
	probe_start(h, command, NULL, (const char *const[]){"/bin/sh", "-c", script, NULL});
}

void probe_close(struct probe *h)
{
	for (int i = 0; i < RUNNER_FDS; i++) {
		if (h->fds[i] >= 0)
			close(h->fds[i]);
		h->fds[i] = -1;
	}
}

bool probe_readable(int fd, int64_t until_ms)
{
	int64_t left = until_ms - clock_boot_ms();
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, left < 0 ? 0 : (int)left) > 0;
}

/* The next news of a run; false at the end of file. */
bool probe_news(struct probe *h, struct runner_report *news)
{
	ssize_t n;

	if (!probe_readable(h->fds[RUNNER_FD_STATUS], clock_boot_ms() + PROBE_PATIENCE_MS))
		fail_msg("no news of run %llu", (unsigned long long)h->run);
	n = read(h->fds[RUNNER_FD_STATUS], news, sizeof(*news));
	assert_true(n == 0 || n == (ssize_t)sizeof(*news));
	return n > 0;
}

void probe_expect_started(struct probe *h)
{
	struct runner_report news;

	assert_true(probe_news(h, &news));
	assert_int_equal(news.news, RUNNER_STARTED);
	assert_true(news.pid > 1);
	h->pid = news.pid;
}

struct runner_report probe_expect_ended(struct probe *h)
{
	struct runner_report news;

	assert_true(probe_news(h, &news));
	assert_int_equal(news.news, RUNNER_ENDED);
	assert_int_equal(news.pid, h->pid);
	assert_true(news.ended_ms >= news.started_ms);
	/* And it is the last word. */
	assert_false(probe_news(h, &(struct runner_report){0}));
	probe_close(h);
	return news;
}

/* Reads a line that the handler prints; it says where it has got to. */
long probe_read_number(struct probe *h)
{
	int out = h->fds[RUNNER_FD_STDOUT];
	char text[64];
	size_t len = 0;

	while (len + 1 < sizeof(text)) {
		if (!probe_readable(out, clock_boot_ms() + PROBE_PATIENCE_MS) || read(out, text + len, 1) != 1)
			fail_msg("run %llu printed no number", (unsigned long long)h->run);
		if (text[len] == '\n')
			break;
		len++;
	}
	text[len] = '\0';
	return strtol(text, NULL, 10);
}

/* All that a short handler prints. */
char *probe_read_all(struct probe *h)
{
	static char text[65536];
	size_t len = 0;
	ssize_t n;

	while ((n = read(h->fds[RUNNER_FD_STDOUT], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	return text;
}

void probe_expect_gone(pid_t pid)
{
	int64_t until_ms = clock_boot_ms() + PROBE_PATIENCE_MS;

	while (kill(pid, 0) == 0 && clock_boot_ms() < until_ms) {
		(void)waitpid(pid, NULL, WNOHANG);
		probe_pause_ms(2);
	}
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
}

const char *probe_self(void)
{
	static char path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

	assert_true(len > 0);
	path[len] = '\0';
	return path;
}

void probe_spawn_runner(void)
{
	char title[] = "lh-runner", argument[] = RUNNER_ARGUMENT, *argv[] = {title, argument, NULL};
	posix_spawn_file_actions_t actions;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pair[1], RUNNER_SOCKET_FD);
	assert_int_equal(posix_spawn(&probe_runner, probe_self(), &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(pair[1]);
	probe_socket = pair[0];
}

int probe_setup(void **state)
{
	(void)state;
	probe_spawn_runner();
	return 0;
}

/* Closes the socket: the runner must leave, and cleanly. */
int probe_teardown(void **state)
{
	int64_t until_ms = clock_boot_ms() + PROBE_PATIENCE_MS;
	int status = -1;

	(void)state;
	if (probe_socket >= 0)
		close(probe_socket);
	while (waitpid(probe_runner, &status, WNOHANG) == 0 && clock_boot_ms() < until_ms)
		probe_pause_ms(2);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}


void probe_expect_between(int64_t at_ms, int64_t earliest_ms)
{
	if (at_ms < earliest_ms || at_ms > earliest_ms + PROBE_LATE_MS)
		fail_msg("at %lld, expected between %lld and %d ms later", (long long)at_ms, (long long)earliest_ms, PROBE_LATE_MS);
}

void probe_close_stdin(struct probe *h)
{
	close(h->fds[RUNNER_FD_STDIN]);
	h->fds[RUNNER_FD_STDIN] = -1;
}
