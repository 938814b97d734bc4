/* child.h - what a newly forked process does until it is the handler's program (layer: runner; runs in the new process only). */
#ifndef LEASEHOLD_RUNNER_CHILD_H
#define LEASEHOLD_RUNNER_CHILD_H

#include "runner/messages.h"

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* All borrowed. */
struct child {
	const struct runner_received *start;
	pid_t parent;
	int64_t started_ms;
	int group_fd;   /* the control group to enter; -1: none */
	int failure_fd; /* where to say why the program could not be executed; closed by execve */
	const struct rlimit *files; /* the limit on open files to put back; NULL when the runner never changed it */
};

/* What comes through failure_fd. Nothing comes when the program was executed. */
struct child_failure {
	uint32_t stage; /* enum runner_stage */
	int32_t error;
};

/* Called in the new process, with every signal blocked and at its default disposition. Ends as the handler's program or with
 * _exit. */
_Noreturn void child_become(const struct child *child);

#endif
