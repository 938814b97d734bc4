/* reap.c - see reap.h. */
#include "runner/reap.h"

#include "base/clock.h"
#include "runner/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void reap_finish(struct runs *runs, struct run *run, bool group_gone)
{
	run->report.news = RUNNER_ENDED;
	run->report.reason = (uint32_t)run->plan.reason;
	run->report.group_gone = group_gone;
	runner_tell(run->status_fd, &run->report);
	runs_remove(runs, run);
}

void reap_look(struct runs *runs, struct run *run, bool give_up)
{
	bool gone = kill(-run->pid, 0) != 0 && errno == ESRCH;

	if (gone || give_up)
		reap_finish(runs, run, gone);
	else
		runs_moved(runs, run);
}

static void reap_leader(struct runs *runs, struct run *run, int64_t now_ms)
{
	struct rusage usage = {0};
	int status = 0;

	/* While the leader is not reaped, nobody else can get its number: this is the moment to end its group. */
	(void)kill(-run->pid, SIGKILL);
	reap_read_failure(run);
	(void)wait4(run->pid, &status, WNOHANG, &usage);
	run->report.pid = run->pid;
	run->report.wait_status = status;
	run->report.started_ms = run->plan.started_ms;
	run->report.ended_ms = clock_boot_ms();
	run->report.max_rss_kb = usage.ru_maxrss;
	run->report.cpu_ms = reap_cpu_ms(&usage);
	plan_emptying(&run->plan, now_ms);
	reap_look(runs, run, false);
}

/* A process that was orphaned in a handler's tree. When it was one of a group that we wait for, it may have been the last. */
static void reap_orphan(struct runs *runs, pid_t pid)
{
	pid_t group = getpgid(pid);
	struct run *run = group > 0 ? runs_find_pid(runs, group) : NULL;

	(void)waitpid(pid, NULL, WNOHANG);
	if (run != NULL && run->plan.phase == PLAN_EMPTYING)
		reap_look(runs, run, false);
}

void reap_children(struct runs *runs, int64_t now_ms)
{
	siginfo_t info;

	for (;;) {
		struct run *run;

		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
			return;
		run = runs_find_pid(runs, info.si_pid);
		if (run != NULL && run->plan.phase != PLAN_EMPTYING)
			reap_leader(runs, run, now_ms);
		else
			reap_orphan(runs, info.si_pid);
	}
}
