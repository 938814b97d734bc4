/* outcome.h - from the way a handler ended to what becomes of its job (layer: model; pure).
 *
 * Two steps. outcome_decide looks only at the run: how the process ended, what it said on its control channel, who asked it
 * to end. It gives an outcome with its cause in words. settlement_decide (settlement.h) then applies the job's attempts and
 * backoff. */
#ifndef LEASEHOLD_MODEL_OUTCOME_H
#define LEASEHOLD_MODEL_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum outcome_kind {
	OUTCOME_SUCCEEDED,
	OUTCOME_RETRY,
	OUTCOME_SNOOZE,     /* not now, and not counted */
	OUTCOME_DEAD,       /* permanent failure */
	OUTCOME_TIMED_OUT,  /* as retry, named */
	OUTCOME_CANCELLED,
	OUTCOME_LEASE_LOST, /* nothing may be written */
	OUTCOME_RELEASED,   /* ended by a shutdown or never started: not counted */
	OUTCOME_KINDS
};
/* "succeeded", "retry", "snooze", "dead", "timed_out", "cancelled", "lease_lost", "released" */
const char *outcome_name(enum outcome_kind kind);

/* Why we ended a handler. The first reason stands. */
enum end_reason { END_NONE, END_TIMEOUT, END_LEASE, END_CANCEL, END_SHUTDOWN, END_REASONS };
const char *end_reason_name(enum end_reason reason);

enum run_end {
	RUN_EXITED,      /* a process ran and ended: exited or signalled */
	RUN_NOT_STARTED, /* deadline already passed, runner unavailable, or the lease was gone: the handler never ran */
	RUN_EXEC_FAILED, /* the program could not be executed: exec_errno, exec_stage */
	RUN_RUNNER_LOST, /* the runner died, and the handler with it */
	RUN_ANSWERED,    /* a warm process said how the job ended, and goes on: succeeded, or else asked and said */
	RUN_BROKEN       /* a warm process ended, or was ended, without a proper answer: said tells what it did */
};

/* Whether the kernel ended a process for want of memory while the handler ran: one of its own for certain, or one of which only
 * that is known. */
enum run_oom { RUN_OOM_NONE, RUN_OOM_PROBABLY, RUN_OOM_CERTAIN };

/* What the handler asked for on descriptor 3, or by its answer; the last value of each wins. */
struct run_requests {
	int64_t retry_after_ms; /* -1 = not said */
	int64_t snooze_ms;      /* -1 = not said */
	bool dead;
	char dead_reason[256];
};

struct run_facts {
	enum run_end end;
	enum end_reason reason; /* who asked it to end, END_NONE when nobody did */
	bool exited;            /* exit_code holds; else signal holds */
	int exit_code;
	int signal;
	bool core_dumped;
	enum run_oom oom;
	int exec_errno;
	const char *exec_stage; /* "execve", "chdir", "setuid" ...: borrowed, static */
	bool group_gone;        /* no process of its group is left; not for RUN_ANSWERED, nor where nothing was started */
	bool succeeded;         /* RUN_ANSWERED */
	char said[256];         /* RUN_ANSWERED: the handler's own words; RUN_BROKEN: ours. "" = none */
	int64_t put_back_ms;    /* RUN_NOT_STARTED: not before so long, and whoever found out why has said so; 0 = not said */
	struct run_requests asked;
};

void run_facts_init(struct run_facts *facts); /* nothing was started, nothing was asked for */

struct outcome {
	enum outcome_kind kind;
	int64_t delay_ms; /* asked for by the handler; -1 = by the backoff. Only for RETRY and SNOOZE */
	char cause[320];  /* "exit status 75", "killed by SIGSEGV (core dumped)", "timed out", ... ; "" for a plain success */
};

/* The rules, in order (leasehold-handler(7) has them for handler authors): a run that never started is released, whatever
 * the reason (a release is fenced: it changes nothing when the lease is gone); then lease lost beats all; a clean exit 0, or
 * the answer that it succeeded, counts even when an end had been asked for, unless control lines asked otherwise; a shutdown is
 * released; cancel; timeout; then the control channel's or the answer's dead, snooze, retry-after; then exit 0 succeeded, 65
 * (EX_DATAERR) dead, 75 (EX_TEMPFAIL) and anything else retry. A failed exec is a retry that names the errno. Last, what would
 * run the job again while its group may still be alive (group_gone is false) is LEASE_LOST instead: the holder stops renewing,
 * and the lease lapses. */
void outcome_decide(const struct run_facts *facts, struct outcome *out);

/* "exit status 3", "killed by SIGSEGV (core dumped)": how the process of a RUN_EXITED ended. */
void outcome_describe_end(const struct run_facts *facts, char *text, size_t size);

/* "SIGSEGV" for 11; "signal 99" into the caller's buffer otherwise. Returns text valid as long as buffer. */
const char *outcome_signal_name(int signal, char *buffer, unsigned int size);

#define OUTCOME_EXIT_DEAD 65
#define OUTCOME_EXIT_TEMPFAIL 75

#endif
