/* exec.c - a fresh process for every attempt (layer: handler). leasehold-handler(7) is what its authors are promised.
 *
 * One worker thread feeds the payload, takes the output, and reads the runner's news, all in one poll loop without a timeout
 * of its own: the runner ends the run in time. */
#include "handler/handler.h"

#include "base/log.h"
#include "handler/control.h"
#include "handler/output.h"
#include "handler/process.h"
#include "handler/progress.h"
#include "handler/stderr_log.h"
#include "handler/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXEC_COMPLAINTS 3

struct exec {
	const struct run_request *request;
	struct run_report *report;
	struct process process;
	struct capture out;
	struct tail err;
	struct stderr_log err_log;
	struct control control;
	struct steps steps;
	unsigned int complaints;
	struct progress progress;
};

static void exec_complain(void *owner, const char *why)
{
	struct exec *x = owner;
	const struct job *job = x->request->job;

	if (x->complaints++ < EXEC_COMPLAINTS)
		log_warn("handler", "job=%" PRIu64 " kind=%s attempt=%u a line on descriptor 3 is ignored: %s%s", job->id,
			 job->kind, job->attempt, why, x->complaints == EXEC_COMPLAINTS ? " (no more of these will be told)" : "");
}

static void exec_note_progress(void *owner, double percent, const char *note)
{
	struct exec *x = owner;

	progress_note(&x->progress, percent, note);
}

static void exec_pass_progress(struct exec *x)
{
	progress_pass(&x->progress, &x->request->hooks);
}

static void exec_take_stdout(void *owner, const char *bytes, size_t len)
{
	struct exec *x = owner;

	capture_feed(&x->out, bytes, len);
}

static void exec_take_stderr(void *owner, const char *bytes, size_t len)
{
	struct exec *x = owner;

	tail_feed(&x->err, bytes, len);
	stderr_log_feed(&x->err_log, bytes, len);
}

/* What the handler may have to wait for, and whether it is heard at all just now. */
static void exec_await_steps(struct exec *x)
{
	x->process.bell = steps_bell(&x->steps);
	x->process.held[RUNNER_FD_CONTROL] = steps_full(&x->steps);
}

static void exec_take_control(void *owner, const char *bytes, size_t len)
{
	struct exec *x = owner;

	control_feed(&x->control, bytes, len);
	exec_pass_progress(x);
	exec_await_steps(x);
}

static void exec_take_step(void *owner, const json_t *name, const json_t *data)
{
	struct exec *x = owner;

	steps_save(&x->steps, name, data);
}

/* {"NAME":VALUE} as a line for the handler; takes value. False when the handler cannot be told. */
static bool exec_tell(struct exec *x, const char *name, json_t *value)
{
	json_t *object = value == NULL ? NULL : json_pack("{s:o}", name, value);
	char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
	struct buf line;
	bool told;

	buf_init(&line, CONTROL_LINE_MAX);
	if (text != NULL) {
		buf_adds(&line, text);
		buf_addc(&line, '\n');
	}
	told = line.len > 0 && outflow_take(&x->process.to_control, &line);
	buf_free(&line);
	free(text);
	json_decref(object);
	return told;
}

static void exec_answer(void *owner, const char *name, const char *why)
{
	struct exec *x = owner;

	if (x->process.ours[RUNNER_FD_CONTROL] >= 0 && !exec_tell(x, "step", steps_answer_object(name, why)))
		exec_complain(x, "the handler does not read what became of its steps, and this answer is left out");
}

static void exec_take_answers(void *owner)
{
	struct exec *x = owner;

	steps_collect(&x->steps);
	exec_await_steps(x);
}

static void exec_init_process(struct exec *x)
{
	struct process *p = &x->process;

	process_init(p, x->request->runner, x);
	p->take[RUNNER_FD_STDOUT] = exec_take_stdout;
	p->take[RUNNER_FD_STDERR] = exec_take_stderr;
	p->take[RUNNER_FD_CONTROL] = exec_take_control;
	p->rung = exec_take_answers;
	p->close_stdin = true;
}

static void exec_init(struct exec *x, const struct run_request *request, struct run_report *report)
{
	const struct handler_settings *handler = request->handler;

	memset(x, 0, sizeof(*x));
	x->request = request;
	x->report = report;
	progress_init(&x->progress);
	exec_init_process(x);
	capture_init(&x->out, (size_t)handler->max_result);
	tail_init(&x->err, (size_t)handler->max_stderr_tail);
	stderr_log_init(&x->err_log, handler->log_stderr);
	stderr_log_speak_of(&x->err_log, request->job, NULL, 0);
	control_init(&x->control, (size_t)handler->max_result);
	x->control.owner = x;
	x->control.progress = exec_note_progress;
	x->control.step = exec_take_step;
	x->control.complain = exec_complain;
	steps_init(&x->steps, request->job, &request->hooks);
	x->steps.owner = x;
	x->steps.answer = exec_answer;
}

static void exec_free(struct exec *x)
{
	process_free(&x->process);
	capture_free(&x->out);
	tail_free(&x->err);
	control_free(&x->control);
	steps_free(&x->steps);
}

/* A payload that an empty pipe is sure to take is there before the handler is; a longer one is written while the handler reads
 * it. */
static bool exec_offer_payload(struct exec *x)
{
	const struct job *job = x->request->job;
	struct process *p = &x->process;
	ssize_t n = 0;

	if (job->payload_len > PIPE_BUF) {
		if (fcntl(p->ours[RUNNER_FD_STDIN], F_SETFL, O_NONBLOCK) != 0)
			return process_refuse(p, errno, "fcntl");
		outflow_borrow(&p->to_stdin, job->payload, job->payload_len);
		return true;
	}
	if (job->payload_len > 0)
		n = write(p->ours[RUNNER_FD_STDIN], job->payload, job->payload_len);
	if (n != (ssize_t)job->payload_len)
		return process_refuse(p, n < 0 ? errno : EIO, "pipe");
	process_close(p, RUNNER_FD_STDIN);
	return true;
}

/* What earlier attempts saved is the first thing that the handler can read on descriptor 3. */
static bool exec_offer_steps(struct exec *x)
{
	if (x->request->job->step_count == 0 || exec_tell(x, "steps", steps_saved(x->request->job)))
		return true;
	return process_refuse(&x->process, ENOMEM, "steps");
}

static bool exec_send(void *arg, int64_t kill_at_ms)
{
	struct exec *x = arg;

	return process_send_start(&x->process, kill_at_ms);
}

static bool exec_launch(struct exec *x)
{
	const struct run_hooks *hooks = &x->request->hooks;
	struct process *p = &x->process;

	p->run = runner_link_next_run(x->request->runner);
	if (!hooks->start(hooks->owner, p->run, exec_send, x)) {
		process_unsent(p);
		return false;
	}
	process_started(p);
	return true;
}

static void exec_finish(struct exec *x)
{
	struct run_report *report = x->report;

	report->ran_ms = x->process.ran_ms;
	report->max_rss_kb = x->process.max_rss_kb;
	report->cpu_ms = x->process.cpu_ms;
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
	struct process *p;
	struct exec x;

	exec_init(&x, request, report);
	p = &x.process;
	if (process_open(p, true) && exec_offer_payload(&x) && exec_offer_steps(&x) &&
	    process_describe(p, request->handler, request->job, request->max_attempts) && exec_launch(&x)) {
		while (!p->over)
			(void)process_serve(p, -1);
		process_drain(p);
		control_end(&x.control);
		exec_pass_progress(&x);
		stderr_log_end(&x.err_log);
		exec_finish(&x);
	}
	report->facts = p->facts;
	report->facts.asked = x.control.asked;
	exec_free(&x);
}

const struct handler_ops handler_exec = {.name = "exec", .run = exec_run};
