/* stream_set.h - the warm processes of one instance, by handler (layer: handler; any thread).
 *
 * A worker takes a process, runs one job on it, and puts it back; while it has it, nobody else does. Here lie those that have no
 * job just now, and those that are on their way out. Starts that fail are tried again after a pause that grows. One mutex, a
 * leaf: processes are looked at outside of it. */
#ifndef LEASEHOLD_HANDLER_STREAM_SET_H
#define LEASEHOLD_HANDLER_STREAM_SET_H

#include "handler/stream_process.h"
#include "model/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream_set;

struct stream_set *stream_set_new(void); /* NULL without memory */
void stream_set_free(struct stream_set *set); /* no worker has one any more; what is left is killed. NULL is allowed */

enum stream_take {
	STREAM_TAKE_IDLE,  /* *process is the caller's, and was good when it was put back */
	STREAM_TAKE_START, /* the caller may start one: *kind counts it */
	STREAM_TAKE_WAIT,  /* all that there may be have jobs: stream_set_wait, and ask again */
	STREAM_TAKE_PAUSE, /* none can be started before *pause_ms have passed */
	STREAM_TAKE_FAILED /* no memory */
};
enum stream_take stream_set_take(struct stream_set *set, const struct handler_settings *handler, struct stream_process **process,
				 struct stream_kind **kind, int64_t *pause_ms);
/* Until a process is put back, or timeout_ms have passed. */
void stream_set_wait(struct stream_set *set, int64_t timeout_ms);

/* What became of a start that STREAM_TAKE_START allowed. Failed: takes process, which may be NULL; why is logged now and then;
 * returns the pause before the next start. */
void stream_set_started(struct stream_set *set, struct stream_process *process);
int64_t stream_set_failed(struct stream_set *set, struct stream_kind *kind, struct stream_process *process, const char *why);

/* Takes process, which is at rest; it is ended where it has served its time, or its settings have. */
void stream_set_put(struct stream_set *set, struct stream_process *process);
/* Takes process, which is over or on its way out. why: it failed (NULL: it did not), and has cost a job an attempt, or nothing. A
 * process that fails soon after its start makes the next start wait. */
void stream_set_drop(struct stream_set *set, struct stream_process *process, const char *why);
/* It answered for a job: no failure counts any more. */
void stream_set_worked(struct stream_set *set, struct stream_process *process);

/* The settings that are about to be in force: processes of others are ended. Before the first call none are. */
void stream_set_reload(struct stream_set *set, struct settings *settings);
/* Looks after those without a job: what they say on standard error is logged, those that ended, or have waited too long, go. For
 * the supervising thread, now and then. */
void stream_set_sweep(struct stream_set *set);
void stream_set_close(struct stream_set *set);                   /* from now all of them are ended as soon as they have no job */
void stream_set_hurry(struct stream_set *set, int64_t grace_ms); /* those on their way out have this long */
size_t stream_set_count(struct stream_set *set);                 /* all that there are */
/* Waits until all have gone, and longer than their grace for none. No worker has one any more. */
void stream_set_finish(struct stream_set *set);

#endif
