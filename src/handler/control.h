/* control.h - what a handler says on descriptor 3 (layer: handler; pure).
 *
 * JSON objects, one a line (leasehold-handler(7) has the grammar):
 * {"progress":40,"note":"...","result":...,"retry_after_ms":n,"snooze_ms":n,"dead":"reason","step":"name","data":...}. Any subset
 * of the members may come in any number of lines; the last value of each wins, and each step is one. A line that is not such an
 * object, or is longer than CONTROL_LINE_MAX, is reported through complain and ignored: it never fails the job. */
#ifndef LEASEHOLD_HANDLER_CONTROL_H
#define LEASEHOLD_HANDLER_CONTROL_H

#include "base/buf.h"
#include "handler/lines.h"
#include "model/outcome.h"

#include <jansson.h>

#define CONTROL_LINE_MAX (1024u * 1024)

struct control {
	struct lines lines;
	struct run_requests asked;
	struct buf result; /* JSON text of "result", or the plain text when it is a string */
	bool has_result;
	void *owner;
	void (*progress)(void *owner, double percent, const char *note);
	/* A step to be saved: name is a string as the handler gave it; data NULL stands for null. */
	void (*step)(void *owner, const json_t *name, const json_t *data);
	void (*complain)(void *owner, const char *why); /* at most a few times a run are logged by the owner */
};

void control_init(struct control *c, size_t max_result);
void control_free(struct control *c);
void control_feed(struct control *c, const char *bytes, size_t len);
void control_end(struct control *c); /* end of file: an unfinished line counts */

#endif
