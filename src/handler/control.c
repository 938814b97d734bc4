/* control.c - see control.h. */
#include "handler/control.h"

#include "base/utf8.h"
#include "handler/output.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTROL_DELAY_MAX_MS (366LL * 24 * 3600 * 1000)
#define CONTROL_NOTE_CHARACTERS 255
#define CONTROL_DEPTH_MAX 100 /* the parser recurses, and a worker's stack is small */

/* What one line says, before it is acted on: a line that is refused changes nothing. */
struct control_line {
	struct control *control;
	double progress; /* < 0: not said */
	struct buf note;
	bool has_note;
};

void control_init(struct control *c, size_t max_result)
{
	memset(c, 0, sizeof(*c));
	buf_init(&c->line, CONTROL_LINE_MAX);
	buf_init(&c->result, max_result);
	c->asked.retry_after_ms = -1;
	c->asked.snooze_ms = -1;
}

void control_free(struct control *c)
{
	buf_free(&c->line);
	buf_free(&c->result);
}

static void control_complain(struct control *c, const char *fmt, ...) LH_PRINTF(2, 3);

static void control_complain(struct control *c, const char *fmt, ...)
{
	char why[256];
	va_list args;

	if (c->complain == NULL)
		return;
	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	c->complain(c->owner, why);
}

/* Appends up to most characters of a JSON string to out. */
static void control_add_text(struct buf *out, const json_t *value, size_t most)
{
	const char *text = json_string_value(value);
	size_t len = json_string_length(value), end = 0;
	bool well_formed;

	for (size_t n = 0; end < len && n < most; n++)
		end += utf8_next(text + end, len - end, &well_formed);
	utf8_sanitise(out, text, end);
}

static void control_take_progress(struct control_line *line, const json_t *value)
{
	double percent = json_number_value(value);

	if (json_is_null(value))
		return;
	if (!json_is_number(value) || !(percent >= 0 && percent <= 100))
		control_complain(line->control, "\"progress\" is not a number from 0 to 100");
	else
		line->progress = percent;
}

static void control_take_note(struct control_line *line, const json_t *value)
{
	if (json_is_null(value))
		return;
	if (!json_is_string(value)) {
		control_complain(line->control, "\"note\" is not a string");
		return;
	}
	buf_clear(&line->note);
	control_add_text(&line->note, value, CONTROL_NOTE_CHARACTERS);
	line->has_note = true;
}

static void control_take_result(struct control_line *line, const json_t *value)
{
	struct control *c = line->control;
	char *text;

	buf_clear(&c->result);
	c->has_result = !json_is_null(value);
	if (json_is_string(value)) {
		output_fit(&c->result, json_string_value(value), json_string_length(value), json_string_length(value));
	} else if (c->has_result) {
		text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
		if (text == NULL) {
			c->has_result = false;
			control_complain(c, "\"result\" does not fit into memory");
			return;
		}
		output_fit(&c->result, text, strlen(text), strlen(text));
		free(text);
	}
}

static void control_take_delay(struct control *c, const char *name, const json_t *value, int64_t *delay_ms)
{
	double ms = json_number_value(value);

	if (json_is_null(value))
		*delay_ms = -1;
	else if (!json_is_number(value) || !(ms >= 0 && ms <= (double)CONTROL_DELAY_MAX_MS))
		control_complain(c, "\"%s\" is not a number of milliseconds from 0 to %lld", name, CONTROL_DELAY_MAX_MS);
	else
		*delay_ms = (int64_t)ms;
}

static void control_take_retry(struct control_line *line, const json_t *value)
{
	control_take_delay(line->control, "retry_after_ms", value, &line->control->asked.retry_after_ms);
}

static void control_take_snooze(struct control_line *line, const json_t *value)
{
	control_take_delay(line->control, "snooze_ms", value, &line->control->asked.snooze_ms);
}

static void control_take_dead(struct control_line *line, const json_t *value)
{
	struct run_requests *asked = &line->control->asked;
	struct buf reason;

	if (!json_is_string(value) && !json_is_boolean(value) && !json_is_null(value)) {
		control_complain(line->control, "\"dead\" is not a string that says why");
		return;
	}
	asked->dead = json_is_string(value) || json_is_true(value);
	buf_init(&reason, sizeof(asked->dead_reason) - 1);
	if (json_is_string(value))
		control_add_text(&reason, value, sizeof(asked->dead_reason));
	memcpy(asked->dead_reason, reason.data, reason.len + 1);
	buf_free(&reason);
}

static const struct {
	const char *name;
	void (*take)(struct control_line *line, const json_t *value);
} control_members[] = {
	{"progress", control_take_progress}, {"note", control_take_note},          {"result", control_take_result},
	{"dead", control_take_dead},         {"retry_after_ms", control_take_retry}, {"snooze_ms", control_take_snooze},
};

static void control_take_member(struct control_line *line, const char *name, const json_t *value)
{
	for (size_t i = 0; i < sizeof(control_members) / sizeof(control_members[0]); i++) {
		if (strcmp(name, control_members[i].name) == 0) {
			control_members[i].take(line, value);
			return;
		}
	}
	control_complain(line->control, "there is no member \"%.64s\"", name);
}

static void control_take_object(struct control *c, json_t *object)
{
	struct control_line line = {.control = c, .progress = -1};

	buf_init(&line.note, (size_t)CONTROL_NOTE_CHARACTERS * 4);
	for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at))
		control_take_member(&line, json_object_iter_key(at), json_object_iter_value(at));
	if ((line.progress >= 0 || line.has_note) && c->progress != NULL)
		c->progress(c->owner, line.progress, line.has_note ? line.note.data : NULL);
	buf_free(&line.note);
}

static bool control_blank(const char *bytes, size_t len)
{
	size_t i = 0;

	while (i < len && (bytes[i] == ' ' || bytes[i] == '\t' || bytes[i] == '\r'))
		i++;
	return i == len;
}

/* True when brackets are nested no deeper than we can take. Brackets inside strings do not count. */
static bool control_shallow(const char *bytes, size_t len)
{
	unsigned int depth = 0;
	bool quoted = false;

	for (size_t i = 0; i < len && depth <= CONTROL_DEPTH_MAX; i++) {
		if (bytes[i] == '"')
			quoted = !quoted;
		else if (quoted)
			i += bytes[i] == '\\';
		else if (bytes[i] == '[' || bytes[i] == '{')
			depth++;
		else if ((bytes[i] == ']' || bytes[i] == '}') && depth > 0)
			depth--;
	}
	return depth <= CONTROL_DEPTH_MAX;
}

static void control_take_line(struct control *c, const char *bytes, size_t len)
{
	json_error_t error;
	json_t *object;

	if (control_blank(bytes, len))
		return;
	if (!control_shallow(bytes, len)) {
		control_complain(c, "it is nested more than %d deep", CONTROL_DEPTH_MAX);
		return;
	}
	object = json_loadb(bytes, len, JSON_ALLOW_NUL, &error);
	if (object == NULL)
		control_complain(c, "it is not JSON: %s", error.text);
	else if (!json_is_object(object))
		control_complain(c, "it is not a JSON object");
	else
		control_take_object(c, object);
	json_decref(object);
}

/* One more piece of the line under way. */
static void control_gather(struct control *c, const char *bytes, size_t len)
{
	if (c->skipping)
		return;
	buf_add(&c->line, bytes, len);
	if (buf_ok(&c->line))
		return;
	control_complain(c, "it is longer than %u bytes", CONTROL_LINE_MAX);
	c->skipping = true;
	buf_free(&c->line);
}

static void control_finish_line(struct control *c)
{
	if (!c->skipping && c->line.len > 0)
		control_take_line(c, c->line.data, c->line.len);
	c->skipping = false;
	buf_clear(&c->line);
}

void control_feed(struct control *c, const char *bytes, size_t len)
{
	const char *end = bytes + len, *newline;

	while (bytes < end && (newline = memchr(bytes, '\n', (size_t)(end - bytes))) != NULL) {
		control_gather(c, bytes, (size_t)(newline - bytes));
		control_finish_line(c);
		bytes = newline + 1;
	}
	control_gather(c, bytes, (size_t)(end - bytes));
}

void control_end(struct control *c)
{
	control_finish_line(c);
}
