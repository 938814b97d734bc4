/* process.h - one process that the runner has started for us, seen from the daemon: its pipes, its news, its end (layer: handler;
 * one thread at a time).
 *
 * What exec and stream handlers have in common. process_serve waits for any of the pipes and serves those that are ready; it
 * writes what outflows hold, passes on what comes, and reads the runner's news. Once over is set nothing of the process can act
 * any more, or that cannot be known (facts.group_gone is false); what is left in its pipes still counts, see process_drain. */
#ifndef LEASEHOLD_HANDLER_PROCESS_H
#define LEASEHOLD_HANDLER_PROCESS_H

#include "handler/environment.h"
#include "handler/outflow.h"
#include "handler/runner_link.h"
#include "model/job.h"
#include "model/outcome.h"
#include "model/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
	struct runner_link *runner;
	struct environment environment;
	struct runner_start start; /* its descriptors are the far ends: ours to close once it is sent */
	int ours[RUNNER_FDS];      /* -1: closed */
	enum lh_err sent;          /* of the last START or ASSIGN */
	struct fault fault;        /* why that failed */
	uint64_t run;              /* the number under which the runner knows it */
	pid_t pid;                 /* 0: it has not begun */
	bool over;
	struct run_facts facts; /* how it ended, or why it did not begin */
	int64_t ran_ms, max_rss_kb, cpu_ms;
	/* For the owner to set. */
	void *owner;
	void (*take[RUNNER_FDS])(void *owner, const char *bytes, size_t len); /* STDOUT, STDERR, CONTROL */
	void (*news)(void *owner, const struct runner_report *report);        /* what is not said by pid, over and facts; NULL */
	bool held[RUNNER_FDS];                                                /* is not read just now */
	struct outflow to_stdin, to_control;                                  /* to_stdin: closed when it has gone out, if wanted */
	bool close_stdin;
	bool unread; /* it has closed its standard input, and there was more for it */
	int bell; /* -1: none */
	void (*rung)(void *owner);
};

void process_init(struct process *p, struct runner_link *runner, void *owner);
void process_free(struct process *p); /* closes everything; what still runs is left to run */

/* Each of these returns false, with the reason in facts, when the process cannot be started. */
bool process_open(struct process *p, bool control); /* without control, the process has /dev/null as descriptor 3 */
/* What the configuration says of it. job NULL: no names of a job in its environment. */
bool process_describe(struct process *p, const struct handler_settings *handler, const struct job *job, unsigned int max_attempts);
bool process_refuse(struct process *p, int error, const char *stage); /* always false */

/* Sends the START under a number of its own (p->run), which was taken before. */
bool process_send_start(struct process *p, int64_t kill_at_ms);
void process_started(struct process *p); /* the far ends are not ours any more */
/* How a START that could not be sent shows in facts. */
void process_unsent(struct process *p);
/* Sends an ASSIGN, and takes the number when that went out. */
bool process_send_assign(struct process *p, uint64_t next_run, const struct runner_times *times);

void process_close(struct process *p, enum runner_fd which);
/* Waits up to timeout_ms (-1: without end). Returns how many descriptors were ready. */
int process_serve(struct process *p, int timeout_ms);
/* Takes what is in the pipes now, and waits for nothing: a process that left the group may hold them for ever. */
void process_drain(struct process *p);
void process_drain_one(struct process *p, enum runner_fd which);

#endif
