/* conf_value.c - one setting of a file into one field of settings.h. */
#include "config/conf_value.h"

#include "base/parse.h"
#include "config/conf_option.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *conf_value_field(const struct conf_option *option, void *base)
{
	return (char *)base + option->offset;
}

static const void *conf_value_field_const(const struct conf_option *option, const void *base)
{
	return (const char *)base + option->offset;
}

static void conf_value_put_number(const struct conf_option *option, void *base, int64_t value)
{
	int64_t *field = conf_value_field(option, base);

	*field = value;
}

static void conf_value_put_bool(const struct conf_option *option, void *base, bool value)
{
	bool *field = conf_value_field(option, base);

	*field = value;
}

static bool conf_value_put_string(const struct conf_option *option, void *base, const char *text)
{
	char **field, *copy;

	if (option->offset == CONF_NO_FIELD)
		return true;
	copy = strdup(text);
	if (!copy)
		return false;
	field = conf_value_field(option, base);
	free(*field);
	*field = copy;
	return true;
}

static void conf_value_free_list(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

/* Takes list, which is NULL without memory. */
static bool conf_value_put_list(const struct conf_option *option, void *base, char **list)
{
	char ***field = conf_value_field(option, base);

	if (!list)
		return false;
	conf_value_free_list(*field);
	*field = list;
	return true;
}

static char **conf_value_list_of_one(const char *text)
{
	char **list = calloc(2, sizeof(*list));

	if (list && !(list[0] = strdup(text))) {
		free(list);
		return NULL;
	}
	return list;
}

/* The number that text stands for, for the types that are numbers inside. */
static enum lh_err conf_value_parse(const struct conf_option *option, const char *text, int64_t *value, struct fault *f)
{
	char range[64], quoted[CONF_QUOTE_SIZE];
	enum lh_err err;
	uint64_t bytes;

	switch (option->type) {
	case CONF_DURATION:
		return parse_duration_ms(text, value, f);
	case CONF_SIZE:
		err = parse_size(text, &bytes, f);
		*value = err || bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
		return err;
	case CONF_CHOICE:
		*value = conf_option_choice(option, text);
		if (*value >= 0)
			return LH_OK;
		return fault_set(f, LH_ERR_INPUT, "must be %s, not %s", conf_option_range(option, range, sizeof(range)),
				 conf_report_quote(text, quoted));
	default:
		return parse_i64(text, INT64_MIN, INT64_MAX, value, f);
	}
}

bool conf_value_default(const struct conf_option *option, void *base)
{
	int64_t value;
	struct fault f;

	if (!option->fallback)
		return true;
	if (option->type == CONF_STRING)
		return conf_value_put_string(option, base, option->fallback);
	if (option->type == CONF_STRINGS)
		return conf_value_put_list(option, base, conf_value_list_of_one(option->fallback));
	if (option->type == CONF_BOOL)
		conf_value_put_bool(option, base, !strcmp(option->fallback, "true"));
	else if (!conf_value_parse(option, option->fallback, &value, &f))
		conf_value_put_number(option, base, value);
	return true;
}

/* What is there instead of what should be. */
static void conf_value_describe(const config_setting_t *setting, bool secret, char *out, size_t size)
{
	char quoted[CONF_QUOTE_SIZE];
	const char *what = NULL;

	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_GROUP:
		what = "a group { }";
		break;
	case CONFIG_TYPE_ARRAY:
	case CONFIG_TYPE_LIST:
		what = "a list";
		break;
	case CONFIG_TYPE_FLOAT:
		what = "a number with a fraction";
		break;
	case CONFIG_TYPE_BOOL:
		what = config_setting_get_bool(setting) ? "the boolean true" : "the boolean false";
		break;
	case CONFIG_TYPE_STRING:
		what = secret ? "a string" : NULL;
		break;
	default:
		what = secret ? "a whole number" : NULL;
		break;
	}
	if (what)
		snprintf(out, size, "%s", what);
	else if (config_setting_type(setting) == CONFIG_TYPE_STRING)
		snprintf(out, size, "the string %s", conf_report_quote(config_setting_get_string(setting), quoted));
	else
		snprintf(out, size, "the whole number %lld", config_setting_get_int64(setting));
}

static bool conf_value_is_int(const config_setting_t *setting)
{
	return config_setting_type(setting) == CONFIG_TYPE_INT || config_setting_type(setting) == CONFIG_TYPE_INT64;
}

static void conf_value_mismatch(struct conf_state *state, const struct conf_option *option, config_setting_t *setting,
				const char *label)
{
	bool string = config_setting_type(setting) == CONFIG_TYPE_STRING;
	char what[CONF_QUOTE_SIZE + 32];
	const char *hint = "";

	conf_value_describe(setting, option->secret, what, sizeof(what));
	if (option->type == CONF_DURATION && conf_value_is_int(setting))
		hint = ": write it as a string with a unit, as in \"30s\" or \"500ms\"";
	else if ((option->type == CONF_INT || option->type == CONF_BOOL) && string)
		hint = ": write it without quotes";
	else if (option->type == CONF_STRINGS && string)
		hint = ": write [ \"...\" ], also for a single one";
	else if ((option->type == CONF_STRING || option->type == CONF_CHOICE) && config_setting_is_scalar(setting))
		hint = ": write it in double quotes";
	conf_state_error(state, setting, "%s: must be a %s, not %s%s", label, conf_type_name(option->type), what, hint);
}

/* A number that came out of a setting: checks the range, and stores it. */
static void conf_value_store(struct conf_state *state, const struct conf_option *option, config_setting_t *setting,
			     const char *label, void *base, int64_t value)
{
	char range[64], number[32];
	const char *more = value == INT64_MAX ? " or more" : "";

	if (option->type == CONF_CHOICE || conf_option_allows(option, value)) {
		conf_value_put_number(option, base, value);
		return;
	}
	conf_state_error(state, setting, "%s: must be %s, not %s%s", label, conf_option_range(option, range, sizeof(range)),
			 conf_option_format(option, value, number, sizeof(number)), more);
}

static void conf_value_read_number(struct conf_state *state, const struct conf_option *option, config_setting_t *setting,
				   const char *label, void *base)
{
	bool text = option->type != CONF_INT;
	struct fault f;
	int64_t value;

	if (text && config_setting_type(setting) == CONFIG_TYPE_STRING) {
		if (conf_value_parse(option, config_setting_get_string(setting), &value, &f))
			conf_state_error(state, setting, "%s: %s", label, f.text);
		else
			conf_value_store(state, option, setting, label, base, value);
	} else if ((option->type == CONF_INT || option->type == CONF_SIZE) && conf_value_is_int(setting)) {
		conf_value_store(state, option, setting, label, base, config_setting_get_int64(setting));
	} else {
		conf_value_mismatch(state, option, setting, label);
	}
}

static void conf_value_read_bool(struct conf_state *state, const struct conf_option *option, config_setting_t *setting,
				 const char *label, void *base)
{
	if (config_setting_type(setting) == CONFIG_TYPE_BOOL)
		conf_value_put_bool(option, base, config_setting_get_bool(setting));
	else
		conf_value_mismatch(state, option, setting, label);
}

static bool conf_value_has_control(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return true;
	return false;
}

static void conf_value_read_string(struct conf_state *state, const struct conf_option *option, config_setting_t *setting,
				   const char *label, void *base)
{
	char range[64], quoted[CONF_QUOTE_SIZE];
	const char *text;

	if (config_setting_type(setting) != CONFIG_TYPE_STRING) {
		conf_value_mismatch(state, option, setting, label);
		return;
	}
	text = config_setting_get_string(setting);
	if (!conf_option_allows(option, (int64_t)strlen(text)))
		conf_state_error(state, setting, "%s: must have %s, not %zu", label,
				 conf_option_range(option, range, sizeof(range)), strlen(text));
	else if (!option->secret && conf_value_has_control(text))
		conf_state_error(state, setting, "%s: must not hold control characters: %s", label,
				 conf_report_quote(text, quoted));
	else if (option->unit && !strcmp(option->unit, "absolute path") && text[0] != '/')
		conf_state_error(state, setting, "%s: must be an absolute path, not %s", label, conf_report_quote(text, quoted));
	else if (!conf_value_put_string(option, base, text))
		state->report.no_memory = true;
}

/* NULL without memory. Every element is known to be a string. */
static char **conf_value_copy_list(const config_setting_t *setting, size_t count)
{
	char **list = calloc(count + 1, sizeof(*list));

	for (size_t i = 0; list && i < count; i++) {
		list[i] = strdup(config_setting_get_string_elem(setting, (int)i));
		if (!list[i]) {
			conf_value_free_list(list);
			return NULL;
		}
	}
	return list;
}

static void conf_value_read_list(struct conf_state *state, const struct conf_option *option, config_setting_t *setting,
				 const char *label, void *base)
{
	int type = config_setting_type(setting);
	char what[CONF_QUOTE_SIZE + 32], range[64];
	int count;

	if (type != CONFIG_TYPE_ARRAY && type != CONFIG_TYPE_LIST) {
		conf_value_mismatch(state, option, setting, label);
		return;
	}
	count = config_setting_length(setting);
	if (!conf_option_allows(option, count)) {
		conf_state_error(state, setting, "%s: must have %s, not %d", label, conf_option_range(option, range, sizeof(range)),
				 count);
		return;
	}
	for (int i = 0; i < count; i++) {
		const config_setting_t *entry = config_setting_get_elem(setting, (unsigned int)i);

		if (config_setting_type(entry) == CONFIG_TYPE_STRING)
			continue;
		conf_value_describe(entry, option->secret, what, sizeof(what));
		conf_state_error(state, setting, "%s[%d]: must be a string, not %s", label, i, what);
		return;
	}
	if (!conf_value_put_list(option, base, conf_value_copy_list(setting, (size_t)count)))
		state->report.no_memory = true;
}

void conf_value_read(struct conf_state *state, const struct conf_option *option, config_setting_t *setting, const char *label,
		     void *base)
{
	switch (option->type) {
	case CONF_STRING:
		conf_value_read_string(state, option, setting, label, base);
		break;
	case CONF_STRINGS:
		conf_value_read_list(state, option, setting, label, base);
		break;
	case CONF_BOOL:
		conf_value_read_bool(state, option, setting, label, base);
		break;
	default:
		conf_value_read_number(state, option, setting, label, base);
		break;
	}
}

static bool conf_value_equal_strings(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool conf_value_equal_lists(char *const *a, char *const *b)
{
	if (!a || !b)
		return a == b;
	for (; *a && *b; a++, b++)
		if (strcmp(*a, *b) != 0)
			return false;
	return *a == *b;
}

bool conf_value_equal(const struct conf_option *option, const void *a, const void *b)
{
	const void *x, *y;

	if (option->offset == CONF_NO_FIELD)
		return true;
	x = conf_value_field_const(option, a);
	y = conf_value_field_const(option, b);
	switch (option->type) {
	case CONF_STRING:
		return conf_value_equal_strings(*(char *const *)x, *(char *const *)y);
	case CONF_STRINGS:
		return conf_value_equal_lists(*(char *const *const *)x, *(char *const *const *)y);
	case CONF_BOOL:
		return *(const bool *)x == *(const bool *)y;
	default:
		return *(const int64_t *)x == *(const int64_t *)y;
	}
}
