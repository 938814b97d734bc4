/* test_parse.c - numbers, durations and sizes as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/parse.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DAY_MS INT64_C(86400000)

static void test_u64(void **state)
{
	static const struct {
		const char *text;
		uint64_t min, max;
		enum lh_err err;
		uint64_t value;
	} table[] = {
		{"0", 0, 10, LH_OK, 0},
		{"10", 0, 10, LH_OK, 10},
		{"007", 0, 10, LH_OK, 7},
		{"18446744073709551615", 0, UINT64_MAX, LH_OK, UINT64_MAX},
		{"18446744073709551616", 0, UINT64_MAX, LH_ERR_INPUT, 0},
		{"184467440737095516150", 0, UINT64_MAX, LH_ERR_INPUT, 0},
		{"99999999999999999999999999999999999999999", 0, UINT64_MAX, LH_ERR_INPUT, 0},
		{"11", 0, 10, LH_ERR_INPUT, 0},
		{"4", 5, 10, LH_ERR_INPUT, 0},
		{"", 0, 10, LH_ERR_INPUT, 0},
		{" 1", 0, 10, LH_ERR_INPUT, 0},
		{"1 ", 0, 10, LH_ERR_INPUT, 0},
		{"+1", 0, 10, LH_ERR_INPUT, 0},
		{"-1", 0, 10, LH_ERR_INPUT, 0},
		{"-0", 0, 10, LH_ERR_INPUT, 0},
		{"1x", 0, 10, LH_ERR_INPUT, 0},
		{"0x1", 0, 10, LH_ERR_INPUT, 0},
		{"1.0", 0, 10, LH_ERR_INPUT, 0},
		{"1e1", 0, 10, LH_ERR_INPUT, 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		uint64_t value = 77;
		struct fault f = {0};
		enum lh_err err = parse_u64(table[i].text, table[i].min, table[i].max, &value, &f);

		assert_int_equal(err, table[i].err);
		assert_true(value == (err == LH_OK ? table[i].value : 77));
		if (err != LH_OK)
			assert_non_null(strstr(f.text, table[i].text));
	}
}

static void test_i64(void **state)
{
	static const struct {
		const char *text;
		int64_t min, max;
		enum lh_err err;
		int64_t value;
	} table[] = {
		{"0", -5, 5, LH_OK, 0},
		{"-0", -5, 5, LH_OK, 0},
		{"-5", -5, 5, LH_OK, -5},
		{"5", -5, 5, LH_OK, 5},
		{"9223372036854775807", INT64_MIN, INT64_MAX, LH_OK, INT64_MAX},
		{"9223372036854775808", INT64_MIN, INT64_MAX, LH_ERR_INPUT, 0},
		{"-9223372036854775808", INT64_MIN, INT64_MAX, LH_OK, INT64_MIN},
		{"-9223372036854775809", INT64_MIN, INT64_MAX, LH_ERR_INPUT, 0},
		{"-18446744073709551616", INT64_MIN, INT64_MAX, LH_ERR_INPUT, 0},
		{"-6", -5, 5, LH_ERR_INPUT, 0},
		{"6", -5, 5, LH_ERR_INPUT, 0},
		{"-", -5, 5, LH_ERR_INPUT, 0},
		{"--1", -5, 5, LH_ERR_INPUT, 0},
		{"- 1", -5, 5, LH_ERR_INPUT, 0},
		{"", -5, 5, LH_ERR_INPUT, 0},
		{"1s", -5, 5, LH_ERR_INPUT, 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		int64_t value = 77;
		struct fault f = {0};
		enum lh_err err = parse_i64(table[i].text, table[i].min, table[i].max, &value, &f);

		assert_int_equal(err, table[i].err);
		assert_true(value == (err == LH_OK ? table[i].value : 77));
		if (err != LH_OK)
			assert_non_null(strstr(f.text, table[i].text));
	}
}

static void test_duration(void **state)
{
	static const struct {
		const char *text;
		enum lh_err err;
		int64_t ms;
	} table[] = {
		{"0s", LH_OK, 0},
		{"0ms", LH_OK, 0},
		{"250ms", LH_OK, 250},
		{"30s", LH_OK, 30000},
		{"5m", LH_OK, 300000},
		{"2h", LH_OK, 7200000},
		{"7d", LH_OK, 7 * DAY_MS},
		{"9223372036854775807ms", LH_OK, INT64_MAX},
		{"9223372036854775808ms", LH_ERR_INPUT, 0},
		{"9223372036854775s", LH_OK, INT64_C(9223372036854775000)},
		{"9223372036854776s", LH_ERR_INPUT, 0},
		{"106751991167d", LH_OK, INT64_C(106751991167) * DAY_MS},
		{"106751991168d", LH_ERR_INPUT, 0},
		{"99999999999999999999999999d", LH_ERR_INPUT, 0},
		{"30", LH_ERR_INPUT, 0},
		{"0", LH_ERR_INPUT, 0},
		{"", LH_ERR_INPUT, 0},
		{"s", LH_ERR_INPUT, 0},
		{"1.5s", LH_ERR_INPUT, 0},
		{"-1s", LH_ERR_INPUT, 0},
		{"+1s", LH_ERR_INPUT, 0},
		{" 1s", LH_ERR_INPUT, 0},
		{"1 s", LH_ERR_INPUT, 0},
		{"1s ", LH_ERR_INPUT, 0},
		{"1S", LH_ERR_INPUT, 0},
		{"1M", LH_ERR_INPUT, 0},
		{"1sec", LH_ERR_INPUT, 0},
		{"1us", LH_ERR_INPUT, 0},
		{"1w", LH_ERR_INPUT, 0},
		{"1h30m", LH_ERR_INPUT, 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		int64_t ms = 77;
		struct fault f = {0};
		enum lh_err err = parse_duration_ms(table[i].text, &ms, &f);

		assert_int_equal(err, table[i].err);
		assert_true(ms == (err == LH_OK ? table[i].ms : 77));
		if (err != LH_OK)
			assert_non_null(strstr(f.text, table[i].text));
	}
}

static void test_size(void **state)
{
	static const struct {
		const char *text;
		enum lh_err err;
		uint64_t bytes;
	} table[] = {
		{"0", LH_OK, 0},
		{"4096", LH_OK, 4096},
		{"64KiB", LH_OK, 65536},
		{"1MiB", LH_OK, 1048576},
		{"2GiB", LH_OK, UINT64_C(2147483648)},
		{"18446744073709551615", LH_OK, UINT64_MAX},
		{"18446744073709551616", LH_ERR_INPUT, 0},
		{"17179869183GiB", LH_OK, UINT64_C(17179869183) << 30},
		{"17179869184GiB", LH_ERR_INPUT, 0},
		{"64KB", LH_ERR_INPUT, 0},
		{"64kib", LH_ERR_INPUT, 0},
		{"64K", LH_ERR_INPUT, 0},
		{"64 KiB", LH_ERR_INPUT, 0},
		{"-1", LH_ERR_INPUT, 0},
		{"KiB", LH_ERR_INPUT, 0},
		{"1.5MiB", LH_ERR_INPUT, 0},
		{"", LH_ERR_INPUT, 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		uint64_t bytes = 77;
		struct fault f = {0};
		enum lh_err err = parse_size(table[i].text, &bytes, &f);

		assert_int_equal(err, table[i].err);
		assert_true(bytes == (err == LH_OK ? table[i].bytes : 77));
		if (err != LH_OK)
			assert_non_null(strstr(f.text, table[i].text));
	}
}

/* The text is the shortest, and says the same when it is read again. */
static void test_format_duration(void **state)
{
	static const struct {
		int64_t ms;
		const char *text;
	} table[] = {
		{0, "0s"}, {1, "1ms"}, {999, "999ms"}, {1000, "1s"}, {1500, "1500ms"}, {60000, "1m"}, {90000, "90s"},
		{300000, "5m"}, {5400000, "90m"}, {3600000, "1h"}, {DAY_MS, "1d"}, {36 * 3600000, "36h"}, {366 * DAY_MS, "366d"},
		{INT64_MAX, "9223372036854775807ms"},
	};
	char text[32];
	int64_t ms;

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		assert_ptr_equal(parse_format_duration(table[i].ms, text, sizeof(text)), text);
		assert_string_equal(text, table[i].text);
		assert_int_equal(parse_duration_ms(text, &ms, NULL), LH_OK);
		assert_true(ms == table[i].ms);
	}
	assert_string_equal(parse_format_duration(-5000, text, sizeof(text)), "-5s");
	assert_string_equal(parse_format_duration(INT64_MIN, text, sizeof(text)), "-9223372036854775808ms");
}

/* A value of any length and any bytes leaves a fault that is one line. */
static void test_hostile_values(void **state)
{
	char text[3000];
	struct fault f;
	uint64_t value;

	(void)state;
	memset(text, '\n', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(parse_size(text, &value, &f), LH_ERR_INPUT);
	assert_null(strchr(f.text, '\n'));
	assert_non_null(strstr(f.text, "KiB")); /* the help is not cut off */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_u64),
		cmocka_unit_test(test_i64),
		cmocka_unit_test(test_duration),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_format_duration),
		cmocka_unit_test(test_hostile_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
