/* test_step_box.c - saved steps find their way back to the run that sent them, or are freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "handler/step_box.h"

#include <poll.h>
#include <string.h>

static const struct job sample = {.id = 17, .claim_no = 3, .lease = "01234567-89ab-4cde-8f01-23456789abcd"};

static bool rings(const struct step_box *box)
{
	struct pollfd bell = {.fd = step_box_fd(box), .events = POLLIN};

	return poll(&bell, 1, 0) == 1;
}

static struct step *step_named(struct step_box *box, const char *name)
{
	struct step *step = step_new(box, &sample, name, "{\"n\":1}", 7);

	assert_non_null(step);
	return step;
}

static void test_answers_come_back_in_order(void **state)
{
	struct step_box *box = step_box_new();
	struct step *first = step_named(box, "charged"), *second = step_named(box, "mailed"), *step;

	(void)state;
	assert_int_equal(first->id, 17);
	assert_int_equal(first->claim_no, 3);
	assert_string_equal(first->lease, sample.lease);
	assert_string_equal(first->data, "{\"n\":1}");
	assert_false(rings(box));
	assert_null(step_box_take(box));
	step_answer(first, NULL);
	step_answer(second, "the lease was lost");
	assert_true(rings(box));
	step = step_box_take(box);
	assert_ptr_equal(step, first);
	assert_true(step->saved);
	step_free(step);
	assert_true(rings(box));
	step = step_box_take(box);
	assert_ptr_equal(step, second);
	assert_false(step->saved);
	assert_string_equal(step->why, "the lease was lost");
	step_free(step);
	assert_false(rings(box));
	assert_null(step_box_take(box));
	step_box_close(box);
}

/* What a leak checker sees: the box goes with the last of its steps, and takes along what nobody fetched. */
static void test_a_closed_box_waits_for_its_steps(void **state)
{
	struct step_box *box = step_box_new();
	struct step *early = step_named(box, "early"), *late = step_named(box, "late"), *later = step_named(box, "later");

	(void)state;
	step_answer(early, NULL);
	step_box_close(box);
	step_answer(late, NULL);
	step_answer(later, NULL);
	step_box_close(NULL);
}

static void test_a_long_name_is_cut(void **state)
{
	struct step_box *box = step_box_new();
	char name[JOB_STEP_NAME_MAX + 20];
	struct step *step;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	step = step_named(box, name);
	assert_int_equal(strlen(step->name), JOB_STEP_NAME_MAX);
	step_answer(step, NULL);
	step_box_close(box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_come_back_in_order),
		cmocka_unit_test(test_a_closed_box_waits_for_its_steps),
		cmocka_unit_test(test_a_long_name_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
