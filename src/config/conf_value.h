/* conf_value.h - one setting of a file into one field of settings.h (layer: config, private to this folder; main thread). */
#ifndef LEASEHOLD_CONFIG_CONF_VALUE_H
#define LEASEHOLD_CONFIG_CONF_VALUE_H

#include "config/conf.h"
#include "config/conf_state.h"

#include <stdbool.h>

/* Writes the option's default, if it has one, into the group's struct at base. Returns false without memory. */
bool conf_value_default(const struct conf_option *option, void *base) LH_MUST_CHECK;

/* Checks a setting's type and range and writes it, or reports what is wrong (label: "pools[0].threads"). */
void conf_value_read(struct conf_state *state, const struct conf_option *option, config_setting_t *setting, const char *label,
		     void *base);

/* Do two structs of the option's group have the same value? */
bool conf_value_equal(const struct conf_option *option, const void *a, const void *b);

#endif
