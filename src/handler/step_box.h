/* step_box.h - a step that a handler saves, on its way to the database and back (layer: handler; any thread).
 *
 * A worker thread makes a struct step and gives it away through run_hooks.step; whoever writes it to the database answers, and
 * puts it into the box of its run. The box's descriptor is readable while answers wait, so a worker can poll it beside its
 * pipes. A box lives until its run has closed it and every step of it has come back: steps that come back later are freed. */
#ifndef LEASEHOLD_HANDLER_STEP_BOX_H
#define LEASEHOLD_HANDLER_STEP_BOX_H

#include "model/job.h"
#include "model/outgoing.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct step_box;

struct step {
	struct outgoing out; /* first */
	uint64_t id;
	char lease[UUID_TEXT_LEN + 1];
	uint32_t claim_no;
	uint32_t save_no; /* set by whoever gives it to the completer: grows with every step of the job */
	char name[JOB_STEP_NAME_MAX + 1];
	char *data; /* JSON text */
	size_t data_len;
	struct step_box *box;
	bool saved;
	char why[128]; /* not saved: why, for the handler's author */
};

/* NULL without memory or descriptors. */
struct step_box *step_box_new(void);
int step_box_fd(const struct step_box *box);
/* The next answer; NULL when none waits. The caller owns it: step_free. */
struct step *step_box_take(struct step_box *box);
void step_box_close(struct step_box *box); /* takes it; NULL is allowed */

/* Copies the job's identity, name (cut to fit) and data. NULL without memory. */
struct step *step_new(struct step_box *box, const struct job *job, const char *name, const char *data, size_t data_len);
void step_free(struct step *step);
/* Takes step back to its box: why NULL = it is known to be committed. */
void step_answer(struct step *step, const char *why);

#endif
