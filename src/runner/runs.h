/* runs.h - the table of what the runner runs (layer: runner; its one thread).
 *
 * Found by the daemon's number, by process id, and by what is due next. The table owns its entries and their descriptors. */
#ifndef LEASEHOLD_RUNNER_RUNS_H
#define LEASEHOLD_RUNNER_RUNS_H

#include "runner/cgroup.h"
#include "runner/leftovers.h"
#include "runner/messages.h"
#include "runner/oom.h"
#include "runner/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RUNS_BUCKETS 1024

struct run {
	uint64_t number;
	pid_t pid; /* its leader's, and so its group's */
	int status_fd;
	int failure_fd; /* where the new process says why it could not become the handler; -1 once read */
	struct plan plan;
	struct runner_report report; /* the final one, in the making */
	size_t place;                /* in the heap */
	struct run *next_by_number, *next_by_pid;
	struct leftovers_window left; /* EMPTYING: what it waits for besides its group */
	struct run *next_emptying;
	uint64_t oom_before; /* the kernel's count when it began */
	int group_fd;        /* its control group; -1: none */
	uint64_t group;      /* what that is called by: the number of the START */
	uint64_t group_oom_before;
};

struct runs {
	struct run *by_number[RUNS_BUCKETS], *by_pid[RUNS_BUCKETS];
	struct run **heap; /* the earliest plan_due_ms first */
	size_t count, room;
	struct run *emptying; /* reap.c: those whose leader was reaped */
	struct leftovers left;
	struct oom oom;
	struct cgroup_base groups;
};

void runs_init(struct runs *t);
void runs_free(struct runs *t); /* whatever is left in it too */

/* Reserves a place, so that runs_add cannot fail. NULL without memory. The entry's descriptors are -1. */
struct run *runs_new(struct runs *t);
void runs_drop(struct run *run); /* an entry that was not added; takes it and closes its descriptors */
void runs_add(struct runs *t, struct run *run);    /* number, pid and plan are set; at most one entry between runs_new and here */
void runs_remove(struct runs *t, struct run *run); /* and frees it */

struct run *runs_find(const struct runs *t, uint64_t number);
struct run *runs_find_pid(const struct runs *t, pid_t pid);
struct run *runs_first(const struct runs *t); /* the one due first; NULL when there is none */
void runs_moved(struct runs *t, struct run *run); /* its plan was changed */
void runs_renumber(struct runs *t, struct run *run, uint64_t number); /* which no other has */

#endif
