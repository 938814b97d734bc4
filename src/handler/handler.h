/* handler.h - how one job is run, whatever its handler is (layer: handler; worker threads).
 *
 * One small struct of operations per kind of handler, found by handler_ops_for. run() blocks the calling worker thread until
 * the run is over and nothing of it can act any more (or that cannot be known: facts.group_gone is false), and fills the
 * report. It decides nothing: outcome_decide does. */
#ifndef LEASEHOLD_HANDLER_HANDLER_H
#define LEASEHOLD_HANDLER_HANDLER_H

#include "base/buf.h"
#include "handler/runner_link.h"
#include "handler/step_box.h"
#include "model/job.h"
#include "model/outcome.h"
#include "model/settings.h"

struct run_hooks {
	void *owner;
	/* Marks the job as running and calls send(arg, kill_at_ms) while its entry is locked, so that every later deadline
	 * queues behind the START. Returns false, without sending, when the lease is not held any more; false too when send
	 * fails. May be called again, with another number, when the handler never got to the job under the first. */
	bool (*start)(void *owner, uint64_t run, bool (*send)(void *arg, int64_t kill_at_ms), void *arg);
	/* The handler told of progress: percent 0 to 100, or < 0 = unchanged; note NULL = unchanged, else valid UTF-8 of at
	 * most 255 characters. */
	void (*progress)(void *owner, double percent, const char *note);
	/* Whether a job that was not started yet is still to be started; for handlers that wait before they do. NULL: it is. */
	bool (*wanted)(void *owner);
	/* Takes a step to be saved; its answer arrives in its box. Steps are written in the order in which they were given, and
	 * before the settlement of the run. NULL: this owner saves none. */
	void (*step)(void *owner, struct step *step);
};

struct stream_set;

struct run_request {
	const struct job *job;
	const struct handler_settings *handler;
	struct settings *settings;  /* whose handler it is; NULL: the handler lasts as long as the stream set */
	struct stream_set *streams; /* stream handlers only: the warm processes */
	unsigned int max_attempts; /* effective */
	struct runner_link *runner;
	struct run_hooks hooks;
};

struct run_report {
	struct run_facts facts;
	struct buf result;      /* stdout, or the control channel's "result"; valid UTF-8, cut at handler->max_result with a mark */
	bool has_result;
	struct buf stderr_tail; /* valid UTF-8, at most handler->max_stderr_tail, a mark before it when it was cut */
	int64_t ran_ms, max_rss_kb, cpu_ms;
};

struct handler_ops {
	const char *name;
	void (*run)(const struct run_request *request, struct run_report *report);
};

const struct handler_ops *handler_ops_for(enum handler_type type);

extern const struct handler_ops handler_exec; /* exec.c */
extern const struct handler_ops handler_stream; /* stream.c */
extern const struct handler_ops handler_noop; /* noop.c: succeeds at once, in process; for benchmarks */

void run_report_init(struct run_report *report, const struct handler_settings *handler);
void run_report_free(struct run_report *report);

#endif
