/* test_cli_output.c - values as people and programs are shown them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/output.h"

#include <string.h>

static const char *escaped(const char *text, size_t len, bool keep_newlines)
{
	static struct buf out;

	buf_free(&out);
	buf_init(&out, 4096);
	output_escape(&out, text, len, keep_newlines);
	return out.data;
}

/* Nothing that came out of the database may steer a terminal. */
static void test_escape(void **state)
{
	(void)state;
	assert_string_equal(escaped("plain \xc5\xbe", 8, false), "plain \xc5\xbe");
	assert_string_equal(escaped("a\nb\tc", 5, false), "a\\nb\\tc");
	assert_string_equal(escaped("a\nb\tc", 5, true), "a\nb\tc");
	assert_string_equal(escaped("\033[31m\r\x7f\0", 8, true), "\\x1b[31m\\x0d\\x7f\\x00");
	assert_string_equal(escaped("\xc2\x9b"
				    "31m\xc2\xa0",
				    7, true),
			    "\\u009b31m\xc2\xa0");
	assert_string_equal(escaped("\xc2", 1, true), "\xc2");
}

static void test_time(void **state)
{
	char out[OUTPUT_TIME_MAX];

	(void)state;
	assert_string_equal(output_time("2026-01-31 23:59:59.123456", false, out), "2026-01-31T23:59:59.123456Z");
	assert_string_equal(output_time("2026-01-31 23:59:59.123456", true, out), "2026-01-31T23:59:59Z");
	assert_string_equal(output_time("2026-01-31 23:59:59", false, out), "2026-01-31T23:59:59Z");
	assert_string_equal(output_time("", false, out), "");
	assert_string_equal(output_time("2026-01-31 23:59:59.123456 and much more than a time", false, out),
			    "2026-01-31 23:59:59.123456 and much mor");
}

static void test_age(void **state)
{
	static const struct {
		int64_t seconds;
		const char *text;
	} cases[] = {{0, "0s"},    {119, "119s"},   {120, "2m"},    {7199, "119m"},
		     {7200, "2h"}, {172799, "47h"}, {172800, "2d"}, {INT64_MAX, "106751991167300d"}};
	char out[32];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(output_age(cases[i].seconds, out, sizeof(out)), cases[i].text);
}

/* A binary key is shown as far as it is text. */
static void test_json_text(void **state)
{
	json_t *value = output_json_text("a\xff", 2);

	(void)state;
	assert_string_equal(json_string_value(value), "a\xef\xbf\xbd");
	json_decref(value);
	value = output_json_text("\xc5\xbe", 2);
	assert_string_equal(json_string_value(value), "\xc5\xbe");
	json_decref(value);
	value = output_json_text(NULL, 0);
	assert_true(json_is_null(value));
	json_decref(value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_escape),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_age),
		cmocka_unit_test(test_json_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
