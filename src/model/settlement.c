/* settlement.c - see settlement.h. */
#include "model/settlement.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A DATETIME takes more, but a longer delay is a mistake, and a sum beyond the year 9999 would refuse the row. */
#define SETTLEMENT_DELAY_MAX_MS (INT64_C(366) * 86400 * 1000)
#define SETTLEMENT_WHY_MAX 160 /* characters of the reason for a reduced record */

static const char *const settlement_action_names[SETTLE_ACTIONS] = {
	[SETTLE_SUCCEED] = "succeed",
	[SETTLE_RETRY] = "retry",
	[SETTLE_SNOOZE] = "snooze",
	[SETTLE_PARK] = "park",
	[SETTLE_WAIT] = "wait",
	[SETTLE_RELEASE] = "release",
	[SETTLE_DEAD] = "dead",
	[SETTLE_CANCEL] = "cancel",
};

const char *settle_action_name(enum settle_action action)
{
	return (unsigned int)action < SETTLE_ACTIONS ? settlement_action_names[action] : "unknown";
}

struct settlement *settlement_new(const struct job *job, size_t result_limit, size_t error_limit)
{
	struct settlement *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->out.kind = OUTGOING_SETTLEMENT;
	s->id = job->id;
	memcpy(s->lease, job->lease, sizeof(s->lease));
	memcpy(s->kind, job->kind, sizeof(s->kind));
	(void)trace_parse(job->traceparent, s->trace);
	s->claim_no = job->claim_no;
	s->attempt = job->attempt;
	s->slot = job->slot;
	s->exit_code = -1;
	buf_init(&s->result, result_limit);
	buf_init(&s->error, error_limit);
	return s;
}

void settlement_free(struct settlement *s)
{
	if (s == NULL)
		return;
	buf_free(&s->result);
	buf_free(&s->error);
	free(s);
}

static int64_t settlement_delay(int64_t ms)
{
	if (ms < 0)
		return 0;
	return ms < SETTLEMENT_DELAY_MAX_MS ? ms : SETTLEMENT_DELAY_MAX_MS;
}

static void settlement_say(struct settlement *s, const char *prefix, const char *cause)
{
	int len = snprintf(s->cause, sizeof(s->cause), "%s%s", prefix, cause);

	if (len >= (int)sizeof(s->cause))
		s->cause[utf8_cut(s->cause, sizeof(s->cause) - 1)] = '\0';
}

static void settlement_try_again(struct settlement *s, const struct outcome *outcome, unsigned int attempt,
				 unsigned int max_attempts, const struct backoff *backoff, uint64_t random)
{
	char prefix[64];

	if (attempt >= max_attempts) {
		s->action = SETTLE_DEAD;
		s->outcome = OUTCOME_DEAD;
		snprintf(prefix, sizeof(prefix), "attempt %u of %u: ", attempt, max_attempts);
		settlement_say(s, prefix, outcome->cause);
		return;
	}
	s->action = SETTLE_RETRY;
	s->delay_ms = outcome->delay_ms >= 0 ? outcome->delay_ms : backoff_delay_ms(backoff, attempt, random);
	s->delay_ms = settlement_delay(s->delay_ms);
}

bool settlement_decide(struct settlement *s, const struct outcome *outcome, unsigned int attempt, unsigned int max_attempts,
		       const struct backoff *backoff, bool ledger_all, uint64_t random)
{
	s->outcome = outcome->kind;
	s->delay_ms = 0;
	s->ledger = true;
	s->ledger_success = ledger_all;
	settlement_say(s, "", outcome->cause);
	switch (outcome->kind) {
	case OUTCOME_SUCCEEDED:
		s->action = SETTLE_SUCCEED;
		s->ledger = ledger_all;
		return true;
	case OUTCOME_RETRY:
	case OUTCOME_TIMED_OUT:
		settlement_try_again(s, outcome, attempt, max_attempts, backoff, random);
		return true;
	case OUTCOME_SNOOZE:
		s->action = SETTLE_SNOOZE;
		s->delay_ms = settlement_delay(outcome->delay_ms);
		s->ledger = false;
		return true;
	case OUTCOME_RELEASED:
		s->action = SETTLE_RELEASE;
		s->ledger = false;
		return true;
	case OUTCOME_DEAD:
		s->action = SETTLE_DEAD;
		return true;
	case OUTCOME_CANCELLED:
		s->action = SETTLE_CANCEL;
		return true;
	case OUTCOME_LEASE_LOST:
	case OUTCOME_KINDS:
		break;
	}
	s->ledger = false;
	return false;
}

bool settlement_is_bare(const struct settlement *s)
{
	return s->action == SETTLE_SUCCEED && !s->ledger && !s->has_result && s->error.len == 0;
}

void settlement_minimise(struct settlement *s, const char *why)
{
	char text[sizeof("record reduced: ") + SETTLEMENT_WHY_MAX];
	size_t len;

	snprintf(text, sizeof(text), "record reduced: %s", why);
	for (char *p = text; *p != '\0'; p++) {
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
	}
	buf_free(&s->result);
	s->has_result = false;
	len = strlen(text);
	buf_free(&s->error);
	buf_add(&s->error, text, len < s->error.limit ? len : s->error.limit);
	settlement_say(s, "", text);
}
