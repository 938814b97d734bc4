/* cgroup.h - control groups of version 2: one for each run that asks for one (layer: runner).
 *
 * The instance takes the group that it was started in: it moves itself, and with it the runner to come, into a leaf below it,
 * because only a group without processes of its own may hand controllers down, and makes the groups of its runs beside that leaf.
 * So that group has to be the instance's alone, and it must be allowed to write there: a service of its own with Delegate=yes, or
 * a container of its own. See cgroups(7). What is in a run's group is ended with it, whatever it did to get away.
 *
 * cgroup_take: the daemon's main thread, before the runner is started. cgroup_enter: the new process. All else: the runner. Calls
 * that return int: 0 or errno. */
#ifndef LEASEHOLD_RUNNER_CGROUP_H
#define LEASEHOLD_RUNNER_CGROUP_H

#include "base/fault.h"
#include "model/settings.h"

#include <stdbool.h>
#include <stdint.h>

/* How the runner is told, in its environment: "auto:DIRECTORY", or "always:DIRECTORY" for a group for every run. */
#define CGROUP_VARIABLE "LEASEHOLD_RUNNER_CGROUP"
#define CGROUP_LEAF "daemon" /* where the daemon and its runner are, below the instance's group */

struct cgroup_base {
	int fd; /* the directory; -1: the instance has no groups */
	bool always;
	bool others; /* there were groups of other runners, alive or just ending, when it was last looked */
	int64_t looked_ms;
};

/* needs: enum settings_groups. Says what stands in the way, for an operator; the process is then where it was. Sets
 * CGROUP_VARIABLE for a runner that is started later. */
enum lh_err cgroup_take(unsigned int needs, bool always, struct fault *f) LH_MUST_CHECK;
/* Whether this machine could have such groups at all. Changes nothing, and cannot tell whether the service may make them. */
enum lh_err cgroup_check(unsigned int needs, struct fault *f) LH_MUST_CHECK;

/* Opens what CGROUP_VARIABLE names, if it is set, and removes what runners that are dead have left. */
void cgroup_base_open(struct cgroup_base *base);
void cgroup_base_close(struct cgroup_base *base);

/* Makes the group of a run, with its limits (0: none), and opens its directory as *fd. Now and then, while there are groups of
 * other runners, those of dead ones are removed here too: at the start the last one may not have been quite dead. */
int cgroup_make(struct cgroup_base *base, uint64_t run, int64_t memory, int64_t cpu_percent, int *fd);
int cgroup_enter(int fd);
/* Writes one word to a file of a group: name within directory, as for openat(2). Returns 0 or errno. */
int cgroup_write(int directory, const char *name, const char *text);
/* SIGKILL to all that is in it, and in groups below it. */
void cgroup_kill(int fd);
bool cgroup_is_empty(int fd);
/* How many of its processes the kernel ended for want of memory. */
uint64_t cgroup_oom_kills(int fd);
/* Removes it, where it is empty. */
void cgroup_remove(const struct cgroup_base *base, uint64_t run, int fd);

#endif
