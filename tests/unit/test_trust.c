/* test_trust.c - until when a lease may be acted under. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/trust.h"

static void test_margin(void **state)
{
	static const struct {
		int64_t lease_ms, margin_ms;
	} table[] = {
		{0, 200}, {3000, 200}, {9999, 200}, {10000, 200}, {10049, 200}, {10050, 201}, {15000, 300},
		{60000, 1200}, {60049, 1200}, {60050, 1201}, {3600000, 72000}, {INT64_MAX / 2, INT64_MAX / 2 / 50},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		assert_true(trust_margin_ms(table[i].lease_ms) == table[i].margin_ms);
}

static void test_until(void **state)
{
	static const struct {
		int64_t sent_ms, lease_ms, until_ms;
	} table[] = {
		{0, 3000, 2800},
		{1000000, 60000, 1058800},
		{1000000, 3600000, 4528000},
		{-500, 3000, 2300},
		{1000, 100, 900}, /* a lease shorter than its margin was never trusted */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int64_t until = trust_until_ms(table[i].sent_ms, table[i].lease_ms);

		assert_true(until == table[i].until_ms);
		assert_true(until < table[i].sent_ms + table[i].lease_ms);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_margin),
		cmocka_unit_test(test_until),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
