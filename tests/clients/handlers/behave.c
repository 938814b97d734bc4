/* behave.c - one handler for each behaviour that tests/clients asks of every language. */
#include "leasehold.h"

static bool behave_is(const struct lh_job *job, const char *member, const char *value)
{
	char text[64];

	return lh_json_string(job->payload, member, text, sizeof(text)) && strcmp(text, value) == 0;
}

static const char *behave_message(const struct lh_job *job, char *to, size_t size)
{
	return lh_json_valid(job->payload, job->payload_len) && lh_json_string(job->payload, "message", to, size) ? to : "";
}

static long long behave_ms(const struct lh_job *job)
{
	const char *ms = lh_find(job->payload, "ms");

	return ms ? strtoll(ms, NULL, 10) : LH_BACKOFF;
}

static enum lh_outcome behave_echo(struct lh_job *job)
{
	if (!lh_json_valid(job->payload, job->payload_len))
		return lh_dead(job, "the payload is not JSON");
	return lh_succeeded_json(job, job->payload);
}

static enum lh_outcome behave_raw(struct lh_job *job)
{
	return lh_succeeded_text(job, job->payload);
}

static enum lh_outcome behave_nothing(struct lh_job *job)
{
	(void)job;
	return LH_SUCCEEDED;
}

static enum lh_outcome behave_pid(struct lh_job *job)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", (long)getpid());
	return lh_succeeded_json(job, text);
}

static void behave_member(struct lh_text *json, const char *name, const char *value)
{
	lh_quote(json, name, SIZE_MAX);
	lh_puts(json, ":");
	if (value)
		lh_quote(json, value, SIZE_MAX);
	else
		lh_puts(json, "null");
	lh_puts(json, ",");
}

static enum lh_outcome behave_describe(struct lh_job *job)
{
	struct lh_text json = {NULL, 0, 0};
	char numbers[256];

	lh_puts(&json, "{");
	behave_member(&json, "kind", job->kind);
	behave_member(&json, "queue", job->queue);
	behave_member(&json, "lease_id", job->lease_id);
	behave_member(&json, "traceparent", job->traceparent);
	behave_member(&json, "payload_text", job->payload);
	snprintf(numbers, sizeof(numbers),
		 "\"id\":\"%llu\",\"claim_no\":%lu,\"attempt\":%u,\"max_attempts\":%u,\"lease_ms\":%llu,\"timeout_ms\":%llu}",
		 (unsigned long long)job->id, (unsigned long)job->claim_no, job->attempt, job->max_attempts,
		 (unsigned long long)job->lease_ms, (unsigned long long)job->timeout_ms);
	lh_puts(&json, numbers);
	lh_succeeded_json(job, json.at);
	free(json.at);
	return lh_failed(job);
}

static enum lh_outcome behave_size(struct lh_job *job)
{
	struct lh_text json = {NULL, 0, 0};
	char text[32];

	snprintf(text, sizeof(text), "[%lu,", (unsigned long)job->payload_len);
	lh_puts(&json, text);
	lh_quote(&json, job->payload + (job->payload_len > 9 ? job->payload_len - 9 : 0), SIZE_MAX);
	lh_puts(&json, "]");
	lh_succeeded_json(job, json.at);
	free(json.at);
	return LH_SUCCEEDED;
}

static enum lh_outcome behave_fail(struct lh_job *job)
{
	char message[8192];

	return lh_retry(job, LH_BACKOFF, "%s", behave_message(job, message, sizeof(message)));
}

static enum lh_outcome behave_retry(struct lh_job *job)
{
	char message[8192];

	return lh_retry(job, behave_ms(job), "%s", behave_message(job, message, sizeof(message)));
}

static enum lh_outcome behave_snooze(struct lh_job *job)
{
	return lh_snooze(job, behave_ms(job));
}

static enum lh_outcome behave_dead(struct lh_job *job)
{
	char message[8192];

	return lh_dead(job, "%s", behave_message(job, message, sizeof(message)));
}

static enum lh_outcome behave_cancelled(struct lh_job *job)
{
	return lh_stopped(job);
}

static enum lh_outcome behave_progress(struct lh_job *job)
{
	char note[2001];

	memset(note, 'n', sizeof(note));
	note[2000] = '\0';
	lh_progress(job, 0, NULL);
	lh_progress(job, 40.5, "half \303\274nd");
	lh_note(job, note);
	lh_progress(job, 250, NULL);
	lh_progress(job, -5, NULL);
	return LH_SUCCEEDED;
}

/* Text for a step to give away. */
static char *behave_work(struct lh_job *job, void *text)
{
	(void)job;
	return lh_copy(text, strlen(text));
}

static char *behave_charge(struct lh_job *job, void *context)
{
	printf("ran charge\n");
	(void)context;
	/* JSON text may have lines: on the way they must not end the message. */
	return behave_work(job, (char[]){"{\n\t\"amount\": 12,\r\n\t\"who\": \"\303\274\"\n}\n"});
}

static enum lh_outcome behave_steps(struct lh_job *job)
{
	const char *charged = lh_step(job, "charged", behave_charge, NULL);
	const char *mailed = charged ? lh_step(job, "mailed", behave_work, (char[]){"null"}) : NULL;
	const char *reason = lh_cancelled(job);
	char text[512];

	if (!mailed)
		return lh_failed(job);
	snprintf(text, sizeof(text), reason ? "[%s,%s,\"%s\"]" : "[%s,%s,null]", charged, mailed, reason);
	return lh_succeeded_json(job, text);
}

static enum lh_outcome behave_again(struct lh_job *job)
{
	const char *first = lh_step(job, "charged", behave_charge, NULL);
	const char *second = first ? lh_step(job, "charged", behave_charge, NULL) : NULL;
	char text[512];

	if (!second)
		return lh_failed(job);
	snprintf(text, sizeof(text), "[%s,%s]", first, second);
	return lh_succeeded_json(job, text);
}

static enum lh_outcome behave_name(struct lh_job *job)
{
	char name[256];
	const char *data;

	if (!lh_json_string(job->payload, "name", name, sizeof(name)))
		return lh_dead(job, "no name");
	data = lh_step(job, name, behave_work, (char[]){"1"});
	return data ? lh_succeeded_json(job, data) : lh_failed(job);
}

static enum lh_outcome behave_stop(struct lh_job *job)
{
	const char *reason;

	lh_progress(job, 1, NULL);
	while (!(reason = lh_cancelled(job)))
		poll(NULL, 0, 5);
	if (behave_is(job, "then", "raise"))
		return LH_CANCELLED;
	if (behave_is(job, "then", "fail"))
		return lh_retry(job, LH_BACKOFF, "stopped by %s", reason);
	return lh_succeeded_text(job, reason);
}

static enum lh_outcome behave_look(struct lh_job *job)
{
	const char *reason = lh_cancelled(job);

	return lh_succeeded_text(job, reason ? reason : "no");
}

static enum lh_outcome behave_print(struct lh_job *job)
{
	char text[32];
	size_t n;

	printf("printed\nh\303\251\n");
	fflush(stdout);
	if (write(1, "written\n", 8) != 8 || system("echo from the child; cat") != 0)
		return LH_RETRY;
	n = fread(text, 1, sizeof(text), stdin);
	snprintf(text, sizeof(text), "read %lu", (unsigned long)n);
	return lh_succeeded_text(job, text);
}

static enum lh_outcome behave_unencodable(struct lh_job *job)
{
	const char *value = behave_is(job, "what", "object") ? "{\"a\":1" : behave_is(job, "what", "text") ? "\"\\ud800\"" : "-nan";

	if (behave_is(job, "where", "result"))
		return lh_succeeded_json(job, value);
	return lh_step(job, "odd", behave_work, (void *)value) ? LH_SUCCEEDED : lh_failed(job);
}

static enum lh_outcome behave_bare_dead(struct lh_job *job)
{
	(void)job;
	return LH_DEAD;
}

static enum lh_outcome behave_bare_snooze(struct lh_job *job)
{
	(void)job;
	return LH_SNOOZE;
}

/* What was prepared for one outcome does not go with another. */
static enum lh_outcome behave_changed_mind(struct lh_job *job)
{
	lh_dead(job, "not this");
	return LH_SUCCEEDED;
}

int main(void)
{
	static const struct lh_kind kinds[] = {
		{"echo", behave_echo},		       {"raw", behave_raw},
		{"nothing", behave_nothing},	       {"pid", behave_pid},
		{"describe", behave_describe},	       {"size", behave_size},
		{"fail", behave_fail},		       {"retry", behave_retry},
		{"snooze", behave_snooze},	       {"dead", behave_dead},
		{"cancelled", behave_cancelled},       {"progress", behave_progress},
		{"steps", behave_steps},	       {"again", behave_again},
		{"name", behave_name},		       {"stop", behave_stop},
		{"busy", behave_stop},		       {"look", behave_look},
		{"print", behave_print},	       {"unencodable", behave_unencodable},
		{"bare_dead", behave_bare_dead},       {"bare_snooze", behave_bare_snooze},
		{"changed_mind", behave_changed_mind}, {NULL, NULL},
	};

	return lh_serve_kinds(kinds);
}
