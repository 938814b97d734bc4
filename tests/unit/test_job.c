/* test_job.c - the states of a job, who may move it, and its attempts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/job.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const names[JOB_STATES] = {"ready", "scheduled", "running", "succeeded", "dead", "cancelled"};

static void test_names(void **state)
{
	static const char *const wrong[] = {"", "Ready", "ready ", "done", "failed", "canceled", "run"};
	enum job_state parsed;

	(void)state;
	for (unsigned int i = 0; i < JOB_STATES; i++) {
		assert_string_equal(job_state_name((enum job_state)i), names[i]);
		assert_true(job_state_parse(names[i], &parsed));
		assert_int_equal(parsed, i);
	}
	for (size_t i = 0; i < COUNT(wrong); i++)
		assert_false(job_state_parse(wrong[i], &parsed));
	assert_string_equal(job_state_name(JOB_STATES), "unknown");
}

static void test_finished(void **state)
{
	(void)state;
	assert_false(job_state_finished(JOB_READY));
	assert_false(job_state_finished(JOB_SCHEDULED));
	assert_false(job_state_finished(JOB_RUNNING));
	assert_true(job_state_finished(JOB_SUCCEEDED));
	assert_true(job_state_finished(JOB_DEAD));
	assert_true(job_state_finished(JOB_CANCELLED));
}

/* Every move there is, in letters: w the worker, r recovery, p the promoter, o an operator. All others are forbidden, for
 * everybody. */
static const char *const legal[JOB_STATES][JOB_STATES] = {
	/* to:              ready  sched  runs   succ   dead   cancelled */
	[JOB_READY] =      {"",    "w",   "w",   "",    "",    "o"},
	[JOB_SCHEDULED] =  {"p",   "",    "",    "",    "",    "o"},
	[JOB_RUNNING] =    {"w",   "wr",  "",    "w",   "wr",  "wr"},
	[JOB_SUCCEEDED] =  {"",    "",    "",    "",    "",    ""},
	[JOB_DEAD] =       {"o",   "",    "",    "",    "",    ""},
	[JOB_CANCELLED] =  {"o",   "",    "",    "",    "",    ""},
};

static void test_every_move_by_every_actor(void **state)
{
	static const struct {
		enum job_actor actor;
		char letter;
	} actors[] = {{JOB_BY_WORKER, 'w'}, {JOB_BY_RECOVERY, 'r'}, {JOB_BY_PROMOTER, 'p'}, {JOB_BY_OPERATOR, 'o'}};

	(void)state;
	for (unsigned int from = 0; from < JOB_STATES; from++) {
		for (unsigned int to = 0; to < JOB_STATES; to++) {
			for (size_t a = 0; a < COUNT(actors); a++) {
				bool expect = strchr(legal[from][to], actors[a].letter) != NULL;

				if (job_may_move((enum job_state)from, (enum job_state)to, actors[a].actor) != expect)
					fail_msg("%s -> %s by %c", names[from], names[to], actors[a].letter);
			}
		}
	}
}

static void test_no_move_outside_the_table(void **state)
{
	const enum job_actor all = JOB_BY_WORKER | JOB_BY_RECOVERY | JOB_BY_PROMOTER | JOB_BY_OPERATOR;

	(void)state;
	assert_false(job_may_move(JOB_STATES, JOB_READY, all));
	assert_false(job_may_move(JOB_READY, JOB_STATES, all));
	assert_false(job_may_move(JOB_READY, JOB_RUNNING, (enum job_actor)0));
	assert_false(job_may_move(JOB_READY, JOB_RUNNING, (enum job_actor)16));
}

static void test_max_attempts(void **state)
{
	static const struct {
		unsigned int row, handler, expect;
	} table[] = {{0, 0, 10}, {0, 3, 3}, {5, 3, 5}, {5, 0, 5}, {1, 20, 1}, {65535, 3, 65535}};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++)
		assert_int_equal(job_max_attempts(table[i].row, table[i].handler), table[i].expect);
}

static void test_new_and_free(void **state)
{
	struct job *job = job_new();

	(void)state;
	assert_non_null(job);
	assert_int_equal(job->id, 0);
	assert_null(job->payload);
	assert_string_equal(job->lease, "");
	assert_int_equal(offsetof(struct job, link), 0); /* handoff relies on it */
	job->payload = strdup("{}");
	job_free(job);
	job_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_finished),
		cmocka_unit_test(test_every_move_by_every_actor),
		cmocka_unit_test(test_no_move_outside_the_table),
		cmocka_unit_test(test_max_attempts),
		cmocka_unit_test(test_new_and_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
