/* cgroup_take.c - how an instance comes by control groups of its own: see cgroup.h. */
#include "runner/cgroup.h"

#include "runner/cgroup_find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CGROUP_TAKE_LIST_BYTES 512

static const struct {
	unsigned int need;
	const char *controller;
} cgroup_take_controllers[] = {
	{SETTINGS_GROUPS_MEMORY, "memory"},
	{SETTINGS_GROUPS_CPU, "cpu"},
};
#define CGROUP_TAKE_CONTROLLERS (sizeof(cgroup_take_controllers) / sizeof(cgroup_take_controllers[0]))

/* Writes one word to a file of a group. Returns 0 or errno. */
static int cgroup_take_write(const char *directory, const char *name, const char *text)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
		return ENAMETOOLONG;
	return cgroup_write(AT_FDCWD, path, text);
}

/* Whether a list of words in a file has this one. The list, as far as it was read, is in text. */
static bool cgroup_take_lists(const char *directory, const char *name, const char *word, char *text, size_t size)
{
	char path[PATH_MAX], copy[CGROUP_TAKE_LIST_BYTES], *save = NULL;
	ssize_t n = -1;
	int fd;

	text[0] = '\0';
	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, size - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	snprintf(copy, sizeof(copy), "%s", text);
	for (const char *at = strtok_r(copy, " ", &save); at != NULL; at = strtok_r(NULL, " ", &save)) {
		if (strcmp(at, word) == 0)
			return true;
	}
	return false;
}

static enum lh_err cgroup_take_have(const char *directory, unsigned int needs, struct fault *f)
{
	char list[CGROUP_TAKE_LIST_BYTES];

	for (size_t i = 0; i < CGROUP_TAKE_CONTROLLERS; i++) {
		const char *controller = cgroup_take_controllers[i].controller;

		if ((needs & cgroup_take_controllers[i].need) == 0 ||
		    cgroup_take_lists(directory, "cgroup.controllers", controller, list, sizeof(list)))
			continue;
		return fault_set(f, LH_ERR_SYSTEM,
				 "the control group %s does not have the controller \"%s\" (it has: %s), because it was not "
				 "delegated, or is in use by cgroups of version 1",
				 directory, controller, list[0] == '\0' ? "none" : list);
	}
	return LH_OK;
}

static enum lh_err cgroup_take_find(struct cgroup_place *place, struct fault *f)
{
	if (cgroup_find("/proc/self", NULL, place))
		return LH_OK;
	return fault_set(f, LH_ERR_SYSTEM,
			 "no cgroup file system of version 2 is mounted that shows the control group of this process");
}

enum lh_err cgroup_check(unsigned int needs, struct fault *f)
{
	struct cgroup_place place;
	enum lh_err err = cgroup_take_find(&place, f);

	return err == LH_OK ? cgroup_take_have(place.mount, needs, f) : err;
}

/* Into the leaf, which is made if it is not there. */
static enum lh_err cgroup_take_move(const char *directory, struct fault *f)
{
	char leaf[PATH_MAX];
	int error;

	if (snprintf(leaf, sizeof(leaf), "%s/" CGROUP_LEAF, directory) >= (int)sizeof(leaf))
		return fault_set(f, LH_ERR_LIMIT, "the name of the control group %s is too long", directory);
	if (mkdir(leaf, 0755) != 0 && errno != EEXIST)
		return fault_set_errno(f, errno,
				       "cannot make groups in the control group %s, which must be this instance's own, as with "
				       "Delegate=yes in its unit",
				       directory);
	error = cgroup_take_write(leaf, "cgroup.procs", "0");
	if (error == 0)
		return LH_OK;
	(void)rmdir(leaf);
	return fault_set_errno(f, error, "cannot move into the control group %s", leaf);
}

static enum lh_err cgroup_take_enable(const char *directory, unsigned int needs, struct fault *f)
{
	char list[CGROUP_TAKE_LIST_BYTES], word[32], leaf[PATH_MAX];
	int error = 0;

	for (size_t i = 0; i < CGROUP_TAKE_CONTROLLERS && error == 0; i++) {
		const char *controller = cgroup_take_controllers[i].controller;

		snprintf(word, sizeof(word), "+%s", controller);
		if ((needs & cgroup_take_controllers[i].need) != 0 &&
		    !cgroup_take_lists(directory, "cgroup.subtree_control", controller, list, sizeof(list)))
			error = cgroup_take_write(directory, "cgroup.subtree_control", word);
	}
	if (error == 0)
		return LH_OK;
	(void)cgroup_take_write(directory, "cgroup.procs", "0");
	if (snprintf(leaf, sizeof(leaf), "%s/" CGROUP_LEAF, directory) < (int)sizeof(leaf))
		(void)rmdir(leaf);
	return fault_set_errno(f, error, "cannot hand down controllers in the control group %s%s", directory,
			       error == EBUSY ? ", because other processes are in it: it must be this instance's own" : "");
}

enum lh_err cgroup_take(unsigned int needs, bool always, struct fault *f)
{
	char value[PATH_MAX + 16];
	struct cgroup_place place;
	enum lh_err err = cgroup_take_find(&place, f);

	if (err == LH_OK)
		err = cgroup_take_have(place.path, needs, f);
	if (err == LH_OK)
		err = cgroup_take_move(place.path, f);
	if (err == LH_OK)
		err = cgroup_take_enable(place.path, needs, f);
	if (err != LH_OK)
		return err;
	snprintf(value, sizeof(value), "%s:%s", always ? "always" : "auto", place.path);
	return setenv(CGROUP_VARIABLE, value, 1) == 0 ? LH_OK : fault_set(f, LH_ERR_MEMORY, "no memory for a control group's name");
}
