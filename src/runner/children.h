/* children.h - the processes whose parent this process is (layer: runner; one thread at a time).
 *
 * Read from /proc/self/task/PID/children where the kernel has it, which costs a read of a few microseconds and one for each
 * child; else from every /proc/PID/stat. The list is complete as long as nobody reaps meanwhile and orphans come to the main
 * thread, which they do while it lives: a child leaves the kernel's list only by being reaped, and a new one goes to its end.
 * Owns its descriptor and its array. */
#ifndef LEASEHOLD_RUNNER_CHILDREN_H
#define LEASEHOLD_RUNNER_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct children {
	int fd;    /* the kernel's list, kept open: it must be readable also when no descriptor is left */
	bool scan; /* the kernel has no such list */
	bool absent; /* the last list could not be had because there is no /proc */
	pid_t *pids;
	size_t count, room;
};

void children_init(struct children *c);
void children_free(struct children *c);

/* Fills pids with all children, the dead ones that are not reaped yet too, in an order in which those that stay keep their
 * places. False when they cannot be seen (no /proc, no memory); then the list is empty. */
bool children_list(struct children *c);

#endif
