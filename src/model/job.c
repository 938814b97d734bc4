/* job.c - see job.h. */
#include "model/job.h"

#include <stdlib.h>
#include <string.h>

static const char *const job_state_names[JOB_STATES] = {
	[JOB_READY] = "ready",
	[JOB_SCHEDULED] = "scheduled",
	[JOB_RUNNING] = "running",
	[JOB_SUCCEEDED] = "succeeded",
	[JOB_DEAD] = "dead",
	[JOB_CANCELLED] = "cancelled",
};

/* Who may move a job from the first state to the second. What is not here may not happen; nothing leaves succeeded. */
static const unsigned char job_moves[JOB_STATES][JOB_STATES] = {
	[JOB_READY] = {
		[JOB_RUNNING] = JOB_BY_WORKER,   /* claimed */
		[JOB_SCHEDULED] = JOB_BY_WORKER, /* not due yet after all, or the fleet is full for its key */
		[JOB_CANCELLED] = JOB_BY_OPERATOR,
	},
	[JOB_SCHEDULED] = {
		[JOB_READY] = JOB_BY_PROMOTER,
		[JOB_CANCELLED] = JOB_BY_OPERATOR,
	},
	[JOB_RUNNING] = {
		[JOB_SUCCEEDED] = JOB_BY_WORKER,
		[JOB_DEAD] = JOB_BY_WORKER | JOB_BY_RECOVERY,
		[JOB_CANCELLED] = JOB_BY_WORKER | JOB_BY_RECOVERY, /* a cancel had been requested */
		[JOB_SCHEDULED] = JOB_BY_WORKER | JOB_BY_RECOVERY, /* retry, snooze, parked; the lost attempt's backoff */
		[JOB_READY] = JOB_BY_WORKER,                       /* released */
	},
	[JOB_DEAD] = {[JOB_READY] = JOB_BY_OPERATOR},
	[JOB_CANCELLED] = {[JOB_READY] = JOB_BY_OPERATOR},
};

const char *job_state_name(enum job_state state)
{
	return (unsigned int)state < JOB_STATES ? job_state_names[state] : "unknown";
}

bool job_state_parse(const char *name, enum job_state *state)
{
	for (unsigned int i = 0; i < JOB_STATES; i++) {
		if (strcmp(name, job_state_names[i]) == 0) {
			*state = (enum job_state)i;
			return true;
		}
	}
	return false;
}

bool job_state_finished(enum job_state state)
{
	return state == JOB_SUCCEEDED || state == JOB_DEAD || state == JOB_CANCELLED;
}

bool job_may_move(enum job_state from, enum job_state to, enum job_actor actor)
{
	if ((unsigned int)from >= JOB_STATES || (unsigned int)to >= JOB_STATES)
		return false;
	return (job_moves[from][to] & (unsigned int)actor) != 0;
}

struct job *job_new(void)
{
	return calloc(1, sizeof(struct job));
}

void job_drop_steps(struct job *job)
{
	for (size_t i = 0; i < job->step_count; i++)
		free(job->steps[i].data);
	free(job->steps);
	job->steps = NULL;
	job->step_count = 0;
}

void job_free(struct job *job)
{
	if (job == NULL)
		return;
	job_drop_steps(job);
	free(job->payload);
	free(job);
}

unsigned int job_max_attempts(unsigned int row, unsigned int handler)
{
	if (row > 0)
		return row;
	return handler > 0 ? handler : JOB_DEFAULT_MAX_ATTEMPTS;
}
