/* child.c - see child.h. */
#include "runner/child.h"

#include "runner/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where the descriptors go: the handler's four to 0 to 3, and above them what we still need, until execve closes it. */
#define CHILD_HANDLER_FDS 4
#define CHILD_STATUS RUNNER_FD_STATUS /* 4 */
#define CHILD_FAILURE RUNNER_FDS      /* 5 */
#define CHILD_FDS (RUNNER_FDS + 1)
#define CHILD_FAILED 127

/* All else is closed at once, not by execve: it may take long to get there, and a copy of another run's status pipe would hide
 * that the runner died. A kernel that does not know the call leaves it to execve, for everything that the runner opens is
 * marked so. */
static void child_close_the_rest(void)
{
#ifdef SYS_close_range
	(void)syscall(SYS_close_range, (unsigned int)CHILD_FDS, ~0u, 0u);
#endif
}

/* None may be overwritten while it is still to be copied, so those that lie among the places move out of the way first. */
static int child_place_descriptors(const int fds[RUNNER_FDS], int failure_fd)
{
	int from[CHILD_FDS];

	memcpy(from, fds, sizeof(int) * RUNNER_FDS);
	from[CHILD_FAILURE] = failure_fd;
	for (int i = 0; i < CHILD_FDS; i++) {
		if (from[i] < CHILD_FDS)
			from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, CHILD_FDS);
		if (from[i] < 0)
			return errno;
	}
	for (int i = 0; i < CHILD_FDS; i++) {
		if (dup3(from[i], i, i < CHILD_HANDLER_FDS ? 0 : O_CLOEXEC) < 0)
			return errno;
	}
	child_close_the_rest();
	return 0;
}

static int child_limit(int resource, int64_t value)
{
	struct rlimit limit = {.rlim_cur = (rlim_t)value, .rlim_max = (rlim_t)value};

	if (value < 0)
		return 0;
	if (resource == RLIMIT_CPU) {
		/* A second between the two: SIGXCPU, which has a name that says what happened, comes before SIGKILL. */
		limit.rlim_max++;
		if (setrlimit(RLIMIT_CPU, &limit) == 0)
			return 0;
		limit.rlim_max--;
	}
	return setrlimit(resource, &limit) == 0 ? 0 : errno;
}

static int child_set_limits(const struct runner_limits *limits, const struct rlimit *files)
{
	const struct {
		int resource;
		int64_t value;
	} wanted[] = {
		{RLIMIT_CPU, limits->cpu_s},       {RLIMIT_AS, limits->memory},         {RLIMIT_NOFILE, limits->files},
		{RLIMIT_NPROC, limits->processes}, {RLIMIT_FSIZE, limits->file_size}, {RLIMIT_CORE, limits->core},
	};

	if (files != NULL && limits->files < 0 && setrlimit(RLIMIT_NOFILE, files) != 0)
		return errno;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		int error = child_limit(wanted[i].resource, wanted[i].value);

		if (error != 0)
			return error;
	}
	return 0;
}

static int child_set_user(const struct runner_received *start)
{
	const struct runner_command *command = &start->command;

	if (!command->switch_user)
		return 0;
	/* A runner that is that user already, and not root, could not switch and need not. */
	if (command->uid != 0 && getuid() == command->uid && geteuid() == command->uid && getgid() == command->gid)
		return 0;
	if (setgroups(command->group_count, start->groups) != 0 || setresgid(command->gid, command->gid, command->gid) != 0 ||
	    setresuid(command->uid, command->uid, command->uid) != 0)
		return errno;
	return 0;
}

/* After the user was set, because a change of user undoes it. A parent that died before it took effect is noticed by who our
 * parent is now. */
static int child_tie_to(pid_t parent)
{
	/* What is orphaned below us is ours, and the runner's only when we are gone: see leftovers.h. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		return errno;
	return getppid() == parent ? 0 : ESRCH;
}

static void child_announce(int64_t started_ms)
{
	struct runner_report report = {.news = RUNNER_STARTED, .pid = getpid(), .started_ms = started_ms};

	runner_tell(CHILD_STATUS, &report);
}

static _Noreturn void child_fail(int failure_fd, uint32_t stage, int error)
{
	struct child_failure failure = {.stage = stage, .error = error};

	(void)!write(failure_fd, &failure, sizeof(failure));
	_exit(CHILD_FAILED);
}

/* Goes on only when error is 0. */
static void child_check(uint32_t stage, int error)
{
	if (error != 0)
		child_fail(CHILD_FAILURE, stage, error);
}

_Noreturn void child_become(const struct child *child)
{
	const struct runner_received *start = child->start;
	int error = child->group_fd >= 0 ? cgroup_enter(child->group_fd) : 0;
	sigset_t none;

	if (error != 0)
		child_fail(child->failure_fd, RUNNER_STAGE_GROUP, error);
	error = setsid() >= 0 ? 0 : errno;
	if (error == 0)
		error = child_place_descriptors(start->fds, child->failure_fd);
	if (error != 0)
		child_fail(child->failure_fd, RUNNER_STAGE_SETUP, error);
	child_check(RUNNER_STAGE_LIMITS, child_set_limits(&start->command.limits, child->files));
	child_check(RUNNER_STAGE_USER, child_set_user(start));
	child_check(RUNNER_STAGE_SETUP, child_tie_to(child->parent));
	child_check(RUNNER_STAGE_CWD, start->cwd == NULL || chdir(start->cwd) == 0 ? 0 : errno);
	child_announce(child->started_ms);
	/* The runner left every disposition at its default and blocked the signals instead: what was sent to us meanwhile
	 * arrives now. */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(start->argv[0], start->argv, start->env);
	child_fail(CHILD_FAILURE, RUNNER_STAGE_EXEC, errno);
}
