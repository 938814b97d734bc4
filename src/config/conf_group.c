/* conf_group.c - the groups of a configuration file, and their defaults. */
#include "config/conf_group.h"

#include "config/conf.h"
#include "config/conf_value.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct conf_group conf_groups[] = {
	{"database", CONF_GROUP_ONE, offsetof(struct settings, database), 0, 0, 0},
	{"instance", CONF_GROUP_ONE, offsetof(struct settings, instance), 0, 0, 0},
	{"lease", CONF_GROUP_ONE, offsetof(struct settings, lease), 0, 0, 0},
	{"pools", CONF_GROUP_POOLS, 0, 1, 64, 1},
	{"handlers", CONF_GROUP_HANDLERS, 0, 0, 1024, 0},
	{"recovery", CONF_GROUP_ONE, offsetof(struct settings, recovery), 0, 0, 0},
	{"retention", CONF_GROUP_ONE, 0, 0, 0, 0},
	{"log", CONF_GROUP_ONE, 0, 0, 0, 0},
};

const size_t conf_group_count = sizeof(conf_groups) / sizeof(conf_groups[0]);

const struct conf_group *conf_group_find(const char *name)
{
	for (size_t i = 0; i < conf_group_count; i++)
		if (!strcmp(conf_groups[i].name, name))
			return &conf_groups[i];
	return NULL;
}

void *conf_group_at(const struct conf_group *group, struct settings *settings, size_t index)
{
	if (group->kind == CONF_GROUP_POOLS)
		return &settings->pools[index];
	if (group->kind == CONF_GROUP_HANDLERS)
		return &settings->handlers[index];
	return (char *)settings + group->offset;
}

const void *conf_group_at_const(const struct conf_group *group, const struct settings *settings, size_t index)
{
	if (group->kind == CONF_GROUP_POOLS)
		return &settings->pools[index];
	if (group->kind == CONF_GROUP_HANDLERS)
		return &settings->handlers[index];
	return (const char *)settings + group->offset;
}

size_t conf_group_length(const struct conf_group *group, const struct settings *settings)
{
	if (group->kind == CONF_GROUP_POOLS)
		return settings->pool_count;
	if (group->kind == CONF_GROUP_HANDLERS)
		return settings->handler_count;
	return 1;
}

/* Two a processor that we may use; a container or taskset may leave us fewer than the machine has. */
static int64_t conf_group_default_threads(void)
{
	cpu_set_t cpus;
	int64_t threads;

	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		threads = 2 * (int64_t)CPU_COUNT(&cpus);
	else
		threads = 2 * (int64_t)sysconf(_SC_NPROCESSORS_ONLN);
	return threads < 1 ? 1 : threads > 1024 ? 1024 : threads;
}

/* The host name, with what an instance's name may not hold replaced. */
static char *conf_group_default_name(void)
{
	char name[65];

	if (gethostname(name, sizeof(name)))
		name[0] = '\0';
	name[sizeof(name) - 1] = '\0';
	for (char *c = name; *c; c++)
		if (*c <= 0x20 || *c >= 0x7f)
			*c = '-';
	return strdup(name[0] ? name : "localhost");
}

/* Those that conf_option.computed names. */
static bool conf_group_compute(const struct conf_group *group, struct settings *settings, size_t index)
{
	if (group->kind == CONF_GROUP_POOLS)
		settings->pools[index].threads = conf_group_default_threads();
	if (group->kind == CONF_GROUP_HANDLERS)
		settings->handlers[index].limits = (struct limit_settings){-1, -1, -1, -1, -1, -1};
	if (strcmp(group->name, "instance") != 0)
		return true;
	settings->instance.name = conf_group_default_name();
	return settings->instance.name;
}

static bool conf_group_allocate(const struct conf_group *group, struct settings *settings, size_t count)
{
	if (group->kind == CONF_GROUP_ONE || !count)
		return true;
	if (group->kind == CONF_GROUP_POOLS) {
		settings->pools = calloc(count, sizeof(*settings->pools));
		settings->pool_count = settings->pools ? count : 0;
		return settings->pools;
	}
	settings->handlers = calloc(count, sizeof(*settings->handlers));
	settings->handler_count = settings->handlers ? count : 0;
	return settings->handlers;
}

bool conf_group_make(const struct conf_group *group, struct settings *settings, size_t count)
{
	if (!conf_group_allocate(group, settings, count))
		return false;
	for (size_t index = 0; index < conf_group_length(group, settings); index++) {
		if (!conf_group_compute(group, settings, index))
			return false;
		for (size_t i = 0; i < conf_option_count; i++)
			if (!strcmp(conf_options[i].group, group->name) &&
			    !conf_value_default(&conf_options[i], conf_group_at(group, settings, index)))
				return false;
	}
	return true;
}
