/* stream_process.h - one warm process of a stream handler: its greeting, its lines, its end (layer: handler; one thread at a time:
 * whoever took it from the set, see stream_set.h).
 *
 * It is one run of the runner all its life, under a new number for each job and for each pause between two. */
#ifndef LEASEHOLD_HANDLER_STREAM_PROCESS_H
#define LEASEHOLD_HANDLER_STREAM_PROCESS_H

#include "handler/lines.h"
#include "handler/output.h"
#include "handler/process.h"
#include "handler/stderr_log.h"
#include "handler/stream_message.h"
#include "model/settings.h"

#include <stdbool.h>
#include <stdint.h>

#define STREAM_WHY_SIZE 256

struct stream_process {
	struct stream_process *next; /* in a list of the set */
	struct stream_kind *kind;    /* the set's */
	uint64_t looked;             /* the set's */
	struct process process;
	const struct handler_settings *handler; /* borrowed from settings */
	struct settings *settings;              /* a reference; NULL where the owner sees to it that handler lasts */
	struct lines lines;
	struct stderr_log err_log;
	struct tail *tail; /* of the job under way; NULL: there is none */
	bool sent; /* its START */
	bool greeted;
	char client[STREAM_CLIENT_MAX + 1];
	bool spoiled; /* it broke the protocol */
	bool deaf;    /* what it says is dropped: its end has begun */
	char why[STREAM_WHY_SIZE]; /* spoiled: how */
	int64_t born_ms, idle_ms, gone_by_ms; /* CLOCK_MONOTONIC: started, put back, to be gone (leaving) */
	int64_t jobs;                         /* answered */
	/* What the runner said of the last ASSIGN, and of the end of the run under way. */
	bool assigned, refused, dying;
	int64_t assigned_ms; /* CLOCK_BOOTTIME */
	uint64_t former_run;
	enum end_reason asked;
	/* Who listens; NULL: it has no job, and may say nothing. */
	void *hearer;
	void (*hear)(void *hearer, const struct stream_message *m);
	void (*ring)(void *hearer); /* the bell of its process rang */
};

/* References settings, which may be NULL. NULL without memory. */
struct stream_process *stream_process_new(struct runner_link *runner, const struct handler_settings *handler,
					  struct settings *settings);
void stream_process_free(struct stream_process *s);

/* Sends START and the first line. False: it cannot be started, see why. */
bool stream_process_start(struct stream_process *s);
/* Serves it for up to timeout_ms. True when it is known whether it can be used: greeted, or else why says what is wrong. */
bool stream_process_greet(struct stream_process *s, int timeout_ms);

/* Looks at a process without a job: whether it can be given one. */
bool stream_process_usable(struct stream_process *s);
/* What was wrong with one that cannot; NULL: nothing, it is only on its way out, or has left after having done its work. */
const char *stream_process_fault(const struct stream_process *s, char *out, size_t size);
/* Sends an ASSIGN under a number of its own. The answer comes as assigned, or refused. */
bool stream_process_assign(struct stream_process *s, uint64_t run, const struct runner_times *times);
/* Between two jobs: no deadline. False when the runner could not be told. */
bool stream_process_rest(struct stream_process *s);
/* Takes text, which is empty afterwards. */
bool stream_process_send(struct stream_process *s, struct buf *text);
void stream_process_spoil(struct stream_process *s, const char *fmt, ...) LH_PRINTF(2, 3);

/* Ends a process without a job: its standard input is closed, TERM follows after half of grace_ms, KILL at its end. Waits for
 * nothing; stream_process_gone tells. */
void stream_process_leave(struct stream_process *s, int64_t grace_ms);
void stream_process_hurry(struct stream_process *s, int64_t grace_ms); /* TERM now */
bool stream_process_gone(struct stream_process *s);
/* TERM now, KILL after its grace, and waits until it is over. */
void stream_process_end(struct stream_process *s);
/* How a process that is over ended, in words. */
const char *stream_process_how(const struct stream_process *s, char *out, size_t size);

#endif
