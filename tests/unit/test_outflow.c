/* test_outflow.c - bytes for a handler that reads slowly, in pieces, or not at all; and the lines that it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "handler/lines.h"
#include "handler/outflow.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES 5000
#define LIMIT 1000

static int ends[2]; /* ends[1] is written to */

static int setup(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	return pipe2(ends, O_CLOEXEC | O_NONBLOCK);
}

static int teardown(void **state)
{
	(void)state;
	close(ends[0]);
	close(ends[1]);
	return 0;
}

/* A reader that takes what is there; returns how much. */
static size_t read_some(char *out, size_t size)
{
	ssize_t n = read(ends[0], out, size);

	return n > 0 ? (size_t)n : 0;
}

static void test_in_order(void **state)
{
	size_t size = 300000, got = 0;
	char *payload = malloc(size), *seen = malloc(size + READ_BYTES);
	struct outflow o;
	struct buf text;

	(void)state;
	assert_true(payload != NULL && seen != NULL);
	for (size_t i = 0; i < size; i++)
		payload[i] = (char)(i * 7 % 251);
	outflow_init(&o, LIMIT);
	assert_false(outflow_pending(&o));
	outflow_borrow(&o, payload, size);
	assert_true(outflow_add(&o, "one\n", 4));
	buf_init(&text, 100);
	buf_adds(&text, "two\n");
	assert_true(outflow_take(&o, &text));
	assert_int_equal(text.len, 0);
	while (outflow_pending(&o)) {
		assert_true(outflow_write(&o, ends[1]));
		got += read_some(seen + got, READ_BYTES);
	}
	while (got < size + 8)
		got += read_some(seen + got, READ_BYTES);
	assert_memory_equal(seen, payload, size);
	assert_memory_equal(seen + size, "one\ntwo\n", 8);
	outflow_free(&o);
	free(payload);
	free(seen);
}

/* A full buffer loses nothing of what is in it, and takes no half of a line. */
static void test_full(void **state)
{
	char line[LIMIT];
	struct outflow o;
	struct buf text;

	(void)state;
	memset(line, 'x', sizeof(line));
	outflow_init(&o, LIMIT);
	assert_true(outflow_add(&o, line, LIMIT - 10));
	assert_false(outflow_add(&o, line, 11));
	buf_init(&text, LIMIT);
	buf_add(&text, line, 11);
	assert_false(outflow_take(&o, &text));
	assert_int_equal(text.len, 0);
	assert_true(outflow_add(&o, line, 10));
	assert_true(outflow_write(&o, ends[1]));
	assert_false(outflow_pending(&o));
	assert_true(outflow_add(&o, line, LIMIT));
	outflow_free(&o);
	/* What did not fit into its own bounds is not sent as if it had. */
	buf_init(&text, 3);
	buf_adds(&text, "much");
	assert_false(outflow_take(&o, &text));
	assert_false(outflow_pending(&o));
}

static void test_nobody_reads(void **state)
{
	char *much = calloc(1, 200000);
	struct outflow o;

	(void)state;
	assert_non_null(much);
	outflow_init(&o, 200000);
	outflow_borrow(&o, much, 200000);
	for (int i = 0; i < 5; i++)
		assert_true(outflow_write(&o, ends[1])); /* full, and that is no end */
	assert_true(outflow_pending(&o));
	close(ends[0]);
	assert_false(outflow_write(&o, ends[1]));
	outflow_free(&o);
	assert_true(outflow_add(&o, "x", 1));
	assert_false(outflow_write(&o, ends[1]));
	outflow_free(&o);
	free(much);
	ends[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static char heard[200];
static int overlong;

static void hear(void *owner, const char *bytes, size_t len)
{
	size_t at = strlen(heard);

	(void)owner;
	snprintf(heard + at, sizeof(heard) - at, "%.*s|", (int)len, bytes);
}

static void hear_too_long(void *owner)
{
	(void)owner;
	overlong++;
}

static void test_lines(void **state)
{
	static const char text[] = "one\n\ntwo\n12345678\n123456789\n123456789012345\nx\nlast";
	struct lines l;

	(void)state;
	for (size_t piece = 1; piece <= sizeof(text); piece++) {
		lines_init(&l, 8);
		l.take = hear;
		l.too_long = hear_too_long;
		heard[0] = '\0';
		overlong = 0;
		for (size_t at = 0; at < sizeof(text) - 1; at += piece)
			lines_feed(&l, text + at, sizeof(text) - 1 - at < piece ? sizeof(text) - 1 - at : piece);
		assert_string_equal(heard, "one|two|12345678|x|");
		lines_end(&l);
		assert_string_equal(heard, "one|two|12345678|x|last|");
		assert_int_equal(overlong, 2);
		lines_free(&l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nobody_reads, setup, teardown),
		cmocka_unit_test(test_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
