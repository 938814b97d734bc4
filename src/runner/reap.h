/* reap.h - what happens when a process of a run has ended (layer: runner; its one thread). */
#ifndef LEASEHOLD_RUNNER_REAP_H
#define LEASEHOLD_RUNNER_REAP_H

#include "runner/runs.h"

#include <stdint.h>

/* Takes every child that has ended. The leader of a run: ends its group, keeps its status and its use of resources. An orphan
 * that came to us: only reaped. A run whose group is empty is reported and removed. */
void reap_children(struct runs *runs, int64_t now_ms);

/* Looks whether the group of a run whose leader was reaped is empty; give_up: reports the run in any case. */
void reap_look(struct runs *runs, struct run *run, bool give_up);

#endif
