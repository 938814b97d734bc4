/* launch.h - starting one run (layer: runner; its one thread). */
#ifndef LEASEHOLD_RUNNER_LAUNCH_H
#define LEASEHOLD_RUNNER_LAUNCH_H

#include "runner/messages.h"
#include "runner/runs.h"

#include <stdint.h>
#include <sys/resource.h>

/* Forks the handler and adds it to the table, or reports on the status pipe why it was not started. Keeps the status
 * descriptor of start; the others stay the caller's to close. files: see child.h. */
void launch_run(struct runs *runs, struct runner_received *start, int64_t now_ms, const struct rlimit *files);

#endif
