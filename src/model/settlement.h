/* settlement.h - what is written back for a claimed job, and when (layer: model; pure).
 *
 * A settlement travels from a worker (or the claimer) to the completer and owns everything it holds. */
#ifndef LEASEHOLD_MODEL_SETTLEMENT_H
#define LEASEHOLD_MODEL_SETTLEMENT_H

#include "base/buf.h"
#include "model/backoff.h"
#include "model/job.h"
#include "model/outcome.h"
#include "model/outgoing.h"
#include "model/trace.h"

/* The shapes of the closing UPDATE. Each re-states id, lease and state='running'. Those that go back to ready or scheduled
 * become cancelled instead when a cancel was requested. */
enum settle_action {
	SETTLE_SUCCEED,
	SETTLE_RETRY,   /* scheduled, run_at = now + delay_ms, attempt counted */
	SETTLE_SNOOZE,  /* scheduled, run_at = now + delay_ms, attempt given back */
	SETTLE_PARK,    /* as snooze: no handler for the kind here */
	SETTLE_WAIT,    /* as snooze, for as long as it takes: parked until a slot of its key is free */
	SETTLE_RELEASE, /* ready, attempt given back */
	SETTLE_DEAD,
	SETTLE_CANCEL,
	SETTLE_ACTIONS
};
const char *settle_action_name(enum settle_action action); /* "succeed", "retry" ... */

struct settlement {
	struct outgoing out; /* first */
	uint64_t id;
	char lease[UUID_TEXT_LEN + 1];
	char kind[JOB_KIND_MAX + 1];
	char trace[TRACE_ID_LEN + 1]; /* for the log; "" = none */
	uint32_t claim_no;
	unsigned int attempt;
	enum settle_action action;
	enum outcome_kind outcome; /* for the ledger and the log */
	int64_t delay_ms;          /* RETRY, SNOOZE, PARK */
	struct buf result;         /* valid UTF-8; has_result tells "" from none */
	bool has_result;
	struct buf error;          /* last_error: cause, then the tail of stderr; valid UTF-8. Empty = leave the column */
	char cause[320];           /* for the ledger */
	bool ran;                  /* a process ran: the figures below hold */
	int exit_code;             /* -1 = did not exit by itself */
	int signal;                /* 0 = none */
	int64_t ran_ms;            /* how long it ran */
	int64_t max_rss_kb, cpu_ms;
	bool ledger;               /* write a row of job_attempts */
	bool ledger_success;       /* successes are kept too, also one that the handler wrote itself */
	struct job_slot slot;      /* freed in the same transaction; of SETTLE_WAIT: the one that it did not get */
	bool slot_only;            /* nothing of the job is written: only its slot is freed */
	void *owner;               /* the worker layer's: where to report that it is settled */
};

/* Copies the identity of job. NULL without memory. Bounds: result and error as given (bytes). */
struct settlement *settlement_new(const struct job *job, size_t result_limit, size_t error_limit);
void settlement_free(struct settlement *s);

/* Fills action, delay_ms, cause, outcome, ledger from an outcome. max_attempts is the effective one (job_max_attempts).
 * OUTCOME_LEASE_LOST has no settlement: returns false, nothing may be written. Retry and timeout become SETTLE_DEAD and
 * OUTCOME_DEAD when no attempt is left; the cause then says "attempt 10 of 10: ...". A delay that the handler asked for
 * goes before the backoff; none is longer than 366 days. ledger_all: ledger rows for plain successes too. random: 64
 * uniform bits. */
bool settlement_decide(struct settlement *s, const struct outcome *outcome, unsigned int attempt, unsigned int max_attempts,
		       const struct backoff *backoff, bool ledger_all, uint64_t random);

/* True for a success that needs nothing of its own in the UPDATE of its row (no result, no ledger row): these are settled in one
 * statement. A slot does not matter: it is freed by a statement of its own. */
bool settlement_is_bare(const struct settlement *s);

/* Cuts it down to what any server takes: no result, error and cause a short ASCII text that says the record was reduced and why. */
void settlement_minimise(struct settlement *s, const char *why);

#endif
