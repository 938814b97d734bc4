/* test_log.c - log lines as their reader gets them. A SOCK_SEQPACKET pair stands for stderr: each write(2) arrives as one
 * message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/thread.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define THREADS 4
#define ROUNDS 30
#define LINES 10 /* all lines of a round fit into the socket */

static int ends[2]; /* ends[0]: we read; ends[1]: the log */

static int setup_pair(void **state)
{
	(void)state;
	unsetenv("JOURNAL_STREAM");
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int teardown_pair(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, STDERR_FILENO);
	close(ends[0]);
	close(ends[1]);
	return 0;
}

/* The next message without waiting, "" when there is none. */
static const char *next_line(void)
{
	static char line[LOG_LINE_MAX * 2];
	ssize_t n = recv(ends[0], line, sizeof(line) - 1, MSG_DONTWAIT);

	line[n < 0 ? 0 : n] = '\0';
	return line;
}

/* What stands after the time. */
static const char *after_time(const char *line)
{
	unsigned int year, month, day, hour, minute, second, milli;
	int at = 0, n;

	n = sscanf(line, "%4u-%2u-%2uT%2u:%2u:%2u.%3uZ %n", &year, &month, &day, &hour, &minute, &second, &milli, &at);
	assert_int_equal(n, 7);
	assert_int_equal(at, 25);
	assert_in_range(year, 2024, 9999);
	return line + at;
}

static void test_text_line(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_DEBUG, LOG_FORMAT_TEXT, ends[1]);
	log_info("claim", "job=%d kind=%s started", 17, "mail");
	assert_string_equal(after_time(next_line()), "info claim: job=17 kind=mail started\n");
	log_error("beat", "x");
	assert_string_equal(after_time(next_line()), "error beat: x\n");
	log_warn("beat", "x");
	assert_string_equal(after_time(next_line()), "warn beat: x\n");
	log_debug("beat", "x");
	assert_string_equal(after_time(next_line()), "debug beat: x\n");
	assert_string_equal(next_line(), "");
}

static void test_levels(void **state)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};
	enum log_level parsed;

	(void)state;
	for (unsigned int set = 0; set < COUNT(names); set++) {
		log_setup((enum log_level)set, LOG_FORMAT_TEXT, ends[1]);
		for (unsigned int level = 0; level < COUNT(names); level++) {
			assert_int_equal(log_enabled((enum log_level)level), level <= set);
			log_write((enum log_level)level, "a", "x");
			assert_int_equal(next_line()[0] != '\0', level <= set);
		}
		assert_true(log_level_parse(names[set], &parsed));
		assert_int_equal(parsed, set);
	}
	assert_false(log_level_parse("warning", &parsed));
	assert_false(log_level_parse("", &parsed));
	assert_false(log_level_parse("INFO", &parsed));
}

/* What a handler prints, as text and as JSON. */
static const struct {
	const char *in, *text, *json;
} escapes[] = {
	{"plain", "plain", "plain"},
	{"a\nforged line", "a\\nforged line", "a\\nforged line"},
	{"\r\t\x01\x1b[31m\x7f", "\\r\\t\\x01\\x1b[31m\\x7f", "\\r\\t\\u0001\\u001b[31m\\u007f"},
	{"C1 \xc2\x9b" "2J", "C1 \\x9b2J", "C1 \\u009b2J"},
	{"\"quoted\" back\\slash", "\"quoted\" back\\slash", "\\\"quoted\\\" back\\\\slash"},
	{"caf\xc3\xa9 \xf0\x9f\x91\x8d", "caf\xc3\xa9 \xf0\x9f\x91\x8d", "caf\xc3\xa9 \xf0\x9f\x91\x8d"},
	{"bad \xff\xe2\x82", "bad \xef\xbf\xbd\xef\xbf\xbd", "bad \xef\xbf\xbd\xef\xbf\xbd"},
};

static void test_text_escapes(void **state)
{
	char expect[200];

	(void)state;
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, ends[1]);
	for (size_t i = 0; i < COUNT(escapes); i++) {
		log_info("job", "%s", escapes[i].in);
		snprintf(expect, sizeof(expect), "info job: %s\n", escapes[i].text);
		assert_string_equal(after_time(next_line()), expect);
	}
}

static const char *json_member(const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));

	return value == NULL ? "(missing)" : value;
}

static void test_json_lines(void **state)
{
	char expect[200];

	(void)state;
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON, ends[1]);
	for (size_t i = 0; i < COUNT(escapes); i++) {
		const char *line;
		json_t *object;

		log_warn("jo\"b", "%s", escapes[i].in);
		line = next_line();
		snprintf(expect, sizeof(expect), "\"text\":\"%s\"}\n", escapes[i].json);
		assert_non_null(strstr(line, expect));
		object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(object);
		assert_int_equal(json_object_size(object), 4);
		assert_string_equal(json_member(object, "level"), "warn");
		assert_string_equal(json_member(object, "area"), "jo\"b");
		assert_int_equal(strlen(json_member(object, "time")), 24);
		if (utf8_valid(escapes[i].in, strlen(escapes[i].in)))
			assert_string_equal(json_member(object, "text"), escapes[i].in);
		json_decref(object);
	}
}

/* Lines of every length around the bound, made of each kind of piece: never longer than the bound, never cut inside a
 * piece, always marked. */
#define TRACE "0af7651916cd43dd8448eb211c80319c"

/* What the lines of this thread are about, in both forms, until the next word; what is not known is left out. */
static void test_subject(void **state)
{
	const struct log_context full = {.job = 17, .kind = "ma\"il", .attempt = 2, .trace = TRACE};
	const struct log_context bare = {.job = 18, .trace = ""};
	json_t *object;

	(void)state;
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, ends[1]);
	assert_null(log_about(&full));
	log_info("job", "job=17 done");
	assert_string_equal(after_time(next_line()), "info job: trace=" TRACE " job=17 done\n");
	assert_ptr_equal(log_about(&bare), &full);
	log_info("job", "job=18 done");
	assert_string_equal(after_time(next_line()), "info job: job=18 done\n");
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON, ends[1]);
	log_info("job", "x");
	object = json_loads(next_line(), JSON_REJECT_DUPLICATES, NULL);
	assert_int_equal(json_object_size(object), 5);
	assert_int_equal(json_integer_value(json_object_get(object, "job")), 18);
	json_decref(object);
	log_about(&full);
	log_info("job", "job=17 done");
	object = json_loads(next_line(), JSON_REJECT_DUPLICATES, NULL);
	assert_int_equal(json_object_size(object), 8);
	assert_int_equal(json_integer_value(json_object_get(object, "job")), 17);
	assert_int_equal(json_integer_value(json_object_get(object, "attempt")), 2);
	assert_string_equal(json_member(object, "kind"), "ma\"il");
	assert_string_equal(json_member(object, "trace"), TRACE);
	assert_string_equal(json_member(object, "text"), "job=17 done");
	json_decref(object);
	assert_ptr_equal(log_about(NULL), &full);
	log_info("job", "x");
	object = json_loads(next_line(), JSON_REJECT_DUPLICATES, NULL);
	assert_int_equal(json_object_size(object), 4);
	json_decref(object);
}

static void *other_thread(void *arg)
{
	(void)arg;
	log_info("job", "other");
	return NULL;
}

static void test_subject_is_the_threads_own(void **state)
{
	const struct log_context mine = {.job = 17, .trace = TRACE};
	struct fault f;
	pthread_t thread;

	(void)state;
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, ends[1]);
	log_about(&mine);
	assert_int_equal(thread_start(&thread, "other", other_thread, NULL, &f), LH_OK);
	pthread_join(thread, NULL);
	log_about(NULL);
	assert_string_equal(after_time(next_line()), "info job: other\n");
}

static void test_long_lines(void **state)
{
	static const char *const pieces[] = {"a", "\xe2\x82\xac", "\xf0\x9f\x91\x8d|", "\"", "\x01", "\xff"};
	static char text[3 * LOG_LINE_MAX];

	(void)state;
	for (size_t i = 0; i < COUNT(pieces) * 2; i++) {
		const char *piece = pieces[i / 2];
		bool json = i % 2 == 1;

		log_setup(LOG_LEVEL_INFO, json ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT, ends[1]);
		for (size_t len = LOG_LINE_MAX - 120; len < LOG_LINE_MAX + 20; len++) {
			const char *line;
			size_t got;

			for (size_t at = 0; at < len; at++)
				text[at] = piece[at % strlen(piece)];
			text[len] = '\0';
			log_info("a", "%s", text);
			line = next_line();
			got = strlen(line);
			assert_true(got <= LOG_LINE_MAX);
			assert_int_equal(line[got - 1], '\n');
			assert_true(utf8_valid(line, got));
			if (len >= LOG_LINE_MAX - 1)
				assert_non_null(strstr(line, json ? " [cut]\"}\n" : " [cut]\n"));
			if (len >= LOG_LINE_MAX - 1 && !json && i < 6) /* nothing is left out before the cut */
				assert_memory_equal(after_time(line) + 8, text, strlen(after_time(line)) - 8 - 7);
			if (json) {
				json_t *object = json_loads(line, 0, NULL);

				assert_non_null(object);
				json_decref(object);
			}
		}
	}
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, ends[1]);
	memset(text, 'a', 4000);
	text[4000] = '\0';
	log_info("a", "%s", text);
	assert_null(strstr(next_line(), "[cut]"));
}

static void test_journal(void **state)
{
	char stream[64];
	struct stat st;

	(void)state;
	assert_int_equal(fstat(ends[1], &st), 0);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_setup(LOG_LEVEL_DEBUG, LOG_FORMAT_TEXT, ends[1]);
	log_error("a", "x");
	assert_string_equal(next_line(), "<3>error a: x\n");
	log_warn("a", "x\n<0>y");
	assert_string_equal(next_line(), "<4>warn a: x\\n<0>y\n");
	log_info("a", "x");
	assert_string_equal(next_line(), "<6>info a: x\n");
	log_debug("a", "x");
	assert_string_equal(next_line(), "<7>debug a: x\n");
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON, ends[1]);
	log_info("a", "x");
	assert_string_equal(next_line(), "<6>{\"level\":\"info\",\"area\":\"a\",\"text\":\"x\"}\n");
	setenv("JOURNAL_STREAM", "1:2", 1); /* somebody redirected stderr */
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, ends[1]);
	log_info("a", "x");
	assert_string_equal(after_time(next_line()), "info a: x\n");
	unsetenv("JOURNAL_STREAM");
}

/* A reader that has stopped does not stop us; when it goes on it learns what it missed. */
static void test_full_pipe(void **state)
{
	static char drain[1 << 20];
	int pipe_ends[2], filled = 0;
	ssize_t n;

	(void)state;
	assert_int_equal(pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK), 0);
	while (write(pipe_ends[1], "x", 1) == 1)
		filled++;
	assert_int_equal(fcntl(pipe_ends[1], F_SETFL, 0), 0); /* from here on a write to it blocks */
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, pipe_ends[1]);
	for (int i = 0; i < 50; i++)
		log_info("a", "lost");
	assert_int_equal(read(pipe_ends[0], drain, sizeof(drain)), filled);
	log_info("a", "back");
	n = read(pipe_ends[0], drain, sizeof(drain) - 1);
	assert_true(n > 0);
	drain[n] = '\0';
	assert_non_null(strstr(drain, "info a: back\n"));
	assert_non_null(strstr(drain, "warn log: 50 lines were dropped"));
	log_info("a", "told once");
	n = read(pipe_ends[0], drain, sizeof(drain) - 1);
	drain[n < 0 ? 0 : n] = '\0';
	assert_string_equal(after_time(drain), "info a: told once\n");
	close(pipe_ends[0]);
	close(pipe_ends[1]);
}

static void test_failures_are_ignored(void **state)
{
	int read_only = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_true(read_only >= 0);
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, read_only);
	errno = 77;
	log_info("a", "nowhere");
	assert_int_equal(errno, 77); /* a log line between a failed call and its errno does no harm */
	close(read_only);
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, -1);
	log_info("a", "nowhere");
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, ends[1]);
	log_info("a", "somewhere");
	assert_string_equal(after_time(next_line()), "info a: somewhere\n");
	next_line();
}

static void *writer_main(void *arg)
{
	const char *name = arg;

	for (int i = 0; i < LINES; i++)
		log_info(name, "line %d of %s and its end", i, name);
	return NULL;
}

/* One line of the round: whole, by one writer, and that writer's next. */
static void check_writer_line(const char *line, int *next)
{
	char name[32], again[32];
	int number, writer, at = 0;

	assert_int_equal(sscanf(line, "info %31[^:]: line %d of %31s and its end\n%n", name, &number, again, &at), 3);
	assert_int_equal(at, strlen(line));
	assert_string_equal(name, again);
	writer = name[1] - '0';
	assert_in_range(writer, 0, THREADS - 1);
	assert_int_equal(number, next[writer]++);
}

/* Each message is one whole line, whoever wrote, also while the settings change. */
static void test_threads(void **state)
{
	static char names[THREADS][8] = {"w0", "w1", "w2", "w3"};
	pthread_t writers[THREADS];

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		int next[THREADS] = {0};

		log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, ends[1]);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(thread_start(&writers[i], names[i], writer_main, names[i], NULL), LH_OK);
		log_setup(LOG_LEVEL_DEBUG, LOG_FORMAT_TEXT, ends[1]);
		for (int i = 0; i < THREADS; i++)
			pthread_join(writers[i], NULL);
		for (int i = 0; i < THREADS * LINES; i++)
			check_writer_line(after_time(next_line()), next);
		assert_string_equal(next_line(), "");
	}
}

static void test_limit(void **state)
{
	struct log_limit limit = {0};

	(void)state;
	assert_true(log_limit_pass(&limit, 1000, 500));
	assert_false(log_limit_pass(&limit, 1000, 500));
	assert_false(log_limit_pass(&limit, 1499, 500));
	assert_int_equal(limit.held_back, 2);
	assert_true(log_limit_pass(&limit, 1500, 500));
	assert_int_equal(limit.held_back, 2); /* the caller tells, then resets it */
	limit.held_back = 0;
	assert_false(log_limit_pass(&limit, 1600, 500));
	assert_int_equal(limit.held_back, 1);
	assert_true(log_limit_pass(&limit, 99999, 500));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_text_line, setup_pair, teardown_pair),
		cmocka_unit_test_setup_teardown(test_levels, setup_pair, teardown_pair),
		cmocka_unit_test_setup_teardown(test_text_escapes, setup_pair, teardown_pair),
		cmocka_unit_test_setup_teardown(test_json_lines, setup_pair, teardown_pair),
		cmocka_unit_test_setup_teardown(test_subject, setup_pair, teardown_pair),
		cmocka_unit_test_setup_teardown(test_subject_is_the_threads_own, setup_pair, teardown_pair),
		cmocka_unit_test_setup_teardown(test_long_lines, setup_pair, teardown_pair),
		cmocka_unit_test_setup_teardown(test_journal, setup_pair, teardown_pair),
		cmocka_unit_test_setup_teardown(test_full_pipe, setup_pair, teardown_pair),
		cmocka_unit_test_setup_teardown(test_failures_are_ignored, setup_pair, teardown_pair),
		cmocka_unit_test_setup_teardown(test_threads, setup_pair, teardown_pair),
		cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
