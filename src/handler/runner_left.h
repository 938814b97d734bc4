/* runner_left.h - the children that the daemon has besides its runner (layer: handler; runner_link.c's, under its exclusive lock).
 *
 * The daemon is a subreaper: when a runner dies, its handlers are killed by the kernel, and what they leave, below them or after
 * having called setsid(2), becomes the daemon's child, before the runner's end can be seen. So every child that was not there
 * while that runner lived is a leftover of its handlers, and is killed with its group; what comes up from below it is next. Those
 * that were there are somebody else's (what a wrapper started before it executed us; orphans of all sorts where we are process 1
 * of a container): they are only reaped.
 *
 * Nobody else in this process may wait for children, so a process that is listed keeps its number until it is reaped here. Owns
 * its lists. */
#ifndef LEASEHOLD_HANDLER_RUNNER_LEFT_H
#define LEASEHOLD_HANDLER_RUNNER_LEFT_H

#include "runner/children.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct runner_left {
	struct children children;
	pid_t *strangers; /* not ours to end */
	size_t stranger_count, stranger_room;
	bool clearing; /* a runner has died, and not all that it left was seen to be gone */
};

void runner_left_init(struct runner_left *l);
void runner_left_free(struct runner_left *l);

/* Lists the children and reaps the dead ones, but for the runner (0: none). */
void runner_left_look(struct runner_left *l, pid_t runner);
/* What was just listed are strangers: to be called when the runner is seen to be alive after the list was made. Does nothing while
 * a dead runner's leftovers are still to be ended. */
void runner_left_accept(struct runner_left *l, pid_t runner);
/* The runner is dead: ends and reaps what it left. Returns true when nothing is left. */
bool runner_left_end(struct runner_left *l, pid_t runner);

#endif
