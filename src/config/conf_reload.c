/* conf_reload.c - which differences between two settings a reload cannot bring about. */
#include "config/conf.h"
#include "config/conf_group.h"
#include "config/conf_state.h"
#include "config/conf_value.h"

#include <string.h>

static void conf_reload_add(struct buf *out, const char *label)
{
	buf_adds(out, out->len ? ", " : "");
	buf_adds(out, label);
}

static void conf_reload_compare(const struct conf_group *group, const struct settings *running, const struct settings *loaded,
				size_t index, struct buf *out)
{
	struct conf_key key = {group->name, group->kind == CONF_GROUP_ONE ? CONF_NO_INDEX : (int)index, NULL};
	const void *a = conf_group_at_const(group, running, index);
	const void *b = conf_group_at_const(group, loaded, index);
	char label[CONF_LABEL_SIZE];

	for (size_t i = 0; i < conf_option_count; i++) {
		const struct conf_option *option = &conf_options[i];

		if (option->reloads || strcmp(option->group, group->name) != 0 || conf_value_equal(option, a, b))
			continue;
		key.name = option->name;
		conf_reload_add(out, conf_state_label(key, label));
	}
}

/* Is there an option in the group that needs a restart? Else elements may come and go as well. */
static bool conf_reload_is_fixed(const struct conf_group *group)
{
	for (size_t i = 0; i < conf_option_count; i++)
		if (!conf_options[i].reloads && !strcmp(conf_options[i].group, group->name))
			return true;
	return false;
}

void conf_restart_needed(const struct settings *running, const struct settings *loaded, struct buf *out)
{
	for (size_t i = 0; i < conf_group_count; i++) {
		const struct conf_group *group = &conf_groups[i];
		size_t length = conf_group_length(group, running);

		if (!conf_reload_is_fixed(group))
			continue;
		if (length != conf_group_length(group, loaded)) {
			conf_reload_add(out, group->name);
			continue;
		}
		for (size_t index = 0; index < length; index++)
			conf_reload_compare(group, running, loaded, index, out);
	}
}
