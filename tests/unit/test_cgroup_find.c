/* test_cgroup_find.c - the group of a process and its place in the file system, on hosts and in containers of all sorts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runner/cgroup_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void write_file(const char *directory, const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void remove_file(const char *directory, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	assert_int_equal(unlink(path), 0);
}

#define V2 "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define HYBRID                                                                                                                   \
	"30 29 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"                                                          \
	"31 29 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct\n"                          \
	"32 29 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"

static void test_places(void **state)
{
	static const struct {
		const char *what, *cgroup, *mountinfo, *controller, *path, *mount; /* path NULL: not found */
	} table[] = {
		{"a service on a host of today", "0::/system.slice/leasehold@mail.service\n", V2, NULL,
		 "/sys/fs/cgroup/system.slice/leasehold@mail.service", "/sys/fs/cgroup"},
		{"the root of it", "0::/\n", V2, NULL, "/sys/fs/cgroup", "/sys/fs/cgroup"},
		{"both versions, the second", "7:memory:/a\n4:cpu,cpuacct:/b\n0::/c\n", HYBRID, NULL, "/sys/fs/cgroup/unified/c",
		 "/sys/fs/cgroup/unified"},
		{"both versions, the first", "7:memory:/a\n4:cpu,cpuacct:/b\n0::/c\n", HYBRID, "memory", "/sys/fs/cgroup/memory/a",
		 "/sys/fs/cgroup/memory"},
		{"a controller that shares its hierarchy", "7:memory:/a\n4:cpu,cpuacct:/b\n0::/c\n", HYBRID, "cpuacct",
		 "/sys/fs/cgroup/cpu,cpuacct/b", "/sys/fs/cgroup/cpu,cpuacct"},
		{"part of a controller's name", "7:memory:/a\n0::/c\n", HYBRID, "mem", NULL, NULL},
		{"a container that sees only its part", "0::/docker/x/sub\n",
		 "9 8 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n", NULL, "/sys/fs/cgroup/sub", "/sys/fs/cgroup"},
		{"exactly that part", "0::/docker/x\n", "9 8 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n", NULL,
		 "/sys/fs/cgroup", "/sys/fs/cgroup"},
		{"another that is called alike", "0::/docker/xy\n", "9 8 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
		 NULL, NULL, NULL},
		{"outside of the name space", "0::/../other\n", V2, NULL, NULL, NULL},
		{"blanks", "0::/a b\n", "9 8 0:26 / /mnt/c\\040d\\134 rw - cgroup2 cgroup2 rw\n", NULL, "/mnt/c d\\/a b",
		 "/mnt/c d\\"},
		{"a colon in the path", "0::/a:b\n", V2, NULL, "/sys/fs/cgroup/a:b", "/sys/fs/cgroup"},
		{"a mount that does not show it, then one that does", "0::/a/b\n",
		 "9 8 0:26 /x /mnt/x rw - cgroup2 cgroup2 rw\n9 8 0:26 /a /mnt/a rw - cgroup2 cgroup2 rw\n", NULL,
		 "/mnt/a/b", "/mnt/a"},
		{"the first version only", "7:memory:/a\n", HYBRID, NULL, NULL, NULL},
		{"a named hierarchy is not the second version", "0:name=systemd:/a\n", HYBRID, NULL, NULL, NULL},
		{"nothing mounted", "0::/a\n", "9 8 0:26 / / rw - ext4 /dev/sda rw\n", NULL, NULL, NULL},
		{"nothing at all", "", "", NULL, NULL, NULL},
		{"garbage", "0\n:\n::\n0:\n\n0::\n0::x\n", " - \n - cgroup2\n1 2 3 - cgroup2 a b\n-\n", NULL, NULL, NULL},
	};
	char directory[] = "/tmp/test_cgroup.XXXXXX";
	struct cgroup_place place;

	(void)state;
	assert_non_null(mkdtemp(directory));
	for (size_t i = 0; i < COUNT(table); i++) {
		bool found;

		write_file(directory, "cgroup", table[i].cgroup);
		write_file(directory, "mountinfo", table[i].mountinfo);
		found = cgroup_find(directory, table[i].controller, &place);
		if (found != (table[i].path != NULL) || (found && strcmp(place.path, table[i].path) != 0))
			fail_msg("%s: %s", table[i].what, found ? place.path : "not found");
		if (found)
			assert_string_equal(place.mount, table[i].mount);
	}
	remove_file(directory, "cgroup");
	assert_false(cgroup_find(directory, NULL, &place));
	remove_file(directory, "mountinfo");
	rmdir(directory);
}

/* Whatever this machine has: a place that is found is there, and lists us. */
static void test_this_process(void **state)
{
	struct cgroup_place place;
	char path[PATH_MAX + 16], line[32];
	bool listed = false;
	FILE *f;

	(void)state;
	if (!cgroup_find("/proc/self", NULL, &place))
		skip();
	snprintf(path, sizeof(path), "%s/cgroup.procs", place.path);
	f = fopen(path, "re");
	assert_non_null(f);
	while (!listed && fgets(line, sizeof(line), f) != NULL)
		listed = strtol(line, NULL, 10) == getpid();
	fclose(f);
	assert_true(listed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_this_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
