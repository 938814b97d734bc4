/* steps.h - the steps that the handler of one job saves: their limits, their way to whoever writes them, and the answers, which
 * come in the order of the steps (layer: handler; the run's worker thread).
 *
 * A step that is refused here waits for the answers of those before it. A handler that saves faster than the database writes is
 * read no further while steps_full says so. */
#ifndef LEASEHOLD_HANDLER_STEPS_H
#define LEASEHOLD_HANDLER_STEPS_H

#include "base/buf.h"
#include "handler/handler.h"
#include "handler/step_box.h"
#include "model/job.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEPS_WAITING_MAX 64 /* answers that a handler may be owed before it is read no further */

struct steps {
	const struct job *job;         /* borrowed */
	const struct run_hooks *hooks; /* borrowed */
	struct step_box *box;          /* NULL before the first */
	struct steps_known *known;     /* what counts against the limits */
	size_t known_count;
	uint64_t given, answered;
	struct steps_refused *refused, **refused_last;
	size_t refused_count;
	void *owner;
	void (*answer)(void *owner, const char *name, const char *why); /* why NULL: it is known to be committed */
};

/* owner and answer are the caller's to set. */
void steps_init(struct steps *s, const struct job *job, const struct run_hooks *hooks);
void steps_free(struct steps *s); /* what is under way is still written, and answered to nobody */

/* What earlier attempts saved, in the order in which it was saved: an object that is the caller's; NULL without memory. */
json_t *steps_saved(const struct job *job);

/* The handler saves a step: name is a string; data NULL is null. */
void steps_save(struct steps *s, const json_t *name, const json_t *data);
int steps_bell(const struct steps *s); /* readable when answers have come; -1 while there is nothing to come */
void steps_collect(struct steps *s);   /* passes on the answers that have come */
bool steps_full(const struct steps *s);

/* The members of an answer, for the handler: {"name":...,"saved":true} or with saved false and why. NULL without memory. */
json_t *steps_answer_object(const char *name, const char *why);

#endif
