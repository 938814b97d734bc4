/* environment.h - the environment of a handler, built from nothing (layer: handler; any thread).
 *
 * PATH, HOME, LANG and TZ, then what the configuration adds, then the LEASEHOLD_ names and TRACEPARENT; of two values of one
 * name the later stands. leasehold-handler(7) lists them. */
#ifndef LEASEHOLD_HANDLER_ENVIRONMENT_H
#define LEASEHOLD_HANDLER_ENVIRONMENT_H

#include "model/job.h"
#include "model/settings.h"

#include <stddef.h>

struct environment {
	char **vars; /* NULL-terminated once built */
	size_t count, room;
};

/* max_attempts and timeout_ms are the effective ones. job NULL: a process for many jobs, which gets none of their names. False
 * without memory; free it in any case. */
bool environment_build(struct environment *e, const struct job *job, const struct handler_settings *handler,
		       unsigned int max_attempts, int64_t timeout_ms);
void environment_free(struct environment *e);

#endif
