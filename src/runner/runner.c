/* runner.c - see runner.h: the set-up of the process and its one loop. */
#include "runner/runner.h"

#include "base/clock.h"
#include "base/log.h"
#include "runner/child.h"
#include "runner/launch.h"
#include "runner/messages.h"
#include "runner/reap.h"
#include "runner/runs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNNER_CLOSING_MS 5000 /* how long the groups may take to end once the daemon has gone */
#define RUNNER_COMPLAIN_MS 10000

struct runner {
	struct runs runs;
	int socket, signals, timer;
	int64_t armed_ms; /* what the timer is set to; PLAN_NEVER: not set */
	bool closing;
	int64_t leave_ms; /* closing: when to leave in any case */
	bool files_raised;
	struct rlimit files; /* as it was given to us */
	struct log_limit malformed;
	void *buffer;
};

/* Every signal to its default. Not by sigaction(2) of the C library, which refuses the two that it keeps for itself:
 * posix_spawn leaves just those ignored. */
static void runner_reset_signals(void)
{
	const struct sigaction quiet = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP};
	const unsigned char standard[64] = {0}; /* the kernel's struct sigaction, whatever its layout: SIG_DFL, no flags, no mask */

	for (int signal = 1; signal < _NSIG; signal++)
		(void)syscall(SYS_rt_sigaction, signal, standard, NULL, (size_t)_NSIG / 8);
	(void)sigaction(SIGCHLD, &quiet, NULL);
}

/* Signals go to the daemon, which decides; what a fault in this process raises is not held up. */
static bool runner_take_signals(struct runner *r)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
	sigset_t blocked, children;

	/* Blocked rather than ignored: dispositions survive execve, and so the handlers need none put back. Whoever started
	 * the daemon may have had some ignored. */
	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&blocked, faults[i]);
	if (sigprocmask(SIG_SETMASK, &blocked, NULL) != 0)
		return false;
	runner_reset_signals();
	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	r->signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
	return r->signals >= 0;
}

static void runner_close_range(unsigned int first, unsigned int last)
{
	struct rlimit limit = {.rlim_cur = 0};

	if (first > last)
		return;
#ifdef SYS_close_range
	if (syscall(SYS_close_range, first, last, 0) == 0)
		return;
#endif
	getrlimit(RLIMIT_NOFILE, &limit);
	for (rlim_t fd = first; fd <= last && fd < limit.rlim_cur; fd++)
		close((int)fd);
}

/* Keeps the socket and a place to complain to. All that is opened later closes on execve. */
static bool runner_take_descriptors(int socket)
{
	int nothing;

	/* Fills the gaps among 0 to 2 first, if there are any. */
	do
		nothing = open("/dev/null", O_RDWR);
	while (nothing >= 0 && nothing <= STDERR_FILENO);
	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0)
		return false;
	runner_close_range(STDERR_FILENO + 1, (unsigned int)socket - 1);
	runner_close_range((unsigned int)socket + 1, ~0u);
	return fcntl(socket, F_SETFD, FD_CLOEXEC) == 0;
}

/* Each run takes two descriptors here. What the handlers inherit stays as it was. */
static void runner_raise_files(struct runner *r)
{
	struct rlimit raised;

	if (getrlimit(RLIMIT_NOFILE, &r->files) != 0 || r->files.rlim_cur >= r->files.rlim_max)
		return;
	raised = r->files;
	raised.rlim_cur = raised.rlim_max;
	r->files_raised = setrlimit(RLIMIT_NOFILE, &raised) == 0;
}

static bool runner_prepare(struct runner *r, int socket)
{
	memset(r, 0, sizeof(*r));
	runs_init(&r->runs);
	r->socket = socket;
	r->armed_ms = PLAN_NEVER;
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, STDERR_FILENO);
	(void)setsid();
	(void)prctl(PR_SET_NAME, "lh-runner");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		return false;
	runner_raise_files(r);
	r->timer = -1;
	if (!runner_take_descriptors(socket) || !runner_take_signals(r))
		return false;
	r->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	cgroup_base_open(&r->runs.groups);
	r->buffer = malloc(RUNNER_MESSAGE_MAX);
	return r->timer >= 0 && r->buffer != NULL;
}

static void runner_kill(const struct run *run)
{
	/* The leader also by itself: it may have moved to another group. Its number is its own until it is reaped. */
	int group = kill(-run->pid, SIGKILL), leader = kill(run->pid, SIGKILL);

	if (group != 0 && leader != 0)
		log_warn("runner", "run=%" PRIu64 " pid=%d cannot be killed: %s", run->number, (int)run->pid, strerror(errno));
}

static void runner_terminate(const struct run *run)
{
	if (kill(-run->pid, SIGTERM) != 0)
		(void)kill(run->pid, SIGTERM);
	/* A handler that was stopped could not act on it. */
	(void)kill(-run->pid, SIGCONT);
}

static void runner_tell_ending(const struct run *run)
{
	struct runner_report report = {.news = RUNNER_ENDING, .pid = run->pid, .run = run->number};

	report.reason = (uint32_t)run->plan.reason;
	runner_tell(run->status_fd, &report);
}

static void runner_act(struct runner *r, struct run *run, enum plan_action action)
{
	switch (action) {
	case PLAN_ASK:
		runner_tell_ending(run);
		break;
	case PLAN_TERM:
		runner_terminate(run);
		break;
	case PLAN_KILL:
		runner_kill(run);
		break;
	case PLAN_LOOK:
	case PLAN_GIVE_UP:
		reap_look(&r->runs, run, action == PLAN_GIVE_UP);
		return; /* the run may be gone */
	default:
		break;
	}
	runs_moved(&r->runs, run);
}

/* A process that has ended, and that nobody has looked at since, cannot go on. */
static bool runner_has_ended(const struct run *run)
{
	siginfo_t info = {.si_pid = 0};

	return waitid(P_PID, (id_t)run->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

/* The daemon hears of it either way, unless the final news is already under way. */
static void runner_assign(struct runner *r, struct run *run, const struct runner_command *command, int64_t now_ms)
{
	struct runner_report report = {.news = RUNNER_NOT_ASSIGNED, .pid = run->pid, .run = command->next_run};

	if (!plan_is_open(&run->plan) || runner_has_ended(run)) {
		report.error = ESRCH;
	} else if (runs_find(&r->runs, command->next_run) != NULL) {
		report.error = EEXIST;
	} else if (command->kill_at_ms > now_ms) {
		report.news = RUNNER_ASSIGNED;
		report.started_ms = now_ms;
		runs_renumber(&r->runs, run, command->next_run);
		plan_init(&run->plan, now_ms, command->kill_at_ms, command->timeout_ms, command->grace_ms);
		run->plan.ask_ms = command->ask_ms;
		run->oom_before = oom_count_about(&r->runs.oom, now_ms);
		run->group_oom_before = run->group_fd < 0 ? 0 : cgroup_oom_kills(run->group_fd);
		runs_moved(&r->runs, run);
	}
	runner_tell(run->status_fd, &report);
}

static void runner_obey(struct runner *r, struct runner_received *received)
{
	const struct runner_command *command = &received->command;
	int64_t now = clock_boot_ms();
	struct run *run;

	if (command->verb == RUNNER_START) {
		launch_run(&r->runs, received, now, r->files_raised ? &r->files : NULL);
		return;
	}
	run = runs_find(&r->runs, command->run);
	if (run == NULL || run->plan.phase == PLAN_EMPTYING)
		return; /* it has ended, and the news is under way */
	if (command->verb == RUNNER_DEADLINE) {
		run->plan.kill_at_ms = command->kill_at_ms;
		runs_moved(&r->runs, run);
	} else if (command->verb == RUNNER_ASSIGN) {
		runner_assign(r, run, command, now);
	} else {
		runner_act(r, run, plan_end(&run->plan, (enum end_reason)command->reason, command->grace_ms, now));
	}
}

static void runner_complain(struct runner *r)
{
	if (!log_limit_pass(&r->malformed, clock_mono_ms(), RUNNER_COMPLAIN_MS))
		return;
	log_warn("runner", "a malformed command was dropped (and %" PRIu64 " more since this was last said)",
		 r->malformed.held_back);
	r->malformed.held_back = 0;
}

/* The daemon has gone: nothing of what it started may go on. */
static void runner_close(struct runner *r)
{
	r->closing = true;
	r->leave_ms = clock_boot_ms() + RUNNER_CLOSING_MS;
	for (size_t i = 0; i < r->runs.count; i++) {
		struct run *run = r->runs.heap[i];

		if (run->plan.phase == PLAN_EMPTYING)
			continue;
		runner_kill(run);
		if (run->plan.reason == END_NONE)
			run->plan.reason = END_SHUTDOWN;
	}
	close(r->socket);
	r->socket = -1;
}

/* All that are pending, so that no deadline is acted on while the message that moves it is waiting. */
static void runner_read_commands(struct runner *r)
{
	struct runner_received received;
	int got;

	while (r->socket >= 0 && (got = runner_receive(r->socket, r->buffer, RUNNER_MESSAGE_MAX, &received)) != 0) {
		if (got == 1) {
			runner_obey(r, &received);
			runner_received_free(&received);
		} else if (got == -1) {
			runner_close(r);
		} else {
			runner_complain(r);
		}
	}
}

static void runner_meet_deadlines(struct runner *r, int64_t now_ms)
{
	struct run *run;

	while ((run = runs_first(&r->runs)) != NULL && plan_due_ms(&run->plan) <= now_ms)
		runner_act(r, run, plan_step(&run->plan, now_ms));
}

/* The timer is only ever set to go off earlier. When a deadline moves away, it goes off once for nothing and is then set anew. */
static void runner_arm(struct runner *r)
{
	const struct run *run = runs_first(&r->runs);
	int64_t due = run == NULL ? PLAN_NEVER : plan_due_ms(&run->plan);
	struct itimerspec when = {.it_interval = {0, 0}};

	if (r->closing && r->leave_ms < due)
		due = r->leave_ms;
	if (due >= r->armed_ms)
		return;
	/* Zero would disarm it; the past goes off at once. */
	when.it_value.tv_sec = due <= 0 ? 0 : (time_t)(due / 1000);
	when.it_value.tv_nsec = due <= 0 ? 1 : (long)(due % 1000) * 1000000;
	if (timerfd_settime(r->timer, TFD_TIMER_ABSTIME, &when, NULL) == 0)
		r->armed_ms = due;
	else
		log_error("runner", "cannot set the timer that ends handlers in time: %s", strerror(errno));
}

static void runner_sleep(struct runner *r)
{
	struct pollfd waiting[] = {
		{.fd = r->socket, .events = POLLIN},
		{.fd = r->signals, .events = POLLIN},
		{.fd = r->timer, .events = POLLIN},
	};
	struct signalfd_siginfo info;
	uint64_t expired;

	if (poll(waiting, 3, -1) <= 0)
		return;
	/* Both are only bells. Each is silenced before what it announces is looked at, so that none rings unheard. */
	if (waiting[1].revents != 0)
		(void)!read(r->signals, &info, sizeof(info));
	if (waiting[2].revents != 0 && read(r->timer, &expired, sizeof(expired)) == (ssize_t)sizeof(expired))
		r->armed_ms = PLAN_NEVER;
}

static bool runner_done(const struct runner *r)
{
	return r->closing && (r->runs.count == 0 || clock_boot_ms() >= r->leave_ms);
}

int runner_main(int socket)
{
	struct runner r;

	if (!runner_prepare(&r, socket)) {
		log_error("runner", "cannot prepare the process that starts handlers: %s", strerror(errno));
		free(r.buffer);
		return EXIT_FAILURE;
	}
	while (!runner_done(&r)) {
		int64_t woken_ms;

		runner_arm(&r);
		runner_sleep(&r);
		/* Deadlines are judged by the time before the reading: a process that was frozen after it must not act on what
		 * passed meanwhile, while a message that moves it waits unread. */
		woken_ms = clock_boot_ms();
		runner_read_commands(&r);
		reap_children(&r.runs, clock_boot_ms());
		runner_meet_deadlines(&r, woken_ms);
	}
	runs_free(&r.runs);
	free(r.buffer);
	return EXIT_SUCCESS;
}
