/* stream_message.h - the lines of the stream protocol, read and written (layer: handler; pure). leasehold-handler(7) has the
 * grammar. */
#ifndef LEASEHOLD_HANDLER_STREAM_MESSAGE_H
#define LEASEHOLD_HANDLER_STREAM_MESSAGE_H

#include "base/buf.h"
#include "handler/json_read.h"
#include "model/job.h"
#include "model/outcome.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_PROTOCOL 1
#define STREAM_LINE_MAX (16u * 1024 * 1024) /* to the handler */
#define STREAM_CLIENT_MAX 64
#define STREAM_ERROR_MAX 255

enum stream_outcome {
	STREAM_NO_OUTCOME,
	STREAM_SUCCEEDED,
	STREAM_RETRY,
	STREAM_SNOOZE,
	STREAM_DEAD,
	STREAM_CANCELLED
};

/* One line of a handler. */
struct stream_message {
	json_t *root; /* owns what the other pointers point to */
	bool hello;
	json_int_t protocol;
	char client[STREAM_CLIENT_MAX + 1]; /* "" = not said */
	bool has_identity;
	json_int_t id, claim_no;
	double percent; /* < 0: not said */
	bool noted;
	char note[JSON_READ_NOTE_BYTES + 1];
	const char *complaint; /* what was wrong with a member that does no harm; NULL */
	const json_t *step, *data;
	enum stream_outcome outcome;
	int64_t delay_ms;     /* -1 = not said */
	const json_t *result; /* NULL = none */
	char error[STREAM_ERROR_MAX + 1];
};

/* False: no line of the protocol, and why. A blank one is good, and says nothing. Free it in any case. */
bool stream_message_read(struct stream_message *m, const char *bytes, size_t len, char why[JSON_READ_WHY_SIZE]);
void stream_message_free(struct stream_message *m);
bool stream_message_is_for(const struct stream_message *m, const struct job *job);

/* Lines for a handler, with their ends, appended to out; false without memory, or when out is not large enough. */
bool stream_write_hello(struct buf *out, const char *kind, size_t max_line);
bool stream_write_job(struct buf *out, const struct job *job, unsigned int max_attempts, int64_t timeout_ms);
bool stream_write_step(struct buf *out, const struct job *job, const char *name, const char *why);
bool stream_write_cancel(struct buf *out, const struct job *job, enum end_reason reason);
/* Whether the id is one that fits into JSON as we read and write it. */
bool stream_can_tell(const struct job *job);

#endif
