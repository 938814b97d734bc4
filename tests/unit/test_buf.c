/* test_buf.c - the growing buffer and its bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

static void check_text(const struct buf *b, const char *text)
{
	assert_int_equal(b->len, strlen(text));
	assert_string_equal(b->data, text);
}

static void test_starts_empty(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 10);
	check_text(&b, "");
	assert_true(buf_ok(&b));
	assert_int_equal(b.cap, 0);
	buf_free(&b);
	check_text(&b, "");
}

static void test_appends(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 1000);
	buf_adds(&b, "one");
	buf_addc(&b, ' ');
	buf_addf(&b, "%d %s", 2, "three");
	buf_add(&b, "\0x", 2);
	buf_add(&b, NULL, 0);
	assert_true(buf_ok(&b));
	assert_int_equal(b.len, 13);
	assert_memory_equal(b.data, "one 2 three\0x", 14);
	buf_free(&b);
}

static void test_grows_to_its_bound_and_no_further(void **state)
{
	static const size_t limits[] = {0, 1, 2, 63, 64, 65, 127, 128, 1000, 4097};
	struct buf b;

	(void)state;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		buf_init(&b, limits[i]);
		for (size_t n = 0; n < limits[i]; n++)
			buf_addc(&b, (char)('a' + n % 26));
		assert_true(buf_ok(&b));
		assert_int_equal(b.len, limits[i]);
		assert_true(b.cap <= limits[i] + 1);
		buf_addc(&b, '!');
		assert_false(buf_ok(&b));
		assert_int_equal(b.len, limits[i]);
		assert_int_equal(b.data[b.len], '\0');
		buf_free(&b);
	}
}

static void test_bad_keeps_what_was_there(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 5);
	buf_adds(&b, "abc");
	buf_adds(&b, "def"); /* one too many: nothing of it */
	buf_adds(&b, "g");   /* would fit, but the buffer is bad */
	buf_addf(&b, "%s", "h");
	assert_null(buf_room(&b, 1));
	assert_false(buf_ok(&b));
	check_text(&b, "abc");
	buf_clear(&b);
	assert_true(buf_ok(&b));
	buf_adds(&b, "12345");
	assert_true(buf_ok(&b));
	check_text(&b, "12345");
	buf_free(&b);
	assert_int_equal(b.limit, 5);
}

static void test_formatted_is_bounded(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 8);
	buf_addf(&b, "%08d", 7);
	assert_true(buf_ok(&b));
	check_text(&b, "00000007");
	buf_clear(&b);
	buf_addf(&b, "%09d", 7);
	assert_false(buf_ok(&b));
	check_text(&b, "");
	buf_free(&b);
}

/* Sizes that would wrap around are refused before any memory is asked for. */
static void test_absurd_sizes(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, SIZE_MAX);
	assert_null(buf_room(&b, SIZE_MAX));
	assert_false(buf_ok(&b));
	buf_clear(&b);
	buf_adds(&b, "x");
	assert_true(buf_ok(&b));
	assert_null(buf_room(&b, SIZE_MAX - 1));
	check_text(&b, "x");
	buf_free(&b);
}

static void test_room_and_grow(void **state)
{
	struct buf b;
	char *room;

	(void)state;
	buf_init(&b, 100);
	buf_adds(&b, "ab");
	room = buf_room(&b, 50);
	assert_non_null(room);
	memset(room, 'x', 50);
	buf_grow(&b, 3);
	check_text(&b, "abxxx");
	assert_non_null(buf_room(&b, 95));
	assert_null(buf_room(&b, 96));
	buf_free(&b);
	buf_grow(&b, 1); /* no room was asked for */
	check_text(&b, "");
}

static void test_drop(void **state)
{
	static const struct {
		size_t drop;
		const char *left;
	} table[] = {{0, "abcdef"}, {1, "bcdef"}, {6, ""}, {7, ""}, {SIZE_MAX, ""}};
	struct buf b;

	(void)state;
	buf_init(&b, 10);
	buf_drop(&b, 3);
	check_text(&b, "");
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		buf_clear(&b);
		buf_adds(&b, "abcdef");
		buf_drop(&b, table[i].drop);
		check_text(&b, table[i].left);
	}
	buf_free(&b);
}

static void test_take(void **state)
{
	struct buf b;
	char *text;

	(void)state;
	buf_init(&b, 10);
	text = buf_take(&b);
	assert_string_equal(text, "");
	free(text);
	buf_adds(&b, "abc");
	text = buf_take(&b);
	check_text(&b, "");
	buf_adds(&b, "0123456789"); /* the bound is kept, the memory is not shared */
	assert_true(buf_ok(&b));
	assert_string_equal(text, "abc");
	free(text);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_starts_empty),
		cmocka_unit_test(test_appends),
		cmocka_unit_test(test_grows_to_its_bound_and_no_further),
		cmocka_unit_test(test_bad_keeps_what_was_there),
		cmocka_unit_test(test_formatted_is_bounded),
		cmocka_unit_test(test_absurd_sizes),
		cmocka_unit_test(test_room_and_grow),
		cmocka_unit_test(test_drop),
		cmocka_unit_test(test_take),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
