/* children.c - see children.h. */
#include "runner/children.h"

#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN_FIRST_ROOM 64
#define CHILDREN_READ_BYTES 4096
#define CHILDREN_STAT_BYTES 512

void children_init(struct children *c)
{
	memset(c, 0, sizeof(*c));
	c->fd = -1;
}

void children_free(struct children *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->pids);
	children_init(c);
}

static bool children_add(struct children *c, pid_t pid)
{
	if (c->count == c->room) {
		size_t room = c->room == 0 ? CHILDREN_FIRST_ROOM : c->room * 2;
		pid_t *pids = reallocarray(c->pids, room, sizeof(*pids));

		if (pids == NULL)
			return false;
		c->pids = pids;
		c->room = room;
	}
	c->pids[c->count++] = pid;
	return true;
}

/* Numbers and blanks, in as many reads as it takes; one number may lie in two of them. */
static bool children_read(struct children *c)
{
	char bytes[CHILDREN_READ_BYTES];
	long number = 0;
	ssize_t n;

	if (lseek(c->fd, 0, SEEK_SET) != 0)
		return false;
	while ((n = read(c->fd, bytes, sizeof(bytes))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (bytes[i] >= '0' && bytes[i] <= '9') {
				number = number * 10 + (bytes[i] - '0');
			} else if (number > 0) {
				if (!children_add(c, (pid_t)number))
					return false;
				number = 0;
			}
		}
	}
	return n == 0;
}

/* A whole word that is the number of a process; 0 when it is not. */
static pid_t children_number(const char *word)
{
	uint64_t number = 0;
	struct fault f;

	return parse_u64(word, 1, INT32_MAX, &number, &f) == LH_OK ? (pid_t)number : 0;
}

/* The parent of a process: the second word after the name, which itself may hold anything. */
static pid_t children_parent_of(int proc, const char *name)
{
	char path[64], text[CHILDREN_STAT_BYTES], *after, *rest = NULL;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.32s/stat", name);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	after = strrchr(text, ')');
	if (after == NULL || strtok_r(after + 1, " ", &rest) == NULL)
		return 0;
	after = strtok_r(NULL, " ", &rest);
	return after == NULL ? 0 : children_number(after);
}

/* Slow on a machine with many processes, so it is not done where there is no child at all. */
static bool children_scan(struct children *c)
{
	const pid_t self = getpid();
	const struct dirent *entry;
	siginfo_t info;
	bool good = true;
	DIR *proc;

	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD)
		return true;
	proc = opendir("/proc");
	if (proc == NULL)
		return false;
	while (good && (entry = readdir(proc)) != NULL) {
		pid_t pid = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? children_number(entry->d_name) : 0;

		if (pid > 0 && children_parent_of(dirfd(proc), entry->d_name) == self)
			good = children_add(c, pid);
	}
	closedir(proc);
	return good;
}

static void children_open(struct children *c)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	c->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (c->fd >= 0)
		return;
	c->absent = errno == ENOENT || errno == EACCES;
	c->scan = c->absent && access("/proc/self/stat", R_OK) == 0;
	c->absent = c->absent && !c->scan;
}

bool children_list(struct children *c)
{
	bool good = false;

	c->count = 0;
	if (c->fd < 0 && !c->scan)
		children_open(c);
	if (c->fd >= 0)
		good = children_read(c);
	else if (c->scan)
		good = children_scan(c);
	if (!good)
		c->count = 0;
	return good;
}
