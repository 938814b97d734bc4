/* progress.h - the progress that a handler told of and that is not yet passed on (layer: handler; its worker thread).
 *
 * Of all that one read of a pipe brings, only the last is passed on. */
#ifndef LEASEHOLD_HANDLER_PROGRESS_H
#define LEASEHOLD_HANDLER_PROGRESS_H

#include "handler/handler.h"
#include "handler/json_read.h"

#include <stdbool.h>

struct progress {
	double percent; /* < 0: nothing new */
	bool noted;
	char note[JSON_READ_NOTE_BYTES + 1];
};

void progress_init(struct progress *p);
/* percent < 0, note NULL: unchanged. note has at most JSON_READ_NOTE_BYTES bytes, and is copied. */
void progress_note(struct progress *p, double percent, const char *note);
void progress_pass(struct progress *p, const struct run_hooks *hooks); /* nothing, where there is nothing new */

#endif
