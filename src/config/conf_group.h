/* conf_group.h - the groups of a configuration file and their structs in settings.h (layer: config, private to this
 * folder; main thread). */
#ifndef LEASEHOLD_CONFIG_CONF_GROUP_H
#define LEASEHOLD_CONFIG_CONF_GROUP_H

#include "model/settings.h"

#include <stdbool.h>
#include <stddef.h>

enum conf_group_kind { CONF_GROUP_ONE, CONF_GROUP_POOLS, CONF_GROUP_HANDLERS };

struct conf_group {
	const char *name;
	enum conf_group_kind kind; /* all but CONF_GROUP_ONE are lists of groups: ( { ... }, { ... } ) */
	size_t offset;             /* of its struct in struct settings; CONF_GROUP_ONE only */
	int fewest, most;          /* elements of a list that is in the file */
	int absent;                /* elements, all defaults, when it is not */
};

extern const struct conf_group conf_groups[];
extern const size_t conf_group_count;

const struct conf_group *conf_group_find(const char *name); /* NULL when there is none */

/* The struct of the group, or of an element of it; length is 1 for a group that is no list. */
void *conf_group_at(const struct conf_group *group, struct settings *settings, size_t index);
const void *conf_group_at_const(const struct conf_group *group, const struct settings *settings, size_t index);
size_t conf_group_length(const struct conf_group *group, const struct settings *settings);

/* Makes the elements of a list (count of them; 1 otherwise) and fills in every default. Returns false without memory. */
bool conf_group_make(const struct conf_group *group, struct settings *settings, size_t count);

#endif
