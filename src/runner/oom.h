/* oom.h - whether the kernel has killed a process for want of memory (layer: runner; its one thread).
 *
 * The kernel leaves no word of that on the process itself, only SIGKILL; but it counts. The narrowest counter that covers the
 * handlers is used: that of the control group that they are in (version 2, then version 1), else that of the machine. Owns a
 * descriptor. */
#ifndef LEASEHOLD_RUNNER_OOM_H
#define LEASEHOLD_RUNNER_OOM_H

#include <stdbool.h>
#include <stdint.h>

struct oom {
	int fd; /* -1: not opened yet, or there is no counter */
	bool opened;
	int64_t read_ms; /* when the counter was read last */
	uint64_t count;
};

void oom_init(struct oom *o);
void oom_free(struct oom *o);

/* The number of such kills so far, up to OOM_STALE_MS ago: for the start of a run, where a reading for each would cost more than
 * it is worth. */
uint64_t oom_count_about(struct oom *o, int64_t now_ms);
#define OOM_STALE_MS 1000
/* The number of this moment. */
uint64_t oom_count(struct oom *o, int64_t now_ms);

/* The number after "oom_kill " at the start of a line; false when there is none. For tests too. */
bool oom_parse(const char *text, uint64_t *count);

#endif
