/* Every legal and illegal move of the register, and what it tells the runner. */
#include "worker/inflight.h"

#include "model/trust.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "inflight_bench.h"

static bool act_won(struct inflight *r, struct news *n) { (void)n; return inflight_won(r, 1, LEASE); }
static bool act_missed(struct inflight *r, struct news *n) { (void)n; return inflight_missed(r, 1, LEASE); }
static bool act_run(struct inflight *r, struct news *n) { return run(r, n, 1, SENT_MS) == INFLIGHT_GO; }
static bool act_settle(struct inflight *r, struct news *n)
{
	enum inflight_state s;
	(void)n;
	return inflight_settle(r, 1, LEASE, &s);
}
static bool act_lose(struct inflight *r, struct news *n) { (void)n; return inflight_lose(r, 1, LEASE); }
static bool act_abandon(struct inflight *r, struct news *n) { (void)n; return inflight_abandon(r, 1, LEASE); }
static bool act_by_handler(struct inflight *r, struct news *n) { (void)n; return inflight_settled_by_handler(r, 1, LEASE); }
static bool act_settled(struct inflight *r, struct news *n) { (void)n; return inflight_settled(r, 1, LEASE); }
static bool act_refused(struct inflight *r, struct news *n) { (void)n; return inflight_refused(r, 1, LEASE); }
static bool act_forget(struct inflight *r, struct news *n) { unsigned int p; (void)n; return inflight_forget(r, 1, LEASE, &p); }

#define NONE INFLIGHT_STATES

/* For each call, the state it leads to from each of the six; -1 = refused, and nothing changes. */
static const struct {
	const char *name;
	bool (*act)(struct inflight *r, struct news *n);
	int to[INFLIGHT_STATES];
} calls[] = {
	/*                           claiming           queued             running            settling          settled lost */
	{ "won", act_won,            { INFLIGHT_QUEUED,   -1,                -1,                -1,               -1,   -1 } },
	{ "missed", act_missed,      { NONE,              -1,                -1,                -1,               -1,   -1 } },
	{ "run", act_run,            { -1,                INFLIGHT_RUNNING,  -1,                -1,               -1,   -1 } },
	{ "settle", act_settle,      { INFLIGHT_SETTLING, INFLIGHT_SETTLING, INFLIGHT_SETTLING, -1,               -1,   -1 } },
	{ "lose", act_lose,          { -1,                INFLIGHT_LOST,     INFLIGHT_LOST,     -1,               -1,   -1 } },
	{ "abandon", act_abandon,    { -1,                -1,                INFLIGHT_LOST,     -1,               -1,   -1 } },
	{ "by_handler", act_by_handler, { -1,             -1,                INFLIGHT_SETTLED,  -1,               -1,   -1 } },
	{ "settled", act_settled,    { -1,                -1,                -1,                INFLIGHT_SETTLED, -1,   -1 } },
	{ "refused", act_refused,    { -1,                -1,                -1,                INFLIGHT_LOST,    -1,   -1 } },
	{ "forget", act_forget,      { -1,                -1,                -1,                -1,               NONE, NONE } },
};

static void test_every_call_in_every_state(void **unused)
{
	(void)unused;
	for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
		for (unsigned int from = 0; from < INFLIGHT_STATES; from++) {
			struct news n;
			struct inflight *r = fresh(&n, 4);
			int to = calls[c].to[from];

			bring_to(r, &n, (enum inflight_state)from);
			assert_int_equal(state_of(r), from);
			if (calls[c].act(r, &n) != (to >= 0))
				fail_msg("%s from %s", calls[c].name, inflight_state_name((enum inflight_state)from));
			assert_int_equal(state_of(r), to >= 0 ? to : (int)from);
			if (to >= 0)
				assert_true(inflight_may_move((enum inflight_state)from, (enum inflight_state)to));
			inflight_free(r);
		}
	}
}

static void test_moves_that_no_call_makes_are_illegal(void **unused)
{
	bool made[INFLIGHT_STATES + 1][INFLIGHT_STATES + 1] = { { false } };

	(void)unused;
	made[NONE][INFLIGHT_CLAIMING] = true;
	for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
		for (unsigned int from = 0; from < INFLIGHT_STATES; from++)
			if (calls[c].to[from] >= 0)
				made[from][calls[c].to[from]] = true;
	for (unsigned int from = 0; from <= INFLIGHT_STATES; from++)
		for (unsigned int to = 0; to <= INFLIGHT_STATES; to++)
			assert_int_equal(inflight_may_move((enum inflight_state)from, (enum inflight_state)to), made[from][to]);
}

static void test_news_of_another_lease_changes_nothing(void **unused)
{
	struct news n;
	struct inflight *r = fresh(&n, 4);
	enum inflight_state s;
	unsigned int pool;

	(void)unused;
	bring_to(r, &n, INFLIGHT_RUNNING);
	assert_false(inflight_lose(r, 1, OTHER));
	assert_false(inflight_settle(r, 1, OTHER, &s));
	assert_int_equal(s, INFLIGHT_STATES);
	assert_false(inflight_cancel(r, 1, OTHER));
	assert_false(inflight_settled_by_handler(r, 1, OTHER));
	assert_false(inflight_forget(r, 1, OTHER, &pool));
	inflight_renewed(r, 1, OTHER, 5000, 5000);
	assert_int_equal(n.deadlines + n.ends, 0);
	assert_int_equal(state_of(r), INFLIGHT_RUNNING);
	inflight_free(r);
}

static void test_an_id_is_here_only_once(void **unused)
{
	struct news n;
	struct inflight *r = fresh(&n, 8);
	uint64_t first[] = { 3, 5, 7 }, second[] = { 2, 3, 5, 9 };

	(void)unused;
	assert_int_equal(inflight_claim(r, 0, first, 3, LEASE, LEASE_MS, SENT_MS), 3);
	assert_int_equal(inflight_claim(r, 1, second, 4, OTHER, LEASE_MS, SENT_MS), 2);
	assert_int_equal(second[0], 2);
	assert_int_equal(second[1], 9);
	assert_int_equal(inflight_occupied(r, 0), 3);
	assert_int_equal(inflight_occupied(r, 1), 2);
	assert_true(inflight_holds(r, 9));
	assert_false(inflight_holds(r, 10));
	inflight_free(r);
}

static void test_a_full_register_takes_no_more(void **unused)
{
	struct news n;
	struct inflight *r = fresh(&n, 2);
	uint64_t ids[] = { 1, 2, 3 };

	(void)unused;
	assert_int_equal(inflight_claim(r, 0, ids, 3, LEASE, LEASE_MS, SENT_MS), 2);
	assert_true(inflight_missed(r, 2, LEASE));
	ids[0] = 3;
	assert_int_equal(inflight_claim(r, 0, ids, 1, LEASE, LEASE_MS, SENT_MS), 1);
	inflight_free(r);
}

static void test_start_carries_the_trust_and_renewals_move_it(void **unused)
{
	struct news n;
	struct inflight *r = fresh(&n, 4);
	int64_t until = trust_until_ms(SENT_MS, LEASE_MS);

	(void)unused;
	claim(r, 1);
	assert_true(inflight_won(r, 1, LEASE));
	inflight_renewed(r, 1, LEASE, SENT_MS + 100, SENT_MS + 100); /* queued: nobody to tell */
	assert_int_equal(n.deadlines, 0);
	assert_int_equal(run(r, &n, 1, SENT_MS + 200), INFLIGHT_GO);
	assert_int_equal(n.kill_at_ms, until + 100);
	inflight_renewed(r, 1, LEASE, SENT_MS + 3000, SENT_MS + 3000);
	assert_int_equal(n.deadlines, 1);
	assert_int_equal(n.run, 77);
	assert_int_equal(n.kill_at_ms, until + 3000);
	inflight_renewed(r, 1, LEASE, SENT_MS + 2000, SENT_MS + 4000); /* an older reply arrives late: never back */
	assert_int_equal(n.deadlines, 1);
	inflight_free(r);
}

static void test_trust_that_passed_does_not_come_back(void **unused)
{
	struct news n;
	struct inflight *r = fresh(&n, 4);
	struct store_held held[4];
	int64_t until = trust_until_ms(SENT_MS, LEASE_MS);

	(void)unused;
	bring_to(r, &n, INFLIGHT_RUNNING);
	assert_int_equal(inflight_list_held(r, 0, until - 1, held), 1);
	assert_int_equal(inflight_list_held(r, 1, until - 1, held), 0);
	assert_int_equal(inflight_list_held(r, 0, until, held), 0);
	inflight_renewed(r, 1, LEASE, until - 1, until);
	assert_int_equal(n.deadlines, 0);
	assert_int_equal(inflight_list_held(r, 0, until, held), 0);
	inflight_free(r);
}

/* What is looked at between two renewals: handlers that run, and nothing else. */
static void test_what_runs(void **unused)
{
	struct news n;
	struct store_held held[4];
	int64_t until = trust_until_ms(SENT_MS, LEASE_MS);

	(void)unused;
	for (int state = 0; state < INFLIGHT_STATES; state++) {
		struct inflight *r = fresh(&n, 4);

		bring_to(r, &n, (enum inflight_state)state);
		assert_int_equal(inflight_list_running(r, 0, until - 1, held), state == INFLIGHT_RUNNING);
		assert_int_equal(inflight_list_running(r, 0, until, held), 0);
		assert_int_equal(inflight_list_running(r, 1, until - 1, held), 0);
		inflight_free(r);
	}
}

/* The trace goes with the lease, and is gone with the entry. */
static void test_trace(void **unused)
{
	static const char trace[] = "0af7651916cd43dd8448eb211c80319c";
	char found[TRACE_ID_LEN + 1] = "x";
	struct news n;
	struct inflight *r = fresh(&n, 4);

	(void)unused;
	bring_to(r, &n, INFLIGHT_RUNNING);
	inflight_trace(r, 1, LEASE, found);
	assert_string_equal(found, "");
	inflight_set_trace(r, 1, OTHER, "1111");
	inflight_set_trace(r, 2, LEASE, trace);
	inflight_set_trace(r, 1, LEASE, trace);
	inflight_trace(r, 1, LEASE, found);
	assert_string_equal(found, trace);
	inflight_trace(r, 1, OTHER, found);
	assert_string_equal(found, "");
	assert_true(inflight_lose(r, 1, LEASE));
	inflight_trace(r, 1, LEASE, found);
	assert_string_equal(found, trace);
	assert_true(inflight_forget(r, 1, LEASE, NULL));
	bring_to(r, &n, INFLIGHT_RUNNING);
	inflight_trace(r, 1, LEASE, found);
	assert_string_equal(found, "");
	inflight_free(r);
}

static void test_what_may_not_start(void **unused)
{
	struct news n;
	struct inflight *r = fresh(&n, 4);
	int64_t until = trust_until_ms(SENT_MS, LEASE_MS);

	(void)unused;
	claim(r, 1);
	assert_int_equal(run(r, &n, 1, SENT_MS), INFLIGHT_GO_LOST); /* not yet known to be ours */
	assert_true(inflight_won(r, 1, LEASE));
	assert_int_equal(run(r, &n, 1, until), INFLIGHT_GO_LAPSED);
	assert_int_equal(n.starts, 0);
	n.refuse = true;
	assert_int_equal(run(r, &n, 1, SENT_MS), INFLIGHT_GO_UNSENT);
	assert_int_equal(state_of(r), INFLIGHT_QUEUED);
	assert_true(inflight_cancel(r, 1, LEASE));
	assert_int_equal(run(r, &n, 1, SENT_MS), INFLIGHT_GO_CANCELLED);
	inflight_free(r);

	r = fresh(&n, 4);
	bring_to(r, &n, INFLIGHT_QUEUED);
	inflight_close(r);
	assert_int_equal(run(r, &n, 1, SENT_MS), INFLIGHT_GO_CLOSED);
	assert_int_equal(n.starts, 0);
	inflight_free(r);
}

static void test_ends(void **unused)
{
	struct news n;
	struct inflight *r = fresh(&n, 4);

	(void)unused;
	bring_to(r, &n, INFLIGHT_RUNNING);
	assert_true(inflight_cancel(r, 1, LEASE));
	assert_false(inflight_cancel(r, 1, LEASE));
	assert_int_equal(n.ends, 1);
	assert_int_equal(n.reason, END_CANCEL);
	assert_int_equal(n.grace_ms, 500);
	inflight_end_all(r, END_SHUTDOWN, -1); /* no harsher than what it has: not repeated */
	assert_int_equal(n.ends, 1);
	assert_true(inflight_lose(r, 1, LEASE)); /* somebody else may be at work: at once */
	assert_int_equal(n.ends, 2);
	assert_int_equal(n.grace_ms, 0);
	inflight_free(r);

	r = fresh(&n, 4);
	bring_to(r, &n, INFLIGHT_RUNNING);
	inflight_end_all(r, END_SHUTDOWN, 200);
	assert_int_equal(n.reason, END_SHUTDOWN);
	assert_int_equal(n.grace_ms, 200);
	inflight_free(r);
}

static void test_a_handler_that_settled_its_job_is_left_alone(void **unused)
{
	struct news n;
	struct inflight *r = fresh(&n, 4);
	struct store_held held[4];
	enum inflight_state s;

	(void)unused;
	bring_to(r, &n, INFLIGHT_RUNNING);
	assert_true(inflight_settled_by_handler(r, 1, LEASE));
	assert_int_equal(n.ends, 0);
	assert_true(n.kill_at_ms == INT64_MAX);
	assert_int_equal(inflight_list_held(r, 0, SENT_MS, held), 0); /* not renewed */
	assert_int_equal(inflight_occupied(r, 0), 1);                  /* its slot is kept */
	assert_false(inflight_settle(r, 1, LEASE, &s));                /* no second write */
	assert_int_equal(s, INFLIGHT_SETTLED);
	inflight_free(r);
}

static void test_claims_in_doubt(void **unused)
{
	struct news n;
	struct inflight *r = fresh(&n, 4);
	struct store_held held[4];
	enum inflight_state s;
	uint64_t ids[] = { 9, 4 };

	(void)unused;
	assert_int_equal(inflight_claim(r, 0, ids, 2, LEASE, LEASE_MS, SENT_MS), 2);
	inflight_doubt(r, 9, LEASE, 5000);
	inflight_doubt(r, 4, LEASE, 7000);
	assert_int_equal(inflight_list_doubt(r, 0, 4999, held), 2);
	assert_int_equal(held[0].id, 4);
	assert_int_equal(inflight_list_doubt(r, 0, 5000, held), 1); /* 9 has left: it was not ours */
	assert_false(inflight_holds(r, 9));
	assert_true(inflight_settle(r, 4, LEASE, &s)); /* it turned up, and is released */
	assert_int_equal(inflight_list_doubt(r, 0, 8000, held), 0);
	assert_int_equal(state_of(r), INFLIGHT_SETTLING);
	inflight_free(r);
}

static void test_progress_is_handed_out_once_a_period(void **unused)
{
	struct news n;
	struct inflight *r = fresh(&n, 4);
	struct inflight_note note;

	(void)unused;
	bring_to(r, &n, INFLIGHT_RUNNING);
	assert_int_equal(inflight_take_progress(r, 0, 1000, &note, 1), 0);
	inflight_progress(r, 1, LEASE, 10, "first");
	inflight_progress(r, 1, LEASE, -1, "second");
	assert_int_equal(inflight_take_progress(r, 0, 1000, &note, 1), 1);
	assert_true(note.percent > 9.9 && note.percent < 10.1);
	assert_string_equal(note.note, "second");
	inflight_progress(r, 1, LEASE, 20, NULL);
	assert_int_equal(inflight_take_progress(r, 999, 1999, &note, 1), 0); /* saved at 1000: too soon */
	assert_int_equal(inflight_take_progress(r, 1000, 2000, &note, 1), 1);
	assert_true(note.percent > 19.9 && note.percent < 20.1);
	inflight_free(r);
}

/* What was sent first never began: another process may have the job, as long as it may run at all. */
static void test_run_again(void **state)
{
	static const enum inflight_state others[] = {INFLIGHT_CLAIMING, INFLIGHT_QUEUED, INFLIGHT_SETTLING, INFLIGHT_SETTLED,
						     INFLIGHT_LOST};
	struct inflight *r;
	struct news n;

	(void)state;
	r = fresh(&n, 1);
	bring_to(r, &n, INFLIGHT_RUNNING);
	n.refuse = true;
	assert_int_equal(inflight_run_again(r, 1, LEASE, 78, 900, SENT_MS, news_send, &n), INFLIGHT_GO_UNSENT);
	n.refuse = false;
	assert_int_equal(inflight_run_again(r, 1, OTHER, 78, 900, SENT_MS, news_send, &n), INFLIGHT_GO_LOST);
	assert_int_equal(inflight_run_again(r, 1, LEASE, 78, 900, SENT_MS, news_send, &n), INFLIGHT_GO);
	assert_int_equal(n.kill_at_ms, trust_until_ms(SENT_MS, LEASE_MS));
	/* From now, word goes to the new number. */
	assert_true(inflight_cancel(r, 1, LEASE));
	assert_int_equal(n.run, 78);
	assert_int_equal(n.grace_ms, 900);
	assert_int_equal(inflight_run_again(r, 1, LEASE, 79, 900, SENT_MS, news_send, &n), INFLIGHT_GO_CANCELLED);
	inflight_free(r);
	r = fresh(&n, 1);
	bring_to(r, &n, INFLIGHT_RUNNING);
	assert_int_equal(inflight_run_again(r, 1, LEASE, 78, 900, SENT_MS + LEASE_MS, news_send, &n), INFLIGHT_GO_LAPSED);
	inflight_close(r);
	assert_int_equal(inflight_run_again(r, 1, LEASE, 78, 900, SENT_MS, news_send, &n), INFLIGHT_GO_CLOSED);
	inflight_free(r);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		r = fresh(&n, 1);
		bring_to(r, &n, others[i]);
		assert_int_equal(inflight_run_again(r, 1, LEASE, 78, 900, SENT_MS, news_send, &n), INFLIGHT_GO_LOST);
		assert_int_equal(state_of(r), others[i]);
		inflight_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_call_in_every_state),
		cmocka_unit_test(test_moves_that_no_call_makes_are_illegal),
		cmocka_unit_test(test_news_of_another_lease_changes_nothing),
		cmocka_unit_test(test_an_id_is_here_only_once),
		cmocka_unit_test(test_a_full_register_takes_no_more),
		cmocka_unit_test(test_start_carries_the_trust_and_renewals_move_it),
		cmocka_unit_test(test_trust_that_passed_does_not_come_back),
		cmocka_unit_test(test_what_runs),
		cmocka_unit_test(test_trace),
		cmocka_unit_test(test_what_may_not_start),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_a_handler_that_settled_its_job_is_left_alone),
		cmocka_unit_test(test_claims_in_doubt),
		cmocka_unit_test(test_progress_is_handed_out_once_a_period),
		cmocka_unit_test(test_run_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
