/* runner_link.c - see runner_link.h. */
#include "handler/runner_link.h"

#include "base/clock.h"
#include "handler/runner_left.h"
#include "runner/cgroup.h"
#include "runner/runner.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNNER_LINK_SELF "/proc/self/exe"
#define RUNNER_LINK_TITLE "lh-runner" /* what ps shows */
#define RUNNER_LINK_QUEUE_BYTES (4 * 1024 * 1024)
#define RUNNER_LINK_START_WAIT_MS 1000
#define RUNNER_LINK_WAIT_MS 200
#define RUNNER_LINK_PAUSE_MS 5
#define RUNNER_LINK_LEAVE_MS 10000
#define RUNNER_LINK_CLEAR_MS 2000 /* how long what a dead runner left may take to end */
#define RUNNER_LINK_CLEAR_PAUSE_MS 2
#define RUNNER_LINK_RUNS 40 /* bits of a run's number that count; those above tell which runner it is for */

struct runner_link {
	/* Held shared while sending, so that the socket stays the one it is. The one lock here under which a system call is
	 * made: sending does not wait unless the runner's queue is full. */
	pthread_rwlock_t lock;
	char *program;
	int socket;  /* -1: none */
	pid_t pid;   /* 0: none */
	bool wanted; /* it was started once, so revive keeps one running */
	uint64_t generation; /* how many there were before this one */
	struct runner_left left;
	atomic_uint_fast64_t next_run;
};

struct runner_link *runner_link_new(const char *program)
{
	struct runner_link *link = calloc(1, sizeof(*link));

	if (link == NULL)
		return NULL;
	link->program = strdup(program == NULL ? RUNNER_LINK_SELF : program);
	if (link->program == NULL || pthread_rwlock_init(&link->lock, NULL) != 0) {
		free(link->program);
		free(link);
		return NULL;
	}
	link->socket = -1;
	runner_left_init(&link->left);
	atomic_init(&link->next_run, 1);
	return link;
}

/* Every signal is blocked until the runner has arranged itself, and it is in no terminal's session: what is meant for the
 * daemon cannot hit it. */
static int runner_link_attributes(posix_spawnattr_t *attributes)
{
	sigset_t all;
	int err = posix_spawnattr_init(attributes);

	if (err != 0)
		return err;
	sigfillset(&all);
	posix_spawnattr_setsigmask(attributes, &all);
	posix_spawnattr_setsigdefault(attributes, &all);
	return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
}

/* Our own descriptors close on execve; those that a library opened without that mark the runner closes itself, as the first
 * thing it does. */
static int runner_link_spawn(const struct runner_link *link, int socket, pid_t *pid)
{
	char title[] = RUNNER_LINK_TITLE, argument[] = RUNNER_ARGUMENT;
	char *const argv[] = {title, argument, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int err = posix_spawn_file_actions_init(&actions);

	if (err != 0)
		return err;
	err = runner_link_attributes(&attributes);
	if (err == 0)
		err = posix_spawn_file_actions_adddup2(&actions, socket, RUNNER_SOCKET_FD);
	if (err == 0)
		err = posix_spawn(pid, link->program, &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return err;
}

static enum lh_err runner_link_launch(struct runner_link *link, struct fault *f)
{
	const int queue_bytes = RUNNER_LINK_QUEUE_BYTES;
	int pair[2], err;
	pid_t pid;

	/* When the runner dies, its handlers and all that they left come to us. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		return fault_set_errno(f, errno, "cannot become the reaper of handlers that lose their runner");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return fault_set_errno(f, errno, "cannot make the runner's socket");
	/* As much as the system lets us have: a full queue makes a heartbeat wait. */
	(void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &queue_bytes, sizeof(queue_bytes));
	if (!link->wanted) {
		runner_left_look(&link->left, 0);
		runner_left_accept(&link->left, 0);
	}
	err = runner_link_spawn(link, pair[1], &pid);
	close(pair[1]);
	if (err != 0) {
		close(pair[0]);
		return fault_set_errno(f, err, "cannot start the runner (%s)", link->program);
	}
	link->socket = pair[0];
	link->pid = pid;
	if (link->wanted)
		atomic_store(&link->next_run, (++link->generation << RUNNER_LINK_RUNS) + 1);
	link->wanted = true;
	return LH_OK;
}

enum lh_err runner_link_take_groups(unsigned int needs, bool always, struct fault *f)
{
	return needs == 0 ? LH_OK : cgroup_take(needs, always, f);
}

enum lh_err runner_link_start(struct runner_link *link, struct fault *f)
{
	enum lh_err err = LH_OK;

	pthread_rwlock_wrlock(&link->lock);
	if (link->pid == 0)
		err = runner_link_launch(link, f);
	pthread_rwlock_unlock(&link->lock);
	return err;
}

static void runner_link_describe(pid_t pid, int status, struct fault *f)
{
	char buffer[32];
	const char *name = outcome_signal_name(WTERMSIG(status), buffer, sizeof(buffer));

	if (WIFSIGNALED(status))
		fault_set(f, LH_ERR_LOST, "the runner (pid %d) was killed by %s", (int)pid, name);
	else
		fault_set(f, LH_ERR_LOST, "the runner (pid %d) exited with status %d", (int)pid, WEXITSTATUS(status));
}

/* Closes the socket of a runner that has been reaped. */
static void runner_link_forget(struct runner_link *link)
{
	if (link->socket >= 0)
		close(link->socket);
	link->socket = -1;
	link->pid = 0;
}

/* Reaps the runner if it has ended, and what else is dead. What is listed before the runner is seen alive was there while it
 * lived. */
static void runner_link_reap(struct runner_link *link, struct fault *why)
{
	int status;

	runner_left_look(&link->left, link->pid);
	if (waitpid(link->pid, &status, WNOHANG) != link->pid) {
		runner_left_accept(&link->left, link->pid);
		return;
	}
	runner_link_describe(link->pid, status, why);
	runner_link_forget(link);
	link->left.clearing = true;
}

bool runner_link_revive(struct runner_link *link, struct fault *f)
{
	bool revived = false;
	struct fault why = {.code = LH_ERR_LOST, .text = "the runner had ended"}, trouble;

	pthread_rwlock_wrlock(&link->lock);
	if (link->pid != 0)
		runner_link_reap(link, &why);
	if (link->left.clearing)
		(void)runner_left_end(&link->left, link->pid);
	if (link->wanted && link->pid == 0) {
		revived = runner_link_launch(link, &trouble) == LH_OK;
		if (f != NULL)
			*f = revived ? why : trouble;
	} else if (f != NULL) {
		*f = (struct fault){.code = LH_OK};
	}
	pthread_rwlock_unlock(&link->lock);
	return revived;
}

pid_t runner_link_pid(struct runner_link *link)
{
	pid_t pid;

	pthread_rwlock_rdlock(&link->lock);
	pid = link->pid;
	pthread_rwlock_unlock(&link->lock);
	return pid;
}

/* Whether the runner that was to start a run is dead for certain: all that it had is ours then. Its pipes close a little earlier
 * than that. */
static bool runner_link_is_dead(const struct runner_link *link, uint64_t run)
{
	siginfo_t info = {.si_pid = 0};

	if (link->pid == 0 || run >> RUNNER_LINK_RUNS < link->generation)
		return true;
	return waitid(P_PID, (id_t)link->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == link->pid;
}

bool runner_link_clear(struct runner_link *link, uint64_t run)
{
	int64_t until_ms = clock_mono_ms() + RUNNER_LINK_CLEAR_MS;
	bool clear;

	for (;;) {
		pthread_rwlock_wrlock(&link->lock);
		clear = runner_link_is_dead(link, run) && runner_left_end(&link->left, link->pid);
		pthread_rwlock_unlock(&link->lock);
		if (clear || clock_mono_ms() >= until_ms)
			return clear;
		(void)poll(NULL, 0, RUNNER_LINK_CLEAR_PAUSE_MS);
	}
}

uint64_t runner_link_next_run(struct runner_link *link)
{
	return atomic_fetch_add_explicit(&link->next_run, 1, memory_order_relaxed);
}

/* True when it is worth trying again, after having waited for room. Besides a full queue, there may be too many descriptors
 * under way. */
static bool runner_link_wait(int socket, const struct fault *f, int64_t until_ms)
{
	struct pollfd room = {.fd = socket, .events = POLLOUT};
	int64_t left = until_ms - clock_mono_ms();

	if (left <= 0)
		return false;
	if (f->number == EAGAIN)
		return poll(&room, 1, (int)left) >= 0;
	if (f->number != ENOBUFS && f->number != ENOMEM && f->number != ETOOMANYREFS)
		return false;
	room.events = 0;
	return poll(&room, 1, left < RUNNER_LINK_PAUSE_MS ? (int)left : RUNNER_LINK_PAUSE_MS) >= 0;
}

static enum lh_err runner_link_send(struct runner_link *link, const struct runner_command *command,
				    const struct runner_start *start, int64_t patience_ms, struct fault *f)
{
	struct fault own;
	int64_t until_ms = 0;
	enum lh_err err;

	if (f == NULL)
		f = &own;
	pthread_rwlock_rdlock(&link->lock);
	if (link->socket < 0)
		err = fault_set(f, LH_ERR_LOST, "no runner is running");
	else if ((command->verb == RUNNER_START || command->verb == RUNNER_ASSIGN) &&
		 command->run >> RUNNER_LINK_RUNS != link->generation)
		err = fault_set(f, LH_ERR_LOST, "the runner that it was for has died");
	else
		err = runner_send(link->socket, command, start, f);
	while (err == LH_ERR_SYSTEM) {
		if (until_ms == 0)
			until_ms = clock_mono_ms() + patience_ms;
		if (!runner_link_wait(link->socket, f, until_ms))
			break;
		err = runner_send(link->socket, command, start, f);
	}
	pthread_rwlock_unlock(&link->lock);
	return err;
}

enum lh_err runner_link_send_start(struct runner_link *link, struct runner_start *start, struct fault *f)
{
	start->command.verb = RUNNER_START;
	return runner_link_send(link, &start->command, start, RUNNER_LINK_START_WAIT_MS, f);
}

enum lh_err runner_link_assign(struct runner_link *link, uint64_t run, uint64_t next_run, const struct runner_times *times,
			       struct fault *f)
{
	struct runner_command command = {.verb = RUNNER_ASSIGN,
					 .run = run,
					 .next_run = next_run,
					 .kill_at_ms = times->kill_at_ms,
					 .timeout_ms = times->timeout_ms,
					 .grace_ms = times->grace_ms,
					 .ask_ms = times->ask_ms};

	return runner_link_send(link, &command, NULL, RUNNER_LINK_START_WAIT_MS, f);
}

void runner_link_deadline(struct runner_link *link, uint64_t run, int64_t kill_at_ms)
{
	struct runner_command command = {.verb = RUNNER_DEADLINE, .run = run, .kill_at_ms = kill_at_ms};

	/* One that is lost leaves the earlier deadline in force: the handler ends too soon, never too late. */
	(void)!runner_link_send(link, &command, NULL, RUNNER_LINK_WAIT_MS, NULL);
}

void runner_link_end(struct runner_link *link, uint64_t run, enum end_reason reason, int64_t grace_ms)
{
	struct runner_command command = {.verb = RUNNER_END, .reason = (uint32_t)reason, .run = run, .grace_ms = grace_ms};

	(void)!runner_link_send(link, &command, NULL, RUNNER_LINK_WAIT_MS, NULL);
}

/* The runner ends every group when it reads the end of file, and its own end closes when it exits: that is what we wait for. */
static void runner_link_stop(struct runner_link *link)
{
	struct pollfd gone = {.fd = link->socket, .events = 0};

	(void)shutdown(link->socket, SHUT_WR);
	if (poll(&gone, 1, RUNNER_LINK_LEAVE_MS) <= 0)
		(void)kill(link->pid, SIGKILL);
	while (waitpid(link->pid, NULL, 0) < 0 && errno == EINTR)
		;
	runner_link_forget(link);
	(void)runner_link_clear(link, 0);
}

void runner_link_free(struct runner_link *link)
{
	if (link == NULL)
		return;
	if (link->pid != 0)
		runner_link_stop(link);
	runner_left_free(&link->left);
	pthread_rwlock_destroy(&link->lock);
	free(link->program);
	free(link);
}
