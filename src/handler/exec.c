/* exec.c - a fresh process for every attempt (layer: handler). leasehold-handler(7) is what its authors are promised.
 *
 * One worker thread feeds the payload, takes the output, and reads the runner's news, all in one poll loop without a timeout
 * of its own: the runner ends the run in time. SIGPIPE is blocked here, as in every thread of ours. */
#include "handler/handler.h"

#include "base/log.h"
#include "handler/control.h"
#include "handler/environment.h"
#include "handler/output.h"
#include "handler/stderr_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXEC_READ_BYTES (16 * 1024)
#define EXEC_DRAIN_ROUNDS 64  /* with the above, the most that a pipe holds */
#define EXEC_COMPLAINTS 3
#define EXEC_NOTE_SIZE 1024

struct exec {
	const struct run_request *request;
	struct run_report *report;
	struct environment environment;
	struct runner_start start; /* its descriptors are the far ends: ours to close once it is sent */
	int ours[RUNNER_FDS];      /* -1: closed */
	enum lh_err sent;
	struct fault fault;
	size_t written; /* of the payload */
	struct capture out;
	struct tail err;
	struct stderr_log err_log;
	struct control control;
	unsigned int complaints;
	double percent; /* the progress that is not yet passed on; < 0: none */
	bool noted;
	char note[EXEC_NOTE_SIZE];
	pid_t pid; /* 0: the handler has not begun */
	bool over;
};

static void exec_close(struct exec *x, enum runner_fd which)
{
	if (x->ours[which] >= 0)
		close(x->ours[which]);
	x->ours[which] = -1;
}

static void exec_close_far_ends(struct exec *x)
{
	for (int i = 0; i < RUNNER_FDS; i++) {
		if (x->start.fds[i] >= 0)
			close(x->start.fds[i]);
		x->start.fds[i] = -1;
	}
}

static void exec_complain(void *owner, const char *why)
{
	struct exec *x = owner;
	const struct job *job = x->request->job;

	if (x->complaints++ < EXEC_COMPLAINTS)
		log_warn("handler", "job=%" PRIu64 " kind=%s attempt=%u a line on descriptor 3 is ignored: %s%s", job->id,
			 job->kind, job->attempt, why, x->complaints == EXEC_COMPLAINTS ? " (no more of these will be told)" : "");
}

/* Only kept: of all that one read brings, the last is passed on. */
static void exec_note_progress(void *owner, double percent, const char *note)
{
	struct exec *x = owner;

	if (percent >= 0)
		x->percent = percent;
	if (note == NULL)
		return;
	memcpy(x->note, note, strlen(note) + 1);
	x->noted = true;
}

static void exec_pass_progress(struct exec *x)
{
	const struct run_hooks *hooks = &x->request->hooks;

	if (hooks->progress != NULL && (x->percent >= 0 || x->noted))
		hooks->progress(hooks->owner, x->percent, x->noted ? x->note : NULL);
	x->percent = -1;
	x->noted = false;
}

static void exec_init(struct exec *x, const struct run_request *request, struct run_report *report)
{
	const struct handler_settings *handler = request->handler;

	memset(x, 0, sizeof(*x));
	x->request = request;
	x->report = report;
	x->percent = -1;
	for (int i = 0; i < RUNNER_FDS; i++)
		x->ours[i] = x->start.fds[i] = -1;
	capture_init(&x->out, (size_t)handler->max_result);
	tail_init(&x->err, (size_t)handler->max_stderr_tail);
	stderr_log_init(&x->err_log, request->job, handler->log_stderr);
	control_init(&x->control, (size_t)handler->max_result);
	x->control.owner = x;
	x->control.progress = exec_note_progress;
	x->control.complain = exec_complain;
}

static void exec_free(struct exec *x)
{
	exec_close_far_ends(x);
	for (int i = 0; i < RUNNER_FDS; i++)
		exec_close(x, (enum runner_fd)i);
	environment_free(&x->environment);
	capture_free(&x->out);
	tail_free(&x->err);
	control_free(&x->control);
}

/* The run ends before it began. Returns false, for its caller to return. */
static bool exec_refuse(struct exec *x, enum run_end end, int error, const char *stage)
{
	x->report->facts.end = end;
	x->report->facts.exec_errno = error;
	x->report->facts.exec_stage = stage;
	return false;
}

static bool exec_open_pipes(struct exec *x)
{
	int pair[2];

	for (int i = 0; i < RUNNER_FDS; i++) {
		bool to_handler = i == RUNNER_FD_STDIN;

		if (pipe2(pair, O_CLOEXEC) != 0)
			return exec_refuse(x, RUN_NOT_STARTED, errno, "pipe");
		x->ours[i] = pair[to_handler];
		x->start.fds[i] = pair[!to_handler];
	}
	return true;
}

/* A payload that an empty pipe is sure to take is there before the handler is; a longer one is written while the handler reads
 * it. */
static bool exec_offer_payload(struct exec *x)
{
	const struct job *job = x->request->job;
	ssize_t n = 0;

	if (job->payload_len > PIPE_BUF) {
		if (fcntl(x->ours[RUNNER_FD_STDIN], F_SETFL, O_NONBLOCK) != 0)
			return exec_refuse(x, RUN_NOT_STARTED, errno, "fcntl");
		return true;
	}
	if (job->payload_len > 0)
		n = write(x->ours[RUNNER_FD_STDIN], job->payload, job->payload_len);
	if (n != (ssize_t)job->payload_len)
		return exec_refuse(x, RUN_NOT_STARTED, n < 0 ? errno : EIO, "pipe");
	exec_close(x, RUNNER_FD_STDIN);
	return true;
}

static bool exec_describe(struct exec *x)
{
	const struct handler_settings *handler = x->request->handler;
	const struct limit_settings *limits = &handler->limits;
	const struct job *job = x->request->job;
	struct runner_command *command = &x->start.command;

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
	if (!environment_build(&x->environment, job, handler, x->request->max_attempts, command->timeout_ms))
		return exec_refuse(x, RUN_NOT_STARTED, ENOMEM, "environment");
	x->start.groups = handler->groups;
	x->start.cwd = handler->cwd;
	x->start.argv = handler->command;
	x->start.env = x->environment.vars;
	return true;
}

static bool exec_send(void *arg, int64_t kill_at_ms)
{
	struct exec *x = arg;

	x->start.command.kill_at_ms = kill_at_ms;
	x->sent = runner_link_send_start(x->request->runner, &x->start, &x->fault);
	return x->sent == LH_OK;
}

static bool exec_launch(struct exec *x)
{
	const struct run_hooks *hooks = &x->request->hooks;

	x->start.command.run = runner_link_next_run(x->request->runner);
	if (!hooks->start(hooks->owner, x->start.command.run, exec_send, x)) {
		/* Too long a command can never be started: it is the job's failure, not the moment's. */
		if (x->sent == LH_ERR_LIMIT)
			return exec_refuse(x, RUN_EXEC_FAILED, E2BIG, runner_stage_name(RUNNER_STAGE_EXEC));
		return exec_refuse(x, RUN_NOT_STARTED, (int)x->fault.number, x->sent == LH_OK ? NULL : "runner");
	}
	exec_close_far_ends(x);
	return true;
}

/* A handler need not read its payload: a pipe without a reader only ends the writing. */
static void exec_write_payload(struct exec *x)
{
	const struct job *job = x->request->job;
	ssize_t n = write(x->ours[RUNNER_FD_STDIN], job->payload + x->written, job->payload_len - x->written);

	if (n > 0)
		x->written += (size_t)n;
	if (x->written == job->payload_len || (n < 0 && errno != EAGAIN && errno != EINTR))
		exec_close(x, RUNNER_FD_STDIN);
}

static void exec_take_stdout(struct exec *x, const char *bytes, size_t len)
{
	capture_feed(&x->out, bytes, len);
}

static void exec_take_stderr(struct exec *x, const char *bytes, size_t len)
{
	tail_feed(&x->err, bytes, len);
	stderr_log_feed(&x->err_log, bytes, len);
}

static void exec_take_control(struct exec *x, const char *bytes, size_t len)
{
	control_feed(&x->control, bytes, len);
	exec_pass_progress(x);
}

static void exec_take_end(struct exec *x, const struct runner_report *news)
{
	struct run_report *report = x->report;
	struct run_facts *facts = &report->facts;

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
	report->ran_ms = news->ended_ms - news->started_ms;
	report->max_rss_kb = news->max_rss_kb;
	report->cpu_ms = news->cpu_ms;
	x->over = true;
}

/* Records are written whole, and so they are read whole. */
static void exec_take_news(struct exec *x, const char *bytes, size_t len)
{
	struct runner_report news;

	for (; len >= sizeof(news) && !x->over; bytes += sizeof(news), len -= sizeof(news)) {
		memcpy(&news, bytes, sizeof(news));
		if (news.news == RUNNER_STARTED) {
			x->pid = news.pid;
		} else if (news.news == RUNNER_NOT_STARTED) {
			exec_refuse(x, RUN_NOT_STARTED, news.error, news.error == 0 ? NULL : runner_stage_name(news.stage));
			x->over = true;
		} else {
			exec_take_end(x, &news);
		}
	}
}

static void exec_read(struct exec *x, enum runner_fd which)
{
	static void (*const take[RUNNER_FDS])(struct exec *, const char *, size_t) = {
		[RUNNER_FD_STDOUT] = exec_take_stdout,
		[RUNNER_FD_STDERR] = exec_take_stderr,
		[RUNNER_FD_CONTROL] = exec_take_control,
		[RUNNER_FD_STATUS] = exec_take_news,
	};
	char bytes[EXEC_READ_BYTES];
	ssize_t n = read(x->ours[which], bytes, sizeof(bytes));

	if (n > 0)
		take[which](x, bytes, (size_t)n);
	else if (n == 0 || errno != EINTR)
		exec_close(x, which);
}

/* Waits for any of the pipes and serves each that is ready. Returns how many were. */
static int exec_serve(struct exec *x, int timeout_ms)
{
	struct pollfd pipes[RUNNER_FDS];
	int ready;

	for (int i = 0; i < RUNNER_FDS; i++)
		pipes[i] = (struct pollfd){.fd = x->ours[i], .events = i == RUNNER_FD_STDIN ? POLLOUT : POLLIN};
	ready = poll(pipes, RUNNER_FDS, timeout_ms);
	for (int i = 0; i < RUNNER_FDS && ready > 0; i++) {
		if (pipes[i].revents == 0)
			continue;
		if (i == RUNNER_FD_STDIN)
			exec_write_payload(x);
		else if (pipes[i].revents & POLLIN)
			exec_read(x, (enum runner_fd)i);
		else
			exec_close(x, (enum runner_fd)i);
	}
	return ready;
}

/* The status pipe ended without the final record: the runner is dead. The process that was to become the handler holds that
 * pipe until it does, and says so first: without that word, the handler never ran. */
static void exec_lose_runner(struct exec *x)
{
	struct run_facts *facts = &x->report->facts;

	x->over = true;
	if (x->pid <= 1) {
		exec_refuse(x, RUN_NOT_STARTED, 0, "runner");
		return;
	}
	facts->end = RUN_RUNNER_LOST;
	facts->group_gone = runner_link_clear(x->request->runner, x->start.command.run);
}

/* What is in the pipes now still counts. Nobody waits for more: a process that left the group may hold them for ever. */
static void exec_drain(struct exec *x)
{
	exec_close(x, RUNNER_FD_STDIN);
	exec_close(x, RUNNER_FD_STATUS);
	for (int i = 0; i < EXEC_DRAIN_ROUNDS && exec_serve(x, 0) > 0; i++)
		;
	control_end(&x->control);
	exec_pass_progress(x);
	stderr_log_end(&x->err_log);
}

static void exec_finish(struct exec *x)
{
	struct run_report *report = x->report;

	report->facts.asked = x->control.asked;
	if (x->control.has_result) {
		buf_add(&report->result, x->control.result.data, x->control.result.len);
		report->has_result = true;
	} else {
		output_fit(&report->result, x->out.kept.data, x->out.kept.len, x->out.total);
		report->has_result = report->result.len > 0;
	}
	tail_finish(&x->err, &report->stderr_tail);
}

static void exec_run(const struct run_request *request, struct run_report *report)
{
	struct exec x;

	exec_init(&x, request, report);
	if (exec_open_pipes(&x) && exec_offer_payload(&x) && exec_describe(&x) && exec_launch(&x)) {
		while (!x.over) {
			(void)exec_serve(&x, -1);
			if (!x.over && x.ours[RUNNER_FD_STATUS] < 0)
				exec_lose_runner(&x);
		}
		exec_drain(&x);
		exec_finish(&x);
	}
	exec_free(&x);
}

const struct handler_ops handler_exec = {.name = "exec", .run = exec_run};
