/* about.c - see about.h. */
#include "worker/about.h"

#include <string.h>

static const struct log_context *about_say(struct about *a, uint64_t job, const char *kind, unsigned int attempt)
{
	a->context = (struct log_context){ .job = job, .kind = kind, .attempt = attempt, .trace = a->trace };
	return log_about(&a->context);
}

const struct log_context *about_job(struct about *a, const struct job *job)
{
	(void)trace_parse(job->traceparent, a->trace);
	return about_say(a, job->id, job->kind, job->attempt);
}

const struct log_context *about_settlement(struct about *a, const struct settlement *s)
{
	memcpy(a->trace, s->trace, sizeof(a->trace));
	return about_say(a, s->id, s->kind, s->attempt);
}

const struct log_context *about_row(struct about *a, const struct recover_row *row)
{
	(void)trace_parse(row->traceparent, a->trace);
	return about_say(a, row->id, row->kind, row->attempt);
}

const struct log_context *about_held(struct about *a, struct inflight *inflight, const struct store_held *held)
{
	inflight_trace(inflight, held->id, held->lease, a->trace);
	return about_say(a, held->id, NULL, 0);
}
