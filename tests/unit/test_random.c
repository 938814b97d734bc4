/* test_random.c - lease ids and bounded random numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

#define UUIDS 2000

static int compare_uuids(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void test_uuid_form(void **state)
{
	char uuid[UUID_TEXT_LEN + 1];

	(void)state;
	for (int n = 0; n < 200; n++) {
		memset(uuid, 'x', sizeof(uuid));
		random_uuid(uuid);
		assert_int_equal(strlen(uuid), UUID_TEXT_LEN);
		for (int i = 0; i < UUID_TEXT_LEN; i++) {
			if (i == 8 || i == 13 || i == 18 || i == 23)
				assert_int_equal(uuid[i], '-');
			else
				assert_non_null(strchr("0123456789abcdef", uuid[i]));
		}
		assert_int_equal(uuid[14], '4');
		assert_non_null(strchr("89ab", uuid[19]));
	}
}

static void test_uuids_differ(void **state)
{
	static char uuids[UUIDS][UUID_TEXT_LEN + 1];

	(void)state;
	for (int i = 0; i < UUIDS; i++)
		random_uuid(uuids[i]);
	qsort(uuids, UUIDS, sizeof(uuids[0]), compare_uuids);
	for (int i = 1; i < UUIDS; i++)
		assert_string_not_equal(uuids[i - 1], uuids[i]);
}

static void test_below_stays_below(void **state)
{
	static const uint64_t bounds[] = {1, 2, 3, 7, 1000, UINT64_C(1) << 33, (UINT64_C(1) << 63) + 1, UINT64_MAX};

	(void)state;
	assert_int_equal(random_below(0), 0);
	assert_int_equal(random_below(1), 0);
	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		for (int n = 0; n < 200; n++)
			assert_true(random_below(bounds[i]) < bounds[i]);
	}
}

/* With a bound of 3/4 of the range, a plain remainder would fall below a third of the bound half of the time. The slack is
 * almost ten standard deviations. */
static void test_below_is_unbiased(void **state)
{
	const uint64_t bound = UINT64_C(3) << 62;
	int low = 0, n = 3000;

	(void)state;
	for (int i = 0; i < n; i++)
		low += random_below(bound) < bound / 3;
	assert_in_range(low, n / 3 - n / 12, n / 3 + n / 12);
}

static void test_below_reaches_all(void **state)
{
	unsigned int seen = 0;

	(void)state;
	for (int n = 0; n < 1000; n++)
		seen |= 1u << random_below(8);
	assert_int_equal(seen, 0xff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uuid_form),
		cmocka_unit_test(test_uuids_differ),
		cmocka_unit_test(test_below_stays_below),
		cmocka_unit_test(test_below_is_unbiased),
		cmocka_unit_test(test_below_reaches_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
