/* conf_option.h - questions to one row of the option table (layer: config, private to this folder; pure). See also conf.h. */
#ifndef LEASEHOLD_CONFIG_CONF_OPTION_H
#define LEASEHOLD_CONFIG_CONF_OPTION_H

#include "config/conf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value as the option's file would write it, "90s", "64KiB", "5". out is at least 32 bytes. Returns out. */
char *conf_option_format(const struct conf_option *option, int64_t value, char *out, size_t size);

/* Is a number (or a length) within the option's range? */
bool conf_option_allows(const struct conf_option *option, int64_t value);

/* The position of word among the choices, -1 when it is none. */
int conf_option_choice(const struct conf_option *option, const char *word);

#endif
