/* oom.c - see oom.h. */
#include "runner/oom.h"

#include "base/parse.h"
#include "runner/cgroup_find.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OOM_KEY "oom_kill "
#define OOM_TEXT_BYTES 16384 /* /proc/vmstat is the longest: some 5 KiB */

void oom_init(struct oom *o)
{
	*o = (struct oom){.fd = -1};
}

void oom_free(struct oom *o)
{
	if (o->fd >= 0)
		close(o->fd);
	oom_init(o);
}

bool oom_parse(const char *text, uint64_t *count)
{
	const char *at = text;
	char number[32];
	struct fault f;

	while (at != NULL && strncmp(at, OOM_KEY, strlen(OOM_KEY)) != 0) {
		at = strchr(at, '\n');
		at += at != NULL;
	}
	if (at == NULL)
		return false;
	at += strlen(OOM_KEY);
	snprintf(number, sizeof(number), "%.*s", (int)strcspn(at, "\n"), at);
	return parse_u64(number, 0, UINT64_MAX, count, &f) == LH_OK;
}

static bool oom_read(int fd, uint64_t *count)
{
	char text[OOM_TEXT_BYTES];
	size_t len = 0;
	ssize_t n;

	while (len + 1 < sizeof(text) && (n = pread(fd, text + len, sizeof(text) - 1 - len, (off_t)len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	return oom_parse(text, count);
}

/* Keeps a file that has the counter. */
static bool oom_try(struct oom *o, const char *directory, const char *name)
{
	char path[PATH_MAX];
	uint64_t count;

	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
		return false;
	o->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (o->fd >= 0 && oom_read(o->fd, &count))
		return true;
	if (o->fd >= 0)
		close(o->fd);
	o->fd = -1;
	return false;
}

/* A group without the controller is accounted to the nearest one above that has it. */
static bool oom_try_above(struct oom *o, struct cgroup_place *place, const char *name)
{
	while (!oom_try(o, place->path, name)) {
		char *slash = strrchr(place->path, '/');

		if (strcmp(place->path, place->mount) == 0 || slash == NULL)
			return false;
		*slash = '\0';
	}
	return true;
}

static void oom_open(struct oom *o)
{
	struct cgroup_place place;

	o->opened = true;
	if (cgroup_find("/proc/self", NULL, &place) && oom_try_above(o, &place, "memory.events"))
		return;
	if (cgroup_find("/proc/self", "memory", &place) && oom_try(o, place.path, "memory.oom_control"))
		return;
	(void)oom_try(o, "/proc", "vmstat");
}

uint64_t oom_count(struct oom *o, int64_t now_ms)
{
	uint64_t count;

	if (!o->opened)
		oom_open(o);
	if (o->fd >= 0 && oom_read(o->fd, &count))
		o->count = count;
	o->read_ms = now_ms;
	return o->count;
}

uint64_t oom_count_about(struct oom *o, int64_t now_ms)
{
	if (o->opened && now_ms >= o->read_ms && now_ms - o->read_ms < OOM_STALE_MS)
		return o->count;
	return oom_count(o, now_ms);
}
