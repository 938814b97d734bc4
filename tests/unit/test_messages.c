/* test_messages.c - commands to the runner: round trip with descriptors, and everything that is not a command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runner/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BIG (RUNNER_MESSAGE_MAX + 1024)

static int ends[2]; /* ends[0] sends */
static char *buffer;

static int setup(void **state)
{
	(void)state;
	buffer = malloc(RUNNER_MESSAGE_MAX);
	return buffer == NULL ? -1 : socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int teardown(void **state)
{
	(void)state;
	free(buffer);
	close(ends[0]);
	close(ends[1]);
	return 0;
}

static int count_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static char arg_program[] = "/bin/echo", arg_empty[] = "", arg_text[] = "two words";
static char env_one[] = "A=b", env_two[] = "EMPTY=";
static char *const sample_argv[] = {arg_program, arg_empty, arg_text, NULL};
static char *const sample_env[] = {env_one, env_two, NULL};
static const gid_t sample_groups[] = {7, 4294967294u, 9};

static struct runner_start sample_start(void)
{
	return (struct runner_start){
		.command = {.verb = RUNNER_START,
			    .run = 1ull << 40,
			    .kill_at_ms = INT64_MAX,
			    .timeout_ms = 5,
			    .grace_ms = 6,
			    .limits = {.cpu_s = -1, .memory = 1, .files = 2, .processes = 3, .file_size = INT64_MAX, .core = 0},
			    .switch_user = 1,
			    .uid = 12,
			    .gid = 13,
			    .group_count = 3},
		.groups = sample_groups,
		.cwd = "/tmp",
		.argv = sample_argv,
		.env = sample_env,
		.fds = {0, 0, 0, 0, 0},
	};
}

/* Five pipes, of which the runner's ends are in start; what is written into mine[i] can be read from there. */
static void open_pipes(struct runner_start *start, int mine[RUNNER_FDS])
{
	int pair[2];

	for (int i = 0; i < RUNNER_FDS; i++) {
		assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
		start->fds[i] = pair[0];
		mine[i] = pair[1];
	}
}

static void test_start_round_trip(void **state)
{
	struct runner_start start = sample_start();
	struct runner_received got;
	int mine[RUNNER_FDS];
	struct fault f;
	char byte;

	(void)state;
	open_pipes(&start, mine);
	assert_int_equal(runner_send(ends[0], &start.command, &start, &f), LH_OK);
	assert_int_equal(runner_receive(ends[1], buffer, RUNNER_MESSAGE_MAX, &got), 1);
	assert_int_equal(got.command.argc, 3);
	assert_int_equal(got.command.envc, 2);
	got.command.argc = got.command.envc = 0;
	assert_memory_equal(&got.command, &start.command, sizeof(got.command));
	assert_memory_equal(got.groups, sample_groups, sizeof(sample_groups));
	assert_string_equal(got.cwd, "/tmp");
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(got.argv[i], sample_argv[i]);
	assert_null(got.argv[3]);
	assert_string_equal(got.env[0], "A=b");
	assert_string_equal(got.env[1], "EMPTY=");
	assert_null(got.env[2]);
	for (int i = 0; i < RUNNER_FDS; i++) {
		/* Each descriptor is the right one, and closes on execve. */
		assert_int_equal(write(mine[i], "x", 1), 1);
		assert_int_equal(read(got.fds[i], &byte, 1), 1);
		assert_int_equal(fcntl(got.fds[i], F_GETFD), FD_CLOEXEC);
		close(mine[i]);
		close(start.fds[i]);
	}
	runner_received_free(&got);
}

static void test_start_bare(void **state)
{
	struct runner_start start = sample_start();
	char *const nothing[] = {NULL}, *const alone[] = {arg_program, NULL};
	struct runner_received got;
	struct fault f;

	(void)state;
	start.command.group_count = 0;
	start.groups = NULL;
	start.cwd = NULL;
	start.argv = alone;
	start.env = nothing;
	assert_int_equal(runner_send(ends[0], &start.command, &start, &f), LH_OK);
	assert_int_equal(runner_receive(ends[1], buffer, RUNNER_MESSAGE_MAX, &got), 1);
	assert_null(got.cwd);
	assert_string_equal(got.argv[0], arg_program);
	assert_null(got.argv[1]);
	assert_null(got.env[0]);
	runner_received_free(&got);
}

static void test_small_commands(void **state)
{
	struct runner_command deadline = {.verb = RUNNER_DEADLINE, .run = 3, .kill_at_ms = -4};
	struct runner_command end = {.verb = RUNNER_END, .run = UINT64_MAX, .reason = END_SHUTDOWN, .grace_ms = 0};
	struct runner_command assign = {
		.verb = RUNNER_ASSIGN, .run = 3, .next_run = 4, .kill_at_ms = 5, .timeout_ms = 6, .grace_ms = 7, .ask_ms = 8};
	struct runner_received got;
	struct fault f;

	(void)state;
	assert_int_equal(runner_receive(ends[1], buffer, RUNNER_MESSAGE_MAX, &got), 0);
	assert_int_equal(runner_send(ends[0], &deadline, NULL, &f), LH_OK);
	assert_int_equal(runner_send(ends[0], &end, NULL, &f), LH_OK);
	assert_int_equal(runner_receive(ends[1], buffer, RUNNER_MESSAGE_MAX, &got), 1);
	assert_memory_equal(&got.command, &deadline, sizeof(deadline));
	runner_received_free(&got);
	assert_int_equal(runner_receive(ends[1], buffer, RUNNER_MESSAGE_MAX, &got), 1);
	assert_memory_equal(&got.command, &end, sizeof(end));
	runner_received_free(&got);
	assert_int_equal(runner_send(ends[0], &assign, NULL, &f), LH_OK);
	assert_int_equal(runner_receive(ends[1], buffer, RUNNER_MESSAGE_MAX, &got), 1);
	assert_memory_equal(&got.command, &assign, sizeof(assign));
	runner_received_free(&got);
	close(ends[0]);
	ends[0] = -1;
	assert_int_equal(runner_receive(ends[1], buffer, RUNNER_MESSAGE_MAX, &got), -1);
}

static void test_refused_to_send(void **state)
{
	struct runner_start start = sample_start();
	char *big = malloc(BIG), *big_argv[] = {arg_program, big, NULL}, *no_program[] = {arg_empty, NULL}, *no_argv[] = {NULL};
	struct fault f;

	(void)state;
	assert_non_null(big);
	memset(big, 'x', BIG - 1);
	big[BIG - 1] = '\0';
	start.argv = big_argv;
	assert_int_equal(runner_send(ends[0], &start.command, &start, &f), LH_ERR_LIMIT);
	assert_non_null(strstr(f.text, "/bin/echo"));
	free(big);
	start.argv = no_argv;
	assert_int_equal(runner_send(ends[0], &start.command, &start, &f), LH_ERR_INPUT);
	start.argv = no_program;
	assert_int_equal(runner_send(ends[0], &start.command, &start, &f), LH_ERR_INPUT);
	start.argv = sample_argv;
	start.fds[3] = -1;
	assert_int_equal(runner_send(ends[0], &start.command, &start, &f), LH_ERR_INPUT);
	start.fds[3] = 0;
	start.command.group_count = UINT32_MAX;
	assert_int_equal(runner_send(ends[0], &start.command, &start, &f), LH_ERR_LIMIT);
	close(ends[1]);
	ends[1] = -1;
	start.command.group_count = 0;
	assert_int_equal(runner_send(ends[0], &start.command, &start, &f), LH_ERR_LOST);
}

static void test_queue_full(void **state)
{
	struct runner_command command = {.verb = RUNNER_DEADLINE};
	enum lh_err err = LH_OK;
	struct fault f;

	(void)state;
	for (int i = 0; i < 1000000 && err == LH_OK; i++)
		err = runner_send(ends[0], &command, NULL, &f);
	assert_int_equal(err, LH_ERR_SYSTEM);
	assert_int_equal(f.number, EAGAIN);
}

/* A START as it goes over the wire, to be spoilt. The length is returned. */
static size_t wire_start(char *out)
{
	struct runner_start start = sample_start();
	struct fault f;
	ssize_t n;

	assert_int_equal(runner_send(ends[0], &start.command, &start, &f), LH_OK);
	n = recv(ends[1], out, RUNNER_MESSAGE_MAX, MSG_DONTWAIT);
	assert_true(n > (ssize_t)sizeof(struct runner_command));
	return (size_t)n;
}

static bool decodes(const char *bytes, size_t len)
{
	/* A copy of just this size, so that a sanitizer sees a read behind the end. */
	char *copy = malloc(len == 0 ? 1 : len);
	struct runner_received got;
	bool good;

	assert_non_null(copy);
	memcpy(copy, bytes, len);
	good = runner_decode(copy, len, &got);
	if (good)
		runner_received_free(&got);
	free(copy);
	return good;
}

static void test_truncated(void **state)
{
	size_t len = wire_start(buffer);
	char longer[4096];

	(void)state;
	assert_true(decodes(buffer, len));
	for (size_t cut = 0; cut < len; cut++)
		assert_false(decodes(buffer, cut));
	/* Bytes too many, with and without a terminator. */
	assert_true(len + 1 < sizeof(longer));
	memcpy(longer, buffer, len);
	longer[len] = '\0';
	assert_false(decodes(longer, len + 1));
	longer[len] = 'x';
	assert_false(decodes(longer, len + 1));
}

static void test_spoilt_fields(void **state)
{
	static const struct {
		const char *name;
		size_t offset;
		uint64_t value;
		size_t size;
	} fields[] = {
#define SIZE(member) sizeof(((struct runner_command *)0)->member)
#define FIELD(member, value) {#member "=" #value, offsetof(struct runner_command, member), (uint64_t)(value), SIZE(member)}
		FIELD(verb, 0),           FIELD(verb, 99),        FIELD(verb, UINT32_MAX),    FIELD(verb, RUNNER_DEADLINE),
		FIELD(verb, RUNNER_END),  FIELD(argc, 0),         FIELD(argc, 2),             FIELD(argc, 4),
		FIELD(argc, UINT32_MAX),  FIELD(argc, INT32_MAX), FIELD(envc, 0),             FIELD(envc, 3),
		FIELD(envc, UINT32_MAX),  FIELD(group_count, 0),  FIELD(group_count, 2),      FIELD(group_count, 5),
		FIELD(group_count, -1),   FIELD(timeout_ms, -1),  FIELD(grace_ms, -1),        FIELD(grace_ms, INT64_MIN),
		FIELD(switch_user, 2),    FIELD(verb, RUNNER_ASSIGN), FIELD(ask_ms, -1),
	};
	size_t len = wire_start(buffer);
	char spoilt[4096];

	(void)state;
	assert_true(len <= sizeof(spoilt));
	for (size_t i = 0; i < COUNT(fields); i++) {
		memcpy(spoilt, buffer, len);
		memcpy(spoilt + fields[i].offset, &fields[i].value, fields[i].size);
		if (decodes(spoilt, len))
			fail_msg("accepted: %s", fields[i].name);
	}
	/* No NUL at the very end, and a string too many. */
	memcpy(spoilt, buffer, len);
	spoilt[len - 1] = 'x';
	assert_false(decodes(spoilt, len));
}

static void test_small_commands_spoilt(void **state)
{
	struct runner_command end = {.verb = RUNNER_END, .reason = END_REASONS};
	char longer[sizeof(end) + 1] = {0};

	(void)state;
	assert_false(decodes((const char *)&end, sizeof(end)));
	end.reason = END_CANCEL;
	assert_true(decodes((const char *)&end, sizeof(end)));
	end.ask_ms = -1;
	assert_false(decodes((const char *)&end, sizeof(end)));
	end = (struct runner_command){.verb = RUNNER_ASSIGN, .timeout_ms = -1};
	assert_false(decodes((const char *)&end, sizeof(end)));
	end.timeout_ms = 0;
	assert_true(decodes((const char *)&end, sizeof(end)));
	memcpy(longer, &end, sizeof(end));
	assert_false(decodes(longer, sizeof(longer)));
}

/* Sends bytes with count descriptors of /dev/null. */
static void send_raw(const void *bytes, size_t len, int count)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 8)];
		struct cmsghdr aligned;
	} ancillary;
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	struct cmsghdr *header;
	int fds[8];

	for (int i = 0; i < count; i++)
		fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (count > 0) {
		memset(&ancillary, 0, sizeof(ancillary));
		message.msg_control = ancillary.bytes;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
		memcpy(CMSG_DATA(header), fds, sizeof(int) * (size_t)count);
	}
	assert_int_equal(sendmsg(ends[0], &message, MSG_DONTWAIT), (ssize_t)len);
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

static void test_malformed_leaves_nothing_open(void **state)
{
	struct runner_command deadline = {.verb = RUNNER_DEADLINE}, nonsense = {.verb = 99};
	size_t len = wire_start(buffer);
	struct runner_received got;
	char start[4096];
	int open_before;

	(void)state;
	assert_true(len <= sizeof(start));
	memcpy(start, buffer, len);
	open_before = count_descriptors();
	send_raw(&nonsense, sizeof(nonsense), 5); /* no such verb */
	send_raw(&deadline, sizeof(deadline), 1); /* a descriptor that does not belong there */
	send_raw(start, len, 0);                  /* a START without any */
	send_raw(start, len, 4);                  /* or with too few */
	send_raw(start, len - 1, 5);              /* cut */
	send_raw("x", 1, 5);
	for (int i = 0; i < 6; i++)
		assert_int_equal(runner_receive(ends[1], buffer, RUNNER_MESSAGE_MAX, &got), -2);
	assert_int_equal(count_descriptors(), open_before);
	/* Larger than the buffer. */
	send_raw(start, len, 5);
	assert_int_equal(runner_receive(ends[1], buffer, len - 1, &got), -2);
	assert_int_equal(count_descriptors(), open_before);
	/* A good one still comes through after all that. */
	send_raw(start, len, 5);
	assert_int_equal(runner_receive(ends[1], buffer, RUNNER_MESSAGE_MAX, &got), 1);
	assert_int_equal(count_descriptors(), open_before + 5);
	runner_received_free(&got);
	assert_int_equal(count_descriptors(), open_before);
}

/* With a nearly full table of descriptors the status pipe still arrives, to say why nothing is started. */
static void test_descriptor_table_full(void **state)
{
	struct rlimit before, low;
	size_t len = wire_start(buffer);
	struct runner_received got;
	int lowest = dup(0), result;

	(void)state;
	/* Valgrind keeps this limit for itself, and the kernel does not know of it. */
	if (strstr(getenv("LD_PRELOAD") == NULL ? "" : getenv("LD_PRELOAD"), "vgpreload") != NULL)
		skip();
	assert_true(lowest > 0);
	close(lowest);
	send_raw(buffer, len, 5);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	low = before;
	low.rlim_cur = (rlim_t)lowest + 2; /* room for two */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	result = runner_receive(ends[1], buffer, RUNNER_MESSAGE_MAX, &got);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(result, 1);
	assert_true(got.fds[RUNNER_FD_STATUS] >= 0);
	assert_true(got.fds[RUNNER_FD_CONTROL] < 0);
	runner_received_free(&got);
}

static void test_stage_names(void **state)
{
	(void)state;
	for (uint32_t stage = 0; stage < RUNNER_STAGES; stage++)
		assert_true(strlen(runner_stage_name(stage)) > 0);
	assert_string_equal(runner_stage_name(RUNNER_STAGE_EXEC), "execve");
	assert_string_equal(runner_stage_name(RUNNER_STAGES), "unknown");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_start_round_trip),
		TEST(test_start_bare),
		TEST(test_small_commands),
		TEST(test_refused_to_send),
		TEST(test_queue_full),
		TEST(test_truncated),
		TEST(test_spoilt_fields),
		TEST(test_small_commands_spoilt),
		TEST(test_malformed_leaves_nothing_open),
		TEST(test_descriptor_table_full),
		TEST(test_stage_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
