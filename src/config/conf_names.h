/* conf_names.h - finding options by name, and what people may have meant (layer: config, private to this folder; pure). */
#ifndef LEASEHOLD_CONFIG_CONF_NAMES_H
#define LEASEHOLD_CONFIG_CONF_NAMES_H

#include "base/buf.h"
#include "config/conf.h"

#include <stdbool.h>

/* NULL when there is none. */
const struct conf_option *conf_names_find(const char *group, const char *name);

/* True when name is a nested group of the group: "backoff" in "handlers". */
bool conf_names_is_nested(const char *group, const char *name);

/* Appends what may have been meant by a name that the group does not have: "; did you mean \"threads\"?", or what the
 * group takes. nested is what names there start with: "" or "backoff.". group NULL: name stands for a group itself. */
void conf_names_suggest(const char *group, const char *nested, const char *name, struct buf *out);

#endif
