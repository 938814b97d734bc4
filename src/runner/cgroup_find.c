/* cgroup_find.c - see cgroup_find.h. */
#include "runner/cgroup_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CGROUP_FIND_FIELDS 6 /* of a line of mountinfo, before the optional ones */

/* Whether word is one of a list. */
static bool cgroup_find_has(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
		if (strcspn(at, ",") == len && strncmp(at, word, len) == 0)
			return true;
	}
	return false;
}

/* One line of /proc/self/cgroup, "NUMBER:CONTROLLERS:PATH": the path, when it is that of the hierarchy asked for. */
static const char *cgroup_find_group(char *line, const char *controller)
{
	char *controllers = strchr(line, ':'), *path;

	path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
	if (path == NULL)
		return NULL;
	*controllers++ = '\0';
	*path++ = '\0';
	if (controller == NULL ? strcmp(line, "0") != 0 || controllers[0] != '\0' : !cgroup_find_has(controllers, controller))
		return NULL;
	return path[0] == '/' ? path : NULL;
}

/* Blanks and the like are written as \040. */
static void cgroup_find_unescape(char *text)
{
	char *to = text;

	for (const char *at = text; *at != '\0'; to++) {
		if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' && at[3] >= '0' && at[3] <= '7') {
			*to = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
			at += 4;
		} else {
			*to = *at++;
		}
	}
	*to = '\0';
}

/* What of path lies below root; NULL when it does not. */
static const char *cgroup_find_below(const char *path, const char *root)
{
	size_t len = strlen(root);

	if (strcmp(root, "/") == 0)
		return path;
	if (strncmp(path, root, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return NULL;
	return path[len] == '\0' ? "/" : path + len;
}

/* One line of mountinfo: NUMBER PARENT DEVICE ROOT MOUNT-POINT OPTIONS [MORE ...] - TYPE SOURCE SUPER-OPTIONS */
static bool cgroup_find_mount(char *line, const char *controller, const char *group, struct cgroup_place *place)
{
	char *fields[CGROUP_FIND_FIELDS], *end = strstr(line, " - "), *type, *source, *options, *rest, *save = NULL;
	const char *below;
	int len;

	if (end == NULL)
		return false;
	*end = '\0';
	type = strtok_r(end + 3, " \n", &save);
	source = strtok_r(NULL, " \n", &save);
	options = strtok_r(NULL, " \n", &save);
	if (type == NULL || source == NULL || options == NULL)
		return false;
	if (strcmp(type, controller == NULL ? "cgroup2" : "cgroup") != 0)
		return false;
	if (controller != NULL && !cgroup_find_has(options, controller))
		return false;
	rest = line;
	for (int i = 0; i < CGROUP_FIND_FIELDS; i++) {
		fields[i] = strtok_r(rest, " ", &save);
		rest = NULL;
		if (fields[i] == NULL)
			return false;
	}
	cgroup_find_unescape(fields[3]);
	cgroup_find_unescape(fields[4]);
	below = cgroup_find_below(group, fields[3]);
	/* A group outside of our name space is shown as one above its root. */
	if (below == NULL || strncmp(below, "/..", 3) == 0)
		return false;
	len = snprintf(place->path, sizeof(place->path), "%s%s", fields[4], strcmp(below, "/") == 0 ? "" : below);
	if (len <= 0 || (size_t)len >= sizeof(place->path))
		return false;
	len = snprintf(place->mount, sizeof(place->mount), "%s", fields[4]);
	return (size_t)len < sizeof(place->mount);
}

/* Calls take for each line of a file until it has what it wants. */
static bool cgroup_find_line(const char *proc, const char *name, bool (*take)(char *line, void *arg), void *arg)
{
	char path[PATH_MAX], *line = NULL;
	bool found = false;
	size_t room = 0;
	ssize_t len;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/%s", proc, name) >= (int)sizeof(path))
		return false;
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	while (!found && (len = getline(&line, &room, f)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		found = take(line, arg);
	}
	free(line);
	fclose(f);
	return found;
}

struct cgroup_find_search {
	const char *controller;
	char group[PATH_MAX];
	struct cgroup_place *place;
};

static bool cgroup_find_take_group(char *line, void *arg)
{
	struct cgroup_find_search *search = arg;
	const char *group = cgroup_find_group(line, search->controller);
	int len = group == NULL ? 0 : snprintf(search->group, sizeof(search->group), "%s", group);

	return len > 0 && (size_t)len < sizeof(search->group);
}

static bool cgroup_find_take_mount(char *line, void *arg)
{
	struct cgroup_find_search *search = arg;

	return cgroup_find_mount(line, search->controller, search->group, search->place);
}

bool cgroup_find(const char *proc, const char *controller, struct cgroup_place *place)
{
	struct cgroup_find_search search = {.controller = controller, .place = place};

	return cgroup_find_line(proc, "cgroup", cgroup_find_take_group, &search) &&
	       cgroup_find_line(proc, "mountinfo", cgroup_find_take_mount, &search);
}
