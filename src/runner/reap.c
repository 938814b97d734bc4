/* reap.c - see reap.h. */
#include "runner/reap.h"

#include "base/clock.h"
#include "runner/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAP_MOST 256 /* at a time */
#define REAP_SHELL_KILLED (128 + SIGKILL)

static int64_t reap_cpu_ms(const struct rusage *usage)
{
	return ((int64_t)usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000 +
	       ((int64_t)usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1000;
}

/* The other end was held by the new process alone, and only until its execve: what it had to say is there, and read cannot wait. */
static void reap_read_failure(struct run *run)
{
	struct child_failure failure;

	if (read(run->failure_fd, &failure, sizeof(failure)) == (ssize_t)sizeof(failure)) {
		run->report.stage = failure.stage;
		run->report.error = failure.error;
	}
	close(run->failure_fd);
	run->failure_fd = -1;
}

static void reap_forget_emptying(struct runs *runs, const struct run *run)
{
	struct run **at = &runs->emptying;

	while (*at != NULL && *at != run)
		at = &(*at)->next_emptying;
	if (*at != NULL)
		*at = run->next_emptying;
}

static void reap_finish(struct runs *runs, struct run *run, bool gone)
{
	run->report.news = RUNNER_ENDED;
	run->report.run = run->number;
	run->report.reason = (uint32_t)run->plan.reason;
	run->report.group_gone = gone;
	runner_tell(run->status_fd, &run->report);
	reap_forget_emptying(runs, run);
	if (run->group_fd >= 0)
		cgroup_remove(&runs->groups, run->group, run->group_fd);
	run->group_fd = -1;
	runs_remove(runs, run);
}

/* Whether pid is the leader of a run under way. One that was reaped is none any more, whoever has its number now. */
static bool reap_is_leader(const void *arg, pid_t pid)
{
	const struct run *run = runs_find_pid(arg, pid);

	return run != NULL && run->plan.phase != PLAN_EMPTYING;
}

static void reap_sweep(struct runs *runs)
{
	leftovers_sweep(&runs->left, reap_is_leader, runs);
	for (struct run *run = runs->emptying; run != NULL; run = run->next_emptying)
		(void)leftovers_wait(&runs->left, &run->left);
}

static bool reap_is_gone(const struct run *run)
{
	return kill(-run->pid, 0) != 0 && errno == ESRCH && !run->left.waiting &&
	       (run->group_fd < 0 || cgroup_is_empty(run->group_fd));
}

void reap_look(struct runs *runs, struct run *run, bool give_up)
{
	bool gone;

	reap_sweep(runs);
	if (run->group_fd >= 0)
		cgroup_kill(run->group_fd);
	gone = reap_is_gone(run);
	if (gone || give_up)
		reap_finish(runs, run, gone);
	else
		runs_moved(runs, run);
}

/* A SIGKILL that we did not send, or what a shell makes of that of its child. */
static bool reap_is_unexplained(const struct run *run, int status)
{
	if (!plan_is_open(&run->plan))
		return false;
	return WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == REAP_SHELL_KILLED;
}

static enum run_oom reap_oom(struct runs *runs, const struct run *run, int status, int64_t now_ms)
{
	if (run->group_fd >= 0 && cgroup_oom_kills(run->group_fd) > run->group_oom_before)
		return RUN_OOM_CERTAIN;
	if (reap_is_unexplained(run, status) && oom_count(&runs->oom, now_ms) > run->oom_before)
		return RUN_OOM_PROBABLY;
	return RUN_OOM_NONE;
}

static void reap_leader(struct runs *runs, struct run *run, int64_t now_ms)
{
	struct rusage usage = {0};
	int status = 0;

	/* While the leader is not reaped, nobody else can get its number: this is the moment to end its group. */
	(void)kill(-run->pid, SIGKILL);
	if (run->group_fd >= 0)
		cgroup_kill(run->group_fd);
	reap_read_failure(run);
	(void)wait4(run->pid, &status, WNOHANG, &usage);
	run->report.pid = run->pid;
	run->report.wait_status = status;
	run->report.started_ms = run->plan.started_ms;
	run->report.ended_ms = clock_boot_ms();
	run->report.max_rss_kb = usage.ru_maxrss;
	run->report.cpu_ms = reap_cpu_ms(&usage);
	run->report.oom = (uint32_t)reap_oom(runs, run, status, now_ms);
	plan_emptying(&run->plan, now_ms);
	runs_moved(runs, run);
	leftovers_open(&runs->left, &run->left);
	run->next_emptying = runs->emptying;
	runs->emptying = run;
}

/* Takes some of the children that have ended. Returns how many. */
static int reap_some(struct runs *runs, int64_t now_ms)
{
	siginfo_t info;
	int taken = 0;

	for (; taken < REAP_MOST; taken++) {
		struct run *run;

		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
			break;
		run = runs_find_pid(runs, info.si_pid);
		if (run != NULL && run->plan.phase != PLAN_EMPTYING)
			reap_leader(runs, run, now_ms);
		else
			(void)waitpid(info.si_pid, NULL, WNOHANG);
	}
	return taken;
}

void reap_children(struct runs *runs, int64_t now_ms)
{
	int taken = reap_some(runs, now_ms);
	struct run *run, *next;

	if (taken == 0)
		return;
	/* Each that ended may have brought us its children. */
	reap_sweep(runs);
	for (run = runs->emptying; run != NULL; run = next) {
		next = run->next_emptying;
		if (reap_is_gone(run))
			reap_finish(runs, run, true);
	}
	/* Processes that fork and end all the time must not keep us from all else: the bell is rung for the rest. */
	if (taken == REAP_MOST)
		(void)kill(getpid(), SIGCHLD);
}
