/* conf_state.h - one load in progress (layer: config, private to this folder; main thread). The only header that knows
 * libconfig.
 *
 * An error at a setting marks it: what is known to be wrong is not judged by the later checks, which would only repeat
 * or contradict the first error. */
#ifndef LEASEHOLD_CONFIG_CONF_STATE_H
#define LEASEHOLD_CONFIG_CONF_STATE_H

#include "config/conf_report.h"
#include "config/conf_source.h"
#include "model/settings.h"

#include <libconfig.h>
#include <stdbool.h>

struct conf_state {
	struct conf_report report;
	struct conf_source source;
	config_t config;
	struct settings *settings;
};

#define CONF_LABEL_SIZE 160
#define CONF_NO_INDEX (-1)

/* One option of one group: group "pools", index 0, name "threads". index is CONF_NO_INDEX for a group that is there
 * once. name NULL: the group. */
struct conf_key {
	const char *group;
	int index;
	const char *name;
};

/* "pools[0].threads" into out, which has CONF_LABEL_SIZE bytes. Returns out. */
char *conf_state_label(struct conf_key key, char *out);

/* The setting of a key in the file, NULL where it is not set. */
config_setting_t *conf_state_find(const struct conf_state *state, struct conf_key key);

/* Adds an error at a setting (NULL: the file as a whole) and marks it. */
void conf_state_error(struct conf_state *state, config_setting_t *at, const char *fmt, ...) LH_PRINTF(3, 4);

/* As conf_state_error, at the key's setting or what comes nearest to it, with "pools[0].threads: " before the text. */
void conf_state_refuse(struct conf_state *state, struct conf_key key, const char *fmt, ...) LH_PRINTF(3, 4);

/* As conf_state_refuse without the mark: the value is good in itself, but not with another one. */
void conf_state_contradict(struct conf_state *state, struct conf_key key, const char *fmt, ...) LH_PRINTF(3, 4);

/* False when the key's setting, or its group, is already known to be wrong. */
bool conf_state_usable(const struct conf_state *state, struct conf_key key);

/* Where a setting stands, as file and line. */
const char *conf_state_place(const struct conf_state *state, const config_setting_t *setting, unsigned int *line);

#endif
