/* outcome.c - see outcome.h. */
#include "model/outcome.h"

#include "base/fault.h"
#include "base/utf8.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const outcome_names[OUTCOME_KINDS] = {
	[OUTCOME_SUCCEEDED] = "succeeded",
	[OUTCOME_RETRY] = "retry",
	[OUTCOME_SNOOZE] = "snooze",
	[OUTCOME_DEAD] = "dead",
	[OUTCOME_TIMED_OUT] = "timed_out",
	[OUTCOME_CANCELLED] = "cancelled",
	[OUTCOME_LEASE_LOST] = "lease_lost",
	[OUTCOME_RELEASED] = "released",
};

static const char *const outcome_reason_names[END_REASONS] = {
	[END_NONE] = "none",
	[END_TIMEOUT] = "timeout",
	[END_LEASE] = "lease",
	[END_CANCEL] = "cancel",
	[END_SHUTDOWN] = "shutdown",
};

/* sigabbrev_np(3) knows these too, but only from glibc 2.32 on. */
#define OUTCOME_SIGNAL(name) [name] = #name
static const char *const outcome_signals[] = {
	OUTCOME_SIGNAL(SIGHUP), OUTCOME_SIGNAL(SIGINT), OUTCOME_SIGNAL(SIGQUIT), OUTCOME_SIGNAL(SIGILL), OUTCOME_SIGNAL(SIGTRAP),
	OUTCOME_SIGNAL(SIGABRT), OUTCOME_SIGNAL(SIGBUS), OUTCOME_SIGNAL(SIGFPE), OUTCOME_SIGNAL(SIGKILL), OUTCOME_SIGNAL(SIGUSR1),
	OUTCOME_SIGNAL(SIGSEGV), OUTCOME_SIGNAL(SIGUSR2), OUTCOME_SIGNAL(SIGPIPE), OUTCOME_SIGNAL(SIGALRM), OUTCOME_SIGNAL(SIGTERM),
	OUTCOME_SIGNAL(SIGCHLD), OUTCOME_SIGNAL(SIGCONT), OUTCOME_SIGNAL(SIGSTOP), OUTCOME_SIGNAL(SIGTSTP), OUTCOME_SIGNAL(SIGTTIN),
	OUTCOME_SIGNAL(SIGTTOU), OUTCOME_SIGNAL(SIGURG), OUTCOME_SIGNAL(SIGXCPU), OUTCOME_SIGNAL(SIGXFSZ),
	OUTCOME_SIGNAL(SIGVTALRM), OUTCOME_SIGNAL(SIGPROF), OUTCOME_SIGNAL(SIGWINCH), OUTCOME_SIGNAL(SIGIO),
	OUTCOME_SIGNAL(SIGPWR), OUTCOME_SIGNAL(SIGSYS),
#ifdef SIGSTKFLT
	OUTCOME_SIGNAL(SIGSTKFLT),
#endif
};

const char *outcome_name(enum outcome_kind kind)
{
	return (unsigned int)kind < OUTCOME_KINDS ? outcome_names[kind] : "unknown";
}

const char *end_reason_name(enum end_reason reason)
{
	return (unsigned int)reason < END_REASONS ? outcome_reason_names[reason] : "unknown";
}

const char *outcome_signal_name(int signal, char *buffer, unsigned int size)
{
	size_t count = sizeof(outcome_signals) / sizeof(outcome_signals[0]);

	if (signal > 0 && (size_t)signal < count && outcome_signals[signal] != NULL)
		return outcome_signals[signal];
	snprintf(buffer, size, "signal %d", signal);
	return buffer;
}

void run_facts_init(struct run_facts *facts)
{
	memset(facts, 0, sizeof(*facts));
	facts->end = RUN_NOT_STARTED;
	facts->group_gone = true;
	facts->asked.retry_after_ms = -1;
	facts->asked.snooze_ms = -1;
}

/* The outcome with its cause: one line, cut between two characters. */
static void LH_PRINTF(4, 5) outcome_set(struct outcome *out, enum outcome_kind kind, int64_t delay_ms, const char *fmt, ...)
{
	va_list args;
	int len;

	out->kind = kind;
	out->delay_ms = delay_ms;
	va_start(args, fmt);
	len = vsnprintf(out->cause, sizeof(out->cause), fmt, args);
	va_end(args);
	if (len < 0)
		len = 0;
	if ((size_t)len >= sizeof(out->cause))
		len = (int)utf8_cut(out->cause, sizeof(out->cause) - 1);
	out->cause[len] = '\0';
	for (char *p = out->cause; *p != '\0'; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
	}
}

static const char *outcome_oom(enum run_oom oom)
{
	switch (oom) {
	case RUN_OOM_CERTAIN:
		return ": out of memory";
	case RUN_OOM_PROBABLY:
		return ", probably out of memory: the kernel ended a process for want of memory meanwhile";
	default:
		return "";
	}
}

void outcome_describe_end(const struct run_facts *facts, char *text, size_t size)
{
	char buffer[32];

	if (facts->exited)
		snprintf(text, size, "exit status %d%s", facts->exit_code, outcome_oom(facts->oom));
	else
		snprintf(text, size, "killed by %s%s%s", outcome_signal_name(facts->signal, buffer, sizeof(buffer)),
			 facts->core_dumped ? " (core dumped)" : "", outcome_oom(facts->oom));
}

/* A warm handler that did not simply succeed: its own words, or ours for what it did. */
static void outcome_describe_answer(const struct run_facts *facts, char *text, size_t size)
{
	int len = (int)utf8_cut(facts->said, strnlen(facts->said, sizeof(facts->said)));

	if (len > 0)
		snprintf(text, size, "%.*s", len, facts->said);
	else if (facts->end == RUN_BROKEN)
		snprintf(text, size, "the handler process ended without an answer");
	else if (facts->succeeded || facts->asked.dead)
		snprintf(text, size, "it answered");
	else
		snprintf(text, size, "the handler asked for another attempt");
}

/* How the run ended, in words. */
static void outcome_describe(const struct run_facts *facts, char *text, size_t size)
{
	char reason[128];

	if (facts->end == RUN_RUNNER_LOST)
		snprintf(text, size, "the runner process died, and the handler with it");
	else if (facts->end == RUN_EXEC_FAILED)
		snprintf(text, size, "cannot start the handler: %s: %s", facts->exec_stage != NULL ? facts->exec_stage : "execve",
			 strerror_r(facts->exec_errno, reason, sizeof(reason)));
	else if (facts->end == RUN_ANSWERED || facts->end == RUN_BROKEN)
		outcome_describe_answer(facts, text, size);
	else
		outcome_describe_end(facts, text, size);
}

static bool outcome_is_clean(const struct run_facts *facts)
{
	return facts->end == RUN_ANSWERED ? facts->succeeded
					  : facts->end == RUN_EXITED && facts->exited && facts->exit_code == 0;
}

/* The control channel's word. Returns false when it asked for nothing. */
static bool outcome_by_request(const struct run_facts *facts, const char *how, struct outcome *out)
{
	const struct run_requests *asked = &facts->asked;
	int len = (int)utf8_cut(asked->dead_reason, strnlen(asked->dead_reason, sizeof(asked->dead_reason)));

	if (asked->dead && len > 0)
		outcome_set(out, OUTCOME_DEAD, -1, "%.*s", len, asked->dead_reason);
	else if (asked->dead)
		outcome_set(out, OUTCOME_DEAD, -1, "the handler gave the job up (%s)", how);
	else if (asked->snooze_ms >= 0)
		outcome_set(out, OUTCOME_SNOOZE, asked->snooze_ms, "the handler asked to be called later");
	else if (asked->retry_after_ms >= 0)
		outcome_set(out, OUTCOME_RETRY, asked->retry_after_ms, "%s",
			    outcome_is_clean(facts) ? "the handler asked for another attempt" : how);
	else
		return false;
	return true;
}

/* A run that nobody outside ended: its control channel, then how it ended. */
static void outcome_by_handler(const struct run_facts *facts, const char *how, struct outcome *out)
{
	if (outcome_by_request(facts, how, out))
		return;
	if (outcome_is_clean(facts))
		outcome_set(out, OUTCOME_SUCCEEDED, -1, "%s", "");
	else if (facts->end == RUN_EXITED && facts->exited && facts->exit_code == OUTCOME_EXIT_DEAD)
		outcome_set(out, OUTCOME_DEAD, -1, "%s", how);
	else
		outcome_set(out, OUTCOME_RETRY, -1, "%s", how);
}

/* Whether the job may run again soon. Then nothing of this run may be alive any more. */
static bool outcome_runs_again(enum outcome_kind kind)
{
	return kind == OUTCOME_RETRY || kind == OUTCOME_TIMED_OUT || kind == OUTCOME_SNOOZE || kind == OUTCOME_RELEASED;
}

/* Whether there was a process, and it should have ended with the run. */
static bool outcome_has_group(const struct run_facts *facts)
{
	return facts->end == RUN_EXITED || facts->end == RUN_RUNNER_LOST || facts->end == RUN_BROKEN;
}

void outcome_decide(const struct run_facts *facts, struct outcome *out)
{
	const struct run_requests *asked = &facts->asked;
	bool asks = asked->dead || asked->snooze_ms >= 0 || asked->retry_after_ms >= 0;
	char how[sizeof(out->cause)];

	outcome_describe(facts, how, sizeof(how));
	if (facts->end == RUN_NOT_STARTED)
		outcome_set(out, OUTCOME_RELEASED, -1, "the handler was never started");
	else if (facts->reason == END_LEASE)
		outcome_set(out, OUTCOME_LEASE_LOST, -1, "the lease was lost: %s", how);
	else if (facts->reason == END_NONE || (outcome_is_clean(facts) && !asks))
		outcome_by_handler(facts, how, out);
	else if (facts->reason == END_SHUTDOWN)
		outcome_set(out, OUTCOME_RELEASED, -1, "ended by a shutdown: %s", how);
	else if (facts->reason == END_CANCEL)
		outcome_set(out, OUTCOME_CANCELLED, -1, "cancelled on request: %s", how);
	else
		outcome_set(out, OUTCOME_TIMED_OUT, -1, "timed out: %s", how);
	if (outcome_has_group(facts) && !facts->group_gone && outcome_runs_again(out->kind))
		outcome_set(out, OUTCOME_LEASE_LOST, -1, "processes of the handler may still run; its lease is left to lapse: %s",
			    how);
}
