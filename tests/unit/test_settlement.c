/* test_settlement.c - from an outcome to what is written back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "model/settlement.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CAP_MS (INT64_C(366) * 86400 * 1000)

static const struct backoff backoff = {1000, 60000};

static struct settlement *make(void)
{
	struct job job = {.id = 17, .claim_no = 4, .attempt = 3};
	struct settlement *s;

	strcpy(job.kind, "mail.send");
	strcpy(job.lease, "01234567-89ab-4cde-8f01-23456789abcd");
	s = settlement_new(&job, 1000, 500);
	assert_non_null(s);
	return s;
}

static struct outcome outcome_of(enum outcome_kind kind, int64_t delay_ms, const char *cause)
{
	struct outcome o = {.kind = kind, .delay_ms = delay_ms};

	snprintf(o.cause, sizeof(o.cause), "%s", cause);
	return o;
}

static void test_new(void **state)
{
	struct settlement *s = make();

	(void)state;
	assert_int_equal(offsetof(struct settlement, out.link), 0);
	assert_int_equal(s->id, 17);
	assert_int_equal(s->claim_no, 4);
	assert_int_equal(s->attempt, 3);
	assert_string_equal(s->kind, "mail.send");
	assert_string_equal(s->lease, "01234567-89ab-4cde-8f01-23456789abcd");
	assert_int_equal(s->exit_code, -1);
	assert_int_equal(s->result.limit, 1000);
	assert_int_equal(s->error.limit, 500);
	assert_false(s->has_result);
	assert_false(s->ran);
	settlement_free(s);
	settlement_free(NULL);
}

static void test_decide(void **state)
{
	static const struct {
		enum outcome_kind kind;
		int64_t asked_ms;
		const char *cause;
		unsigned int attempt, max;
		bool ledger_all;
		enum settle_action action;
		enum outcome_kind outcome;
		int64_t delay_ms;
		bool ledger;
		const char *says;
	} table[] = {
		{OUTCOME_SUCCEEDED, -1, "", 1, 10, false, SETTLE_SUCCEED, OUTCOME_SUCCEEDED, 0, false, ""},
		{OUTCOME_SUCCEEDED, -1, "", 1, 10, true, SETTLE_SUCCEED, OUTCOME_SUCCEEDED, 0, true, ""},
		{OUTCOME_SUCCEEDED, -1, "", 10, 10, false, SETTLE_SUCCEED, OUTCOME_SUCCEEDED, 0, false, ""},
		/* The random number is 500 in every row, so the backoff of the first attempt (0 to 1000) gives 500. */
		{OUTCOME_RETRY, -1, "exit status 1", 1, 10, false, SETTLE_RETRY, OUTCOME_RETRY, 500, true, "exit status 1"},
		{OUTCOME_RETRY, 7000, "exit status 1", 1, 10, false, SETTLE_RETRY, OUTCOME_RETRY, 7000, true, "exit status 1"},
		{OUTCOME_RETRY, 0, "exit status 1", 9, 10, false, SETTLE_RETRY, OUTCOME_RETRY, 0, true, "exit status 1"},
		{OUTCOME_RETRY, CAP_MS, "x", 1, 10, false, SETTLE_RETRY, OUTCOME_RETRY, CAP_MS, true, "x"},
		{OUTCOME_RETRY, CAP_MS + 1, "x", 1, 10, false, SETTLE_RETRY, OUTCOME_RETRY, CAP_MS, true, "x"},
		{OUTCOME_RETRY, INT64_MAX, "x", 1, 10, false, SETTLE_RETRY, OUTCOME_RETRY, CAP_MS, true, "x"},
		{OUTCOME_RETRY, -1, "exit status 1", 10, 10, false, SETTLE_DEAD, OUTCOME_DEAD, 0, true,
		 "attempt 10 of 10: exit status 1"},
		{OUTCOME_RETRY, 7000, "x", 11, 10, false, SETTLE_DEAD, OUTCOME_DEAD, 0, true, "attempt 11 of 10: x"},
		{OUTCOME_RETRY, -1, "x", 1, 1, false, SETTLE_DEAD, OUTCOME_DEAD, 0, true, "attempt 1 of 1: x"},
		{OUTCOME_RETRY, -1, "x", 65535, 65535, false, SETTLE_DEAD, OUTCOME_DEAD, 0, true, "attempt 65535 of 65535: x"},
		{OUTCOME_RETRY, 5, "x", 65534, 65535, false, SETTLE_RETRY, OUTCOME_RETRY, 5, true, "x"},
		{OUTCOME_TIMED_OUT, -1, "timed out", 1, 10, false, SETTLE_RETRY, OUTCOME_TIMED_OUT, 500, true, "timed out"},
		{OUTCOME_TIMED_OUT, -1, "timed out", 3, 3, false, SETTLE_DEAD, OUTCOME_DEAD, 0, true, "attempt 3 of 3: timed out"},
		{OUTCOME_SNOOZE, 9000, "later", 1, 10, false, SETTLE_SNOOZE, OUTCOME_SNOOZE, 9000, false, "later"},
		{OUTCOME_SNOOZE, 9000, "later", 10, 10, true, SETTLE_SNOOZE, OUTCOME_SNOOZE, 9000, false, "later"},
		{OUTCOME_SNOOZE, INT64_MAX, "later", 1, 10, false, SETTLE_SNOOZE, OUTCOME_SNOOZE, CAP_MS, false, "later"},
		{OUTCOME_SNOOZE, -1, "later", 1, 10, false, SETTLE_SNOOZE, OUTCOME_SNOOZE, 0, false, "later"},
		{OUTCOME_DEAD, -1, "exit status 65", 1, 10, false, SETTLE_DEAD, OUTCOME_DEAD, 0, true, "exit status 65"},
		{OUTCOME_CANCELLED, -1, "cancelled", 10, 10, false, SETTLE_CANCEL, OUTCOME_CANCELLED, 0, true, "cancelled"},
		{OUTCOME_RELEASED, -1, "shutdown", 10, 10, true, SETTLE_RELEASE, OUTCOME_RELEASED, 0, false, "shutdown"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct outcome o = outcome_of(table[i].kind, table[i].asked_ms, table[i].cause);
		struct settlement *s = make();

		s->delay_ms = 77;
		assert_true(settlement_decide(s, &o, table[i].attempt, table[i].max, &backoff, table[i].ledger_all, 500));
		if (s->action != table[i].action || s->delay_ms != table[i].delay_ms)
			print_error("row %zu\n", i);
		assert_string_equal(settle_action_name(s->action), settle_action_name(table[i].action));
		assert_string_equal(outcome_name(s->outcome), outcome_name(table[i].outcome));
		assert_int_equal(s->delay_ms, table[i].delay_ms);
		assert_int_equal(s->ledger, table[i].ledger);
		assert_int_equal(s->ledger_success, table[i].ledger_all);
		assert_string_equal(s->cause, table[i].says);
		settlement_free(s);
	}
}

static void test_lost_lease_writes_nothing(void **state)
{
	struct outcome o = outcome_of(OUTCOME_LEASE_LOST, -1, "gone");
	struct settlement *s = make();

	(void)state;
	assert_false(settlement_decide(s, &o, 1, 10, &backoff, true, 0));
	assert_false(s->ledger);
	settlement_free(s);
}

/* The delay grows with the attempt and stays within the settings and the cap. */
static void test_backoff_applies(void **state)
{
	static const struct backoff century = {INT64_C(86400000) * 36500, INT64_C(86400000) * 36500};
	struct outcome o = outcome_of(OUTCOME_RETRY, -1, "x");
	struct settlement *s = make();

	(void)state;
	for (unsigned int attempt = 0; attempt < 65535; attempt += attempt < 20 ? 1 : 97) {
		assert_true(settlement_decide(s, &o, attempt, 65535, &backoff, false, 59999));
		assert_int_equal(s->delay_ms, backoff_delay_ms(&backoff, attempt, 59999));
		assert_in_range(s->delay_ms, 1, backoff.max_ms);
	}
	assert_true(settlement_decide(s, &o, 1, 10, &century, false, (uint64_t)century.max_ms));
	assert_int_equal(s->delay_ms, CAP_MS);
	settlement_free(s);
}

static void test_long_cause_is_cut_between_characters(void **state)
{
	struct outcome o = outcome_of(OUTCOME_RETRY, -1, "");
	struct settlement *s = make();

	(void)state;
	for (size_t lead = 0; lead < 3; lead++) {
		memset(o.cause, 'a', lead);
		for (size_t at = lead; at + 3 < sizeof(o.cause); at += 3)
			memcpy(o.cause + at, "\xe2\x82\xac", 4);
		assert_true(settlement_decide(s, &o, 10, 10, &backoff, false, 0));
		assert_in_range(strlen(s->cause), sizeof(s->cause) - 4, sizeof(s->cause) - 1);
		assert_true(utf8_valid(s->cause, strlen(s->cause)));
	}
	settlement_free(s);
}

static void test_bare(void **state)
{
	struct outcome o = outcome_of(OUTCOME_SUCCEEDED, -1, "");
	struct settlement *s = make();

	(void)state;
	settlement_decide(s, &o, 1, 10, &backoff, false, 0);
	assert_true(settlement_is_bare(s));
	s->ran = true; /* figures alone need no statement of their own */
	assert_true(settlement_is_bare(s));
	s->has_result = true; /* an empty result is one */
	assert_false(settlement_is_bare(s));
	s->has_result = false;
	buf_adds(&s->error, "x");
	assert_false(settlement_is_bare(s));
	buf_clear(&s->error);
	settlement_decide(s, &o, 1, 10, &backoff, true, 0);
	assert_false(settlement_is_bare(s));
	o.kind = OUTCOME_RELEASED;
	settlement_decide(s, &o, 1, 10, &backoff, false, 0);
	assert_false(settlement_is_bare(s));
	settlement_free(s);
}

static bool plain_ascii(const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text < 0x20 || *text > 0x7e)
			return false;
	}
	return true;
}

static void test_minimise(void **state)
{
	char long_story[400];
	const char *const whys[] = {
		"the server said 1366", "caf\xc3\xa9\n\xff\x01\x7f", "", long_story,
	};
	static const size_t limits[] = {0, 5, 500};
	struct outcome o = outcome_of(OUTCOME_RETRY, -1, "caf\xc3\xa9 ...");
	struct job job = {.id = 1};

	(void)state;
	memset(long_story, '.', sizeof(long_story) - 1);
	long_story[sizeof(long_story) - 1] = '\0';
	for (size_t i = 0; i < COUNT(whys) * COUNT(limits); i++) {
		const char *why = whys[i % COUNT(whys)];
		size_t limit = limits[i / COUNT(whys)];
		struct settlement *s = settlement_new(&job, 100000, limit);

		settlement_decide(s, &o, 1, 10, &backoff, false, 0);
		buf_addf(&s->result, "%50000d", 1);
		s->has_result = true;
		buf_adds(&s->error, "much text that does not fit"); /* makes the small ones bad */
		settlement_minimise(s, why);
		assert_false(s->has_result);
		assert_int_equal(s->result.len, 0);
		assert_int_equal(s->result.cap, 0);
		assert_true(buf_ok(&s->error));
		assert_true(s->error.len <= 200);
		assert_true(plain_ascii(s->error.data));
		assert_true(plain_ascii(s->cause));
		assert_int_equal(strncmp(s->cause, "record reduced: ", 16), 0);
		if (limit == 500)
			assert_string_equal(s->error.data, s->cause);
		if (plain_ascii(why) && strlen(why) < 100)
			assert_string_equal(s->cause + 16, why);
		assert_int_equal(s->action, SETTLE_RETRY); /* what becomes of the job stays */
		assert_true(s->ledger);
		settlement_free(s);
	}
}

static void test_names(void **state)
{
	static const char *const names[SETTLE_ACTIONS] = {"succeed", "retry",   "snooze", "park",
							"wait",	   "release", "dead",	"cancel"};

	(void)state;
	for (unsigned int i = 0; i < SETTLE_ACTIONS; i++)
		assert_string_equal(settle_action_name((enum settle_action)i), names[i]);
	assert_string_equal(settle_action_name(SETTLE_ACTIONS), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new),
		cmocka_unit_test(test_decide),
		cmocka_unit_test(test_lost_lease_writes_nothing),
		cmocka_unit_test(test_backoff_applies),
		cmocka_unit_test(test_long_cause_is_cut_between_characters),
		cmocka_unit_test(test_bare),
		cmocka_unit_test(test_minimise),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
