/* process.c - see process.h. SIGPIPE is blocked here, as in every thread of ours. */
#include "handler/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESS_READ_BYTES (16 * 1024)
#define PROCESS_DRAIN_ROUNDS 64 /* with the above, more than a pipe or a socket holds */
#define PROCESS_ANSWERS_MAX (256 * 1024) /* that nobody reads */
#define PROCESS_LINES_MAX (17 * 1024 * 1024)

void process_init(struct process *p, struct runner_link *runner, void *owner)
{
	memset(p, 0, sizeof(*p));
	p->runner = runner;
	p->owner = owner;
	p->bell = -1;
	run_facts_init(&p->facts);
	outflow_init(&p->to_stdin, PROCESS_LINES_MAX);
	outflow_init(&p->to_control, PROCESS_ANSWERS_MAX);
	for (int i = 0; i < RUNNER_FDS; i++)
		p->ours[i] = p->start.fds[i] = -1;
}

void process_close(struct process *p, enum runner_fd which)
{
	if (p->ours[which] >= 0)
		close(p->ours[which]);
	p->ours[which] = -1;
}

static void process_close_far_ends(struct process *p)
{
	for (int i = 0; i < RUNNER_FDS; i++) {
		if (p->start.fds[i] >= 0)
			close(p->start.fds[i]);
		p->start.fds[i] = -1;
	}
}

void process_free(struct process *p)
{
	process_close_far_ends(p);
	for (int i = 0; i < RUNNER_FDS; i++)
		process_close(p, (enum runner_fd)i);
	environment_free(&p->environment);
	outflow_free(&p->to_stdin);
	outflow_free(&p->to_control);
}

static bool process_fail(struct process *p, enum run_end end, int error, const char *stage)
{
	p->facts.end = end;
	p->facts.exec_errno = error;
	p->facts.exec_stage = stage;
	return false;
}

bool process_refuse(struct process *p, int error, const char *stage)
{
	return process_fail(p, RUN_NOT_STARTED, error, stage);
}

/* Both ways, because answers to saved steps come back on it. */
static bool process_open_control(struct process *p, bool wanted)
{
	int pair[2];

	if (!wanted) {
		p->start.fds[RUNNER_FD_CONTROL] = open("/dev/null", O_RDWR | O_CLOEXEC);
		return p->start.fds[RUNNER_FD_CONTROL] >= 0;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return false;
	p->ours[RUNNER_FD_CONTROL] = pair[0];
	p->start.fds[RUNNER_FD_CONTROL] = pair[1];
	/* Of our end alone: the handler's blocks, as it expects. */
	return fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0;
}

bool process_open(struct process *p, bool control)
{
	int pair[2];

	for (int i = 0; i < RUNNER_FDS; i++) {
		bool to_handler = i == RUNNER_FD_STDIN;

		if (i == RUNNER_FD_CONTROL)
			continue;
		if (pipe2(pair, O_CLOEXEC) != 0)
			return process_refuse(p, errno, "pipe");
		p->ours[i] = pair[to_handler];
		p->start.fds[i] = pair[!to_handler];
	}
	if (!process_open_control(p, control))
		return process_refuse(p, errno, "control");
	return true;
}

bool process_describe(struct process *p, const struct handler_settings *handler, const struct job *job, unsigned int max_attempts)
{
	const struct limit_settings *limits = &handler->limits;
	struct runner_command *command = &p->start.command;

	if (job != NULL)
		command->timeout_ms = job->timeout_set ? job->timeout_ms : handler->timeout_ms;
	command->grace_ms = handler->kill_grace_ms;
	command->limits = (struct runner_limits){.cpu_s = limits->cpu_s,
						 .memory = limits->memory,
						 .files = limits->files,
						 .processes = limits->processes,
						 .file_size = limits->file_size,
						 .core = limits->core};
	command->group_memory = handler->group_memory;
	command->group_cpu = handler->group_cpu;
	command->switch_user = handler->switch_user;
	command->uid = handler->uid;
	command->gid = handler->gid;
	command->group_count = handler->switch_user ? (uint32_t)handler->group_count : 0;
	if (!environment_build(&p->environment, job, handler, max_attempts, command->timeout_ms))
		return process_refuse(p, ENOMEM, "environment");
	p->start.groups = handler->groups;
	p->start.cwd = handler->cwd;
	p->start.argv = handler->command;
	p->start.env = p->environment.vars;
	return true;
}

bool process_send_start(struct process *p, int64_t kill_at_ms)
{
	p->start.command.run = p->run;
	p->start.command.kill_at_ms = kill_at_ms;
	p->sent = runner_link_send_start(p->runner, &p->start, &p->fault);
	return p->sent == LH_OK;
}

void process_started(struct process *p)
{
	process_close_far_ends(p);
	environment_free(&p->environment);
}

void process_unsent(struct process *p)
{
	/* Too long a command can never be started: it is the job's failure, not the moment's. */
	if (p->sent == LH_ERR_LIMIT)
		process_fail(p, RUN_EXEC_FAILED, E2BIG, runner_stage_name(RUNNER_STAGE_EXEC));
	else
		process_refuse(p, (int)p->fault.number, p->sent == LH_OK ? NULL : "runner");
}

bool process_send_assign(struct process *p, uint64_t next_run, const struct runner_times *times)
{
	p->sent = runner_link_assign(p->runner, p->run, next_run, times, &p->fault);
	if (p->sent == LH_OK)
		p->run = next_run;
	return p->sent == LH_OK;
}

static void process_take_end(struct process *p, const struct runner_report *news)
{
	struct run_facts *facts = &p->facts;

	facts->end = news->error == 0 ? RUN_EXITED : RUN_EXEC_FAILED;
	facts->exec_errno = news->error;
	facts->exec_stage = news->error == 0 ? NULL : runner_stage_name(news->stage);
	facts->reason = news->reason < END_REASONS ? (enum end_reason)news->reason : END_NONE;
	facts->exited = WIFEXITED(news->wait_status);
	facts->exit_code = facts->exited ? WEXITSTATUS(news->wait_status) : 0;
	facts->signal = WIFSIGNALED(news->wait_status) ? WTERMSIG(news->wait_status) : 0;
	facts->core_dumped = WIFSIGNALED(news->wait_status) && WCOREDUMP(news->wait_status);
	facts->group_gone = news->group_gone != 0;
	facts->oom = news->oom <= RUN_OOM_CERTAIN ? (enum run_oom)news->oom : RUN_OOM_NONE;
	p->ran_ms = news->ended_ms - news->started_ms;
	p->max_rss_kb = news->max_rss_kb;
	p->cpu_ms = news->cpu_ms;
	p->over = true;
}

static void process_take_record(struct process *p, const struct runner_report *news)
{
	switch (news->news) {
	case RUNNER_STARTED:
		p->pid = news->pid;
		break;
	case RUNNER_NOT_STARTED:
		process_refuse(p, news->error, news->error == 0 ? NULL : runner_stage_name(news->stage));
		p->over = true;
		break;
	case RUNNER_ENDED:
		process_take_end(p, news);
		break;
	default:
		if (p->news != NULL)
			p->news(p->owner, news);
		break;
	}
}

/* Records are written whole, and so they are read whole. */
static void process_take_news(struct process *p, const char *bytes, size_t len)
{
	struct runner_report news;

	for (; len >= sizeof(news) && !p->over; bytes += sizeof(news), len -= sizeof(news)) {
		memcpy(&news, bytes, sizeof(news));
		process_take_record(p, &news);
	}
}

/* The status pipe ended without the final record: the runner is dead. The process that was to become the handler holds that
 * pipe until it does, and says so first: without that word, the handler never ran. */
static void process_lose_runner(struct process *p)
{
	p->over = true;
	if (p->pid <= 1) {
		process_refuse(p, 0, "runner");
		return;
	}
	p->facts.end = RUN_RUNNER_LOST;
	p->facts.group_gone = runner_link_clear(p->runner, p->start.command.run);
}

/* Returns how many bytes there were. */
static ssize_t process_read(struct process *p, enum runner_fd which)
{
	char bytes[PROCESS_READ_BYTES];
	/* Whole records of the status pipe. */
	size_t size = which == RUNNER_FD_STATUS ? sizeof(bytes) / sizeof(struct runner_report) * sizeof(struct runner_report)
						: sizeof(bytes);
	ssize_t n = read(p->ours[which], bytes, size);

	if (n > 0 && which == RUNNER_FD_STATUS)
		process_take_news(p, bytes, (size_t)n);
	else if (n > 0)
		p->take[which](p->owner, bytes, (size_t)n);
	else if (n == 0 || (errno != EINTR && errno != EAGAIN))
		process_close(p, which);
	return n;
}

static short process_events(const struct process *p, enum runner_fd which)
{
	if (which == RUNNER_FD_STDIN)
		return outflow_pending(&p->to_stdin) ? POLLOUT : 0;
	return (short)((p->held[which] ? 0 : POLLIN) |
		       (which == RUNNER_FD_CONTROL && outflow_pending(&p->to_control) ? POLLOUT : 0));
}

static void process_write(struct process *p, enum runner_fd which)
{
	struct outflow *out = which == RUNNER_FD_STDIN ? &p->to_stdin : &p->to_control;
	bool read = outflow_write(out, p->ours[which]);

	/* A handler need not read what it is told: a pipe without a reader only ends the writing. What it says itself on
	 * descriptor 3 is still to be read. */
	if (!read)
		outflow_free(out);
	p->unread = p->unread || (!read && which == RUNNER_FD_STDIN);
	if (which == RUNNER_FD_STDIN && (!read || (p->close_stdin && !outflow_pending(out))))
		process_close(p, RUNNER_FD_STDIN);
}

static void process_serve_one(struct process *p, enum runner_fd which, short revents)
{
	if ((revents & POLLOUT) != 0) {
		process_write(p, which);
	} else if (which == RUNNER_FD_STDIN && revents != 0) {
		p->unread = p->unread || outflow_pending(&p->to_stdin);
		outflow_free(&p->to_stdin);
		process_close(p, which);
	}
	if (which == RUNNER_FD_STDIN || p->ours[which] < 0)
		return;
	if ((revents & POLLIN) != 0)
		(void)process_read(p, which);
	else if ((revents & (POLLERR | POLLHUP | POLLNVAL)) != 0 && !p->held[which])
		process_close(p, which);
}

int process_serve(struct process *p, int timeout_ms)
{
	struct pollfd polled[RUNNER_FDS + 1];
	int ready;

	for (int i = 0; i < RUNNER_FDS; i++) {
		short events = process_events(p, (enum runner_fd)i);

		/* One that is held must not wake us by its end either; the reader of the standard input may go away at any time. */
		polled[i] = (struct pollfd){.fd = events == 0 && i != RUNNER_FD_STDIN ? -1 : p->ours[i], .events = events};
	}
	polled[RUNNER_FDS] = (struct pollfd){.fd = p->bell, .events = POLLIN};
	ready = poll(polled, RUNNER_FDS + 1, timeout_ms);
	for (int i = 0; i < RUNNER_FDS && ready > 0; i++) {
		if (polled[i].revents != 0 && p->ours[i] == polled[i].fd)
			process_serve_one(p, (enum runner_fd)i, polled[i].revents);
	}
	if (ready > 0 && polled[RUNNER_FDS].revents != 0)
		p->rung(p->owner);
	if (!p->over && p->ours[RUNNER_FD_STATUS] < 0)
		process_lose_runner(p);
	return ready;
}

void process_drain_one(struct process *p, enum runner_fd which)
{
	for (int i = 0; i < PROCESS_DRAIN_ROUNDS && p->ours[which] >= 0; i++) {
		struct pollfd polled = {.fd = p->ours[which], .events = POLLIN};

		if (poll(&polled, 1, 0) <= 0)
			return;
		if ((polled.revents & POLLIN) == 0 || process_read(p, which) < 0)
			return;
	}
}

void process_drain(struct process *p)
{
	process_close(p, RUNNER_FD_STDIN);
	process_close(p, RUNNER_FD_STATUS);
	process_drain_one(p, RUNNER_FD_STDOUT);
	process_drain_one(p, RUNNER_FD_STDERR);
	process_drain_one(p, RUNNER_FD_CONTROL);
}
