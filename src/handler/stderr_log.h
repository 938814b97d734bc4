/* stderr_log.h - passing on to our log, line by line, what a handler writes to its standard error (layer: handler; its worker
 * thread).
 *
 * A handler that writes without end costs a bounded number of log lines: STDERR_LOG_BURST at once, then STDERR_LOG_PER_SECOND;
 * what is left out is counted and told. Lines longer than STDERR_LOG_LINE_MAX are cut. */
#ifndef LEASEHOLD_HANDLER_STDERR_LOG_H
#define LEASEHOLD_HANDLER_STDERR_LOG_H

#include "model/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STDERR_LOG_LINE_MAX 1024
#define STDERR_LOG_BURST 100
#define STDERR_LOG_PER_SECOND 10

struct stderr_log {
	const struct job *job; /* borrowed; NULL: nothing is logged */
	char line[STDERR_LOG_LINE_MAX];
	size_t len;
	bool cut; /* the line under way is longer */
	int64_t allowance; /* thousandths of a line */
	int64_t refilled_ms;
	uint64_t left_out;
};

void stderr_log_init(struct stderr_log *log, const struct job *job, bool wanted);
void stderr_log_feed(struct stderr_log *log, const char *bytes, size_t len);
void stderr_log_end(struct stderr_log *log); /* end of file: an unfinished line counts */

#endif
