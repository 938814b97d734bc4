/* reap.h - what happens when a process of a run has ended (layer: runner; its one thread). */
#ifndef LEASEHOLD_RUNNER_REAP_H
#define LEASEHOLD_RUNNER_REAP_H

#include "runner/runs.h"

#include <stdint.h>

/* Takes the children that have ended. The leader of a run: ends its group, keeps its status and its use of resources. Another:
 * only reaped. Then ends what is left of runs that have ended (leftovers.h), and reports and removes each run of which nothing
 * is left. */
void reap_children(struct runs *runs, int64_t now_ms);

/* Looks whether anything is left of a run whose leader was reaped; give_up: reports the run in any case. */
void reap_look(struct runs *runs, struct run *run, bool give_up);

#endif
