/* test_utf8.c - well-formed and ill-formed byte sequences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define R "\xef\xbf\xbd" /* U+FFFD */
#define BYTES(text) text, sizeof(text) - 1

/* Input, and what it becomes. The same text twice: it is well-formed. */
static const struct {
	const char *name;
	const char *in;
	size_t in_len;
	const char *out;
} cases[] = {
	{"empty", BYTES(""), ""},
	{"ASCII", BYTES("plain text\n\t\x7f"), "plain text\n\t\x7f"},
	{"two, three and four bytes", BYTES("\xc3\xa9\xe2\x82\xac\xf0\x9f\x91\x8d"), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x91\x8d"},
	{"first and last of each length", BYTES("\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"),
	 "\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
	{"around the surrogates", BYTES("\xed\x9f\xbf\xee\x80\x80"), "\xed\x9f\xbf\xee\x80\x80"},
	{"a replacement character already", BYTES(R), R},
	{"NUL", BYTES("a\0b"), "a" R "b"},
	{"NUL twice at the end", BYTES("\0\0"), R R},
	/* The tables 3-8 to 3-11 of the Unicode Standard 15, section 3.9. */
	{"non-shortest forms", BYTES("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), R R R R R R R R "A"},
	{"surrogates", BYTES("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), R R R R R R R R "A"},
	{"other ill-formed", BYTES("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), R R R R R "A" R R "B"},
	{"truncated", BYTES("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), R R R R "A"},
	/* Each way to be wrong on its own. */
	{"lone continuation", BYTES("\x80"), R},
	{"lone continuations", BYTES("\x80\x81\xbf"), R R R},
	{"bytes that never occur", BYTES("\xc0\xc1\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff"), R R R R R R R R R R R R R},
	{"two bytes cut", BYTES("a\xc3"), "a" R},
	{"three bytes cut after one", BYTES("a\xe2"), "a" R},
	{"three bytes cut after two", BYTES("a\xe2\x82"), "a" R},
	{"four bytes cut after one", BYTES("a\xf0"), "a" R},
	{"four bytes cut after two", BYTES("a\xf0\x9f"), "a" R},
	{"four bytes cut after three", BYTES("a\xf0\x9f\x91"), "a" R},
	{"cut by a character", BYTES("\xf0\x9f\x91\xc3\xa9"), R "\xc3\xa9"},
	{"cut by NUL", BYTES("\xe2\x82\0"), R R},
	{"lead after lead", BYTES("\xc3\xc3\xa9"), R "\xc3\xa9"},
	{"overlong slash in two", BYTES("\xc0\xaf"), R R},
	{"overlong slash in three", BYTES("\xe0\x80\xaf"), R R R},
	{"overlong in three, last", BYTES("\xe0\x9f\xbf"), R R R},
	{"overlong in four", BYTES("\xf0\x80\x80\xaf"), R R R R},
	{"overlong in four, last", BYTES("\xf0\x8f\xbf\xbf"), R R R R},
	{"overlong NUL", BYTES("\xc0\x80"), R R},
	{"beyond U+10FFFF", BYTES("\xf4\x90\x80\x80"), R R R R},
	{"five byte form", BYTES("\xf8\x88\x80\x80\x80"), R R R R R},
	{"first surrogate", BYTES("\xed\xa0\x80"), R R R},
	{"last surrogate", BYTES("\xed\xbf\xbf"), R R R},
	{"surrogate pair (CESU-8)", BYTES("\xed\xa0\xbd\xed\xb1\x8d"), R R R R R R},
	{"Latin-1", BYTES("caf\xe9 noir"), "caf" R " noir"},
	{"Windows-1252 and UTF-16", BYTES("\xff\xfe\x92" "a \xf0\x9f\x91\x8d \0 tail"), R R R "a \xf0\x9f\x91\x8d " R " tail"},
};

static void test_sanitise(void **state)
{
	struct buf out;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		buf_init(&out, 1000);
		utf8_sanitise(&out, cases[i].in, cases[i].in_len);
		if (strcmp(out.data, cases[i].out) != 0)
			print_error("case: %s\n", cases[i].name);
		assert_true(buf_ok(&out));
		assert_string_equal(out.data, cases[i].out);
		assert_int_equal(out.len, strlen(cases[i].out));
		assert_true(utf8_valid(out.data, out.len));
		buf_free(&out);
	}
}

static void test_valid(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		bool same = cases[i].in_len == strlen(cases[i].out) && memcmp(cases[i].in, cases[i].out, cases[i].in_len) == 0;

		if (utf8_valid(cases[i].in, cases[i].in_len) != same)
			fail_msg("case: %s", cases[i].name);
	}
}

/* A character at the very end of a heap block, so that a read behind it shows under a memory checker. */
static void test_reads_nothing_behind_the_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char *exact = malloc(cases[i].in_len + (cases[i].in_len == 0));
		struct buf out;

		assert_non_null(exact);
		memcpy(exact, cases[i].in, cases[i].in_len);
		buf_init(&out, 1000);
		utf8_sanitise(&out, exact, cases[i].in_len);
		assert_string_equal(out.data, cases[i].out);
		assert_true(utf8_cut(exact, cases[i].in_len) <= cases[i].in_len);
		buf_free(&out);
		free(exact);
	}
}

static size_t encode(uint32_t code, unsigned char *p)
{
	static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

	for (size_t i = len; i > 1; i--) {
		p[i - 1] = (unsigned char)(0x80 | (code & 0x3f));
		code >>= 6;
	}
	p[0] = (unsigned char)(leads[len] | code);
	return len;
}

static void test_every_code_point(void **state)
{
	unsigned char bytes[4];
	bool well_formed;
	int wrong = 0;

	(void)state;
	for (uint32_t code = 1; code < 0x120000; code++) {
		size_t len = encode(code, bytes);
		bool expect = code < 0x110000 && (code < 0xd800 || code > 0xdfff);

		wrong += utf8_valid((const char *)bytes, len) != expect;
		wrong += (utf8_next((const char *)bytes, 4, &well_formed) == len && well_formed) != expect;
	}
	assert_int_equal(wrong, 0);
	assert_false(utf8_valid("", 1));
}

static void test_every_pair_of_bytes(void **state)
{
	char bytes[2];
	int wrong = 0;

	(void)state;
	for (unsigned int first = 0; first < 256; first++) {
		for (unsigned int second = 0; second < 256; second++) {
			bool ascii = first > 0 && first < 0x80 && second > 0 && second < 0x80;
			bool two = first >= 0xc2 && first <= 0xdf && second >= 0x80 && second <= 0xbf;

			bytes[0] = (char)first;
			bytes[1] = (char)second;
			wrong += utf8_valid(bytes, 2) != (ascii || two);
		}
	}
	assert_int_equal(wrong, 0);
}

static void test_cut(void **state)
{
	static const struct {
		const char *bytes;
		size_t len, cut;
	} table[] = {
		{BYTES(""), 0},
		{BYTES("abc"), 3},
		{BYTES("\xc3\xa9"), 2},
		{BYTES("a\xc3"), 1},
		{BYTES("\xe2\x82\xac"), 3},
		{BYTES("\xe2\x82"), 0},
		{BYTES("a\xe2"), 1},
		{BYTES("\xf0\x9f\x91\x8d"), 4},
		{BYTES("ab\xf0\x9f\x91"), 2},
		{BYTES("ab\xf0\x9f"), 2},
		{BYTES("ab\xf0"), 2},
		{BYTES("\xc3\xa9\xc3"), 2},
		/* What is no beginning of a character is not one that the cut splits. */
		{BYTES("a\x80"), 2},
		{BYTES("\x80\x80\x80\x80"), 4},
		{BYTES("a\xff"), 2},
		{BYTES("a\xed\xa0"), 3},
		{BYTES("a\xe0\x80"), 3},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++)
		assert_int_equal(utf8_cut(table[i].bytes, table[i].len), table[i].cut);
}

/* At every bound the text is the longest beginning that is made of whole characters. */
static void test_bounded_output(void **state)
{
	static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x91\x8d\xff!";
	static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10, 10, 13, 14};
	struct buf out;

	(void)state;
	for (size_t limit = 0; limit < COUNT(whole); limit++) {
		buf_init(&out, limit);
		utf8_sanitise(&out, BYTES(text));
		assert_int_equal(out.len, whole[limit]);
		assert_true(utf8_valid(out.data, out.len));
		assert_int_equal(buf_ok(&out), limit == COUNT(whole) - 1);
		buf_free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sanitise),
		cmocka_unit_test(test_valid),
		cmocka_unit_test(test_reads_nothing_behind_the_end),
		cmocka_unit_test(test_every_code_point),
		cmocka_unit_test(test_every_pair_of_bytes),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_bounded_output),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
