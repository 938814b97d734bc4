/* cgroup.c - see cgroup.h: the group of one run. cgroup_take.c has how the instance comes by its own. */
#include "runner/cgroup.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "runner/oom.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CGROUP_PREFIX "run-"
#define CGROUP_NAME CGROUP_PREFIX "%d-%" PRIu64 /* the runner's process id, so that those of a dead one are known */
#define CGROUP_NAME_SIZE 64
#define CGROUP_TEXT_BYTES 4096
#define CGROUP_PERIOD_US 100000 /* the kernel's own default */
#define CGROUP_STALE_MS 500     /* how long what a dead runner left may take to end */
#define CGROUP_LOOK_MS 1000
#define CGROUP_PAUSE_MS 5

int cgroup_write(int directory, const char *name, const char *text)
{
	int fd = openat(directory, name, O_WRONLY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		error = errno;
	close(fd);
	return error;
}

/* The first bytes of a file; "" when it is not there. */
static void cgroup_read(int directory, const char *name, char *text, size_t size)
{
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
}

/* The number of a process; 0 for anything else. */
static pid_t cgroup_pid(const char *text)
{
	uint64_t pid = 0;
	struct fault f;

	return parse_u64(text, 1, INT32_MAX, &pid, &f) == LH_OK ? (pid_t)pid : 0;
}

/* What cgroup.kill does, for kernels before 5.14 that do not have it. Whoever forks meanwhile is caught the next time. */
static void cgroup_kill_each(int fd)
{
	char text[CGROUP_TEXT_BYTES], *save = NULL;

	cgroup_read(fd, "cgroup.procs", text, sizeof(text));
	for (char *at = strtok_r(text, "\n", &save); at != NULL; at = strtok_r(NULL, "\n", &save)) {
		pid_t pid = cgroup_pid(at);

		if (pid > 1)
			(void)kill(pid, SIGKILL);
	}
}

void cgroup_kill(int fd)
{
	if (cgroup_write(fd, "cgroup.kill", "1") != 0)
		cgroup_kill_each(fd);
}

bool cgroup_is_empty(int fd)
{
	char text[CGROUP_TEXT_BYTES];

	cgroup_read(fd, "cgroup.events", text, sizeof(text));
	return strstr(text, "populated 0") != NULL;
}

uint64_t cgroup_oom_kills(int fd)
{
	char text[CGROUP_TEXT_BYTES];
	uint64_t count = 0;

	cgroup_read(fd, "memory.events", text, sizeof(text));
	return oom_parse(text, &count) ? count : 0;
}

/* A handler that may write there can have made groups below its own. */
static void cgroup_remove_below(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (directory == NULL) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(directory)) != NULL) {
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			cgroup_remove_below(fd, entry->d_name);
	}
	closedir(directory);
	(void)unlinkat(parent, name, AT_REMOVEDIR);
}

/* The runner that made a group of this name; 0 when it is none of ours. */
static pid_t cgroup_maker(const char *name)
{
	char number[16];
	size_t len;

	if (strncmp(name, CGROUP_PREFIX, strlen(CGROUP_PREFIX)) != 0)
		return 0;
	name += strlen(CGROUP_PREFIX);
	len = strcspn(name, "-");
	if (name[len] != '-' || len >= sizeof(number))
		return 0;
	snprintf(number, sizeof(number), "%.*s", (int)len, name);
	return cgroup_pid(number);
}

/* Whether a runner is alive: it is in the leaf, where the dead are not listed, and where a number that has become another's is not
 * either. */
static bool cgroup_lives(int base, pid_t runner)
{
	char text[CGROUP_TEXT_BYTES], *save = NULL;
	bool found = false;

	cgroup_read(base, CGROUP_LEAF "/cgroup.procs", text, sizeof(text));
	for (char *at = strtok_r(text, "\n", &save); at != NULL && !found; at = strtok_r(NULL, "\n", &save))
		found = cgroup_pid(at) == runner;
	return found;
}

/* Returns false when it is not empty yet. */
static bool cgroup_remove_one(int base, const char *name)
{
	int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool empty;

	if (fd < 0)
		return true;
	cgroup_kill(fd);
	empty = cgroup_is_empty(fd);
	close(fd);
	if (empty)
		cgroup_remove_below(base, name);
	return empty;
}

/* Those of runners that are dead; first: before this one has made any, so that what has its number is a dead one's too. Returns
 * false when some are still to come. */
static bool cgroup_remove_stale(struct cgroup_base *base, bool first)
{
	int fd = openat(base->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	bool done = true;

	base->others = false;
	base->looked_ms = clock_boot_ms();
	if (directory == NULL) {
		if (fd >= 0)
			close(fd);
		return true;
	}
	while ((entry = readdir(directory)) != NULL) {
		pid_t runner = cgroup_maker(entry->d_name);

		if (runner <= 1 || (runner == getpid() && !first))
			continue;
		if (runner != getpid() && cgroup_lives(base->fd, runner))
			base->others = true;
		else
			done = cgroup_remove_one(base->fd, entry->d_name) && done;
	}
	base->others = base->others || !done;
	closedir(directory);
	return done;
}

static int cgroup_limit(int fd, int64_t memory, int64_t cpu_percent)
{
	char text[64];
	int error = 0;

	if (memory > 0) {
		snprintf(text, sizeof(text), "%" PRId64, memory);
		error = cgroup_write(fd, "memory.max", text);
		/* All of a run or nothing: half a handler is no use to anyone. Kernels before 4.19 kill one process. */
		(void)cgroup_write(fd, "memory.oom.group", "1");
	}
	if (error == 0 && cpu_percent > 0) {
		snprintf(text, sizeof(text), "%" PRId64 " %d", cpu_percent * (CGROUP_PERIOD_US / 100), CGROUP_PERIOD_US);
		error = cgroup_write(fd, "cpu.max", text);
	}
	return error;
}

int cgroup_make(struct cgroup_base *base, uint64_t run, int64_t memory, int64_t cpu_percent, int *fd)
{
	char name[CGROUP_NAME_SIZE];
	int error;

	if (base->others && clock_boot_ms() - base->looked_ms >= CGROUP_LOOK_MS)
		(void)cgroup_remove_stale(base, false);
	snprintf(name, sizeof(name), CGROUP_NAME, (int)getpid(), run);
	if (mkdirat(base->fd, name, 0755) != 0)
		return errno;
	*fd = openat(base->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	error = *fd < 0 ? errno : cgroup_limit(*fd, memory, cpu_percent);
	if (error != 0) {
		if (*fd >= 0)
			close(*fd);
		*fd = -1;
		(void)unlinkat(base->fd, name, AT_REMOVEDIR);
	}
	return error;
}

int cgroup_enter(int fd)
{
	return cgroup_write(fd, "cgroup.procs", "0");
}

void cgroup_remove(const struct cgroup_base *base, uint64_t run, int fd)
{
	char name[CGROUP_NAME_SIZE];

	close(fd);
	snprintf(name, sizeof(name), CGROUP_NAME, (int)getpid(), run);
	if (unlinkat(base->fd, name, AT_REMOVEDIR) != 0 && errno == EBUSY)
		cgroup_remove_below(base->fd, name);
}

void cgroup_base_open(struct cgroup_base *base)
{
	const char *value = getenv(CGROUP_VARIABLE), *directory = value == NULL ? NULL : strchr(value, ':');
	int64_t until_ms = clock_boot_ms() + CGROUP_STALE_MS;

	*base = (struct cgroup_base){.fd = -1};
	if (directory == NULL)
		return;
	base->always = strncmp(value, "always:", 7) == 0;
	base->fd = open(directory + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (base->fd < 0) {
		log_error("runner", "cannot open the control group %s: %s", directory + 1, strerror(errno));
		return;
	}
	while (!cgroup_remove_stale(base, true) && clock_boot_ms() < until_ms)
		(void)poll(NULL, 0, CGROUP_PAUSE_MS);
}

void cgroup_base_close(struct cgroup_base *base)
{
	if (base->fd >= 0)
		close(base->fd);
	base->fd = -1;
}
