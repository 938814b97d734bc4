/* json_read.c - see json_read.h. */
#include "handler/json_read.h"

#include "base/utf8.h"
#include "handler/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_READ_DEPTH_MAX 100

static bool json_read_blank(const char *bytes, size_t len)
{
	size_t i = 0;

	while (i < len && (bytes[i] == ' ' || bytes[i] == '\t' || bytes[i] == '\r'))
		i++;
	return i == len;
}

/* Brackets inside strings do not count. */
bool json_read_is_shallow(const char *bytes, size_t len)
{
	unsigned int depth = 0;
	bool quoted = false;

	for (size_t i = 0; i < len && depth <= JSON_READ_DEPTH_MAX; i++) {
		if (bytes[i] == '"')
			quoted = !quoted;
		else if (quoted)
			i += bytes[i] == '\\';
		else if (bytes[i] == '[' || bytes[i] == '{')
			depth++;
		else if ((bytes[i] == ']' || bytes[i] == '}') && depth > 0)
			depth--;
	}
	return depth <= JSON_READ_DEPTH_MAX;
}

json_t *json_read_object(const char *bytes, size_t len, char why[JSON_READ_WHY_SIZE])
{
	json_error_t error;
	json_t *object;

	why[0] = '\0';
	if (json_read_blank(bytes, len))
		return NULL;
	if (!json_read_is_shallow(bytes, len)) {
		snprintf(why, JSON_READ_WHY_SIZE, "it is nested more than %d deep", JSON_READ_DEPTH_MAX);
		return NULL;
	}
	object = json_loadb(bytes, len, JSON_ALLOW_NUL, &error);
	if (object == NULL) {
		snprintf(why, JSON_READ_WHY_SIZE, "it is not JSON: %s", error.text);
	} else if (!json_is_object(object)) {
		snprintf(why, JSON_READ_WHY_SIZE, "it is not a JSON object");
		json_decref(object);
		object = NULL;
	}
	return object;
}

void json_read_text(struct buf *out, const json_t *value, size_t most)
{
	const char *text = json_string_value(value);
	size_t len = json_string_length(value), end = 0;
	bool well_formed;

	for (size_t n = 0; end < len && n < most; n++)
		end += utf8_next(text + end, len - end, &well_formed);
	utf8_sanitise(out, text, end);
}

void json_read_short(char *text, size_t size, const json_t *value)
{
	struct buf cut;

	buf_init(&cut, size - 1);
	json_read_text(&cut, value, size);
	memcpy(text, cut.data, cut.len + 1);
	buf_free(&cut);
}

bool json_read_delay(const json_t *value, int64_t *delay_ms)
{
	double ms = json_number_value(value);

	if (!json_is_number(value) || !(ms >= 0 && ms <= (double)JSON_READ_DELAY_MAX_MS))
		return false;
	*delay_ms = (int64_t)ms;
	return true;
}

bool json_read_percent(const json_t *value, double *percent)
{
	double number = json_number_value(value);

	if (!json_is_number(value) || !(number >= 0 && number <= 100))
		return false;
	*percent = number;
	return true;
}

bool json_read_result(struct buf *out, const json_t *value)
{
	char *text;

	if (json_is_string(value)) {
		output_fit(out, json_string_value(value), json_string_length(value), json_string_length(value));
		return true;
	}
	text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	if (text == NULL)
		return false;
	output_fit(out, text, strlen(text), strlen(text));
	free(text);
	return true;
}
