/* runner_link.h - the daemon's end of the runner (layer: handler; any thread; one per instance).
 *
 * Starts the runner (posix_spawn: the daemon itself never forks), sends it commands, and starts a new one when it died.
 * Commands to a run of a runner that has died are dropped: its handlers died with it. Makes the process a subreaper, so that
 * what a dead runner leaves comes to us and can be ended: see runner_left.h; nobody else may wait for children. */
#ifndef LEASEHOLD_HANDLER_RUNNER_LINK_H
#define LEASEHOLD_HANDLER_RUNNER_LINK_H

#include "base/fault.h"
#include "runner/messages.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct runner_link;

/* program: the binary to execute, NULL for /proc/self/exe. Does not start it yet. */
struct runner_link *runner_link_new(const char *program);
/* Closes the socket, so that the runner ends everything, and waits for it (10 s at most). */
void runner_link_free(struct runner_link *link);

/* Before the start, and before there is any other thread: takes the control group of this process for this instance and the runs of
 * its runner (runner/cgroup.h). needs: enum settings_groups, 0: nothing is done. Says what stands in the way. */
enum lh_err runner_link_take_groups(unsigned int needs, bool always, struct fault *f) LH_MUST_CHECK;
enum lh_err runner_link_start(struct runner_link *link, struct fault *f) LH_MUST_CHECK;
/* Reaps a runner that died and starts another. Returns true when it did (then *f tells how the old one ended); false with
 * f->code LH_OK when the runner is alive; false with another code when it died and no other could be started (the next call
 * tries again). For the supervising thread, now and then. Whoever runs as another user than the one the first runner was
 * started as gets one of that user: it can start no handlers as anyone else. */
bool runner_link_revive(struct runner_link *link, struct fault *f);
pid_t runner_link_pid(struct runner_link *link); /* 0 when none runs */

/* For the worker whose status pipe ended without the final record, so that the runner of that run is dead or about to be: ends all
 * that it left, of whatever run, and waits until it is gone, 2 s at most. Returns false when something is left then. run is the
 * number that the handler's process was started with. */
bool runner_link_clear(struct runner_link *link, uint64_t run);

/* A number for a new run of the runner of this moment: a START that reaches only its successor is refused (LH_ERR_LOST). */
uint64_t runner_link_next_run(struct runner_link *link);
enum lh_err runner_link_send_start(struct runner_link *link, struct runner_start *start, struct fault *f) LH_MUST_CHECK;
/* The times of a run, as in struct runner_command. */
struct runner_times {
	int64_t kill_at_ms, timeout_ms, grace_ms, ask_ms;
};
/* A process goes on as another run; whether it does, its status pipe tells. Waits as a START does. */
enum lh_err runner_link_assign(struct runner_link *link, uint64_t run, uint64_t next_run, const struct runner_times *times,
			       struct fault *f) LH_MUST_CHECK;
/* Best effort: a runner that is gone or does not know the run ignores them. A full queue is retried for a short, bounded time. */
void runner_link_deadline(struct runner_link *link, uint64_t run, int64_t kill_at_ms);
void runner_link_end(struct runner_link *link, uint64_t run, enum end_reason reason, int64_t grace_ms);

#endif
