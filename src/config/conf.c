/* conf.c - loading a configuration file: walks what libconfig parsed along the option table. */
#include "config/conf.h"

#include "config/conf_check.h"
#include "config/conf_group.h"
#include "config/conf_names.h"
#include "config/conf_state.h"
#include "config/conf_value.h"

#include <stdio.h>
#include <string.h>

#define CONF_NAME_SIZE 80 /* longer names are cut: they match no option */

/* One group, or element of a list, or nested group, that is being read. */
struct conf_walk {
	struct conf_state *state;
	struct conf_key key; /* of the group */
	const char *nested;  /* "" or "backoff." */
	config_setting_t *from;
	void *base;
};

/* The label of a name in the walked group: "handlers[0].backoff.base". */
static char *conf_walk_label(const struct conf_walk *walk, const char *name, char *out)
{
	char dotted[CONF_NAME_SIZE];
	struct conf_key key = walk->key;

	snprintf(dotted, sizeof(dotted), "%s%s", walk->nested, name);
	key.name = dotted;
	return conf_state_label(key, out);
}

static void conf_walk_unknown(const struct conf_walk *walk, config_setting_t *setting)
{
	const char *name = config_setting_name(setting);
	char label[CONF_LABEL_SIZE];
	struct buf hint;

	buf_init(&hint, 768);
	conf_names_suggest(walk->key.group, walk->nested, name, &hint);
	conf_state_error(walk->state, setting, "%s: unknown option%s", conf_walk_label(walk, name, label), hint.data);
	buf_free(&hint);
}

static void conf_walk(const struct conf_walk *walk);

/* A group within a group. There is one level of them: no option has two dots. */
static void conf_walk_nested(const struct conf_walk *walk, config_setting_t *setting)
{
	char label[CONF_LABEL_SIZE], nested[CONF_NAME_SIZE];
	struct conf_walk inner = *walk;

	if (!config_setting_is_group(setting)) {
		conf_state_error(walk->state, setting, "%s: must be a group: write { ... }",
				 conf_walk_label(walk, config_setting_name(setting), label));
		return;
	}
	snprintf(nested, sizeof(nested), "%s.", config_setting_name(setting));
	inner.nested = nested;
	inner.from = setting;
	conf_walk(&inner);
}

static void conf_walk(const struct conf_walk *walk)
{
	int count = config_setting_length(walk->from);

	for (int i = 0; i < count; i++) {
		config_setting_t *setting = config_setting_get_elem(walk->from, (unsigned int)i);
		char name[CONF_NAME_SIZE], label[CONF_LABEL_SIZE];
		const struct conf_option *option;

		snprintf(name, sizeof(name), "%s%s", walk->nested, config_setting_name(setting));
		option = conf_names_find(walk->key.group, name);
		if (option)
			conf_value_read(walk->state, option, setting, conf_walk_label(walk, config_setting_name(setting), label),
					walk->base);
		else if (!walk->nested[0] && conf_names_is_nested(walk->key.group, name))
			conf_walk_nested(walk, setting);
		else
			conf_walk_unknown(walk, setting);
	}
}

static void conf_require(struct conf_state *state, struct conf_key key)
{
	for (size_t i = 0; i < conf_option_count; i++) {
		const struct conf_option *option = &conf_options[i];
		struct conf_key wanted = {key.group, key.index, option->name};

		if (option->required && !strcmp(option->group, key.group) && !conf_state_find(state, wanted))
			conf_state_refuse(state, wanted, "is required: %s", option->help);
	}
}

static void conf_read_element(struct conf_state *state, const struct conf_group *group, int index, config_setting_t *from)
{
	struct conf_walk walk = {.state = state, .key = {group->name, index, NULL}, .nested = "", .from = from};
	char label[CONF_LABEL_SIZE];

	if (!config_setting_is_group(from)) {
		conf_state_error(state, from, "%s: must be a group: write { ... }", conf_state_label(walk.key, label));
		return;
	}
	walk.base = conf_group_at(group, state->settings, index == CONF_NO_INDEX ? 0 : (size_t)index);
	conf_walk(&walk);
	conf_require(state, walk.key);
}

static void conf_read_list(struct conf_state *state, const struct conf_group *group, config_setting_t *from)
{
	int count = config_setting_length(from);

	if (!config_setting_is_list(from)) {
		conf_state_error(state, from, "%s: must be a list of groups: write ( { ... }, { ... } )", group->name);
		return;
	}
	if (count < group->fewest || count > group->most) {
		conf_state_error(state, from, "%s: must have %d to %d groups, not %d", group->name, group->fewest, group->most,
				 count);
		return;
	}
	for (int i = 0; i < count; i++)
		conf_read_element(state, group, i, config_setting_get_elem(from, (unsigned int)i));
}

static void conf_read_unknown(struct conf_state *state, config_setting_t *setting)
{
	const char *name = config_setting_name(setting);
	struct buf hint;

	buf_init(&hint, 768);
	conf_names_suggest(NULL, "", name, &hint);
	conf_state_error(state, setting, "%.*s: unknown group%s", CONF_NAME_SIZE, name, hint.data);
	buf_free(&hint);
}

/* How many elements a group's list gets: as many as will be read. */
static size_t conf_count(const struct conf_group *group, config_setting_t *from)
{
	if (!from || !config_setting_is_list(from))
		return (size_t)group->absent;
	return config_setting_length(from) > group->most ? 0 : (size_t)config_setting_length(from);
}

static void conf_read(struct conf_state *state)
{
	config_setting_t *root = config_root_setting(&state->config);
	int count = config_setting_length(root);

	for (size_t i = 0; i < conf_group_count; i++)
		if (!conf_group_make(&conf_groups[i], state->settings,
				     conf_count(&conf_groups[i], config_setting_get_member(root, conf_groups[i].name))))
			state->report.no_memory = true;
	for (int i = 0; i < count && !state->report.no_memory; i++) {
		config_setting_t *setting = config_setting_get_elem(root, (unsigned int)i);
		const struct conf_group *group = conf_group_find(config_setting_name(setting));

		if (!group)
			conf_read_unknown(state, setting);
		else if (group->kind == CONF_GROUP_ONE)
			conf_read_element(state, group, CONF_NO_INDEX, setting);
		else
			conf_read_list(state, group, setting);
	}
}

static void conf_parse(struct conf_state *state)
{
	const char *text, *hint = "";
	unsigned int line;
	const char *file;

	if (config_read_string(&state->config, state->source.text.data))
		return;
	text = config_error_text(&state->config);
	if (!strcmp(text, "syntax error"))
		hint = ": write name = value; with strings in double quotes";
	file = conf_source_place(&state->source, (uint32_t)config_error_line(&state->config), &line);
	conf_report_add(&state->report, file, line, "%s, here or just before%s", text, hint);
}

/* Reads and checks what was parsed, in full: one error does not hide the others. */
static void conf_make(struct conf_state *state, const char *name)
{
	void (*const steps[])(struct conf_state *) = {conf_read, conf_grammar_check, conf_check, conf_secret_read,
						      conf_user_resolve};

	state->settings = settings_new();
	if (!state->settings || !(state->settings->file = strdup(name)))
		state->report.no_memory = true;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !state->report.no_memory; i++)
		steps[i](state);
}

/* The source is read: makes the settings, and frees the state. */
static enum lh_err conf_finish(struct conf_state *state, const char *name, struct settings **out)
{
	enum lh_err err = LH_OK;

	if (!state->report.failed && !state->report.no_memory)
		conf_parse(state);
	if (!state->report.failed && !state->report.no_memory)
		conf_make(state, name);
	if (state->report.no_memory)
		err = LH_ERR_MEMORY;
	else if (state->report.failed)
		err = LH_ERR_INPUT;
	if (err)
		settings_unref(state->settings);
	else
		*out = state->settings;
	config_destroy(&state->config);
	conf_source_free(&state->source);
	return err;
}

static void conf_begin(struct conf_state *state, struct conf_errors *errors)
{
	*state = (struct conf_state){.settings = NULL};
	conf_report_init(&state->report, errors);
	conf_source_init(&state->source, &state->report);
	config_init(&state->config);
}

enum lh_err conf_load(const char *file, struct settings **out, struct conf_errors *errors)
{
	struct conf_state state;

	conf_begin(&state, errors);
	conf_source_read_file(&state.source, file);
	return conf_finish(&state, file, out);
}

enum lh_err conf_load_text(const char *text, const char *name, struct settings **out, struct conf_errors *errors)
{
	struct conf_state state;

	conf_begin(&state, errors);
	conf_source_read_text(&state.source, text, name);
	return conf_finish(&state, name, out);
}
