/* conf_state.c - one load in progress. */
#include "config/conf_state.h"

#include <stdarg.h>
#include <stdio.h>

#define CONF_STATE_TEXT 1024

static char conf_state_mark; /* its address marks a setting */

char *conf_state_label(struct conf_key key, char *out)
{
	int len;

	if (key.index == CONF_NO_INDEX)
		len = snprintf(out, CONF_LABEL_SIZE, "%s", key.group);
	else
		len = snprintf(out, CONF_LABEL_SIZE, "%s[%d]", key.group, key.index);
	if (key.name)
		snprintf(out + len, (size_t)(CONF_LABEL_SIZE - len), ".%s", key.name);
	return out;
}

static config_setting_t *conf_state_find_group(const struct conf_state *state, struct conf_key key)
{
	config_setting_t *group = config_setting_get_member(config_root_setting(&state->config), key.group);

	if (!group || key.index == CONF_NO_INDEX || !config_setting_is_list(group))
		return group;
	return config_setting_get_elem(group, (unsigned int)key.index);
}

config_setting_t *conf_state_find(const struct conf_state *state, struct conf_key key)
{
	config_setting_t *group = conf_state_find_group(state, key);

	if (!group || !key.name)
		return group;
	return config_setting_is_group(group) ? config_setting_lookup(group, key.name) : NULL;
}

const char *conf_state_place(const struct conf_state *state, const config_setting_t *setting, unsigned int *line)
{
	return conf_source_place(&state->source, setting ? config_setting_source_line(setting) : 0, line);
}

static void conf_state_add(struct conf_state *state, const config_setting_t *at, const char *label, const char *fmt, va_list args)
	__attribute__((format(printf, 4, 0)));

static void conf_state_add(struct conf_state *state, const config_setting_t *at, const char *label, const char *fmt, va_list args)
{
	char text[CONF_STATE_TEXT];
	unsigned int line;
	const char *file = conf_state_place(state, at, &line);

	vsnprintf(text, sizeof(text), fmt, args);
	if (label)
		conf_report_add(&state->report, file, line, "%s: %s", label, text);
	else
		conf_report_add(&state->report, file, line, "%s", text);
}

void conf_state_error(struct conf_state *state, config_setting_t *at, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	conf_state_add(state, at, NULL, fmt, args);
	va_end(args);
	if (at)
		config_setting_set_hook(at, &conf_state_mark);
}

static const config_setting_t *conf_state_nearest(const struct conf_state *state, struct conf_key key)
{
	const config_setting_t *setting = conf_state_find(state, key);

	return setting ? setting : conf_state_find_group(state, key);
}

void conf_state_refuse(struct conf_state *state, struct conf_key key, const char *fmt, ...)
{
	config_setting_t *setting = conf_state_find(state, key);
	char label[CONF_LABEL_SIZE];
	va_list args;

	va_start(args, fmt);
	conf_state_add(state, conf_state_nearest(state, key), conf_state_label(key, label), fmt, args);
	va_end(args);
	if (setting)
		config_setting_set_hook(setting, &conf_state_mark);
}

void conf_state_contradict(struct conf_state *state, struct conf_key key, const char *fmt, ...)
{
	char label[CONF_LABEL_SIZE];
	va_list args;

	va_start(args, fmt);
	conf_state_add(state, conf_state_nearest(state, key), conf_state_label(key, label), fmt, args);
	va_end(args);
}

static bool conf_state_is_marked(const config_setting_t *setting)
{
	return setting && config_setting_get_hook(setting) == &conf_state_mark;
}

bool conf_state_usable(const struct conf_state *state, struct conf_key key)
{
	return !conf_state_is_marked(conf_state_find(state, key)) && !conf_state_is_marked(conf_state_find_group(state, key));
}
