/* test_lapse_watch.c - what recovery takes after watching it for a whole lease. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/lapse.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LEASE_1 "01234567-89ab-4cde-8f01-23456789abcd"
#define LEASE_2 "01234567-89ab-4cde-8f01-23456789abce"
#define AT_1 "2030-01-01 00:00:00.000001"
#define AT_2 "2030-01-01 00:00:00.000002"
#define ZERO "0000-00-00 00:00:00.000000"

/* A time line: what is seen when, and whether it may then be taken. */
static const struct {
	int64_t at_ms;
	uint64_t id;
	const char *lease, *locked_at;
	int64_t lease_ms;
	bool taken;
} script[] = {
	{1000, 1, LEASE_1, AT_1, 3000, false},
	{2000, 1, LEASE_1, AT_1, 3000, false},
	{3999, 1, LEASE_1, AT_1, 3000, false},
	{4000, 1, LEASE_1, AT_1, 3000, true},
	{4001, 1, LEASE_1, AT_1, 3000, true},
	{4002, 1, LEASE_1, AT_2, 3000, false}, /* it was renewed after all */
	{7001, 1, LEASE_1, AT_2, 3000, false},
	{7002, 1, LEASE_1, AT_2, 3000, true},
	{7003, 1, LEASE_2, AT_2, 3000, false}, /* claimed again */
	{10002, 1, LEASE_2, AT_2, 3000, false},
	{10003, 1, LEASE_2, AT_2, 3000, true},
	/* Each row for itself, and by its own lease. */
	{11000, 2, LEASE_1, AT_1, 60000, false},
	{12000, 3, LEASE_1, AT_1, 3000, false},
	{15000, 3, LEASE_1, AT_1, 3000, true},
	{15000, 2, LEASE_1, AT_1, 60000, false},
	{70999, 2, LEASE_1, AT_1, 60000, false},
	{71000, 2, LEASE_1, AT_1, 60000, true},
	/* NULL and zero fields are values like others. */
	{80000, 4, "", "", 3000, false},
	{83000, 4, "", "", 3000, true},
	{83001, 4, "", ZERO, 3000, false},
	{86001, 4, "", ZERO, 3000, true},
	{86002, 4, LEASE_1, ZERO, 3000, false},
	{86003, 4, LEASE_1, "", 3000, false},
	{89003, 4, LEASE_1, "", 3000, true},
	{89004, 5, "", "", 0, true}, /* nobody promised anything */
	{89004, 6, "", "", -1, true},
	/* A heartbeat in the future is only a text here. */
	{90000, 7, LEASE_1, "2999-01-01 00:00:00.000000", 3000, false},
	{93000, 7, LEASE_1, "2999-01-01 00:00:00.000000", 3000, true},
	/* Back to an earlier value: seen anew. */
	{94000, 8, LEASE_1, AT_1, 3000, false},
	{95000, 8, LEASE_1, AT_2, 3000, false},
	{96000, 8, LEASE_1, AT_1, 3000, false},
	{98000, 8, LEASE_1, AT_1, 3000, false},
	{99000, 8, LEASE_1, AT_1, 3000, true},
	{99000, UINT64_MAX, LEASE_1, AT_1, 3000, false},
	{99000, 0, LEASE_1, AT_1, 3000, false},
};

static void test_watch_rows(void **state)
{
	struct lapse_watch *w = lapse_watch_new(100);

	(void)state;
	assert_non_null(w);
	for (size_t i = 0; i < COUNT(script); i++) {
		bool taken = lapse_watch_see(w, script[i].id, script[i].lease, script[i].locked_at, script[i].lease_ms,
					     script[i].at_ms);

		if (taken != script[i].taken)
			fail_msg("at %lld", (long long)script[i].at_ms);
	}
	assert_int_equal(lapse_watch_count(w), 10);
	lapse_watch_free(w);
	lapse_watch_free(NULL);
}

static void test_watch_sweep(void **state)
{
	struct lapse_watch *w = lapse_watch_new(10);

	(void)state;
	for (uint64_t id = 1; id <= 6; id++)
		lapse_watch_see(w, id, LEASE_1, AT_1, 3000, 1000);
	for (uint64_t id = 2; id <= 6; id += 2)
		lapse_watch_see(w, id, LEASE_1, AT_1, 3000, 2000);
	lapse_watch_sweep(w, 1000);
	assert_int_equal(lapse_watch_count(w), 6);
	lapse_watch_sweep(w, 2000);
	assert_int_equal(lapse_watch_count(w), 3);
	assert_true(lapse_watch_see(w, 2, LEASE_1, AT_1, 3000, 4000));  /* kept since 1000 */
	assert_false(lapse_watch_see(w, 3, LEASE_1, AT_1, 3000, 4000)); /* forgotten */
	assert_false(lapse_watch_see(w, 3, LEASE_1, AT_1, 3000, 6999));
	assert_true(lapse_watch_see(w, 3, LEASE_1, AT_1, 3000, 7000));
	lapse_watch_sweep(w, INT64_MAX);
	assert_int_equal(lapse_watch_count(w), 0);
	assert_false(lapse_watch_see(w, 2, LEASE_1, AT_1, 3000, 9000));
	lapse_watch_free(w);
}

static void test_watch_full(void **state)
{
	struct lapse_watch *w = lapse_watch_new(50);

	(void)state;
	for (uint64_t id = 0; id < 80; id++) /* ids that share chains */
		assert_false(lapse_watch_see(w, id * 25, LEASE_1, AT_1, 3000, 1000));
	assert_int_equal(lapse_watch_count(w), 50);
	for (uint64_t id = 0; id < 80; id++)
		assert_int_equal(lapse_watch_see(w, id * 25, LEASE_1, AT_1, 3000, 4000), id < 50);
	/* Room that becomes free is used: those that were left out are seen now, and not any sooner taken for it. */
	lapse_watch_see(w, 0, LEASE_1, AT_1, 3000, 5000);
	lapse_watch_sweep(w, 5000);
	assert_int_equal(lapse_watch_count(w), 1);
	for (uint64_t id = 50; id < 80; id++)
		assert_false(lapse_watch_see(w, id * 25, LEASE_1, AT_1, 3000, 6000));
	assert_int_equal(lapse_watch_count(w), 31);
	assert_true(lapse_watch_see(w, 79 * 25, LEASE_1, AT_1, 3000, 9000));
	assert_true(lapse_watch_see(w, 0, LEASE_1, AT_1, 3000, 9000));
	lapse_watch_free(w);
	w = lapse_watch_new(0); /* still holds one */
	assert_non_null(w);
	lapse_watch_see(w, 1, LEASE_1, AT_1, 3000, 0);
	assert_true(lapse_watch_see(w, 1, LEASE_1, AT_1, 3000, 3000));
	assert_false(lapse_watch_see(w, 2, LEASE_1, AT_1, 0, 3000)); /* not yet observed, so not taken either */
	lapse_watch_free(w);
}

/* Texts longer than a row can hold are compared by what is kept of them; never written past it. */
static void test_watch_long_texts(void **state)
{
	char text[100];
	struct lapse_watch *w = lapse_watch_new(4);

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_false(lapse_watch_see(w, 1, text, text, 3000, 1000));
	assert_true(lapse_watch_see(w, 1, text, text, 3000, 4000));
	text[0] = 'y';
	assert_false(lapse_watch_see(w, 1, text, text, 3000, 4000));
	lapse_watch_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_watch_rows),
		cmocka_unit_test(test_watch_sweep),
		cmocka_unit_test(test_watch_full),
		cmocka_unit_test(test_watch_long_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
