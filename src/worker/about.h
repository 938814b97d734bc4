/* about.h - whose lines a thread is about to write: the job, and the trace that it belongs to (layer: worker; any thread, about
 * itself).
 *
 *	struct about about;
 *	const struct log_context *before = about_job(&about, job);
 *	log_warn(...);
 *	log_about(before);
 *
 * The words "job=17 kind=mail attempt=2" stay where the line is written; the trace goes before them, and into the JSON form go
 * all of them. A traceparent that is not well-formed is not logged at all. */
#ifndef LEASEHOLD_WORKER_ABOUT_H
#define LEASEHOLD_WORKER_ABOUT_H

#include "base/log.h"
#include "model/job.h"
#include "model/settlement.h"
#include "model/trace.h"
#include "store/recover_store.h"
#include "worker/inflight.h"

struct about {
	struct log_context context;
	char trace[TRACE_ID_LEN + 1];
};

/* Each returns what the thread's lines were about before. a and what it is about have to live until log_about is called again. */
const struct log_context *about_job(struct about *a, const struct job *job);
const struct log_context *about_settlement(struct about *a, const struct settlement *s);
const struct log_context *about_row(struct about *a, const struct recover_row *row);
const struct log_context *about_held(struct about *a, struct inflight *inflight, const struct store_held *held);

#endif
