/* test_scan.c - the claimer's cursor and window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/scan.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ROWS 12

static void make_rows(struct scan_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rows[i].id = 100 + i;
		rows[i].priority = (int)i - 3;
		snprintf(rows[i].run_at, sizeof(rows[i].run_at), "2030-01-01 00:00:%02u.000000", (unsigned int)i % 60);
		rows[i].early = false;
	}
}

/* The cursor stands behind this row; -1: at the head. */
static void check_cursor(const struct scan *s, const struct scan_row *rows, int row)
{
	assert_int_equal(s->cursor.set, row >= 0);
	if (row < 0)
		return;
	assert_int_equal(s->cursor.id, rows[row].id);
	assert_int_equal(s->cursor.priority, rows[row].priority);
	assert_string_equal(s->cursor.run_at, rows[row].run_at);
}

static void test_starts_at_the_head(void **state)
{
	struct scan s;

	(void)state;
	memset(&s, 0xff, sizeof(s));
	scan_init(&s);
	check_cursor(&s, NULL, -1);
	assert_int_equal(scan_window(&s, 100, 5000), 100);
	assert_int_equal(scan_window(&s, 0, 5000), 0);
}

static void test_choose(void **state)
{
	static const struct {
		size_t n, batch;
		uint64_t random;
		size_t offset, count;
	} table[] = {
		{0, 10, 5, 0, 0},   {3, 10, 5, 0, 3},  {10, 10, 5, 0, 10},          {11, 10, 0, 0, 10}, {11, 10, 1, 1, 10},
		{11, 10, 2, 0, 10}, {80, 10, 70, 70, 10}, {80, 10, 71, 0, 10},      {80, 10, UINT64_MAX, UINT64_MAX % 71, 10},
		{5, 0, 3, 3, 0},    {2, 1, UINT64_MAX, 1, 1},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		size_t count = 99, offset = scan_choose(table[i].n, table[i].batch, table[i].random, &count);

		assert_int_equal(offset, table[i].offset);
		assert_int_equal(count, table[i].count);
		assert_true(offset + count <= table[i].n);
	}
}

/* Where the cursor goes for what was found, tried and early. */
static void test_cursor(void **state)
{
	static const struct {
		const char *why;
		size_t n, offset, count, won;
		const char *early; /* one letter a row, 'e' for early; "" for none */
		int behind;
	} table[] = {
		{"all taken", 4, 0, 4, 4, "", 3},
		{"tried, and lost to others", 4, 0, 4, 1, "", 3},
		{"tried, all lost", 4, 0, 4, 0, "", 3},
		{"a chunk at the start", 12, 0, 4, 4, "", 3},
		{"a chunk in the middle: the first row is still to be tried", 12, 5, 4, 4, "", -1},
		{"a chunk from the second row", 12, 1, 11, 11, "", -1},
		{"early rows at the start, then the chunk", 6, 2, 2, 2, "ee....", 3},
		{"early rows between and behind", 6, 0, 2, 2, "..ee..", 3},
		{"early rows up to the end", 4, 0, 2, 2, "..ee", 3},
		{"only early rows", 3, 0, 0, 0, "eee", 2},
		{"an early row behind one that nobody tried", 4, 2, 2, 2, "e...", 0},
		{"nothing tried", 3, 0, 0, 0, "", -1},
	};
	struct scan_row rows[ROWS];
	struct scan s;

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		make_rows(rows, ROWS);
		for (size_t r = 0; r < strlen(table[i].early); r++)
			rows[r].early = table[i].early[r] == 'e';
		scan_init(&s);
		scan_window(&s, 4, 1000);
		scan_advance(&s, rows, table[i].n, table[i].offset, table[i].count, table[i].won);
		if (s.cursor.set != (table[i].behind >= 0))
			print_error("case: %s\n", table[i].why);
		check_cursor(&s, rows, table[i].behind);
	}
}

static void test_cursor_stays_where_nothing_was_passed(void **state)
{
	struct scan_row rows[ROWS], later[ROWS];
	struct scan s;

	(void)state;
	make_rows(rows, ROWS);
	make_rows(later, ROWS);
	for (size_t i = 0; i < ROWS; i++)
		later[i].id += 50;
	scan_init(&s);
	scan_window(&s, 4, 1000);
	scan_advance(&s, rows, 4, 0, 4, 4);
	scan_advance(&s, later, 12, 3, 4, 4);
	check_cursor(&s, rows, 3);
}

static void test_returns_to_the_head(void **state)
{
	struct scan_row rows[ROWS];
	struct scan s;

	(void)state;
	make_rows(rows, ROWS);
	scan_init(&s);
	scan_window(&s, 4, 1000);
	scan_advance(&s, rows, 4, 0, 4, 4);
	scan_window(&s, 4, 1000 + SCAN_HEAD_MS - 1);
	check_cursor(&s, rows, 3);
	scan_advance(&s, rows, 8, 0, 8, 8); /* going on does not put the return off */
	scan_window(&s, 4, 1000 + SCAN_HEAD_MS);
	check_cursor(&s, rows, -1);
	scan_advance(&s, rows, 4, 0, 4, 4);
	scan_window(&s, 4, 1000 + 2 * SCAN_HEAD_MS - 1); /* counted from the last time at the head */
	check_cursor(&s, rows, 3);
	scan_advance(&s, NULL, 0, 0, 0, 0); /* empty: at once */
	check_cursor(&s, rows, -1);
	scan_window(&s, 4, 5000);
	scan_advance(&s, rows, 4, 0, 4, 4);
	scan_window(&s, 4, 5000 + SCAN_HEAD_MS - 1);
	check_cursor(&s, rows, 3);
}

static size_t claim(struct scan *s, const struct scan_row *rows, size_t count, size_t won)
{
	scan_advance(s, rows, count, 0, count, won);
	return scan_window(s, 10, 1000);
}

static void test_window(void **state)
{
	static const size_t widening[] = {20, 40, 80, 80, 80}, narrowing[] = {40, 20, 10, 10};
	struct scan_row rows[ROWS];
	struct scan s;

	(void)state;
	make_rows(rows, ROWS);
	scan_init(&s);
	for (size_t i = 0; i < COUNT(widening); i++)
		assert_int_equal(claim(&s, rows, 10, i * 2), widening[i]);
	for (size_t i = 0; i < COUNT(narrowing); i++) {
		for (int n = 1; n < SCAN_CALM_CLAIMS; n++)
			assert_int_equal(claim(&s, rows, 10, 10), i == 0 ? 80 : narrowing[i - 1]);
		assert_int_equal(claim(&s, rows, 10, 10), narrowing[i]);
	}
}

static void test_window_needs_calm_in_a_row(void **state)
{
	struct scan_row rows[ROWS];
	struct scan s;

	(void)state;
	make_rows(rows, ROWS);
	scan_init(&s);
	assert_int_equal(claim(&s, rows, 10, 9), 20);
	for (int n = 1; n < SCAN_CALM_CLAIMS; n++)
		claim(&s, rows, 10, 10);
	assert_int_equal(claim(&s, rows, 10, 9), 40); /* one short claim: the count starts again */
	for (int n = 1; n < SCAN_CALM_CLAIMS; n++)
		assert_int_equal(claim(&s, rows, 10, 10), 40);
	assert_int_equal(claim(&s, rows, 5, 0), 80);
	/* Scans that found or tried nothing say nothing of others. */
	for (int n = 0; n < 2 * SCAN_CALM_CLAIMS; n++) {
		scan_advance(&s, NULL, 0, 0, 0, 0);
		scan_advance(&s, rows, 3, 0, 0, 0);
	}
	assert_int_equal(scan_window(&s, 10, 1000), 80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_starts_at_the_head),
		cmocka_unit_test(test_choose),
		cmocka_unit_test(test_cursor),
		cmocka_unit_test(test_cursor_stays_where_nothing_was_passed),
		cmocka_unit_test(test_returns_to_the_head),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_window_needs_calm_in_a_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
