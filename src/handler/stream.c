/* stream.c - one job on a warm process (layer: handler). leasehold-handler(7) is what its authors are promised.
 *
 * The worker takes a process from the set, or starts one; tells the runner that the process is under this job's lease from now;
 * and only when the runner has said so, tells the process of the job. A process that turns out to be dead before that has cost
 * the job nothing, and another one is taken. */
#include "handler/handler.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "handler/progress.h"
#include "handler/steps.h"
#include "handler/stream_message.h"
#include "handler/stream_process.h"
#include "handler/stream_set.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STREAM_LOOK_MS 200   /* how often a job that waits for a process is looked after */
#define STREAM_PAUSE_MS 1000 /* the least that a job is put back for */
#define STREAM_COMPLAINTS 3
#define STREAM_DEAD_MS 1000 /* how long after its pipes a process may end, for that to be the reason */

struct stream {
	const struct run_request *request;
	struct run_report *report;
	struct buf line; /* the job, as it is told */
	int64_t timeout_ms;
	struct stream_process *process;
	uint64_t run; /* the number that it gets for the job */
	struct tail err;
	struct steps steps;
	bool answered;
	struct progress progress;
	unsigned int complaints;
};

/* Never started, and nobody's fault. */
static void stream_put_back(struct stream *x, int64_t pause_ms)
{
	int64_t least_ms = pause_ms > STREAM_PAUSE_MS ? pause_ms : STREAM_PAUSE_MS;

	x->report->facts.put_back_ms = least_ms + (int64_t)random_below(STREAM_PAUSE_MS);
}

static bool stream_wanted(const struct stream *x)
{
	const struct run_hooks *hooks = &x->request->hooks;

	return hooks->wanted == NULL || hooks->wanted(hooks->owner);
}

static void stream_complain(struct stream *x, const char *why)
{
	const struct job *job = x->request->job;

	if (x->complaints++ < STREAM_COMPLAINTS)
		log_warn("handler", "job=%" PRIu64 " kind=%s attempt=%u what the handler says is ignored: %s%s", job->id, job->kind,
			 job->attempt, why, x->complaints == STREAM_COMPLAINTS ? " (no more of these will be told)" : "");
}

/* ---- a process for the job ---- */

/* Starts one, for which the set has made room. NULL: the job is not wanted any more, or put back. */
static struct stream_process *stream_start(struct stream *x, struct stream_kind *kind)
{
	struct stream_set *set = x->request->streams;
	struct stream_process *s = stream_process_new(x->request->runner, x->request->handler, x->request->settings);
	bool good = s != NULL && stream_process_start(s), wanted = true;

	if (s != NULL)
		s->kind = kind;
	while (good && wanted && !stream_process_greet(s, STREAM_LOOK_MS))
		wanted = stream_wanted(x);
	if (!good || (wanted && (!s->greeted || s->spoiled))) {
		stream_put_back(x, stream_set_failed(set, kind, s, s == NULL ? "there is no memory for it" : s->why));
		return NULL;
	}
	stream_set_started(set, s);
	if (wanted)
		return s;
	stream_set_drop(set, s, NULL);
	return NULL;
}

/* An idle process that was good when it was put back. NULL: it is not any more. */
static struct stream_process *stream_check(struct stream *x, struct stream_process *s)
{
	char why[STREAM_WHY_SIZE];

	if (stream_process_usable(s))
		return s;
	stream_set_drop(x->request->streams, s, stream_process_fault(s, why, sizeof(why)));
	return NULL;
}

/* NULL: the job is put back, or not wanted any more. */
static struct stream_process *stream_get(struct stream *x)
{
	struct stream_set *set = x->request->streams;
	struct stream_process *s = NULL;
	struct stream_kind *kind;
	int64_t pause_ms = 0;

	while (s == NULL && stream_wanted(x)) {
		switch (stream_set_take(set, x->request->handler, &s, &kind, &pause_ms)) {
		case STREAM_TAKE_IDLE:
			s = stream_check(x, s);
			break;
		case STREAM_TAKE_START:
			return stream_start(x, kind);
		case STREAM_TAKE_WAIT:
			stream_set_wait(set, STREAM_LOOK_MS);
			break;
		default:
			stream_put_back(x, pause_ms);
			return NULL;
		}
	}
	return s;
}

/* ---- under the job's lease ---- */

static bool stream_send_assign(void *arg, int64_t kill_at_ms)
{
	struct stream *x = arg;
	int64_t grace_ms = x->request->handler->kill_grace_ms;
	const struct runner_times times = {
		.kill_at_ms = kill_at_ms, .timeout_ms = x->timeout_ms, .grace_ms = grace_ms, .ask_ms = grace_ms / 2};

	return stream_process_assign(x->process, x->run, &times);
}

enum stream_go { STREAM_GO, STREAM_ANOTHER, STREAM_OVER };

/* Waits for the runner's word on the ASSIGN. */
static enum stream_go stream_await_word(struct stream *x)
{
	struct stream_process *s = x->process;
	char why[STREAM_WHY_SIZE];

	while (!s->assigned && !s->refused && !s->spoiled && !s->process.over)
		(void)process_serve(&s->process, -1);
	if (s->assigned && !s->spoiled && !s->process.over)
		return STREAM_GO;
	x->process = NULL;
	if (s->refused && !s->dying && !s->spoiled && !s->process.over) {
		/* The trust in the lease has passed: the process is as it was. */
		stream_set_put(x->request->streams, s);
		return STREAM_OVER;
	}
	stream_set_drop(x->request->streams, s, stream_process_fault(s, why, sizeof(why)));
	return STREAM_ANOTHER;
}

static enum stream_go stream_assign(struct stream *x)
{
	const struct run_hooks *hooks = &x->request->hooks;
	struct stream_process *s = x->process;

	x->run = runner_link_next_run(x->request->runner);
	s->process.sent = LH_OK;
	if (hooks->start(hooks->owner, x->run, stream_send_assign, x))
		return stream_await_word(x);
	if (s->process.sent != LH_OK) {
		x->report->facts.exec_errno = (int)s->process.fault.number;
		x->report->facts.exec_stage = "runner";
	}
	x->process = NULL;
	stream_set_put(x->request->streams, s);
	return STREAM_OVER;
}

/* ---- what the process says of it ---- */

static void stream_take_progress(struct stream *x, const struct stream_message *m)
{
	if (m->complaint != NULL)
		stream_complain(x, m->complaint);
	progress_note(&x->progress, m->percent, m->noted ? m->note : NULL);
}

static void stream_take_outcome(struct stream *x, const struct stream_message *m)
{
	struct run_report *report = x->report;
	struct run_facts *facts = &report->facts;

	if (m->outcome == STREAM_CANCELLED && x->process->asked == END_NONE) {
		stream_process_spoil(x->process, "outcome \"cancelled\" for a job that nobody cancels");
		return;
	}
	x->answered = true;
	facts->end = RUN_ANSWERED;
	/* What the runner decided later than that is of no weight. */
	facts->reason = x->process->asked;
	facts->succeeded = m->outcome == STREAM_SUCCEEDED;
	memcpy(facts->said, m->error, sizeof(facts->said));
	if (m->outcome == STREAM_CANCELLED && m->error[0] == '\0')
		snprintf(facts->said, sizeof(facts->said), "the handler stopped");
	if (m->outcome == STREAM_SNOOZE)
		facts->asked.snooze_ms = m->delay_ms;
	else if (m->outcome == STREAM_RETRY)
		facts->asked.retry_after_ms = m->delay_ms;
	facts->asked.dead = m->outcome == STREAM_DEAD;
	if (facts->asked.dead)
		memcpy(facts->asked.dead_reason, m->error, sizeof(facts->asked.dead_reason));
	report->has_result = m->result != NULL && json_read_result(&report->result, m->result);
	report->ran_ms = clock_boot_ms() - x->process->assigned_ms;
}

static void stream_hear(void *hearer, const struct stream_message *m)
{
	struct stream *x = hearer;
	const struct job *job = x->request->job;

	if (m->hello || !m->has_identity)
		stream_process_spoil(x->process, "a second \"hello\"");
	else if (!stream_message_is_for(m, job))
		stream_process_spoil(x->process, "it speaks of job %lld claim %lld, and was given job %" PRIu64 " claim %" PRIu32,
				     (long long)m->id, (long long)m->claim_no, job->id, job->claim_no);
	else if (x->answered)
		stream_process_spoil(x->process, "it goes on about job %" PRIu64 " after its answer", job->id);
	if (x->process->spoiled)
		return;
	stream_take_progress(x, m);
	if (m->step != NULL)
		steps_save(&x->steps, m->step, m->data);
	if (m->outcome != STREAM_NO_OUTCOME)
		stream_take_outcome(x, m);
}

/* ---- what it is told ---- */

static void stream_tell(struct stream *x, struct buf *line, bool good)
{
	if (!good || !stream_process_send(x->process, line))
		stream_process_spoil(x->process, "it does not read what it is told");
	buf_free(line);
}

static void stream_answer_step(void *owner, const char *name, const char *why)
{
	struct stream *x = owner;
	struct buf line;

	if (x->answered)
		return;
	buf_init(&line, STREAM_LINE_MAX);
	stream_tell(x, &line, stream_write_step(&line, x->request->job, name, why));
}

static void stream_tell_cancel(struct stream *x)
{
	struct buf line;

	buf_init(&line, STREAM_LINE_MAX);
	stream_tell(x, &line, stream_write_cancel(&line, x->request->job, x->process->asked));
}

static void stream_collect_steps(void *owner)
{
	struct stream *x = owner;

	steps_collect(&x->steps);
}

/* ---- the run ---- */

/* From here the process belongs to the job, and what it says is of the job. */
static void stream_begin(struct stream *x)
{
	struct stream_process *s = x->process;

	process_drain_one(&s->process, RUNNER_FD_STDERR);
	stderr_log_speak_of(&s->err_log, x->request->job, NULL, 0);
	s->tail = &x->err;
	s->hearer = x;
	s->hear = stream_hear;
	s->ring = stream_collect_steps;
	stream_tell(x, &x->line, true);
}

static void stream_leave_job(struct stream *x)
{
	struct stream_process *s = x->process;

	/* What it wrote for the job before its answer is there by now. */
	process_drain_one(&s->process, RUNNER_FD_STDERR);
	stderr_log_speak_of(&s->err_log, NULL, s->handler->kind, s->process.pid);
	s->tail = NULL;
	s->hear = NULL;
	s->hearer = NULL;
	s->process.bell = -1;
	s->process.held[RUNNER_FD_STDOUT] = false;
}

/* Its pipes are the first to tell that a process has died; what it died of comes a moment later. */
static void stream_await_end(struct stream *x)
{
	struct stream_process *s = x->process;
	struct process *p = &s->process;

	if (process_serve(p, STREAM_DEAD_MS) > 0)
		return;
	if (p->unread)
		stream_process_spoil(s, "it does not read what it is told");
	else
		stream_process_spoil(s, "it has closed its standard output");
}

/* Until it has answered, or never will. */
static void stream_attend(struct stream *x)
{
	struct stream_process *s = x->process;
	struct process *p = &s->process;
	bool told = false;

	while (!x->answered && !s->spoiled && !p->over) {
		p->bell = steps_bell(&x->steps);
		p->held[RUNNER_FD_STDOUT] = steps_full(&x->steps);
		if (s->asked != END_NONE && !told) {
			told = true;
			stream_tell_cancel(x);
		}
		if (p->unread || p->ours[RUNNER_FD_STDOUT] < 0)
			stream_await_end(x);
		else
			(void)process_serve(p, -1);
		progress_pass(&x->progress, &x->request->hooks);
	}
}

/* It may have answered with its last breath; else it is ended, and nothing of it is left when the job goes back. */
static void stream_see_the_end(struct stream *x)
{
	struct stream_process *s = x->process;

	if (s->process.over && !s->spoiled) {
		process_drain_one(&s->process, RUNNER_FD_STDOUT);
		lines_end(&s->lines);
		progress_pass(&x->progress, &x->request->hooks);
	}
	if (!x->answered)
		stream_process_end(s);
}

/* The run of a process that did not answer. */
static void stream_report_broken(struct stream *x)
{
	const struct process *p = &x->process->process;
	struct run_report *report = x->report;
	char how[STREAM_WHY_SIZE - 64];

	report->facts = p->facts;
	report->ran_ms = clock_boot_ms() - x->process->assigned_ms;
	report->max_rss_kb = p->max_rss_kb;
	report->cpu_ms = -1; /* that of all its jobs together */
	if (p->facts.end == RUN_RUNNER_LOST)
		return;
	report->facts.end = RUN_BROKEN;
	if (x->process->spoiled)
		memcpy(report->facts.said, x->process->why, sizeof(report->facts.said));
	else
		snprintf(report->facts.said, sizeof(report->facts.said), "the handler process died: %s",
			 stream_process_how(x->process, how, sizeof(how)));
}

/* The process is the set's again. */
static void stream_hand_back(struct stream *x)
{
	struct stream_set *set = x->request->streams;
	struct stream_process *s = x->process;
	char why[STREAM_WHY_SIZE];

	x->process = NULL;
	if (x->answered)
		stream_set_worked(set, s);
	/* One that has answered before it had read all of the job would read the rest of it as the next one. */
	if (s->spoiled || s->process.over || outflow_pending(&s->process.to_stdin) || !stream_process_rest(s))
		stream_set_drop(set, s, stream_process_fault(s, why, sizeof(why)));
	else
		stream_set_put(set, s);
}

static void stream_perform(struct stream *x)
{
	stream_begin(x);
	stream_attend(x);
	if (!x->answered)
		stream_see_the_end(x);
	stream_leave_job(x);
	if (x->answered)
		x->report->max_rss_kb = x->report->cpu_ms = -1;
	else
		stream_report_broken(x);
	tail_finish(&x->err, &x->report->stderr_tail);
	stream_hand_back(x);
}

/* The job as a line. False: it cannot be told, and never will. */
static bool stream_prepare(struct stream *x)
{
	const struct job *job = x->request->job;
	struct run_facts *facts = &x->report->facts;

	if (stream_can_tell(job) && stream_write_job(&x->line, job, x->request->max_attempts, x->timeout_ms))
		return true;
	facts->end = RUN_BROKEN;
	snprintf(facts->said, sizeof(facts->said), "%s",
		 stream_can_tell(job) ? "the job does not fit into a line of 16 MiB"
				      : "the job's id is beyond 9223372036854775807");
	return false;
}

static void stream_init(struct stream *x, const struct run_request *request, struct run_report *report)
{
	const struct job *job = request->job;

	memset(x, 0, sizeof(*x));
	x->request = request;
	x->report = report;
	progress_init(&x->progress);
	x->timeout_ms = job->timeout_set ? job->timeout_ms : request->handler->timeout_ms;
	buf_init(&x->line, STREAM_LINE_MAX);
	tail_init(&x->err, (size_t)request->handler->max_stderr_tail);
	steps_init(&x->steps, job, &request->hooks);
	x->steps.owner = x;
	x->steps.answer = stream_answer_step;
}

static void stream_free(struct stream *x)
{
	buf_free(&x->line);
	tail_free(&x->err);
	steps_free(&x->steps);
}

static void stream_run(const struct run_request *request, struct run_report *report)
{
	enum stream_go go = STREAM_ANOTHER;
	struct stream x;

	stream_init(&x, request, report);
	if (stream_prepare(&x)) {
		while (go == STREAM_ANOTHER) {
			x.process = stream_get(&x);
			go = x.process == NULL ? STREAM_OVER : stream_assign(&x);
		}
		if (go == STREAM_GO)
			stream_perform(&x);
	}
	stream_free(&x);
}

const struct handler_ops handler_stream = {.name = "stream", .run = stream_run};
