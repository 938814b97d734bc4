/* test_output.c - the first and the last bytes of what a handler writes, as text for a column, and its lines in the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/utf8.h"
#include "handler/output.h"
#include "handler/stderr_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define R "\xef\xbf\xbd"

/* Feeds bytes piece by piece and returns the text; the caller frees it. */
static char *captured(const char *bytes, size_t len, size_t limit, size_t piece)
{
	struct capture c;
	struct buf out;

	capture_init(&c, limit);
	for (size_t at = 0; at < len; at += piece)
		capture_feed(&c, bytes + at, len - at < piece ? len - at : piece);
	buf_init(&out, limit);
	output_fit(&out, c.kept.data, c.kept.len, c.total);
	capture_free(&c);
	assert_true(buf_ok(&out) && utf8_valid(out.data, out.len));
	return buf_take(&out);
}

static char *tailed(const char *bytes, size_t len, size_t size, size_t piece)
{
	struct tail t;
	struct buf out;

	tail_init(&t, size);
	for (size_t at = 0; at < len; at += piece)
		tail_feed(&t, bytes + at, len - at < piece ? len - at : piece);
	buf_init(&out, size);
	tail_finish(&t, &out);
	tail_free(&t);
	assert_true(buf_ok(&out) && utf8_valid(out.data, out.len));
	return buf_take(&out);
}

static void test_capture(void **state)
{
	static const struct {
		const char *in;
		size_t len, limit;
		const char *out;
	} cases[] = {
		{"", 0, 10, ""},
		{"abc", 3, 10, "abc"},
		{"0123456789", 10, 10, "0123456789"},
		{"0123456789", 10, 0, ""},
		{"0123456789ab", 12, 10, "0123456789"}, /* no room for the mark */
		{"0123456789012345678901234567890123456789x", 41, 40, "01234567890 [truncated: 41 bytes in all]"},
		{"a\0b\xff", 4, 40, "a" R "b" R},
		{"\xc3\xa9\xc3\xa9\xc3\xa9", 6, 5, "\xc3\xa9\xc3\xa9"},
		/* What grows by being made valid is cut too. */
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 13, 38, R R R " [truncated: 13 bytes in all]"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		for (size_t piece = 1; piece < 64; piece *= 3) {
			char *text = captured(cases[i].in, cases[i].len, cases[i].limit, piece);

			assert_string_equal(text, cases[i].out);
			free(text);
		}
	}
}

static void test_tail(void **state)
{
	static const struct {
		const char *in;
		size_t len, size;
		const char *out;
	} cases[] = {
		{"", 0, 10, ""},
		{"abc", 3, 10, "abc"},
		{"0123456789", 10, 10, "0123456789"},
		{"0123456789", 10, 0, ""},
		{"0123456789ab", 12, 10, "23456789ab"}, /* no room for the mark */
		{"0123456789012345678901234567890123456789end", 43, 30, "[the end of 43 bytes] 56789end"},
		{"a\0b\xff", 4, 40, "a" R "b" R},
		{"xxxxx\xf0\x9f\x91\x8d!", 10, 4, "!"}, /* the character was cut */
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 13, 31, "[the end of 13 bytes] " R R R},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		for (size_t piece = 1; piece < 64; piece *= 3) {
			char *text = tailed(cases[i].in, cases[i].len, cases[i].size, piece);

			assert_string_equal(text, cases[i].out);
			free(text);
		}
	}
}

/* Any bytes, any limit: valid text within the limit (asserted where it is made). */
static void test_any_bytes(void **state)
{
	static const char letters[] = "a\n\x80\xbf\xc3\xa9\xe2\x82\xac\xf0\x9f\x91\x8d\xff";
	uint64_t seed = 7;
	char bytes[150];

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t len, limit, piece;

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		len = (seed >> 33) % sizeof(bytes);
		limit = (seed >> 17) % 120;
		piece = 1 + (seed >> 50) % 40;
		for (size_t i = 0; i < len; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			bytes[i] = letters[(seed >> 33) % sizeof(letters)];
		}
		free(captured(bytes, len, limit, piece));
		free(tailed(bytes, len, limit, piece));
	}
}

static int log_ends[2];

static int setup_log(void **state)
{
	const int queue = 4 * 1024 * 1024;

	(void)state;
	unsetenv("JOURNAL_STREAM");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, log_ends) != 0)
		return -1;
	setsockopt(log_ends[1], SOL_SOCKET, SO_SNDBUF, &queue, sizeof(queue));
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, log_ends[1]);
	return 0;
}

static int teardown_log(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, STDERR_FILENO);
	close(log_ends[0]);
	close(log_ends[1]);
	return 0;
}

/* What follows the subject of the next line; NULL when there is none. */
static const char *logged_after(const char *subject)
{
	static char line[LOG_LINE_MAX + 1];
	ssize_t n = recv(log_ends[0], line, LOG_LINE_MAX, MSG_DONTWAIT);
	char *at;

	if (n <= 0)
		return NULL;
	line[n - 1] = '\0'; /* the newline */
	at = strstr(line, subject);
	assert_non_null(at);
	return at + strlen(subject);
}

static const char *next_logged(void)
{
	return logged_after(" info handler: job=17 kind=mail attempt=2 stderr: ");
}

static void test_stderr_lines(void **state)
{
	static const char text[] = "one\ntwo\r\n\n\nx\0y\n\xc3\xa9\xff\nlast";
	struct job job = {.id = 17, .kind = "mail", .attempt = 2};
	struct stderr_log log;

	(void)state;
	for (size_t piece = 1; piece < 40; piece *= 6) {
		stderr_log_init(&log, true);
		stderr_log_speak_of(&log, &job, NULL, 0);
		for (size_t at = 0; at < sizeof(text) - 1; at += piece)
			stderr_log_feed(&log, text + at, sizeof(text) - 1 - at < piece ? sizeof(text) - 1 - at : piece);
		stderr_log_end(&log);
		assert_string_equal(next_logged(), "one");
		assert_string_equal(next_logged(), "two");
		assert_string_equal(next_logged(), "x y");
		assert_string_equal(next_logged(), "\xc3\xa9" R);
		assert_string_equal(next_logged(), "last");
		assert_null(next_logged());
	}
	stderr_log_init(&log, false);
	stderr_log_speak_of(&log, &job, NULL, 0);
	stderr_log_feed(&log, "x\n", 2);
	stderr_log_end(&log);
	assert_null(next_logged());
}

/* One pipe, many jobs: each line is told of the one that it was written for. */
static void test_stderr_subjects(void **state)
{
	struct job one = {.id = 17, .kind = "mail.send", .attempt = 2}, two = {.id = 18, .kind = "mail.sort", .attempt = 1};
	struct stderr_log log;

	(void)state;
	stderr_log_init(&log, true);
	stderr_log_speak_of(&log, NULL, "mail.*", 4711);
	stderr_log_feed(&log, "warm\n", 5);
	stderr_log_speak_of(&log, &one, NULL, 0);
	stderr_log_feed(&log, "a\nunfinished", 12);
	stderr_log_speak_of(&log, &two, NULL, 0);
	stderr_log_feed(&log, "b\n", 2);
	stderr_log_end(&log);
	assert_string_equal(logged_after("kind=mail.* pid=4711 stderr: "), "warm");
	assert_string_equal(logged_after("job=17 kind=mail.send attempt=2 stderr: "), "a");
	assert_string_equal(logged_after("job=17 kind=mail.send attempt=2 stderr: "), "unfinished");
	assert_string_equal(logged_after("job=18 kind=mail.sort attempt=1 stderr: "), "b");
	assert_null(next_logged());
}

static void test_stderr_flood(void **state)
{
	struct job job = {.id = 17, .kind = "mail", .attempt = 2};
	char chunk[8192], told[80] = "";
	int lines = 0, notes = 0;
	struct stderr_log log;
	const char *text;
	unsigned long left_out = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(chunk); i++)
		chunk[i] = i % 8 == 7 ? '\n' : 'a';
	stderr_log_init(&log, true);
	stderr_log_speak_of(&log, &job, NULL, 0);
	for (int i = 0; i < 100; i++)
		stderr_log_feed(&log, chunk, sizeof(chunk));
	stderr_log_end(&log);
	while ((text = next_logged()) != NULL) {
		if (strcmp(text, "aaaaaaa") == 0) {
			lines++;
		} else {
			notes++;
			snprintf(told, sizeof(told), "%s", text);
			left_out += strtoul(told, NULL, 10);
		}
	}
	/* The burst, and perhaps a few more when this machine was slow; all are accounted for. */
	assert_in_range(lines, STDERR_LOG_BURST, STDERR_LOG_BURST * 10);
	assert_true(notes >= 1);
	assert_int_equal((unsigned long)lines + left_out, 100 * sizeof(chunk) / 8);
	assert_non_null(strstr(told, " lines were left out here"));
}

static void test_stderr_long_line(void **state)
{
	struct job job = {.id = 17, .kind = "mail", .attempt = 2};
	struct stderr_log log;
	const char *text;

	(void)state;
	stderr_log_init(&log, true);
	stderr_log_speak_of(&log, &job, NULL, 0);
	for (int i = 0; i < 100000; i++)
		stderr_log_feed(&log, "\xe2\x82\xac", 3);
	stderr_log_feed(&log, "\nnext\n", 6);
	stderr_log_end(&log);
	text = next_logged();
	assert_int_equal(strlen(text), STDERR_LOG_LINE_MAX / 3 * 3 + strlen(" [cut]"));
	assert_true(utf8_valid(text, strlen(text)));
	assert_string_equal(next_logged(), "next");
	assert_null(next_logged());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_capture),
		cmocka_unit_test(test_tail),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test_setup_teardown(test_stderr_lines, setup_log, teardown_log),
		cmocka_unit_test_setup_teardown(test_stderr_subjects, setup_log, teardown_log),
		cmocka_unit_test_setup_teardown(test_stderr_flood, setup_log, teardown_log),
		cmocka_unit_test_setup_teardown(test_stderr_long_line, setup_log, teardown_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
