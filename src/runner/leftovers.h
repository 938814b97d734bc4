/* leftovers.h - the processes that runs leave behind, and their end (layer: runner; its one thread).
 *
 * The leader of each run is a subreaper, and so is the runner. While a leader lives, what is orphaned in its tree becomes its own
 * child, whatever session or group it made for itself; when the leader ends, all of its children become the runner's, before its
 * end can be seen. So a child of the runner that is not the leader of a run under way belongs to a run that has ended, and is
 * killed; what comes up from below it then is killed next, until nothing is left.
 *
 * Whose a leftover is cannot be read from it. But a run need not wait for those that were there before its leader ended, nor for
 * those that came after all of its own had gone: each sweep has a number, each leftover that of the sweep that found it, and a
 * run waits for the leftovers of a window of sweeps that grows only while one of them is left. So a process that cannot be
 * killed holds up the run that left it, and no later one. */
#ifndef LEASEHOLD_RUNNER_LEFTOVERS_H
#define LEASEHOLD_RUNNER_LEFTOVERS_H

#include "runner/children.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct leftover {
	pid_t pid;
	uint64_t sweep; /* which found it first */
};

struct leftovers {
	struct children children;
	struct leftover *known, *before; /* of the last sweep, and room for the next */
	size_t count, room;
	uint64_t sweeps;
	bool failed; /* the last sweep could not see the children just then */
	bool told;   /* that they can never be seen was logged */
};

/* What one run has to wait for. */
struct leftovers_window {
	uint64_t first, last;
	bool waiting;
};

void leftovers_init(struct leftovers *l);
void leftovers_free(struct leftovers *l);

/* Lists the children and kills those that spared(arg, pid) does not claim, and their groups, where a group's leader is not spared
 * either. Lists them again while new ones turn up, a few times. */
void leftovers_sweep(struct leftovers *l, bool (*spared)(const void *arg, pid_t pid), const void *arg);

/* A run's leader was found dead: it waits for what the last sweep saw (it may have ended right before that) and what is next. */
void leftovers_open(const struct leftovers *l, struct leftovers_window *w);
/* To be called after every sweep for each open window. False: nothing is left of that run. Where the children cannot be seen at
 * all it is false too: then its group is all that is known of it. */
bool leftovers_wait(const struct leftovers *l, struct leftovers_window *w);

#endif
