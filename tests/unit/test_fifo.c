/* test_fifo.c - the queue between threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fifo.h"
#include "base/gate.h"
#include "base/thread.h"

#include <stdatomic.h>

#define NEVER_MS (INT64_C(3600) * 1000)
#define ITEMS 3000
#define TAKERS 3

struct item {
	struct fifo_link link;
	int number;
	atomic_int taken;
};

static int number_of(const struct fifo_link *link)
{
	return ((const struct item *)(const void *)link)->number;
}

static void test_first_in_first_out(void **state)
{
	struct item items[5] = {0};
	struct fifo_link *out[5];
	struct fifo q;

	(void)state;
	fifo_init(&q);
	for (int i = 0; i < 5; i++) {
		items[i].number = i;
		fifo_push(&q, &items[i].link);
	}
	assert_int_equal(fifo_count(&q), 5);
	assert_int_equal(fifo_take(&q, out, 0, -1, 0), 0);
	assert_int_equal(fifo_take(&q, out, 2, -1, 0), 2);
	assert_int_equal(number_of(out[0]), 0);
	assert_int_equal(number_of(out[1]), 1);
	fifo_push(&q, &items[0].link); /* an item may come back */
	assert_int_equal(fifo_take(&q, out, 5, 0, 0), 4);
	for (int i = 0; i < 3; i++)
		assert_int_equal(number_of(out[i]), i + 2);
	assert_int_equal(number_of(out[3]), 0);
	assert_int_equal(fifo_count(&q), 0);
	fifo_push(&q, &items[1].link); /* and an emptied queue goes on */
	assert_int_equal(fifo_take(&q, out, 5, 0, 0), 1);
	assert_int_equal(number_of(out[0]), 1);
	fifo_destroy(&q);
}

static void test_empty_times_out(void **state)
{
	static const int64_t timeouts[] = {0, 1, 20};
	struct fifo_link *out[1];
	struct fifo q;

	(void)state;
	fifo_init(&q);
	for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
		int64_t start = clock_boot_us();

		assert_int_equal(fifo_take(&q, out, 1, timeouts[i], NEVER_MS), 0);
		assert_true(clock_boot_us() - start >= timeouts[i] * 1000 - 1000);
	}
	fifo_destroy(&q);
}

static void test_closed_hands_out_the_rest(void **state)
{
	struct item items[3] = {0};
	struct fifo_link *out[3];
	struct fifo q;

	(void)state;
	fifo_init(&q);
	fifo_push(&q, &items[0].link);
	assert_false(fifo_closed(&q));
	fifo_close(&q);
	assert_true(fifo_closed(&q));
	fifo_push(&q, &items[1].link);
	assert_int_equal(fifo_take(&q, out, 1, -1, NEVER_MS), 1);
	assert_ptr_equal(out[0], &items[0].link);
	assert_int_equal(fifo_take(&q, out, 3, -1, NEVER_MS), 1); /* closed: no lingering */
	assert_ptr_equal(out[0], &items[1].link);
	assert_int_equal(fifo_take(&q, out, 3, -1, NEVER_MS), 0);
	fifo_push(&q, &items[2].link);
	assert_int_equal(fifo_take(&q, out, 3, 0, 0), 1);
	fifo_destroy(&q);
}

static void test_lingers_until_full_or_late(void **state)
{
	struct item items[3] = {0};
	struct fifo_link *out[3];
	struct fifo q;
	int64_t start;

	(void)state;
	fifo_init(&q);
	for (int i = 0; i < 3; i++)
		fifo_push(&q, &items[i].link);
	assert_int_equal(fifo_take(&q, out, 3, 0, NEVER_MS), 3); /* full: at once */
	fifo_push(&q, &items[0].link);
	start = clock_boot_us();
	assert_int_equal(fifo_take(&q, out, 3, NEVER_MS, 5), 1);
	assert_true(clock_boot_us() - start >= 4000);
	fifo_destroy(&q);
}

struct crowd {
	struct fifo q;
	struct item items[ITEMS];
	atomic_int got;
};

static void *crowd_main(void *arg)
{
	struct crowd *c = arg;
	struct fifo_link *out[7];
	size_t n;

	/* Each with its own appetite; the lingering ones must not swallow the others' wake-ups. */
	while ((n = fifo_take(&c->q, out, 1 + (size_t)atomic_load(&c->got) % 7, -1, atomic_load(&c->got) % 2)) > 0) {
		for (size_t i = 0; i < n; i++)
			atomic_fetch_add(&((struct item *)(void *)out[i])->taken, 1);
		atomic_fetch_add(&c->got, (int)n);
	}
	return NULL;
}

static void test_each_item_reaches_one_taker(void **state)
{
	static struct crowd c;
	pthread_t takers[TAKERS];

	(void)state;
	fifo_init(&c.q);
	for (int i = 0; i < TAKERS; i++)
		assert_int_equal(thread_start(&takers[i], "taker", crowd_main, &c, NULL), LH_OK);
	for (int i = 0; i < ITEMS; i++)
		fifo_push(&c.q, &c.items[i].link);
	fifo_close(&c.q);
	for (int i = 0; i < TAKERS; i++)
		pthread_join(takers[i], NULL);
	assert_int_equal(atomic_load(&c.got), ITEMS);
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal(atomic_load(&c.items[i].taken), 1);
	fifo_destroy(&c.q);
}

static void *close_main(void *arg)
{
	fifo_close(arg);
	return NULL;
}

static void test_close_wakes_a_waiter(void **state)
{
	struct fifo_link *out[1];
	pthread_t closer;
	struct fifo q;

	(void)state;
	fifo_init(&q);
	assert_int_equal(thread_start(&closer, "closer", close_main, &q, NULL), LH_OK);
	assert_int_equal(fifo_take(&q, out, 1, -1, 0), 0);
	pthread_join(closer, NULL);
	fifo_destroy(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_in_first_out),
		cmocka_unit_test(test_empty_times_out),
		cmocka_unit_test(test_closed_hands_out_the_rest),
		cmocka_unit_test(test_lingers_until_full_or_late),
		cmocka_unit_test(test_each_item_reaches_one_taker),
		cmocka_unit_test(test_close_wakes_a_waiter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
