/* log.h - log lines for the person at 3 a.m. (layer: base; any thread).
 *
 * One line per call, written with one write(2), so lines of different threads never mix. A line carries the time (UTC,
 * milliseconds), the level, the area it speaks of ("claim", "beat", "runner" ...) and a text that starts with its subject
 * as key=value ("job=17 kind=mail attempt=2 retry in 4s: exit status 1"). Under systemd (JOURNAL_STREAM names our stderr)
 * the time is left out and a "<N>" priority goes before the line. Control characters in the text are escaped: handler
 * output cannot forge a line. A thread that works for a job says so once (log_about): every line that it writes then carries the
 * trace of that job. Lines longer than LOG_LINE_MAX are cut and marked. Failing to write is ignored: logging never
 * stops work. A reader that stops for longer than 100 ms misses lines; the first that gets through again is followed by one
 * that says how many. */
#ifndef LEASEHOLD_BASE_LOG_H
#define LEASEHOLD_BASE_LOG_H

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

#define LOG_LINE_MAX 4096

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* Sets where and how lines are written. Before the first call: stderr, text, info. May be called again at a reload. */
void log_setup(enum log_level level, enum log_format format, int fd);

bool log_enabled(enum log_level level);

void log_write(enum log_level level, const char *area, const char *fmt, ...) LH_PRINTF(3, 4);

#define log_error(area, ...) log_write(LOG_LEVEL_ERROR, area, __VA_ARGS__)
#define log_warn(area, ...) log_write(LOG_LEVEL_WARN, area, __VA_ARGS__)
#define log_info(area, ...) log_write(LOG_LEVEL_INFO, area, __VA_ARGS__)
#define log_debug(area, ...)                                                                                                    \
	do {                                                                                                                    \
		if (log_enabled(LOG_LEVEL_DEBUG))                                                                               \
			log_write(LOG_LEVEL_DEBUG, area, __VA_ARGS__);                                                          \
	} while (0)

/* What a thread's lines are about. As text, a line gets "trace=... " before its own words; as JSON, the members job, kind, attempt
 * and trace. What is 0, NULL or "" is left out. */
struct log_context {
	uint64_t job;
	const char *kind;
	unsigned int attempt;
	const char *trace; /* a trace-id of W3C Trace Context: checked by the caller */
};

/* From now on the lines of this thread are about that, until the next call; NULL: about nothing. Borrowed. Returns the one
 * before. */
const struct log_context *log_about(const struct log_context *context);

/* "error" ... "debug"; false when the name is none of them. */
bool log_level_parse(const char *name, enum log_level *level);

/* Lets one line through at once and then one per every_ms; counts what it held back. Owned by one thread. Starts as {0}. */
struct log_limit {
	int64_t next_ms;
	uint64_t held_back; /* lines held back since the last one let through; reset by the caller once it has told */
};
bool log_limit_pass(struct log_limit *limit, int64_t now_ms, int64_t every_ms);

#endif
