/* cgroup_find.h - where the control group of this process is in the file system (layer: runner; any thread; reads two files).
 *
 * /proc/self/cgroup names the group in each hierarchy; /proc/self/mountinfo tells where that hierarchy, or a part of it, is
 * mounted. See cgroups(7). */
#ifndef LEASEHOLD_RUNNER_CGROUP_FIND_H
#define LEASEHOLD_RUNNER_CGROUP_FIND_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct cgroup_place {
	char mount[PATH_MAX]; /* where the hierarchy is mounted */
	char path[PATH_MAX];  /* the group's directory: mount, or below it */
};

/* proc: "/proc/self", or what stands for it in a test. controller: NULL for version 2, else the version 1 hierarchy that has this
 * controller ("memory"). False when there is no such hierarchy, or the group does not lie within what is mounted of it. */
bool cgroup_find(const char *proc, const char *controller, struct cgroup_place *place);

#endif
