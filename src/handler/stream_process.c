/* stream_process.c - see stream_process.h. */
#include "handler/stream_process.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_PROCESS_LINE_LEAST (1024 * 1024)
#define STREAM_PROCESS_LINE_MORE (64 * 1024)
#define STREAM_PROCESS_ROUNDS 16    /* how often one that is not waited for is served in a row */
#define STREAM_PROCESS_LATE_MS 1000 /* beyond its grace before it is asked for again */

void stream_process_spoil(struct stream_process *s, const char *fmt, ...)
{
	va_list args;
	int len;

	if (s->spoiled)
		return;
	s->spoiled = true;
	len = snprintf(s->why, sizeof(s->why), "protocol error: ");
	va_start(args, fmt);
	vsnprintf(s->why + len, sizeof(s->why) - (size_t)len, fmt, args);
	va_end(args);
}

static void stream_process_take_hello(struct stream_process *s, const struct stream_message *m)
{
	if (!m->hello) {
		stream_process_spoil(s, "its first line is not a \"hello\"");
	} else if (m->protocol != STREAM_PROTOCOL) {
		stream_process_spoil(s, "it speaks version %lld, and we version %d", (long long)m->protocol, STREAM_PROTOCOL);
	} else {
		memcpy(s->client, m->client, sizeof(s->client));
		s->greeted = true;
	}
}

static void stream_process_take_line(void *owner, const char *bytes, size_t len)
{
	struct stream_process *s = owner;
	char why[JSON_READ_WHY_SIZE];
	struct stream_message m;

	if (s->spoiled || s->deaf)
		return;
	if (!stream_message_read(&m, bytes, len, why))
		stream_process_spoil(s, "%s", why);
	else if (m.root == NULL)
		; /* a blank line */
	else if (!s->greeted)
		stream_process_take_hello(s, &m);
	else if (s->hear == NULL)
		stream_process_spoil(s, "a line while it had no job");
	else
		s->hear(s->hearer, &m);
	stream_message_free(&m);
}

static void stream_process_take_long_line(void *owner)
{
	struct stream_process *s = owner;

	stream_process_spoil(s, "a line of more than %zu bytes", s->lines.line.limit);
}

static void stream_process_take_stdout(void *owner, const char *bytes, size_t len)
{
	struct stream_process *s = owner;

	if (!s->spoiled && !s->deaf)
		lines_feed(&s->lines, bytes, len);
}

static void stream_process_take_stderr(void *owner, const char *bytes, size_t len)
{
	struct stream_process *s = owner;

	if (s->tail != NULL)
		tail_feed(s->tail, bytes, len);
	stderr_log_feed(&s->err_log, bytes, len);
}

/* What concerns an earlier number is of no interest any more. */
static void stream_process_take_news(void *owner, const struct runner_report *news)
{
	struct stream_process *s = owner;

	if (news->news == RUNNER_NOT_ASSIGNED && news->error != 0)
		s->dying = true;
	if (news->run != s->process.run)
		return;
	if (news->news == RUNNER_ENDING && news->reason < END_REASONS) {
		s->asked = (enum end_reason)news->reason;
	} else if (news->news == RUNNER_ASSIGNED) {
		s->assigned = true;
		s->assigned_ms = news->started_ms;
	} else if (news->news == RUNNER_NOT_ASSIGNED) {
		s->refused = true;
		s->process.run = s->former_run;
	}
}

static void stream_process_take_ring(void *owner)
{
	struct stream_process *s = owner;

	s->ring(s->hearer);
}

struct stream_process *stream_process_new(struct runner_link *runner, const struct handler_settings *handler,
					  struct settings *settings)
{
	struct stream_process *s = calloc(1, sizeof(*s));
	size_t longest = 2 * (size_t)handler->max_result + STREAM_PROCESS_LINE_MORE;

	if (s == NULL)
		return NULL;
	s->handler = handler;
	s->settings = settings == NULL ? NULL : settings_ref(settings);
	process_init(&s->process, runner, s);
	s->process.take[RUNNER_FD_STDOUT] = stream_process_take_stdout;
	s->process.take[RUNNER_FD_STDERR] = stream_process_take_stderr;
	s->process.news = stream_process_take_news;
	s->process.rung = stream_process_take_ring;
	lines_init(&s->lines, longest > STREAM_PROCESS_LINE_LEAST ? longest : STREAM_PROCESS_LINE_LEAST);
	s->lines.owner = s;
	s->lines.take = stream_process_take_line;
	s->lines.too_long = stream_process_take_long_line;
	stderr_log_init(&s->err_log, handler->log_stderr);
	stderr_log_speak_of(&s->err_log, NULL, handler->kind, 0);
	return s;
}

void stream_process_free(struct stream_process *s)
{
	if (s == NULL)
		return;
	stderr_log_end(&s->err_log);
	process_free(&s->process);
	lines_free(&s->lines);
	settings_unref(s->settings);
	free(s);
}

bool stream_process_send(struct stream_process *s, struct buf *text)
{
	return outflow_take(&s->process.to_stdin, text);
}

static bool stream_process_say_hello(struct stream_process *s)
{
	struct buf line;
	bool said;

	buf_init(&line, STREAM_PROCESS_LINE_LEAST);
	said = stream_write_hello(&line, s->handler->kind, s->lines.line.limit) && stream_process_send(s, &line);
	buf_free(&line);
	return said;
}

bool stream_process_start(struct stream_process *s)
{
	struct process *p = &s->process;
	char text[128];
	bool good;

	s->born_ms = clock_mono_ms();
	p->run = runner_link_next_run(p->runner);
	good = process_open(p, false) && process_describe(p, s->handler, NULL, 0) &&
	       fcntl(p->ours[RUNNER_FD_STDIN], F_SETFL, O_NONBLOCK) == 0;
	p->start.command.timeout_ms = s->handler->start_timeout_ms;
	s->sent = good && stream_process_say_hello(s) && process_send_start(p, INT64_MAX);
	if (s->sent) {
		process_started(p);
		return true;
	}
	if (p->sent != LH_OK)
		snprintf(s->why, sizeof(s->why), "cannot start it: %s", p->fault.text);
	else
		snprintf(s->why, sizeof(s->why), "cannot start it: %s: %s",
			 p->facts.exec_stage != NULL ? p->facts.exec_stage : "memory",
			 strerror_r(p->facts.exec_errno, text, sizeof(text)));
	return false;
}

/* What is said of one that was over before it was ready. */
static void stream_process_tell_stillborn(struct stream_process *s)
{
	char how[STREAM_WHY_SIZE - 64], duration[32];

	if (s->process.facts.reason == END_TIMEOUT)
		snprintf(s->why, sizeof(s->why), "it said nothing within start_timeout, %s",
			 parse_format_duration(s->handler->start_timeout_ms, duration, sizeof(duration)));
	else if (s->process.facts.end == RUN_EXITED)
		snprintf(s->why, sizeof(s->why), "it ended before it was ready: %s", stream_process_how(s, how, sizeof(how)));
	else
		snprintf(s->why, sizeof(s->why), "cannot start it: %s", stream_process_how(s, how, sizeof(how)));
}

bool stream_process_greet(struct stream_process *s, int timeout_ms)
{
	struct process *p = &s->process;

	(void)process_serve(p, timeout_ms);
	s->err_log.pid = p->pid;
	if (p->over && !s->greeted && !s->spoiled) {
		process_drain_one(p, RUNNER_FD_STDOUT);
		process_drain_one(p, RUNNER_FD_STDERR);
	}
	if (p->over && !s->spoiled) {
		s->greeted = false;
		stream_process_tell_stillborn(s);
	}
	return s->greeted || s->spoiled || p->over;
}

bool stream_process_usable(struct stream_process *s)
{
	struct process *p = &s->process;

	for (int i = 0; i < STREAM_PROCESS_ROUNDS && !p->over && process_serve(p, 0) > 0; i++)
		;
	if (!p->over && !s->spoiled && s->lines.line.len > 0)
		stream_process_spoil(s, "it wrote something while it had no job");
	return !p->over && !s->spoiled && !s->dying && p->ours[RUNNER_FD_STDIN] >= 0 && p->ours[RUNNER_FD_STDOUT] >= 0 &&
	       !outflow_pending(&p->to_stdin);
}

const char *stream_process_fault(const struct stream_process *s, char *out, size_t size)
{
	const struct run_facts *facts = &s->process.facts;

	if (s->spoiled)
		return s->why;
	/* On its way out, or we have ended it. */
	if (!s->process.over || s->dying || facts->reason != END_NONE)
		return NULL;
	if (s->jobs > 0 && facts->end == RUN_EXITED && facts->exited && facts->exit_code == 0)
		return NULL;
	/* Not its fault, and told by whoever watches the runner. */
	return facts->end == RUN_RUNNER_LOST ? NULL : stream_process_how(s, out, size);
}

bool stream_process_assign(struct stream_process *s, uint64_t run, const struct runner_times *times)
{
	s->assigned = s->refused = false;
	s->asked = END_NONE;
	s->former_run = s->process.run;
	return process_send_assign(&s->process, run, times);
}

bool stream_process_rest(struct stream_process *s)
{
	const struct runner_times times = {.kill_at_ms = INT64_MAX, .grace_ms = s->handler->kill_grace_ms};

	s->idle_ms = clock_mono_ms();
	return stream_process_assign(s, runner_link_next_run(s->process.runner), &times);
}

void stream_process_leave(struct stream_process *s, int64_t grace_ms)
{
	const struct runner_times times = {.kill_at_ms = clock_boot_ms() + grace_ms, .grace_ms = grace_ms / 2};

	s->deaf = true;
	s->gone_by_ms = clock_mono_ms() + grace_ms + STREAM_PROCESS_LATE_MS;
	process_close(&s->process, RUNNER_FD_STDIN);
	if (!s->process.over && !stream_process_assign(s, runner_link_next_run(s->process.runner), &times))
		runner_link_end(s->process.runner, s->process.run, END_NONE, grace_ms);
}

void stream_process_hurry(struct stream_process *s, int64_t grace_ms)
{
	runner_link_end(s->process.runner, s->process.run, END_NONE, grace_ms);
}

bool stream_process_gone(struct stream_process *s)
{
	struct process *p = &s->process;
	int64_t now_ms = clock_mono_ms();

	for (int i = 0; i < STREAM_PROCESS_ROUNDS && !p->over && process_serve(p, 0) > 0; i++)
		;
	if (p->over) {
		process_drain_one(p, RUNNER_FD_STDERR);
		if (!p->facts.group_gone)
			log_warn("handler", "kind=%s pid=%d processes of it could not be ended", s->handler->kind, (int)p->pid);
	} else if (now_ms > s->gone_by_ms) {
		/* A command may have been lost when the runner's queue was full. */
		s->gone_by_ms = now_ms + STREAM_PROCESS_LATE_MS;
		stream_process_hurry(s, 0);
	}
	return p->over;
}

void stream_process_end(struct stream_process *s)
{
	struct process *p = &s->process;

	s->deaf = true;
	if (p->over)
		return;
	runner_link_end(p->runner, p->run, END_NONE, s->handler->kill_grace_ms);
	process_close(p, RUNNER_FD_STDIN);
	/* A command that is lost leaves the deadline in force. */
	while (!p->over)
		(void)process_serve(p, -1);
}

const char *stream_process_how(const struct stream_process *s, char *out, size_t size)
{
	const struct run_facts *facts = &s->process.facts;
	char text[128];

	if (facts->end == RUN_RUNNER_LOST)
		snprintf(out, size, "the runner process died");
	else if (facts->end != RUN_EXITED)
		snprintf(out, size, "%s: %s", facts->exec_stage != NULL ? facts->exec_stage : "runner",
			 strerror_r(facts->exec_errno, text, sizeof(text)));
	else
		outcome_describe_end(facts, out, size);
	return out;
}
