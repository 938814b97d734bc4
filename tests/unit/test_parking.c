/* test_parking.c - kinds without a handler: how long their jobs wait, and which of them a reload wakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/parking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct promote_parked due[PARKING_JOBS + 1];

/* Settings with one handler for the pattern; NULL: with none. */
static struct settings *serving(const char *pattern)
{
	struct settings *s = settings_new();

	assert_non_null(s);
	if (pattern == NULL)
		return s;
	s->handlers = calloc(1, sizeof(*s->handlers));
	s->handler_count = 1;
	s->handlers[0].kind = strdup(pattern);
	return s;
}

static void reload(struct parking *p, const char *pattern)
{
	struct settings *s = serving(pattern);

	parking_reload(p, s);
	settings_unref(s);
}

static int64_t park(struct parking *p, const char *kind, uint64_t id, int64_t now_ms, bool expect_first)
{
	bool first;
	int64_t delay = parking_job(p, kind, id, 7, now_ms, &first);

	assert_int_equal(first, expect_first);
	return delay;
}

/* 30 s, then as long as the kind has been unknown, up to 10 min; a fifth more at most. */
static void test_delays(void **state)
{
	static const struct {
		int64_t at_ms, least_ms;
	} steps[] = {{0, 30000},       {1000, 30000},    {30000, 30000},   {60000, 60000},
		     {120000, 120000}, {599999, 599999}, {900000, 600000}, {INT64_C(1) << 40, 600000}};
	struct parking *p = parking_new();
	bool differ = false;

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		int64_t delay = park(p, "a", 1, 5000 + steps[i].at_ms, i == 0);

		assert_in_range(delay, steps[i].least_ms, steps[i].least_ms + steps[i].least_ms / 5);
		for (int n = 0; n < 20; n++)
			differ = differ || park(p, "a", 1, 5000 + steps[i].at_ms, false) != delay;
	}
	assert_true(differ);
	/* Another kind has its own age. */
	assert_in_range(park(p, "b", 2, 9000000, true), 30000, 36000);
	parking_free(p);
}

static void test_a_reload_wakes_its_kinds_only(void **state)
{
	struct parking *p = parking_new();

	(void)state;
	park(p, "mail.a", 3, 0, true);
	park(p, "mail.b", 1, 0, true);
	park(p, "other", 2, 0, true);
	park(p, "mail.a", 4, 1, false);
	assert_int_equal(parking_due(p, due, 10), 0);
	reload(p, "nothing");
	assert_int_equal(parking_due(p, due, 10), 0);
	/* Nobody serves it still: that is told again, and the wait begins anew. */
	assert_in_range(park(p, "other", 5, 900000, true), 30000, 36000);
	reload(p, "mail.*");
	assert_int_equal(parking_due(p, due, 10), 3);
	assert_int_equal(due[0].id, 1);
	assert_int_equal(due[1].id, 3);
	assert_int_equal(due[2].id, 4);
	assert_int_equal(due[2].claim_no, 7);
	/* They stay until they are written, also over a reload. */
	reload(p, "other");
	assert_int_equal(parking_due(p, due, 2), 2);
	parking_done(p, 2);
	assert_int_equal(parking_due(p, due, 10), 3);
	parking_done(p, 3);
	assert_int_equal(parking_due(p, due, 10), 0);
	reload(p, "*");
	assert_int_equal(parking_due(p, due, 10), 0);
	parking_free(p);
}

static void test_bounds(void **state)
{
	struct parking *p = parking_new();
	char kind[32];
	bool first;

	(void)state;
	for (int i = 0; i < PARKING_KINDS; i++) {
		snprintf(kind, sizeof(kind), "kind.%d", i);
		park(p, kind, 1, 0, true);
	}
	assert_in_range(park(p, "one.more", 2, 0, false), 600000, 720000);
	/* The newest are remembered. */
	for (uint64_t id = 1; id <= PARKING_JOBS + 5; id++)
		(void)parking_job(p, "kind.0", id, 7, 0, &first);
	reload(p, "kind.*");
	assert_int_equal(parking_due(p, due, PARKING_JOBS + 1), PARKING_JOBS);
	assert_int_equal(due[0].id, 6);
	parking_done(p, PARKING_JOBS);
	/* Their places are free again. */
	park(p, "one.more", 2, 0, true);
	reload(p, "one.more");
	assert_int_equal(parking_due(p, due, 10), 1);
	parking_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_delays),
		cmocka_unit_test(test_a_reload_wakes_its_kinds_only),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
