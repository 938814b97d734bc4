/* test_lapse.c - when recovery believes the server's clock, on a scripted clock. Watching rows: test_lapse_watch.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/lapse.h"
#include "model/trust.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define S INT64_C(1000)
#define HOUR (3600 * S)
#define SERVER_A 11
#define SERVER_B 22

/* A machine and a server. The server's clock is own + offset; offset changes as the script says. */
struct world {
	struct lapse_clock clock;
	int64_t own_us;
	int64_t offset_us;
	int64_t ppm; /* the server's clock runs faster by this */
	int64_t half_rtt_us;
	uint64_t server;
	int64_t lease_ms, margin_ms;
};

static struct world make_world(int64_t lease_ms)
{
	struct world w = {.own_us = 5000000, .half_rtt_us = 400, .server = SERVER_A, .lease_ms = lease_ms};

	w.offset_us = INT64_C(1900000000000000);
	w.margin_ms = trust_margin_ms(lease_ms);
	lapse_clock_init(&w.clock, w.margin_ms, lease_ms);
	return w;
}

static void pass_us(struct world *w, int64_t us)
{
	w->own_us += us;
	w->offset_us += us / 1000 * w->ppm / 1000;
}

/* One reading, and whether the clock is believed right after it. */
static bool reading(struct world *w)
{
	int64_t before_us = w->own_us, server_us;

	pass_us(w, w->half_rtt_us);
	server_us = w->own_us + w->offset_us;
	pass_us(w, w->half_rtt_us);
	lapse_clock_read(&w->clock, server_us, before_us, w->own_us, w->server);
	return lapse_clock_trusted(&w->clock, w->own_us / 1000);
}

/* Readings at each interval for so long. Counts those after which the clock is believed. */
static int64_t readings(struct world *w, int64_t for_ms, int64_t every_ms, int64_t *trusted)
{
	int64_t n = 0, end_us = w->own_us + for_ms * 1000;

	for (*trusted = 0; w->own_us + every_ms * 1000 <= end_us; n++) {
		pass_us(w, every_ms * 1000 - 2 * w->half_rtt_us);
		*trusted += reading(w);
	}
	return n;
}

static bool stays_trusted(struct world *w, int64_t for_ms, int64_t every_ms)
{
	int64_t trusted, n = readings(w, for_ms, every_ms, &trusted);

	return n > 0 && n == trusted;
}

static void settle_down(struct world *w)
{
	int64_t trusted;

	readings(w, 3 * w->lease_ms, w->lease_ms / 12, &trusted);
	assert_true(lapse_clock_trusted(&w->clock, w->own_us / 1000));
}

/* For one lease of readings it is not believed, then it is. */
static void check_distrusted_for_one_lease(struct world *w)
{
	int64_t trusted, every_ms = w->lease_ms / 12;

	assert_false(lapse_clock_trusted(&w->clock, w->own_us / 1000));
	readings(w, w->lease_ms - every_ms, every_ms, &trusted);
	assert_int_equal(trusted, 0);
	readings(w, 2 * every_ms, every_ms, &trusted);
	assert_true(trusted >= 1);
	assert_true(lapse_clock_trusted(&w->clock, w->own_us / 1000));
}

static void test_start(void **state)
{
	struct world w = make_world(60 * S);

	(void)state;
	assert_false(lapse_clock_trusted(&w.clock, w.own_us / 1000));
	assert_false(lapse_clock_trusted(&w.clock, INT64_MAX / 2));
	assert_false(reading(&w));
	check_distrusted_for_one_lease(&w);
}

/* Time alone proves nothing: it takes a reading at the end of the lease as well as one at its start. */
static void test_one_reading_is_not_enough(void **state)
{
	struct world w = make_world(60 * S);

	(void)state;
	reading(&w);
	for (int i = 0; i < 100; i++) {
		pass_us(&w, 7 * S * 1000);
		assert_false(lapse_clock_trusted(&w.clock, w.own_us / 1000));
	}
	assert_true(reading(&w)); /* the same offset as so long ago: no jump in between lasted */
	w = make_world(60 * S);
	reading(&w);
	pass_us(&w, 59 * S * 1000);
	assert_false(reading(&w));
	pass_us(&w, 2 * S * 1000);
	assert_false(lapse_clock_trusted(&w.clock, w.own_us / 1000));
	assert_true(reading(&w));
}

static void test_steady(void **state)
{
	static const int64_t leases[] = {3 * S, 60 * S, HOUR};

	(void)state;
	for (size_t i = 0; i < COUNT(leases); i++) {
		struct world w = make_world(leases[i]);

		settle_down(&w);
		assert_true(stays_trusted(&w, 200 * leases[i], leases[i] / 12));
		assert_true(stays_trusted(&w, 200 * leases[i], leases[i]));
		assert_true(stays_trusted(&w, 10 * leases[i], leases[i] / 300));
	}
}

static void test_steps(void **state)
{
	static const int64_t steps_ms[] = {90 * S, -90 * S, 2 * HOUR, -2 * HOUR, 24 * HOUR, -24 * HOUR};
	static const int64_t leases[] = {3 * S, 60 * S, HOUR};

	(void)state;
	for (size_t l = 0; l < COUNT(leases); l++) {
		struct world w = make_world(leases[l]);

		settle_down(&w);
		for (size_t i = 0; i < COUNT(steps_ms); i++) {
			bool beyond = steps_ms[i] > w.margin_ms || steps_ms[i] < -w.margin_ms;

			w.offset_us += steps_ms[i] * 1000;
			assert_int_equal(reading(&w), !beyond);
			if (beyond)
				check_distrusted_for_one_lease(&w);
			settle_down(&w);
		}
	}
}

/* A step right at the margin, whatever the round trip takes. */
static void test_step_at_the_margin(void **state)
{
	static const int64_t half_rtts_us[] = {0, 50, 1000, 20000, 90000};

	(void)state;
	for (size_t i = 0; i < COUNT(half_rtts_us) * 2; i++) {
		int64_t sign = i % 2 == 0 ? 1 : -1;
		struct world w = make_world(3 * S);

		settle_down(&w);
		w.half_rtt_us = half_rtts_us[i / 2];
		w.offset_us += sign * (w.margin_ms * 1000 + 1);
		assert_false(reading(&w));
		w = make_world(3 * S);
		w.half_rtt_us = 50;
		settle_down(&w);
		w.offset_us += sign * (w.margin_ms * 1000 - 101);
		assert_true(reading(&w));
		w = make_world(3 * S);
		w.half_rtt_us = 0; /* a network without delay measures exactly */
		settle_down(&w);
		w.offset_us += sign * w.margin_ms * 1000;
		assert_true(reading(&w));
		w.offset_us += sign;
		assert_false(reading(&w));
	}
}

/* Small steps that follow each other within a lease add up. */
static void test_small_steps_add_up(void **state)
{
	struct world w = make_world(60 * S);
	int n;

	(void)state;
	settle_down(&w);
	for (n = 0; n < 10; n++) {
		w.offset_us += w.margin_ms * 1000 * 2 / 5;
		if (!stays_trusted(&w, 5 * S, 5 * S))
			break;
	}
	assert_int_equal(n, 2); /* the third is too much */
	check_distrusted_for_one_lease(&w);
	/* One in two leases is a clock that is being slewed. */
	for (n = 0; n < 10; n++) {
		w.offset_us += w.margin_ms * 1000 * 2 / 5;
		assert_true(stays_trusted(&w, 2 * w.lease_ms + 10 * S, 5 * S));
	}
}

static void test_step_and_back(void **state)
{
	struct world w = make_world(60 * S);

	(void)state;
	settle_down(&w);
	w.offset_us += 90 * S * 1000;
	assert_false(reading(&w));
	pass_us(&w, 5 * S * 1000);
	w.offset_us -= 90 * S * 1000;
	assert_false(reading(&w));
	check_distrusted_for_one_lease(&w);
}

/* A clock that is slewed by 500 ppm for a day, in either direction and against our own, stays believed. */
static void test_slew(void **state)
{
	static const int64_t ppms[] = {500, -500, 1000, -1000};
	static const int64_t leases[] = {3 * S, 60 * S, HOUR};

	(void)state;
	for (size_t i = 0; i < COUNT(ppms) * COUNT(leases); i++) {
		struct world w = make_world(leases[i / COUNT(ppms)]);
		int64_t start_us, moved_us;

		w.ppm = ppms[i % COUNT(ppms)];
		settle_down(&w);
		start_us = w.offset_us;
		assert_true(stays_trusted(&w, 24 * HOUR, w.lease_ms / 6));
		moved_us = w.offset_us - start_us;
		assert_true(moved_us > 40000000 || moved_us < -40000000); /* it did move: 43 s at 500 ppm */
		w.offset_us += 2 * w.margin_ms * 1000;
		assert_false(reading(&w)); /* and a step still shows */
	}
}

/* 5 %: a holder's margin would not cover that. */
static void test_slew_too_fast(void **state)
{
	struct world w = make_world(60 * S);
	int64_t trusted;

	(void)state;
	settle_down(&w);
	w.ppm = 50000;
	readings(&w, 2 * w.lease_ms, 5 * S, &trusted);
	readings(&w, 20 * w.lease_ms, 5 * S, &trusted);
	assert_int_equal(trusted, 0);
	w.ppm = 0;
	readings(&w, 2 * w.lease_ms, 5 * S, &trusted);
	assert_true(lapse_clock_trusted(&w.clock, w.own_us / 1000));
}

static void test_slow_replies(void **state)
{
	struct world w = make_world(60 * S);
	int64_t trusted;

	(void)state;
	settle_down(&w);
	w.half_rtt_us = w.margin_ms * 1000 / 2; /* exactly the margin still tells */
	assert_true(reading(&w));
	w.half_rtt_us++;
	assert_false(reading(&w));
	w.half_rtt_us = 400;
	check_distrusted_for_one_lease(&w);
	w.half_rtt_us = w.margin_ms * 1000;
	readings(&w, 10 * w.lease_ms, 5 * S, &trusted);
	assert_int_equal(trusted, 0);
	w.half_rtt_us = 400;
	check_distrusted_for_one_lease(&w);
	/* A slow one first of all, and one that hides a jump. */
	w = make_world(60 * S);
	w.half_rtt_us = w.margin_ms * 1000;
	assert_false(reading(&w));
	w.half_rtt_us = 400;
	assert_false(reading(&w));
	check_distrusted_for_one_lease(&w);
	settle_down(&w);
	w.offset_us += 90 * S * 1000;
	w.half_rtt_us = w.margin_ms * 1000;
	assert_false(reading(&w));
	w.half_rtt_us = 400;
	assert_false(reading(&w));
	check_distrusted_for_one_lease(&w);
}

/* A local time that runs backwards cannot happen; it must not look like a proof. */
static void test_reply_before_the_question(void **state)
{
	struct world w = make_world(60 * S);

	(void)state;
	settle_down(&w);
	lapse_clock_read(&w.clock, w.own_us + w.offset_us, w.own_us, w.own_us - 1, w.server);
	assert_false(lapse_clock_trusted(&w.clock, w.own_us / 1000));
}

static void test_another_server(void **state)
{
	struct world w = make_world(60 * S);

	(void)state;
	settle_down(&w);
	w.server = SERVER_B; /* with the very same clock */
	assert_false(reading(&w));
	check_distrusted_for_one_lease(&w);
	w.server = SERVER_A;
	assert_false(reading(&w));
	pass_us(&w, 5 * S * 1000);
	w.server = SERVER_B;
	assert_false(reading(&w));
	check_distrusted_for_one_lease(&w);
	/* The first answer of the new one is slow: still a new one. */
	w.server = SERVER_A;
	w.half_rtt_us = w.margin_ms * 1000;
	assert_false(reading(&w));
	w.server = SERVER_B;
	w.half_rtt_us = 400;
	assert_false(reading(&w));
	check_distrusted_for_one_lease(&w);
	/* A reconnect to the same one changes nothing. */
	settle_down(&w);
	pass_us(&w, 50 * S * 1000);
	assert_true(reading(&w));
}

/* CLOCK_BOOTTIME runs on while we are suspended: the offset is the same afterwards. Until it was read again nothing is believed. */
static void test_suspended(void **state)
{
	struct world w = make_world(60 * S);

	(void)state;
	settle_down(&w);
	pass_us(&w, 8 * HOUR * 1000);
	assert_false(lapse_clock_trusted(&w.clock, w.own_us / 1000));
	assert_true(reading(&w));
	/* Suspended while the reply was on its way. */
	w.half_rtt_us = 4 * HOUR * 1000;
	assert_false(reading(&w));
	w.half_rtt_us = 400;
	check_distrusted_for_one_lease(&w);
	/* A paused virtual machine: our clock stood still, the server's did not; and the other way round. */
	settle_down(&w);
	w.offset_us += 300 * S * 1000;
	assert_false(reading(&w));
	check_distrusted_for_one_lease(&w);
	settle_down(&w);
	w.offset_us -= 300 * S * 1000;
	assert_false(reading(&w));
	check_distrusted_for_one_lease(&w);
}

/* A row whose holder promised an hour is not judged by a clock that has been steady for a minute. */
static void test_rows_with_longer_leases(void **state)
{
	struct world w = make_world(60 * S);
	int64_t trusted, now_ms;

	(void)state;
	reading(&w);
	readings(&w, HOUR - 5 * S, 5 * S, &trusted);
	now_ms = w.own_us / 1000;
	assert_true(lapse_clock_trusted(&w.clock, now_ms));
	assert_true(lapse_clock_trusted_for(&w.clock, 0, now_ms));
	assert_true(lapse_clock_trusted_for(&w.clock, 3 * S, now_ms));
	assert_true(lapse_clock_trusted_for(&w.clock, 30 * 60 * S, now_ms));
	assert_false(lapse_clock_trusted_for(&w.clock, HOUR, now_ms));
	readings(&w, 10 * S, 5 * S, &trusted);
	assert_true(lapse_clock_trusted_for(&w.clock, HOUR, w.own_us / 1000));
	w.offset_us += 90 * S * 1000;
	reading(&w);
	settle_down(&w);
	assert_false(lapse_clock_trusted_for(&w.clock, HOUR, w.own_us / 1000));
}

/* Always the same pseudo-random numbers (a linear congruential generator, constants by D. Knuth). */
static uint64_t draw(uint64_t *seed, uint64_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*seed >> 33) % below;
}

#define HISTORY 4096

/* The promise itself, on random scripts: whenever the clock is believed, the offset was never beyond the margin from what
 * it is now at any reading within the last lease. Steps of all sizes, drift, round trips up to twice the margin, the
 * server's stamp anywhere within them. */
static void test_what_trust_means(void **state)
{
	static int64_t offsets[HISTORY], times[HISTORY];
	uint64_t seed = 42;
	int believed = 0, steps = 0;

	(void)state;
	for (int script = 0; script < 60; script++) {
		struct world w = make_world(script % 2 == 0 ? 3 * S : 60 * S);
		int64_t margin_us = w.margin_ms * 1000;

		for (int n = 0; n < HISTORY / 8; n++) {
			uint64_t longest_us = (uint64_t)margin_us * 2 / (draw(&seed, 30) == 0 ? 1 : 16);
			int64_t rtt_us = (int64_t)draw(&seed, longest_us);
			int64_t there_us = (int64_t)draw(&seed, (uint64_t)rtt_us + 1), before_us = w.own_us;

			if (draw(&seed, 40) == 0) {
				w.offset_us += (int64_t)draw(&seed, (uint64_t)margin_us * 4) - margin_us * 2;
				steps++;
			}
			offsets[n] = w.offset_us;
			times[n] = w.own_us + there_us;
			w.own_us += rtt_us;
			lapse_clock_read(&w.clock, times[n] + w.offset_us, before_us, w.own_us, w.server);
			if (lapse_clock_trusted(&w.clock, w.own_us / 1000)) {
				believed++;
				for (int i = n; i >= 0 && times[n] - times[i] <= w.lease_ms * 1000; i--) {
					int64_t change_us = offsets[n] - offsets[i];

					assert_true(change_us <= margin_us && change_us >= -margin_us);
				}
			}
			w.own_us += (int64_t)draw(&seed, (uint64_t)w.lease_ms * 1000 / 6);
			w.offset_us += (int64_t)draw(&seed, 200) - 100;
		}
	}
	assert_true(believed > 1000); /* or the test would prove nothing */
	assert_true(steps > 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_one_reading_is_not_enough),
		cmocka_unit_test(test_steady),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_step_at_the_margin),
		cmocka_unit_test(test_small_steps_add_up),
		cmocka_unit_test(test_step_and_back),
		cmocka_unit_test(test_slew),
		cmocka_unit_test(test_slew_too_fast),
		cmocka_unit_test(test_slow_replies),
		cmocka_unit_test(test_reply_before_the_question),
		cmocka_unit_test(test_another_server),
		cmocka_unit_test(test_suspended),
		cmocka_unit_test(test_rows_with_longer_leases),
		cmocka_unit_test(test_what_trust_means),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
