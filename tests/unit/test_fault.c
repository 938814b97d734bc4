/* test_fault.c - the text of a failure: one line, bounded, complete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fault.h"

#include <errno.h>
#include <string.h>

static void test_set(void **state)
{
	struct fault f;

	(void)state;
	memset(&f, 'x', sizeof(f));
	assert_int_equal(fault_set(&f, LH_ERR_INPUT, "value %d: \"%s\"", 7, "a\nb\x7f"), LH_ERR_INPUT);
	assert_int_equal(f.code, LH_ERR_INPUT);
	assert_int_equal(f.number, 0);
	assert_string_equal(f.sqlstate, "");
	assert_string_equal(f.text, "value 7: \"a b \"");
	assert_int_equal(fault_set(NULL, LH_ERR_LIMIT, "nobody listens"), LH_ERR_LIMIT);
	assert_int_equal(fault_set_errno(NULL, ENOENT, "nobody listens"), LH_ERR_SYSTEM);
	fault_prefix(NULL, "nobody listens");
}

static void test_errno(void **state)
{
	struct fault f;

	(void)state;
	assert_int_equal(fault_set_errno(&f, ENOENT, "cannot open %s", "/x"), LH_ERR_SYSTEM);
	assert_int_equal(f.number, ENOENT);
	assert_string_equal(f.text, "cannot open /x: No such file or directory");
}

static void test_own_text_as_argument(void **state)
{
	struct fault f;

	(void)state;
	fault_set(&f, LH_ERR_INPUT, "inner");
	fault_set(&f, LH_ERR_LOST, "outer (%s)", f.text);
	assert_string_equal(f.text, "outer (inner)");
}

static void test_prefix(void **state)
{
	struct fault f;

	(void)state;
	fault_set_errno(&f, EACCES, "open");
	fault_prefix(&f, "%s line %d", "file", 3);
	assert_string_equal(f.text, "file line 3: open: Permission denied");
	assert_int_equal(f.code, LH_ERR_SYSTEM);
	assert_int_equal(f.number, EACCES);
}

static void test_long_texts_are_cut(void **state)
{
	char longer[2000];
	struct fault f;

	(void)state;
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	fault_set(&f, LH_ERR_INPUT, "%s", longer);
	assert_int_equal(strlen(f.text), sizeof(f.text) - 1);
	fault_set_errno(&f, EIO, "%s", longer);
	assert_int_equal(strlen(f.text), sizeof(f.text) - 1);
	fault_set(&f, LH_ERR_INPUT, "tail");
	fault_prefix(&f, "%s", longer);
	assert_int_equal(strlen(f.text), sizeof(f.text) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_errno),
		cmocka_unit_test(test_own_text_as_argument),
		cmocka_unit_test(test_prefix),
		cmocka_unit_test(test_long_texts_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
