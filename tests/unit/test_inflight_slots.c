/* test_inflight_slots.c - jobs of the register that hold a fleet slot besides their lease. */
#include "inflight_bench.h"

#include "model/trust.h"

static const struct job_slot slot = { .key = "k", .number = 3, .limit = 4 };

/* Trust and deadline are those of the earlier of the two, whichever is renewed. */
static void test_trust_is_the_earlier_of_lease_and_slot(void **unused)
{
	const int64_t late = SENT_MS + 2000, lease_until = trust_until_ms(SENT_MS, LEASE_MS);
	struct news n;
	struct inflight *r = fresh(&n, 4);
	struct slot_held held[4];

	(void)unused;
	bring_to(r, &n, INFLIGHT_QUEUED);
	assert_int_equal(inflight_list_slots(r, 0, SENT_MS, held), 0);
	assert_false(inflight_took_slot(r, 1, OTHER, &slot, SENT_MS));
	assert_true(inflight_took_slot(r, 1, LEASE, &slot, SENT_MS + 100)); /* a claim comes before its slot */
	assert_int_equal(run(r, &n, 1, SENT_MS + 200), INFLIGHT_GO);
	assert_int_equal(n.kill_at_ms, lease_until);
	inflight_renewed(r, 1, LEASE, late, late);
	assert_int_equal(n.deadlines, 1);
	assert_int_equal(n.kill_at_ms, trust_until_ms(SENT_MS + 100, LEASE_MS)); /* no further than the slot */
	inflight_slot_renewed(r, 1, OTHER, late + 500, late + 500);
	inflight_slot_renewed(r, 1, LEASE, late + 500, late + 500);
	assert_int_equal(n.kill_at_ms, trust_until_ms(late, LEASE_MS)); /* no further than the lease */
	assert_int_equal(inflight_list_slots(r, 0, late, held), 1);
	assert_string_equal(held[0].slot.key, "k");
	assert_int_equal(held[0].slot.number, 3);
	assert_string_equal(held[0].lease, LEASE);
	assert_int_equal(inflight_list_slots(r, 1, late, held), 0); /* another pool's */
	/* One of the two passed: none comes back, and none is renewed. */
	inflight_slot_renewed(r, 1, LEASE, late + LEASE_MS, late + LEASE_MS);
	assert_int_equal(n.kill_at_ms, trust_until_ms(late, LEASE_MS));
	assert_int_equal(inflight_list_slots(r, 0, late + LEASE_MS, held), 0);
	inflight_free(r);
}

static void test_slots_are_listed_by_key_and_number(void **unused)
{
	static const struct job_slot slots[] = { { "b", 0, 9 }, { "a", 7, 9 }, { "a", 2, 9 } };
	struct news n;
	struct inflight *r = fresh(&n, 4);
	struct slot_held held[4];

	(void)unused;
	for (uint64_t id = 1; id <= 3; id++) {
		claim(r, id);
		assert_false(inflight_took_slot(r, id, LEASE, &slots[id - 1], SENT_MS)); /* not before it is ours */
		assert_true(inflight_won(r, id, LEASE));
		assert_true(inflight_took_slot(r, id, LEASE, &slots[id - 1], SENT_MS));
	}
	assert_int_equal(inflight_list_slots(r, 0, SENT_MS, held), 3);
	assert_int_equal(held[0].id, 3);
	assert_int_equal(held[1].id, 2);
	assert_int_equal(held[2].id, 1);
	inflight_free(r);
}

static void test_a_lost_slot_ends_the_run_at_once(void **unused)
{
	struct news n;
	struct inflight *r = fresh(&n, 4);
	struct slot_held held[4];
	enum inflight_state s;

	(void)unused;
	bring_to(r, &n, INFLIGHT_QUEUED);
	assert_false(inflight_lose_slot(r, 1, LEASE)); /* it has none */
	assert_true(inflight_took_slot(r, 1, LEASE, &slot, SENT_MS));
	assert_int_equal(run(r, &n, 1, SENT_MS), INFLIGHT_GO);
	assert_false(inflight_lose_slot(r, 1, OTHER));
	assert_true(inflight_lose_slot(r, 1, LEASE));
	assert_int_equal(n.ends, 1);
	assert_int_equal(n.reason, END_LEASE);
	assert_int_equal(n.grace_ms, 0);
	assert_int_equal(state_of(r), INFLIGHT_LOST);
	assert_false(inflight_lose_slot(r, 1, LEASE));
	assert_int_equal(inflight_list_slots(r, 0, SENT_MS, held), 0);
	assert_false(inflight_settle(r, 1, LEASE, &s));
	inflight_free(r);
}

/* While the handler of a settled job runs on, its slot is renewed and bounds it; when the slot is lost, the handler is ended. */
static void test_a_handler_that_settled_its_job_keeps_its_slot(void **unused)
{
	struct news n;
	struct inflight *r = fresh(&n, 4);
	struct slot_held held[4];
	enum inflight_state s;

	(void)unused;
	bring_to(r, &n, INFLIGHT_QUEUED);
	assert_true(inflight_took_slot(r, 1, LEASE, &slot, SENT_MS + 100));
	assert_int_equal(run(r, &n, 1, SENT_MS + 100), INFLIGHT_GO);
	assert_true(inflight_settled_by_handler(r, 1, LEASE));
	assert_int_equal(n.kill_at_ms, trust_until_ms(SENT_MS + 100, LEASE_MS));
	assert_int_equal(inflight_list_slots(r, 0, SENT_MS, held), 1);
	inflight_slot_renewed(r, 1, LEASE, 5000, 5000);
	assert_int_equal(n.kill_at_ms, trust_until_ms(5000, LEASE_MS));
	assert_true(inflight_lose_slot(r, 1, LEASE));
	assert_int_equal(n.reason, END_LEASE);
	assert_false(inflight_settle(r, 1, LEASE, &s));
	assert_int_equal(s, INFLIGHT_SETTLED);
	inflight_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trust_is_the_earlier_of_lease_and_slot),
		cmocka_unit_test(test_slots_are_listed_by_key_and_number),
		cmocka_unit_test(test_a_lost_slot_ends_the_run_at_once),
		cmocka_unit_test(test_a_handler_that_settled_its_job_keeps_its_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
