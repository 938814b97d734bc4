/* job.h - a job as the daemon sees it, its states, and the one table of legal moves between them (layer: model; pure).
 *
 * docs: leasehold-schema(7) draws the table below. */
#ifndef LEASEHOLD_MODEL_JOB_H
#define LEASEHOLD_MODEL_JOB_H

#include "base/fifo.h"
#include "base/random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOB_QUEUE_MAX 64
#define JOB_KIND_MAX 128
#define JOB_TRACEPARENT_MAX 64
#define JOB_STEP_NAME_MAX 64
#define JOB_STEPS_MAX 64                     /* names a job may save steps under */
#define JOB_STEPS_BYTES_MAX ((size_t)64 * 1024) /* of all their data together */
#define JOB_ATTEMPT_MAX 65535u /* SMALLINT UNSIGNED: counters saturate here */

enum job_state { JOB_READY, JOB_SCHEDULED, JOB_RUNNING, JOB_SUCCEEDED, JOB_DEAD, JOB_CANCELLED, JOB_STATES };

/* Who asks for a move; a bit mask in the table. */
enum job_actor {
	JOB_BY_WORKER = 1,   /* the holder of the lease */
	JOB_BY_RECOVERY = 2, /* after the lease lapsed */
	JOB_BY_PROMOTER = 4,
	JOB_BY_OPERATOR = 8 /* leasehold retry, leasehold cancel */
};

const char *job_state_name(enum job_state state);                    /* "ready" ...: as in the ENUM column */
bool job_state_parse(const char *name, enum job_state *state);       /* false when it is none of them */
bool job_state_finished(enum job_state state);                       /* succeeded, dead or cancelled */
bool job_may_move(enum job_state from, enum job_state to, enum job_actor actor);

/* A checkpoint that an earlier attempt (or this one) saved under a name. */
struct job_step {
	char name[JOB_STEP_NAME_MAX + 1];
	char *data; /* JSON text, NUL-terminated */
	size_t data_len;
	uint32_t seq; /* orders them by their first saving */
};

/* A fleet slot: with the job's lease, the right to run as one of so many. */
struct job_slot {
	char key[JOB_KIND_MAX + 1]; /* the concurrency key, of which it is one; "" = no slot */
	unsigned int number;        /* 0 to limit - 1, when it was taken */
	unsigned int limit;         /* the handler's `concurrency` then */
};

/* One claimed job: the values of its row at claim time, immutable from then on. Whoever holds the pointer owns it; job_free
 * ends it. */
struct job {
	struct fifo_link link; /* first: a job travels through handoff */
	uint64_t id;
	char queue[JOB_QUEUE_MAX + 1];
	char kind[JOB_KIND_MAX + 1];
	char lease[UUID_TEXT_LEN + 1];
	char traceparent[JOB_TRACEPARENT_MAX + 1]; /* "" = none */
	int priority;
	unsigned int attempt;       /* this one, counted by the claim: 1 is the first */
	unsigned int max_attempts;  /* the row's own; 0 = NULL, the handler's setting applies */
	uint32_t claim_no;          /* with id: the fencing token */
	uint32_t timeout_ms;        /* the row's own; 0 = NULL or unlimited, see timeout_set */
	bool timeout_set;           /* the row has a timeout_ms of its own; timeout_ms 0 then means no limit */
	uint32_t lease_ms;          /* promised with the claim */
	unsigned int orphan_streak; /* lapsed leases in a row before this attempt */
	bool cancel_requested;      /* already when it was claimed */
	char *payload;              /* NUL-terminated; may hold NULs before payload_len */
	size_t payload_len;
	struct job_step *steps; /* in the order in which they were first saved; NULL when there are none */
	size_t step_count;
	uint32_t step_no; /* the job's latest saving: the next one has a greater number */
	bool steps_unfit; /* more was saved than a handler may be given: the job must not run */
	struct job_slot slot; /* set by the claimer, once it is known to be ours */
};

struct job *job_new(void); /* zeroed; NULL without memory */
void job_free(struct job *job); /* takes job, which may be NULL */
void job_drop_steps(struct job *job); /* frees its steps */

/* The attempts a job may start: the row's own, else the handler's setting, else the default of 10. 0 stands for "not set". */
unsigned int job_max_attempts(unsigned int row, unsigned int handler);
#define JOB_DEFAULT_MAX_ATTEMPTS 10u

#endif
