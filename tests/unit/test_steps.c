/* test_steps.c - what a handler may save, and that its answers come in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "handler/steps.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define KEPT 300

struct desk {
	struct job job;
	struct job_step saved[2];
	struct run_hooks hooks;
	struct steps steps;
	struct step *taken[KEPT]; /* not yet answered */
	size_t taken_count;
	char answers[4096]; /* "name+ " or "name-why; " each */
};

static void desk_step(void *owner, struct step *step)
{
	struct desk *d = owner;

	assert_true(d->taken_count < KEPT);
	d->taken[d->taken_count++] = step;
}

static void desk_answer(void *owner, const char *name, const char *why)
{
	struct desk *d = owner;
	size_t len = strlen(d->answers);

	snprintf(d->answers + len, sizeof(d->answers) - len, why == NULL ? "%s+%s " : "%s-%s; ", name, why == NULL ? "" : why);
}

static void desk_init(struct desk *d)
{
	memset(d, 0, sizeof(*d));
	d->job.id = 17;
	d->job.claim_no = 3;
	strcpy(d->job.lease, "123e4567-e89b-42d3-a456-426614174000");
	d->hooks.owner = d;
	d->hooks.step = desk_step;
	steps_init(&d->steps, &d->job, &d->hooks);
	d->steps.owner = d;
	d->steps.answer = desk_answer;
}

static void desk_free(struct desk *d)
{
	for (size_t i = 0; i < d->taken_count; i++)
		step_answer(d->taken[i], NULL);
	steps_free(&d->steps);
}

/* data: JSON text; NULL: none was given. */
static void save(struct desk *d, const char *name, const char *data)
{
	json_t *key = json_string(name), *value = data == NULL ? NULL : json_loads(data, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

	assert_non_null(key);
	assert_true(data == NULL || value != NULL);
	steps_save(&d->steps, key, value);
	json_decref(key);
	json_decref(value);
}

/* The oldest step comes back. */
static void settle(struct desk *d, const char *why)
{
	assert_true(d->taken_count > 0);
	step_answer(d->taken[0], why);
	memmove(d->taken, d->taken + 1, --d->taken_count * sizeof(d->taken[0]));
}

static void test_saved(void **state)
{
	struct pollfd bell;
	struct desk d;

	(void)state;
	desk_init(&d);
	assert_int_equal(steps_bell(&d.steps), -1);
	save(&d, "charged", "{\"amount\": [1, 2.5, null], \"x\":\"\\u0000\xc3\xa9\"}");
	save(&d, "nothing", NULL);
	assert_int_equal(d.taken_count, 2);
	assert_string_equal(d.taken[0]->name, "charged");
	assert_string_equal(d.taken[0]->data, "{\"amount\":[1,2.5,null],\"x\":\"\\u0000\xc3\xa9\"}");
	assert_int_equal(d.taken[0]->data_len, strlen(d.taken[0]->data));
	assert_int_equal(d.taken[0]->id, 17);
	assert_int_equal(d.taken[0]->claim_no, 3);
	assert_string_equal(d.taken[0]->lease, d.job.lease);
	assert_string_equal(d.taken[1]->data, "null");
	/* Nothing is said before it is known. */
	bell = (struct pollfd){.fd = steps_bell(&d.steps), .events = POLLIN};
	assert_int_equal(poll(&bell, 1, 0), 0);
	steps_collect(&d.steps);
	assert_string_equal(d.answers, "");
	settle(&d, NULL);
	assert_int_equal(poll(&bell, 1, 0), 1);
	settle(&d, "the lease is lost");
	steps_collect(&d.steps);
	assert_string_equal(d.answers, "charged+ nothing-the lease is lost; ");
	assert_int_equal(poll(&bell, 1, 0), 0);
	desk_free(&d);
}

static void test_names(void **state)
{
	static const char *const good[] = {"a", "A-b_c.d:0", "1234567890123456789012345678901234567890123456789012345678901234"};
	static const char *const bad[] = {"", "a b", "a/b", "\xc3\xa9", "a\n",
					  "12345678901234567890123456789012345678901234567890123456789012345"};
	json_t *nul = json_stringn("a\0b", 3);
	struct desk d;

	(void)state;
	desk_init(&d);
	for (size_t i = 0; i < COUNT(good); i++)
		save(&d, good[i], NULL);
	assert_int_equal(d.taken_count, COUNT(good));
	for (size_t i = 0; i < COUNT(bad); i++)
		save(&d, bad[i], NULL);
	steps_save(&d.steps, nul, NULL);
	assert_int_equal(d.taken_count, COUNT(good));
	/* They wait for those before them. */
	assert_string_equal(d.answers, "");
	for (size_t i = 0; i < COUNT(good); i++)
		settle(&d, NULL);
	steps_collect(&d.steps);
	assert_non_null(strstr(d.answers, "1234+ -a name has 1 to 64"));
	assert_non_null(strstr(d.answers, "a b-a name has"));
	json_decref(nul);
	desk_free(&d);
}

static void test_order_of_answers(void **state)
{
	struct desk d;

	(void)state;
	desk_init(&d);
	save(&d, "no 1", NULL);
	save(&d, "a", NULL);
	save(&d, "no 2", NULL);
	save(&d, "no 3", NULL);
	save(&d, "b", NULL);
	save(&d, "no 4", NULL);
	assert_non_null(strstr(d.answers, "no 1-"));
	assert_null(strstr(d.answers, "no 2-"));
	settle(&d, NULL);
	steps_collect(&d.steps);
	assert_non_null(strstr(d.answers, "a+ no 2-"));
	assert_non_null(strstr(d.answers, "no 3-"));
	assert_null(strstr(d.answers, "no 4-"));
	settle(&d, NULL);
	steps_collect(&d.steps);
	assert_non_null(strstr(d.answers, "b+ no 4-"));
	desk_free(&d);
}

/* The names of earlier attempts count, too; saving one of them again takes no further place. */
static void test_limit_of_names(void **state)
{
	char name[16], text[] = "7";
	struct desk d;

	(void)state;
	desk_init(&d);
	strcpy(d.saved[0].name, "old");
	d.saved[0].data = text;
	d.saved[0].data_len = 1;
	d.job.steps = d.saved;
	d.job.step_count = 1;
	for (int i = 0; i < JOB_STEPS_MAX; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		save(&d, name, NULL);
	}
	save(&d, "n0", "1");
	save(&d, "old", "2");
	assert_int_equal(d.taken_count, JOB_STEPS_MAX - 1 + 2);
	while (d.taken_count > 0)
		settle(&d, NULL);
	steps_collect(&d.steps);
	assert_non_null(strstr(d.answers, "n63-a job may save 64 steps; n0+ old+ "));
	desk_free(&d);
}

static void test_limit_of_data(void **state)
{
	size_t room = JOB_STEPS_BYTES_MAX;
	char *text = malloc(room + 3), half[] = "\"12345678\"";
	struct desk d;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', room + 2);
	text[0] = text[room] = '"';
	text[room + 1] = '\0';
	desk_init(&d);
	save(&d, "one", text); /* a byte too many */
	text[room - 1] = '"';
	text[room] = '\0';
	save(&d, "all", text);
	save(&d, "more", "1");
	/* What replaces data makes room. */
	save(&d, "all", half);
	save(&d, "more", "1");
	assert_int_equal(d.taken_count, 3);
	while (d.taken_count > 0)
		settle(&d, NULL);
	steps_collect(&d.steps);
	assert_string_equal(d.answers, "one-the data of a job's steps may have 64 KiB together; all+ "
				       "more-the data of a job's steps may have 64 KiB together; all+ more+ ");
	desk_free(&d);
	free(text);
}

/* A handler that saves faster than the database writes is read no further for a while. */
static void test_full(void **state)
{
	struct desk d;

	(void)state;
	desk_init(&d);
	for (int i = 0; i < STEPS_WAITING_MAX; i++) {
		assert_false(steps_full(&d.steps));
		save(&d, i % 2 == 0 ? "a" : "not good", NULL);
	}
	assert_true(steps_full(&d.steps));
	settle(&d, NULL);
	steps_collect(&d.steps);
	assert_false(steps_full(&d.steps));
	desk_free(&d);
}

static void test_nobody_saves(void **state)
{
	struct desk d;

	(void)state;
	desk_init(&d);
	d.hooks.step = NULL;
	save(&d, "a", NULL);
	assert_string_equal(d.answers, "a-steps are not saved here; ");
	desk_free(&d);
}

static void expect_json(json_t *object, const char *want)
{
	char *text = json_dumps(object, JSON_COMPACT);

	assert_non_null(text);
	assert_string_equal(text, want);
	free(text);
	json_decref(object);
}

static void test_texts(void **state)
{
	char one[] = "{\"b\": 1,\n \"a\":[0.1]}", two[] = "not JSON", deep[60000] = "";
	struct desk d;

	(void)state;
	desk_init(&d);
	expect_json(steps_saved(&d.job), "{}");
	strcpy(d.saved[0].name, "z");
	d.saved[0].data = one;
	d.saved[0].data_len = strlen(one);
	strcpy(d.saved[1].name, "a");
	d.saved[1].data = two;
	d.saved[1].data_len = strlen(two);
	d.job.steps = d.saved;
	d.job.step_count = 2;
	expect_json(steps_saved(&d.job), "{\"z\":{\"b\":1,\"a\":[0.10000000000000001]},\"a\":null}");
	memset(deep, '[', sizeof(deep) - 1);
	d.saved[1].data = deep;
	d.saved[1].data_len = sizeof(deep) - 1;
	d.job.steps = d.saved + 1;
	d.job.step_count = 1;
	expect_json(steps_saved(&d.job), "{\"a\":null}");
	expect_json(steps_answer_object("a", NULL), "{\"name\":\"a\",\"saved\":true}");
	expect_json(steps_answer_object("a", "no"), "{\"name\":\"a\",\"saved\":false,\"why\":\"no\"}");
	desk_free(&d);
}

/* Answers that come when the run is over find nobody, and cost nothing. */
static void test_late_answers(void **state)
{
	struct desk d;

	(void)state;
	desk_init(&d);
	save(&d, "a", NULL);
	save(&d, "no good", NULL);
	steps_free(&d.steps);
	settle(&d, NULL);
	assert_string_equal(d.answers, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_saved),          cmocka_unit_test(test_names),
		cmocka_unit_test(test_order_of_answers), cmocka_unit_test(test_limit_of_names),
		cmocka_unit_test(test_limit_of_data),  cmocka_unit_test(test_full),
		cmocka_unit_test(test_nobody_saves),   cmocka_unit_test(test_texts),
		cmocka_unit_test(test_late_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
