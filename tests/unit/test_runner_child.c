/* test_runner_child.c - what handlers start with, what they cannot start without, and what they leave behind in the runner:
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "probe.h"
#include "runner/runner.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void run_to_the_end(void)
{
	struct probe h;

	probe_start_shell(&h, probe_defaults(), "exit 0");
	probe_expect_started(&h);
	probe_expect_ended(&h);
}

static void expect_exec_failure(struct runner_command command, const char *cwd, const char *program, uint32_t stage, int error)
{
	struct runner_report news;
	struct probe h;

	probe_start(&h, command, cwd, (const char *const[]){program, NULL});
	/* When the program cannot be executed, all that goes before it has been done, STARTED too. */
	if (stage == RUNNER_STAGE_EXEC)
		probe_expect_started(&h);
	assert_true(probe_news(&h, &news));
	assert_int_equal(news.news, RUNNER_ENDED);
	assert_int_equal(news.stage, stage);
	assert_int_equal(news.error, error);
	assert_int_equal(news.group_gone, 1);
	probe_close(&h);
}

static void test_exec_failures(void **state)
{
	static const char script[] = "#!/nonexistent/interpreter\n";
	char dir[] = "/tmp/test_runner.XXXXXX", path[64];
	struct runner_command command;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/script", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, script, strlen(script)), strlen(script));
	close(fd);
	expect_exec_failure(probe_defaults(), NULL, "/nonexistent/program", RUNNER_STAGE_EXEC, ENOENT);
	expect_exec_failure(probe_defaults(), NULL, path, RUNNER_STAGE_EXEC, EACCES);
	assert_int_equal(chmod(path, 0700), 0);
	expect_exec_failure(probe_defaults(), NULL, path, RUNNER_STAGE_EXEC, ENOENT);
	expect_exec_failure(probe_defaults(), NULL, dir, RUNNER_STAGE_EXEC, EACCES);
	expect_exec_failure(probe_defaults(), "/nonexistent", "/bin/true", RUNNER_STAGE_CWD, ENOENT);
	expect_exec_failure(probe_defaults(), path, "/bin/true", RUNNER_STAGE_CWD, ENOTDIR);
	unlink(path);
	rmdir(dir);
	command = probe_defaults();
	command.switch_user = 1;
	command.uid = command.gid = 54321;
	command.limits.files = 50;
	if (geteuid() != 0)
		expect_exec_failure(command, NULL, "/bin/true", RUNNER_STAGE_USER, EPERM);
}

static void test_switch_user(void **state)
{
	struct runner_command command = probe_defaults();
	struct probe h;
	const char *text;

	(void)state;
	if (geteuid() != 0)
		skip();
	command.switch_user = 1;
	command.uid = 54321;
	command.gid = 54322;
	probe_start(&h, command, "/", (const char *const[]){"/bin/cat", "/proc/self/status", NULL});
	text = probe_read_all(&h);
	assert_non_null(strstr(text, "\nUid:\t54321\t54321\t54321\t54321\n"));
	assert_non_null(strstr(text, "\nGid:\t54322\t54322\t54322\t54322\n"));
	assert_non_null(strstr(text, "\nGroups:\t \n"));
	assert_non_null(strstr(text, "\nCapEff:\t0000000000000000\n"));
	probe_expect_started(&h);
	probe_expect_ended(&h);
	/* The tie to the runner survives the change of user. */
	probe_start(&h, command, "/", (const char *const[]){"/bin/sleep", "1000", NULL});
	probe_expect_started(&h);
	assert_int_equal(kill(probe_runner, SIGKILL), 0);
	probe_expect_gone(h.pid);
	probe_close(&h);
	assert_int_equal(waitpid(probe_runner, NULL, 0), probe_runner);
	close(probe_socket);
	probe_spawn_runner();
}

static void test_runner_is_left_alone_by_signals(void **state)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTSTP};
	char path[64], name[32] = "";
	int fd;

	(void)state;
	/* Once it has answered, it has arranged itself. */
	run_to_the_end();
	for (size_t i = 0; i < COUNT(signals); i++)
		assert_int_equal(kill(probe_runner, signals[i]), 0);
	run_to_the_end();
	/* Out of reach of a terminal, and with a name. */
	assert_int_equal(getsid(probe_runner), probe_runner);
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)probe_runner);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(read(fd, name, sizeof(name) - 1) > 0);
	close(fd);
	assert_string_equal(name, "lh-runner\n");
}

/* As under a daemon that was started by nohup, with a library that opens descriptors without the mark. */
static void spawn_spoilt_runner(void)
{
	static const int ignored[] = {SIGPIPE, SIGHUP, SIGUSR1, SIGALRM};
	int leaked = fcntl(0, F_DUPFD, 77);
	sigset_t some, before;

	assert_int_equal(leaked, 77);
	for (size_t i = 0; i < COUNT(ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&some);
	sigaddset(&some, SIGTERM);
	sigaddset(&some, SIGUSR2);
	sigprocmask(SIG_BLOCK, &some, &before);
	probe_spawn_runner();
	sigprocmask(SIG_SETMASK, &before, NULL);
	for (size_t i = 0; i < COUNT(ignored); i++)
		signal(ignored[i], SIG_DFL);
	close(leaked);
}

/* BR-71: whatever the daemon ignores, blocks or has open, a handler starts with nothing of it. */
static void test_what_a_handler_starts_with(void **state)
{
	struct probe h;
	const char *text;
	char want[64];

	(void)state;
	close(probe_socket);
	assert_int_equal(waitpid(probe_runner, NULL, 0), probe_runner);
	spawn_spoilt_runner();
	probe_start(&h, probe_defaults(), NULL, (const char *const[]){"/bin/cat", "/proc/self/status", NULL});
	probe_expect_started(&h);
	/* The runner itself did not keep it either: a leaked socket would outlive the daemon. */
	snprintf(want, sizeof(want), "/proc/%d/fd/77", (int)probe_runner);
	assert_int_equal(access(want, F_OK), -1);
	assert_int_equal(errno, ENOENT);
	text = probe_read_all(&h);
	assert_non_null(strstr(text, "\nSigBlk:\t0000000000000000\n"));
	assert_non_null(strstr(text, "\nSigIgn:\t0000000000000000\n"));
	assert_non_null(strstr(text, "\nSigCgt:\t0000000000000000\n"));
	probe_expect_ended(&h);

	/* 4 is ls's own, for the folder. */
	probe_start(&h, probe_defaults(), NULL, (const char *const[]){"/bin/ls", "/proc/self/fd", NULL});
	probe_expect_started(&h);
	assert_string_equal(probe_read_all(&h), "0\n1\n2\n3\n4\n");
	probe_expect_ended(&h);

	probe_start(&h, probe_defaults(), "/usr",
		    (const char *const[]){"/bin/sh", "-c", "ps -o pgid= -p $$ | tr -d ' '; pwd -P", NULL});
	probe_expect_started(&h);
	snprintf(want, sizeof(want), "%d\n/usr\n", (int)h.pid);
	assert_string_equal(probe_read_all(&h), want);
	probe_expect_ended(&h);
}

/* Our own line of /proc/self/limits, as a handler prints its own. */
static const char *own_limit(const char *name)
{
	static char line[128];
	FILE *f = fopen("/proc/self/limits", "re");

	assert_non_null(f);
	do
		assert_non_null(fgets(line, sizeof(line), f));
	while (strncmp(line, name, strlen(name)) != 0);
	fclose(f);
	return line;
}

static void test_limits(void **state)
{
	struct runner_command command = probe_defaults();
	const char *const print[] = {"/bin/cat", "/proc/self/limits", NULL};
	struct probe h;
	struct rlimit files, fewer;
	const char *text;

	(void)state;
	/* As inherited: not what the runner raised for itself. */
	close(probe_socket);
	assert_int_equal(waitpid(probe_runner, NULL, 0), probe_runner);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	fewer = files;
	fewer.rlim_cur = fewer.rlim_max / 2;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &fewer), 0);
	probe_spawn_runner();
	probe_start(&h, command, NULL, print);
	probe_expect_started(&h);
	assert_non_null(strstr(probe_read_all(&h), own_limit("Max open files")));
	probe_expect_ended(&h);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);

	command = probe_defaults();
	command.limits = (struct runner_limits){
		.cpu_s = 17, .memory = 1 << 30, .files = 19, .processes = 1000, .file_size = 4096, .core = 0};
	probe_start(&h, command, NULL, print);
	probe_expect_started(&h);
	text = probe_read_all(&h);
	assert_non_null(strstr(text, "Max cpu time              17                   18 "));
	assert_non_null(strstr(text, "Max address space         1073741824           1073741824 "));
	assert_non_null(strstr(text, "Max open files            19                   19 "));
	assert_non_null(strstr(text, "Max processes             1000                 1000 "));
	assert_non_null(strstr(text, "Max file size             4096                 4096 "));
	assert_non_null(strstr(text, "Max core file size        0                    0 "));
	probe_expect_ended(&h);
}

/* The signal has a name that tells. */
static void test_limits_reached(void **state)
{
	struct runner_command command = probe_defaults();
	struct runner_report end;
	struct probe h;
	char want[96];

	(void)state;
	command.limits.file_size = 4096;
	probe_start_shell(&h, command, "exec head -c 5000 /dev/zero >/tmp/test_runner.$$; exit 0");
	probe_expect_started(&h);
	end = probe_expect_ended(&h);
	assert_int_equal(WTERMSIG(end.wait_status), SIGXFSZ);
	snprintf(want, sizeof(want), "/tmp/test_runner.%d", (int)h.pid);
	unlink(want);
	command = probe_defaults();
	command.limits.cpu_s = 1;
	probe_start_shell(&h, command, "while :; do :; done");
	probe_expect_started(&h);
	end = probe_expect_ended(&h);
	assert_int_equal(WTERMSIG(end.wait_status), SIGXCPU);
}

static int count_runner_descriptors(void)
{
	char path[64];
	int count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)probe_runner);
	dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

static bool runner_has_children(void)
{
	char path[96], byte;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)probe_runner, (int)probe_runner);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	n = read(fd, &byte, 1);
	close(fd);
	return n > 0;
}

static void run_and_end_many(void)
{
	struct probe many[40];

	for (size_t i = 0; i < COUNT(many); i++)
		probe_start_shell(&many[i], probe_defaults(), i % 2 == 0 ? "sleep 1000" : "(sleep 1000 &) ; read x");
	for (size_t i = 0; i < COUNT(many); i++)
		probe_expect_started(&many[i]);
	for (size_t i = 0; i < COUNT(many); i++)
		probe_send_end(&many[i], END_CANCEL, 0);
	for (size_t i = 0; i < COUNT(many); i++)
		assert_int_equal(probe_expect_ended(&many[i]).group_gone, 1);
}

static void test_nothing_is_left_behind(void **state)
{
	struct runner_command late = probe_defaults();
	int64_t until_ms = clock_boot_ms() + PROBE_PATIENCE_MS;
	struct runner_report news;
	struct probe h;
	int before;

	(void)state;
	run_to_the_end();
	before = count_runner_descriptors();
	for (int i = 0; i < 200; i++) {
		probe_start(&h, probe_defaults(), NULL, (const char *const[]){i % 4 == 3 ? "/nonexistent" : "/bin/true", NULL});
		probe_expect_started(&h);
		probe_expect_ended(&h);
	}
	run_and_end_many();
	/* A reader that has gone away, and a refusal. */
	probe_start_shell(&h, probe_defaults(), "read x");
	probe_close(&h);
	late.kill_at_ms = 0;
	probe_start_shell(&h, late, "exit 0");
	assert_true(probe_news(&h, &news));
	probe_close(&h);
	run_to_the_end();
	while (runner_has_children() && clock_boot_ms() < until_ms)
		probe_pause_ms(10);
	assert_false(runner_has_children());
	assert_int_equal(count_runner_descriptors(), before);
}

static void test_malformed_commands(void **state)
{
	struct fault f;
	struct runner_command strange = {.verb = 77};

	(void)state;
	assert_int_equal(send(probe_socket, "x", 1, 0), 1);
	assert_int_equal(send(probe_socket, &strange, sizeof(strange) - 1, 0), (ssize_t)sizeof(strange) - 1);
	assert_int_equal(runner_send(probe_socket, &strange, NULL, &f), LH_OK);
	run_to_the_end();
}

static void test_no_descriptors_left(void **state)
{
	struct rlimit few, before;
	struct runner_report news;
	struct probe h;

	(void)state;
	/* Room for the five of a START, but not for a pipe more. */
	run_to_the_end();
	assert_int_equal(prlimit(probe_runner, RLIMIT_NOFILE, NULL, &before), 0);
	few = before;
	few.rlim_cur = 12;
	assert_int_equal(prlimit(probe_runner, RLIMIT_NOFILE, &few, NULL), 0);
	probe_start_shell(&h, probe_defaults(), "exit 0");
	assert_true(probe_news(&h, &news));
	assert_int_equal(news.news, RUNNER_NOT_STARTED);
	assert_int_equal(news.error, EMFILE);
	probe_close(&h);
	/* Not even for those: it can still say so. */
	few.rlim_cur = 8;
	assert_int_equal(prlimit(probe_runner, RLIMIT_NOFILE, &few, NULL), 0);
	probe_start_shell(&h, probe_defaults(), "exit 0");
	assert_true(probe_news(&h, &news));
	assert_int_equal(news.news, RUNNER_NOT_STARTED);
	assert_int_equal(news.error, EMFILE);
	probe_close(&h);
	assert_int_equal(prlimit(probe_runner, RLIMIT_NOFILE, &before, NULL), 0);
	run_to_the_end();
}

/* As root the limit on processes does not count, so the runner is made another user's. */
static void test_no_processes_left(void **state)
{
	struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
	struct runner_report news;
	int pair[2], before = 0;
	struct probe h;

	(void)state;
	if (geteuid() != 0)
		skip();
	close(probe_socket);
	assert_int_equal(waitpid(probe_runner, NULL, 0), probe_runner);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	probe_runner = fork();
	if (probe_runner == 0) {
		if (setresgid(54323, 54323, 54323) != 0 || setresuid(54321, 54321, 54321) != 0 ||
		    setrlimit(RLIMIT_NPROC, &none) != 0)
			_exit(1);
		_exit(runner_main(pair[1]));
	}
	close(pair[1]);
	probe_socket = pair[0];
	for (int i = 0; i < 10; i++) {
		probe_start(&h, probe_defaults(), NULL, (const char *const[]){"/bin/true", NULL});
		assert_true(probe_news(&h, &news));
		assert_int_equal(news.news, RUNNER_NOT_STARTED);
		assert_int_equal(news.error, EAGAIN);
		assert_int_equal(news.stage, RUNNER_STAGE_FORK);
		assert_false(probe_news(&h, &news));
		probe_close(&h);
		if (i == 0)
			before = count_runner_descriptors();
	}
	assert_int_equal(count_runner_descriptors(), before);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, probe_setup, probe_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_exec_failures),
		TEST(test_switch_user),
		TEST(test_runner_is_left_alone_by_signals),
		TEST(test_what_a_handler_starts_with),
		TEST(test_limits),
		TEST(test_limits_reached),
		TEST(test_nothing_is_left_behind),
		TEST(test_malformed_commands),
		TEST(test_no_descriptors_left),
		TEST(test_no_processes_left),
	};

	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	/* What a dead runner leaves comes to us, to be seen and reaped. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		return EXIT_FAILURE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
