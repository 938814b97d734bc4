/* control.c - see control.h. */
#include "handler/control.h"

#include "handler/json_read.h"

#include <stdio.h>
#include <string.h>

/* What one line says, before it is acted on: a line that is refused changes nothing. */
struct control_line {
	struct control *control;
	double progress; /* < 0: not said */
	struct buf note;
	bool has_note;
	const json_t *step; /* a string; NULL: not said */
	const json_t *data;
};

static void control_take_line(void *owner, const char *bytes, size_t len);
static void control_too_long(void *owner);

void control_init(struct control *c, size_t max_result)
{
	memset(c, 0, sizeof(*c));
	lines_init(&c->lines, CONTROL_LINE_MAX);
	c->lines.owner = c;
	c->lines.take = control_take_line;
	c->lines.too_long = control_too_long;
	buf_init(&c->result, max_result);
	c->asked.retry_after_ms = -1;
	c->asked.snooze_ms = -1;
}

void control_free(struct control *c)
{
	lines_free(&c->lines);
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

static void control_take_progress(struct control_line *line, const json_t *value)
{
	if (!json_is_null(value) && !json_read_percent(value, &line->progress))
		control_complain(line->control, "\"progress\" is not a number from 0 to 100");
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
	json_read_text(&line->note, value, JSON_READ_NOTE_CHARACTERS);
	line->has_note = true;
}

static void control_take_result(struct control_line *line, const json_t *value)
{
	struct control *c = line->control;

	buf_clear(&c->result);
	c->has_result = !json_is_null(value);
	if (c->has_result && !json_read_result(&c->result, value)) {
		c->has_result = false;
		control_complain(c, "\"result\" does not fit into memory");
	}
}

static void control_take_delay(struct control *c, const char *name, const json_t *value, int64_t *delay_ms)
{
	if (json_is_null(value))
		*delay_ms = -1;
	else if (!json_read_delay(value, delay_ms))
		control_complain(c, "\"%s\" is not a number of milliseconds from 0 to %lld", name, JSON_READ_DELAY_MAX_MS);
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

	if (!json_is_string(value) && !json_is_boolean(value) && !json_is_null(value)) {
		control_complain(line->control, "\"dead\" is not a string that says why");
		return;
	}
	asked->dead = json_is_string(value) || json_is_true(value);
	asked->dead_reason[0] = '\0';
	if (json_is_string(value))
		json_read_short(asked->dead_reason, sizeof(asked->dead_reason), value);
}

static void control_take_step(struct control_line *line, const json_t *value)
{
	if (!json_is_string(value))
		control_complain(line->control, "\"step\" is not a string");
	else
		line->step = value;
}

static void control_take_data(struct control_line *line, const json_t *value)
{
	line->data = value;
}

static const struct {
	const char *name;
	void (*take)(struct control_line *line, const json_t *value);
} control_members[] = {
	{"progress", control_take_progress}, {"note", control_take_note},          {"result", control_take_result},
	{"dead", control_take_dead},         {"retry_after_ms", control_take_retry}, {"snooze_ms", control_take_snooze},
	{"step", control_take_step},         {"data", control_take_data},
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

	buf_init(&line.note, JSON_READ_NOTE_BYTES);
	for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at))
		control_take_member(&line, json_object_iter_key(at), json_object_iter_value(at));
	if ((line.progress >= 0 || line.has_note) && c->progress != NULL)
		c->progress(c->owner, line.progress, line.has_note ? line.note.data : NULL);
	if (line.step != NULL && c->step != NULL)
		c->step(c->owner, line.step, line.data);
	else if (line.step == NULL && line.data != NULL)
		control_complain(c, "\"data\" goes with a \"step\"");
	buf_free(&line.note);
}

static void control_take_line(void *owner, const char *bytes, size_t len)
{
	struct control *c = owner;
	char why[JSON_READ_WHY_SIZE];
	json_t *object = json_read_object(bytes, len, why);

	if (object != NULL)
		control_take_object(c, object);
	else if (why[0] != '\0')
		control_complain(c, "%s", why);
	json_decref(object);
}

static void control_too_long(void *owner)
{
	control_complain(owner, "it is longer than %u bytes", CONTROL_LINE_MAX);
}

void control_feed(struct control *c, const char *bytes, size_t len)
{
	lines_feed(&c->lines, bytes, len);
}

void control_end(struct control *c)
{
	lines_end(&c->lines);
}
