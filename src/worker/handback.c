#include "worker/handback.h"

#include "worker/role.h"

#include <stdio.h>
#include <string.h>

#define HANDBACK_ERROR_MAX 1024

void handback_forget(struct instance *in, uint64_t id, const char *lease)
{
	unsigned int pool;

	if (inflight_forget(in->inflight, id, lease, &pool))
		role_nudge(in->pools[pool].claimer);
}

static enum outcome_kind handback_outcome(enum settle_action action)
{
	switch (action) {
	case SETTLE_DEAD:
		return OUTCOME_DEAD;
	case SETTLE_CANCEL:
		return OUTCOME_CANCELLED;
	case SETTLE_SNOOZE:
	case SETTLE_PARK:
	case SETTLE_WAIT:
		return OUTCOME_SNOOZE;
	default:
		return OUTCOME_RELEASED;
	}
}

void handback_job(struct instance *in, const struct job *job, enum settle_action action, int64_t delay_ms, const char *cause)
{
	struct settlement *s = settlement_new(job, 0, HANDBACK_ERROR_MAX);
	enum inflight_state state;

	if (s == NULL) { /* without memory the lease is left to lapse: out of the register, it is not renewed any more */
		inflight_lose(in->inflight, job->id, job->lease);
		handback_forget(in, job->id, job->lease);
		return;
	}
	s->action = action;
	s->outcome = handback_outcome(action);
	s->delay_ms = delay_ms;
	s->exit_code = -1;
	s->ledger = action == SETTLE_DEAD || action == SETTLE_CANCEL;
	buf_adds(&s->error, action == SETTLE_DEAD || action == SETTLE_CANCEL ? cause : "");
	snprintf(s->cause, sizeof(s->cause), "%s", cause);
	if (inflight_settle(in->inflight, job->id, job->lease, &state)) {
		fifo_push(&in->settlements, &s->out.link);
		return;
	}
	handback_slot(in, job, s);
}

void handback_slot(struct instance *in, const struct job *job, struct settlement *s)
{
	if (s == NULL && job->slot.key[0] != '\0')
		s = settlement_new(job, 0, 0);
	if (s != NULL && job->slot.key[0] != '\0') {
		s->slot_only = true;
		s->ledger = false;
		fifo_push(&in->settlements, &s->out.link);
		return;
	}
	settlement_free(s);
	handback_forget(in, job->id, job->lease);
}

void handback_late(struct instance *in, const struct store_held *held)
{
	struct job job = { .id = held->id };

	memcpy(job.lease, held->lease, sizeof(job.lease));
	handback_job(in, &job, SETTLE_RELEASE, 0, "the claim was confirmed too late");
}

size_t handback_waiting(struct instance *in, struct pool *pool)
{
	struct fifo_link *item;
	size_t n = 0;

	while (fifo_take(&pool->handoff, &item, 1, 0, 0) == 1) {
		struct job *job = (struct job *)(void *)item;

		handback_job(in, job, SETTLE_RELEASE, 0, "released by a shutdown");
		job_free(job);
		n++;
	}
	return n;
}
