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
#include <sys/types.h>

#define STDERR_LOG_LINE_MAX 1024
#define STDERR_LOG_BURST 100
#define STDERR_LOG_PER_SECOND 10

struct stderr_log {
	bool wanted;           /* else nothing is logged */
	const struct job *job; /* whose lines they are, borrowed; NULL: those of a process that has no job just now */
	const char *kind;      /* of that process: its handler's, borrowed */
	pid_t pid;
	char line[STDERR_LOG_LINE_MAX];
	size_t len;
	bool cut; /* the line under way is longer */
	int64_t allowance; /* thousandths of a line */
	int64_t refilled_ms;
	uint64_t left_out;
};

void stderr_log_init(struct stderr_log *log, bool wanted);
/* What follows is of job, or, without one, of a process of kind. A line that is under way is ended. */
void stderr_log_speak_of(struct stderr_log *log, const struct job *job, const char *kind, pid_t pid);
void stderr_log_feed(struct stderr_log *log, const char *bytes, size_t len);
void stderr_log_end(struct stderr_log *log); /* end of file: an unfinished line counts */

#endif
