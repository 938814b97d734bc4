/* stream_message.c - see stream_message.h. */
#include "handler/stream_message.h"

#include "base/utf8.h"
#include "handler/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool stream_message_refuse(char *why, const char *fmt, ...) LH_PRINTF(2, 3);

static bool stream_message_refuse(char *why, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, JSON_READ_WHY_SIZE, fmt, args);
	va_end(args);
	return false;
}

/* A member that is not null. */
static const json_t *stream_message_member(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	return json_is_null(value) ? NULL : value;
}

static bool stream_message_read_hello(struct stream_message *m, const json_t *hello, char *why)
{
	const json_t *protocol = json_object_get(hello, "protocol"), *client = json_object_get(hello, "client");

	if (!json_is_object(hello) || !json_is_integer(protocol))
		return stream_message_refuse(why, "its \"hello\" has no whole number \"protocol\"");
	m->hello = true;
	m->protocol = json_integer_value(protocol);
	if (json_is_string(client))
		json_read_short(m->client, sizeof(m->client), client);
	return true;
}

static bool stream_message_read_identity(struct stream_message *m, char *why)
{
	const json_t *id = json_object_get(m->root, "id"), *claim_no = json_object_get(m->root, "claim_no");

	if (!json_is_integer(id) || !json_is_integer(claim_no))
		return stream_message_refuse(why, "a line without the whole numbers \"id\" and \"claim_no\"");
	m->has_identity = true;
	m->id = json_integer_value(id);
	m->claim_no = json_integer_value(claim_no);
	return true;
}

/* What only people look at fails no job. */
static void stream_message_read_progress(struct stream_message *m)
{
	const json_t *progress = stream_message_member(m->root, "progress"), *note = stream_message_member(m->root, "note");

	if (progress != NULL && !json_read_percent(progress, &m->percent))
		m->complaint = "\"progress\" is not a number from 0 to 100";
	if (note != NULL && !json_is_string(note))
		m->complaint = "\"note\" is not a string";
	if (!json_is_string(note))
		return;
	m->noted = true;
	json_read_short(m->note, sizeof(m->note), note);
}

static bool stream_message_read_step(struct stream_message *m, char *why)
{
	m->step = json_object_get(m->root, "step");
	m->data = json_object_get(m->root, "data");
	return m->step == NULL || json_is_string(m->step) || stream_message_refuse(why, "\"step\" is not a string");
}

static bool stream_message_read_delay(struct stream_message *m, const char *name, bool required, char *why)
{
	const json_t *delay = stream_message_member(m->root, name);

	if (delay == NULL && !required)
		return true;
	return json_read_delay(delay, &m->delay_ms) ||
	       stream_message_refuse(why, "\"%s\" is not a number of milliseconds from 0 to %lld", name, JSON_READ_DELAY_MAX_MS);
}

static bool stream_message_read_error(struct stream_message *m, char *why)
{
	const json_t *error = stream_message_member(m->root, "error");

	if (error != NULL && !json_is_string(error))
		return stream_message_refuse(why, "\"error\" is not a string");
	if (error != NULL)
		json_read_short(m->error, sizeof(m->error), error);
	return true;
}

static bool stream_message_read_outcome(struct stream_message *m, char *why)
{
	static const char *const names[] = {
		[STREAM_SUCCEEDED] = "succeeded", [STREAM_RETRY] = "retry",         [STREAM_SNOOZE] = "snooze",
		[STREAM_DEAD] = "dead",           [STREAM_CANCELLED] = "cancelled",
	};
	const json_t *outcome = json_object_get(m->root, "outcome");
	char shown[40];

	if (outcome == NULL)
		return true;
	if (!json_is_string(outcome))
		return stream_message_refuse(why, "\"outcome\" is not a string");
	for (unsigned int i = STREAM_SUCCEEDED; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(json_string_value(outcome), names[i]) == 0)
			m->outcome = (enum stream_outcome)i;
	json_read_short(shown, sizeof(shown), outcome);
	if (m->outcome == STREAM_NO_OUTCOME)
		return stream_message_refuse(why, "there is no outcome \"%s\"", shown);
	m->result = stream_message_member(m->root, "result");
	if (m->outcome == STREAM_RETRY && !stream_message_read_delay(m, "retry_after_ms", false, why))
		return false;
	if (m->outcome == STREAM_SNOOZE && !stream_message_read_delay(m, "snooze_ms", true, why))
		return false;
	return stream_message_read_error(m, why);
}

bool stream_message_read(struct stream_message *m, const char *bytes, size_t len, char why[JSON_READ_WHY_SIZE])
{
	const json_t *hello;

	memset(m, 0, sizeof(*m));
	m->percent = -1;
	m->delay_ms = -1;
	m->root = json_read_object(bytes, len, why);
	if (m->root == NULL)
		return why[0] == '\0';
	hello = json_object_get(m->root, "hello");
	if (hello != NULL)
		return stream_message_read_hello(m, hello, why);
	if (!stream_message_read_identity(m, why))
		return false;
	stream_message_read_progress(m);
	return stream_message_read_step(m, why) && stream_message_read_outcome(m, why);
}

void stream_message_free(struct stream_message *m)
{
	json_decref(m->root);
	m->root = NULL;
}

bool stream_message_is_for(const struct stream_message *m, const struct job *job)
{
	return m->has_identity && m->id >= 0 && (uint64_t)m->id == job->id && m->claim_no == (json_int_t)job->claim_no;
}

bool stream_can_tell(const struct job *job)
{
	return job->id <= INT64_MAX;
}

static int stream_message_put(const char *bytes, size_t len, void *out)
{
	buf_add(out, bytes, len);
	return buf_ok(out) ? 0 : -1;
}

/* {"NAME":VALUE} and the end of the line; takes value. */
static bool stream_message_write(struct buf *out, const char *name, json_t *value)
{
	json_t *object = value == NULL ? NULL : json_pack("{s:o}", name, value);
	bool good = object != NULL && json_dump_callback(object, stream_message_put, out, JSON_COMPACT) == 0;

	buf_addc(out, '\n');
	json_decref(object);
	return good && buf_ok(out);
}

bool stream_write_hello(struct buf *out, const char *kind, size_t max_line)
{
	return stream_message_write(out, "hello",
				    json_pack("{s:i, s:s, s:s, s:I}", "protocol", STREAM_PROTOCOL, "leasehold", PACKAGE_VERSION,
					      "kind", kind, "max_line", (json_int_t)max_line));
}

/* The payload's text; what is not UTF-8 in it, though the column is, stands as U+FFFD. */
static json_t *stream_message_payload(const struct job *job)
{
	json_t *payload = json_stringn(job->payload == NULL ? "" : job->payload, job->payload_len);
	struct buf text;

	if (payload != NULL)
		return payload;
	buf_init(&text, job->payload_len * 3);
	utf8_sanitise(&text, job->payload, job->payload_len);
	payload = buf_ok(&text) ? json_stringn(text.data, text.len) : NULL;
	buf_free(&text);
	return payload;
}

bool stream_write_job(struct buf *out, const struct job *job, unsigned int max_attempts, int64_t timeout_ms)
{
	json_t *value = json_pack("{s:I, s:I, s:s, s:s, s:i, s:i, s:s, s:I, s:I}", "id", (json_int_t)job->id, "claim_no",
				  (json_int_t)job->claim_no, "kind", job->kind, "queue", job->queue, "attempt", (int)job->attempt,
				  "max_attempts", (int)max_attempts, "lease_id", job->lease, "lease_ms", (json_int_t)job->lease_ms,
				  "timeout_ms", (json_int_t)timeout_ms);
	bool good = value != NULL;

	if (good && job->traceparent[0] != '\0')
		good = json_object_set_new(value, "traceparent", json_string(job->traceparent)) == 0;
	good = good && json_object_set_new(value, "payload", stream_message_payload(job)) == 0 &&
	       json_object_set_new(value, "steps", steps_saved(job)) == 0;
	if (!good) {
		json_decref(value);
		return false;
	}
	return stream_message_write(out, "job", value);
}

static json_t *stream_message_identity(const struct job *job)
{
	return json_pack("{s:I, s:I}", "id", (json_int_t)job->id, "claim_no", (json_int_t)job->claim_no);
}

bool stream_write_step(struct buf *out, const struct job *job, const char *name, const char *why)
{
	json_t *value = stream_message_identity(job), *answer = steps_answer_object(name, why);

	if (value != NULL && json_object_update(value, answer) != 0) {
		json_decref(value);
		value = NULL;
	}
	json_decref(answer);
	return stream_message_write(out, "step", value);
}

bool stream_write_cancel(struct buf *out, const struct job *job, enum end_reason reason)
{
	json_t *value = stream_message_identity(job);

	if (value != NULL && json_object_set_new(value, "reason", json_string(end_reason_name(reason))) != 0) {
		json_decref(value);
		value = NULL;
	}
	return stream_message_write(out, "cancel", value);
}
