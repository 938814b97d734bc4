/* test_cgroup.c - runs in control groups of their own, on the real file system. Skipped, with the reason, where this process may
 * not make groups below its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "probe.h"
#include "runner/cgroup.h"
#include "runner/cgroup_find.h"
#include "runner/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct cgroup_place home; /* where we were started */
static char own[PATH_MAX + 64];  /* what stands for the instance's own group */
static char obstacle[512];       /* why there is none; "" when there is one */

static int put(const char *directory, const char *name, const char *text)
{
	char path[PATH_MAX + 128];
	int fd, error = 0;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		error = errno;
	close(fd);
	return error;
}

static bool has_controller(const char *directory, const char *controller)
{
	char path[PATH_MAX + 128], line[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.controllers", directory);
	f = fopen(path, "re");
	if (f == NULL || fgets(line, sizeof(line), f) == NULL)
		line[0] = '\0';
	if (f != NULL)
		fclose(f);
	line[strcspn(line, "\n")] = ' '; /* so that "cpu " is not found in "cpuset " */
	return strstr(line, controller) != NULL;
}

/* Before any test: into a group of our own, and from there into its leaf. */
static void move_in(void)
{
	unsigned int needs = SETTINGS_GROUPS;
	struct fault f;

	if (!cgroup_find("/proc/self", NULL, &home)) {
		snprintf(obstacle, sizeof(obstacle), "no cgroup file system of version 2 is mounted");
		return;
	}
	snprintf(own, sizeof(own), "%s/test_cgroup.%d", home.path, (int)getpid());
	if (mkdir(own, 0755) != 0 || put(own, "cgroup.procs", "0") != 0) {
		snprintf(obstacle, sizeof(obstacle), "no group can be made in %.200s: %s", home.path, strerror(errno));
		(void)rmdir(own);
		return;
	}
	/* All that can be had here. */
	needs |= has_controller(own, "memory") ? SETTINGS_GROUPS_MEMORY : 0u;
	needs |= has_controller(own, "cpu ") ? SETTINGS_GROUPS_CPU : 0u;
	if (cgroup_take(needs, true, &f) != LH_OK)
		snprintf(obstacle, sizeof(obstacle), "%s", f.text);
}

static void move_out(void)
{
	char leaf[PATH_MAX + 80];

	if (own[0] == '\0')
		return;
	(void)put(home.path, "cgroup.procs", "0");
	snprintf(leaf, sizeof(leaf), "%s/daemon", own);
	(void)rmdir(leaf);
	if (rmdir(own) != 0 && obstacle[0] == '\0')
		fprintf(stderr, "%s is left: %s\n", own, strerror(errno));
}

static int setup(void **state)
{
	return obstacle[0] != '\0' ? 0 : probe_setup(state);
}

static int teardown(void **state)
{
	return obstacle[0] != '\0' ? 0 : probe_teardown(state);
}

static void need_groups(void)
{
	if (obstacle[0] == '\0')
		return;
	print_message("%s\n", obstacle);
	skip();
}

static void group_of(const struct probe *h, char *path, size_t size)
{
	snprintf(path, size, "%s/run-%d-%llu", own, (int)probe_runner, (unsigned long long)h->run);
}

static void test_where_the_instance_is(void **state)
{
	char want[PATH_MAX + 80];
	struct cgroup_place place;

	(void)state;
	need_groups();
	assert_true(cgroup_find("/proc/self", NULL, &place));
	snprintf(want, sizeof(want), "%s/daemon", own);
	assert_string_equal(place.path, want);
	snprintf(want, sizeof(want), "always:%s", own);
	assert_string_equal(getenv(CGROUP_VARIABLE), want);
}

/* It is there while the handler runs, with all its processes, and gone afterwards, with what the handler made in it. */
static void test_a_group_for_each_run(void **state)
{
	const char rest[] = "cat /proc/self/cgroup; read x; exit 3";
	char path[PATH_MAX + 128], script[2 * PATH_MAX + 512], want[64];
	struct runner_report end;
	struct probe h;
	const char *text;

	(void)state;
	need_groups();
	for (int round = 0; round < 3; round++) {
		struct runner_command command = probe_defaults();

		h.run = command.run;
		group_of(&h, path, sizeof(path));
		if (round < 2)
			snprintf(script, sizeof(script), "setsid sleep 1000 & (setsid sleep 1000 >/dev/null 2>&1 3>&- &) ; %s",
				 rest);
		else
			snprintf(script, sizeof(script),
				 "mkdir -p '%s/below/it'; sleep 1000 & echo $! >'%s/below/it/cgroup.procs'; %s", path, path, rest);
		probe_start_shell(&h, command, script);
		probe_expect_started(&h);
		snprintf(want, sizeof(want), "/run-%d-%llu\n", (int)probe_runner, (unsigned long long)h.run);
		assert_int_equal(access(path, F_OK), 0);
		probe_close_stdin(&h);
		text = probe_read_all(&h);
		assert_non_null(strstr(text, want));
		end = probe_expect_ended(&h);
		assert_int_equal(WEXITSTATUS(end.wait_status), 3);
		assert_int_equal(end.group_gone, 1);
		assert_int_equal(end.oom, RUN_OOM_NONE);
		assert_int_equal(access(path, F_OK), -1);
	}
}

/* What a runner left that was killed: its successor ends and removes it. */
static void test_groups_of_a_dead_runner(void **state)
{
	char path[PATH_MAX + 128];
	struct runner_report news;
	struct probe h;
	pid_t stray;

	(void)state;
	need_groups();
	probe_start_shell(&h, probe_defaults(), "setsid sleep 1000 >/dev/null 2>&1 3>&- & echo $!; read x");
	probe_expect_started(&h);
	stray = (pid_t)probe_read_number(&h);
	group_of(&h, path, sizeof(path));
	assert_int_equal(kill(probe_runner, SIGKILL), 0);
	assert_false(probe_news(&h, &news));
	assert_int_equal(waitpid(probe_runner, NULL, 0), probe_runner);
	close(probe_socket);
	assert_int_equal(kill(stray, 0), 0);
	probe_spawn_runner();
	probe_expect_gone(stray);
	probe_close(&h);
	/* Once it answers, it has arranged itself. */
	probe_start_shell(&h, probe_defaults(), "exit 0");
	probe_expect_started(&h);
	assert_int_equal(probe_expect_ended(&h).group_gone, 1);
	assert_int_equal(access(path, F_OK), -1);
}

/* A process that goes on to another run takes its group along; it is removed with the process. */
static void test_group_of_a_process_that_goes_on(void **state)
{
	struct runner_command next;
	struct runner_report news;
	char path[PATH_MAX + 128];
	struct fault f;
	struct probe h;

	(void)state;
	need_groups();
	probe_start_shell(&h, probe_defaults(), "setsid sleep 1000 & read x; exit 4");
	probe_expect_started(&h);
	group_of(&h, path, sizeof(path));
	next = probe_defaults();
	next.verb = RUNNER_ASSIGN;
	next.next_run = next.run;
	next.run = h.run;
	assert_int_equal(runner_send(probe_socket, &next, NULL, &f), LH_OK);
	assert_true(probe_news(&h, &news));
	assert_int_equal(news.news, RUNNER_ASSIGNED);
	assert_int_equal(access(path, F_OK), 0);
	probe_close_stdin(&h);
	news = probe_expect_ended(&h);
	assert_int_equal(WEXITSTATUS(news.wait_status), 4);
	assert_int_equal(news.group_gone, 1);
	assert_int_equal(access(path, F_OK), -1);
}

/* In a container that is started again, the new runner often has the number of the old one. */
static void test_group_of_the_same_number(void **state)
{
	char path[PATH_MAX + 128];
	struct cgroup_base base;
	int fd = -1;

	(void)state;
	need_groups();
	snprintf(path, sizeof(path), "%s/run-%d-7", own, (int)getpid());
	assert_int_equal(mkdir(path, 0755), 0);
	cgroup_base_open(&base);
	assert_true(base.fd >= 0 && base.always);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(cgroup_make(&base, 7, 0, 0, &fd), 0);
	assert_int_equal(access(path, F_OK), 0);
	assert_true(cgroup_is_empty(fd));
	assert_int_equal(cgroup_oom_kills(fd), 0);
	/* What it has made itself is left alone when it looks again. */
	assert_int_equal(cgroup_make(&base, 8, 0, 0, &(int){-1}), 0);
	base.looked_ms = 0;
	base.others = true;
	assert_int_equal(cgroup_make(&base, 9, 0, 0, &(int){-1}), 0);
	assert_int_equal(access(path, F_OK), 0);
	cgroup_remove(&base, 7, fd);
	assert_int_equal(access(path, F_OK), -1);
	cgroup_base_close(&base);
	cgroup_base_open(&base);
	cgroup_base_close(&base);
}

/* A limit that cannot be set is no limit: nothing is started. */
static void test_limit_that_cannot_be_set(void **state)
{
	struct runner_command command = probe_defaults();
	struct runner_report news;
	struct probe h;
	char path[PATH_MAX + 128];
	struct fault f;

	(void)state;
	need_groups();
	if (has_controller(own, "memory")) {
		print_message("the controller memory can be had here\n");
		skip();
	}
	command.group_memory = 1 << 26;
	probe_start_shell(&h, command, "exit 0");
	assert_true(probe_news(&h, &news));
	assert_int_equal(news.news, RUNNER_NOT_STARTED);
	assert_int_equal(news.stage, RUNNER_STAGE_GROUP);
	assert_int_equal(news.error, ENOENT);
	group_of(&h, path, sizeof(path));
	assert_int_equal(access(path, F_OK), -1);
	probe_close(&h);
	/* And an instance says so before it starts, naming what is missing. */
	assert_int_not_equal(cgroup_take(SETTINGS_GROUPS | SETTINGS_GROUPS_MEMORY, false, &f), LH_OK);
	assert_non_null(strstr(f.text, "does not have the controller \"memory\""));
	assert_int_not_equal(cgroup_check(SETTINGS_GROUPS | SETTINGS_GROUPS_MEMORY, &f), LH_OK);
	assert_int_equal(cgroup_check(SETTINGS_GROUPS, &f), LH_OK);
}

/* More memory than the group may have. */
static void test_memory_limit(void **state)
{
	struct runner_command command = probe_defaults();
	struct runner_report end;
	struct probe h;

	(void)state;
	need_groups();
	if (!has_controller(own, "memory")) {
		print_message("the controller memory of version 2 is not available here\n");
		skip();
	}
	command.group_memory = 16 << 20;
	probe_start_shell(&h, command, "sleep 1000 & head -c 300000000 /dev/zero | tail");
	probe_expect_started(&h);
	end = probe_expect_ended(&h);
	assert_true(WIFSIGNALED(end.wait_status));
	assert_int_equal(WTERMSIG(end.wait_status), SIGKILL);
	assert_int_equal(end.oom, RUN_OOM_CERTAIN);
	assert_int_equal(end.group_gone, 1);
}

static void test_processor_limit(void **state)
{
	struct runner_command command = probe_defaults();
	char path[PATH_MAX + 128], script[PATH_MAX + 160];
	struct runner_report end;
	struct probe h;

	(void)state;
	need_groups();
	if (!has_controller(own, "cpu ")) {
		print_message("the controller cpu of version 2 is not available here\n");
		skip();
	}
	command.group_cpu = 20;
	h.run = command.run;
	group_of(&h, path, sizeof(path));
	snprintf(script, sizeof(script), "cat '%s/cpu.max'; i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done", path);
	probe_start_shell(&h, command, script);
	probe_expect_started(&h);
	assert_string_equal(probe_read_all(&h), "20000 100000\n");
	end = probe_expect_ended(&h);
	assert_int_equal(WEXITSTATUS(end.wait_status), 0);
	/* At a fifth of a processor; half of that for what the limit lets pass at the beginning. */
	assert_true(end.cpu_ms < 100 || end.ended_ms - end.started_ms > end.cpu_ms * 5 / 2);
}

/* The group is not the instance's alone: it says so, and is where it was. */
static void test_group_with_others(void **state)
{
	char group[PATH_MAX + 80], answer = '?';
	int ready[2], status;
	pid_t other, instance;

	(void)state;
	need_groups();
	if (!has_controller(home.path, "memory")) {
		print_message("the controller memory of version 2 is not available here\n");
		skip();
	}
	snprintf(group, sizeof(group), "%s/test_cgroup.%d.shared", home.path, (int)getpid());
	assert_int_equal(mkdir(group, 0755), 0);
	assert_int_equal(pipe(ready), 0);
	other = fork();
	if (other == 0) {
		(void)!write(ready[1], put(group, "cgroup.procs", "0") == 0 ? "y" : "n", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &answer, 1), 1);
	assert_int_equal(answer, 'y');
	instance = fork();
	if (instance == 0) {
		struct cgroup_place place;
		struct fault f;

		if (put(group, "cgroup.procs", "0") != 0 ||
		    cgroup_take(SETTINGS_GROUPS | SETTINGS_GROUPS_MEMORY, false, &f) == LH_OK)
			_exit(1);
		if (strstr(f.text, "because other processes are in it") == NULL)
			_exit(2);
		_exit(cgroup_find("/proc/self", NULL, &place) && strcmp(place.path, group) == 0 ? 0 : 3);
	}
	assert_int_equal(waitpid(instance, &status, 0), instance);
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(kill(other, SIGKILL), 0);
	assert_int_equal(waitpid(other, NULL, 0), other);
	close(ready[0]);
	close(ready[1]);
	assert_int_equal(rmdir(group), 0);
}

/* A runner without groups of its own refuses a run that needs one. */
static void test_runner_without_groups(void **state)
{
	struct runner_command command = probe_defaults();
	struct runner_report news;
	struct probe h;
	char *value;

	(void)state;
	need_groups();
	close(probe_socket);
	assert_int_equal(waitpid(probe_runner, NULL, 0), probe_runner);
	value = strdup(getenv(CGROUP_VARIABLE));
	assert_non_null(value);
	unsetenv(CGROUP_VARIABLE);
	probe_spawn_runner();
	setenv(CGROUP_VARIABLE, value, 1);
	free(value);
	command.group_cpu = 50;
	probe_start_shell(&h, command, "exit 0");
	assert_true(probe_news(&h, &news));
	assert_int_equal(news.news, RUNNER_NOT_STARTED);
	assert_int_equal(news.error, ENODEV);
	probe_close(&h);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_where_the_instance_is),
		TEST(test_a_group_for_each_run),
		TEST(test_groups_of_a_dead_runner),
		TEST(test_group_of_a_process_that_goes_on),
		TEST(test_group_of_the_same_number),
		TEST(test_limit_that_cannot_be_set),
		TEST(test_memory_limit),
		TEST(test_processor_limit),
		TEST(test_group_with_others),
		TEST(test_runner_without_groups),
	};
	int failed;

	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	/* What a dead runner leaves comes to us, to be seen and reaped. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		return EXIT_FAILURE;
	move_in();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	move_out();
	return failed;
}
