/* test_payload.c - what `leasehold enqueue` takes: payloads, times, trace contexts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/payload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct fault fault;

static void test_check(void **state)
{
	static const struct {
		const char *text;
		bool json, good;
	} cases[] = {
		{"{}", true, true},
		{"null", true, true},
		{" [1, 2.5, \"\\u0000\", \"\xc5\xbe\"] ", true, true},
		{"123456789012345678901234567890", true, true}, /* more than any integer of ours */
		{"", true, false},
		{"{", true, false},
		{"{} {}", true, false},
		{"{'a': 1}", true, false},
		{"NaN", true, false},
		{"anything", false, true},
		{"", false, true},
		{"\xff", false, false},
		{"\"\xed\xa0\x80\"", true, false}, /* a surrogate */
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if ((payload_check(cases[i].text, strlen(cases[i].text), cases[i].json, &fault) == LH_OK) != cases[i].good)
			fail_msg("\"%s\": %s", cases[i].text, cases[i].good ? fault.text : "accepted");
	}
	assert_int_equal(payload_check("a\0b", 3, false, &fault), LH_ERR_INPUT);
}

/* Deep nesting is refused, not a crash. */
static void test_check_of_depth(void **state)
{
	char *deep = malloc(1000001);

	(void)state;
	assert_non_null(deep);
	memset(deep, '[', 1000000);
	deep[1000000] = '\0';
	assert_int_equal(payload_check(deep, 1000000, true, &fault), LH_ERR_INPUT);
	free(deep);
}

static void test_read_bounds(void **state)
{
	struct buf out;

	(void)state;
	buf_init(&out, 8);
	assert_int_equal(payload_read("12345678", 8, &out, &fault), LH_OK);
	assert_string_equal(out.data, "12345678");
	buf_clear(&out);
	assert_int_equal(payload_read("123456789", 8, &out, &fault), LH_ERR_LIMIT);
	assert_non_null(strstr(fault.text, "9 bytes"));
	assert_non_null(strstr(fault.text, "allows 8"));
	buf_clear(&out);
	assert_int_equal(payload_read("", 8, &out, &fault), LH_OK);
	assert_int_equal(out.len, 0);
	buf_free(&out);
}

static void test_read_file(void **state)
{
	char name[] = "/tmp/lh-payload.XXXXXX", value[64];
	struct buf out;
	int fd = mkstemp(name);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "a\0b\n", 4), 4);
	close(fd);
	snprintf(value, sizeof(value), "@%s", name);
	buf_init(&out, 4);
	assert_int_equal(payload_read(value, 4, &out, &fault), LH_OK);
	assert_int_equal(out.len, 4);
	assert_memory_equal(out.data, "a\0b\n", 4);
	buf_clear(&out);
	assert_int_equal(payload_read(value, 3, &out, &fault), LH_ERR_LIMIT);
	unlink(name);
	assert_int_equal(payload_read(value, 4, &out, &fault), LH_ERR_SYSTEM);
	assert_non_null(strstr(fault.text, name));
	assert_int_equal(payload_read("@/", 4, &out, &fault), LH_ERR_SYSTEM);
	buf_free(&out);
}

static void test_time(void **state)
{
	static const struct {
		const char *text, *expected; /* NULL: refused */
	} cases[] = {
		{"2026-01-31T23:59:59Z", "2026-01-31 23:59:59.000000"},
		{"2026-01-31 23:59:59.5", "2026-01-31 23:59:59.500000"},
		{"2026-01-31 23:59:59.123456", "2026-01-31 23:59:59.123456"},
		{"2028-02-29 00:00", "2028-02-29 00:00:00.000000"},
		{"2028-02-29T00:00Z", "2028-02-29 00:00:00.000000"},
		{"2026-02-29T00:00Z", NULL},
		{"2026-04-31T00:00Z", NULL},
		{"2026-13-01T00:00Z", NULL},
		{"2026-01-01T24:00Z", NULL},
		{"2026-01-01T00:60Z", NULL},
		{"2026-01-01T00:00:60Z", NULL},
		{"2026-01-01T00:00:00.Z", NULL},
		{"2026-01-01T00:00:00.1234567Z", NULL},
		{"2026-01-01T00:00:00+02:00", NULL},
		{"2026-01-01T00:00:00 Z", NULL},
		{"1969-12-31T23:59Z", NULL},
		{"2026-01-01", NULL},
		{"tomorrow", NULL},
		{"", NULL},
	};
	char out[32];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		bool good = payload_time(cases[i].text, out, sizeof(out), &fault) == LH_OK;

		if (good != (cases[i].expected != NULL) || (good && strcmp(out, cases[i].expected) != 0))
			fail_msg("\"%s\": %s", cases[i].text, good ? out : fault.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check),     cmocka_unit_test(test_check_of_depth), cmocka_unit_test(test_read_bounds),
		cmocka_unit_test(test_read_file), cmocka_unit_test(test_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
