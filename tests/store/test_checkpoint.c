/* test_checkpoint.c - the completer's part that saves steps, on a real server: what is answered when, what waits for what. */
#include "store_test.h"

#include "base/clock.h"
#include "base/log.h"
#include "handler/step_box.h"
#include "worker/checkpoint.h"
#include "worker/instance.h"
#include "worker/role.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As much of an instance as a role needs. */
static struct settings settings;
static struct instance instance;
static struct role *role;
static struct checkpoint saver;
static struct step_box *box;
static struct fifo_link *items[CHECKPOINT_MOST];
static struct settlement *ready[CHECKPOINT_MOST];
static size_t item_count;

static int set_up(void **state)
{
	static const struct role_ops ops = { .thread = "lh-settle", .area = "settle" };
	static const struct role_options options = { .timeout_ms = 5000, .lock_wait_s = 1, .most_wait_ms = 200 };

	store_test_empty(state);
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT, 2);
	settings.database = t.settings;
	instance = (struct instance){ .startup = &settings };
	role = role_new(sizeof(*role), &ops, &instance, &options);
	box = step_box_new();
	assert_non_null(role);
	assert_non_null(box);
	checkpoint_init(&saver, role);
	item_count = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_false(checkpoint_waits(&saver));
	step_box_close(box);
	role_free(role);
	return 0;
}

static void give_step(uint64_t id, const char *lease, const char *name, const char *data, uint32_t save_no)
{
	struct job job = { .id = id, .claim_no = 1 };
	struct step *step;

	memcpy(job.lease, lease, sizeof(job.lease));
	step = step_new(box, &job, name, data, strlen(data));
	assert_non_null(step);
	step->save_no = save_no;
	items[item_count++] = &step->out.link;
}

static void give_settlement(uint64_t id)
{
	items[item_count++] = &new_settlement(id, LEASE_A, SETTLE_SUCCEED, OUTCOME_SUCCEEDED, "")->out.link;
}

/* The jobs of the settlements that may be written, in their order; they end here. */
static const char *settle(size_t n)
{
	static char text[1024];
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%llu ", (unsigned long long)ready[i]->id);
		settlement_free(ready[i]);
	}
	return text;
}

static const char *take(void)
{
	size_t n = item_count;

	item_count = 0;
	return settle(checkpoint_save(&saver, items, n, ready));
}

/* When it is time, once more. NULL: it is not. */
static const char *recall(void)
{
	struct fifo_link *item = checkpoint_recall(&saver);

	if (item == NULL)
		return NULL;
	for (; item != NULL; item = item->next)
		items[item_count++] = item;
	return take();
}

static const char *recall_in_time(void)
{
	const char *text = NULL;

	for (int64_t until = clock_mono_ms() + 5000; text == NULL && clock_mono_ms() < until;) {
		(void)poll(NULL, 0, (int)checkpoint_rest_ms(&saver, 100));
		text = recall();
	}
	assert_non_null(text);
	return text;
}

/* The answers so far: "name=saved" or "name=why", in their order. */
static const char *answers(void)
{
	static char text[1024];
	struct step *step;
	size_t len = 0;

	text[0] = '\0';
	while ((step = step_box_take(box)) != NULL) {
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s=%s ", step->name, step->saved ? "saved" : step->why);
		assert_int_equal(step->saved, step->why[0] == '\0');
		step_free(step);
	}
	return text;
}

static const char *numbers(uint64_t a, uint64_t b)
{
	static char text[64];

	snprintf(text, sizeof(text), b != 0 ? "%llu %llu " : "%llu ", (unsigned long long)a, (unsigned long long)b);
	return text;
}

#define SAVED(id) ask("SELECT GROUP_CONCAT(name, '=', data ORDER BY seq) FROM job_steps WHERE job_id=%u", (uint64_t)(id))

/* Alone and with others, before the settlements that came with them, which keep their order. */
static void test_steps_before_settlements(void **state)
{
	uint64_t a = add_running(LEASE_A, NULL), b = add_running(LEASE_A, NULL);

	(void)state;
	give_settlement(b);
	give_settlement(a);
	assert_string_equal(take(), numbers(b, a));
	give_step(a, LEASE_A, "one", "1", 1);
	assert_string_equal(take(), "");
	assert_string_equal(answers(), "one=saved ");
	give_settlement(b);
	give_step(a, LEASE_A, "two", "2", 2);
	give_step(a, LEASE_B, "stale", "3", 1);
	give_step(a, LEASE_A, "three", "3", 3);
	give_settlement(a);
	assert_string_equal(take(), numbers(b, a));
	assert_string_equal(answers(), "two=saved stale=the lease is not held any more three=saved ");
	assert_string_equal(SAVED(a), "one=1,two=2,three=3");
}

/* A handler's own transaction holds its row, and it waits for the answer: only its own job waits with it, in order. */
static void test_a_locked_row_keeps_only_its_own_waiting(void **state)
{
	uint64_t locked = add_running(LEASE_A, NULL), other = add_running(LEASE_A, NULL);

	(void)state;
	ok(db_begin(t.other, &t.fault));
	ask("SELECT id FROM jobs WHERE id=%u FOR UPDATE", locked);
	give_step(locked, LEASE_A, "one", "1", 1);
	give_step(other, LEASE_A, "free", "1", 1);
	give_step(locked, LEASE_A, "two", "2", 2);
	give_settlement(locked);
	give_settlement(other);
	assert_string_equal(take(), numbers(other, 0));
	assert_string_equal(answers(), "free=saved ");
	give_step(locked, LEASE_A, "one", "3", 3);
	give_settlement(other);
	assert_string_equal(take(), numbers(other, 0));
	assert_in_range(checkpoint_rest_ms(&saver, 500), 0, 50);
	assert_string_equal(recall_in_time(), "");
	assert_string_equal(answers(), "");
	assert_true(checkpoint_waits(&saver));
	db_rollback(t.other);
	assert_string_equal(recall_in_time(), numbers(locked, 0));
	assert_string_equal(answers(), "one=saved two=saved one=saved ");
	assert_string_equal(SAVED(locked), "one=3,two=2");
	assert_null(recall());
	assert_int_equal(checkpoint_rest_ms(&saver, 500), 500);
}

/* What concerns the step alone is answered, and nothing else waits. */
static void test_what_cannot_be_saved(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL);

	(void)state;
	give_step(id, LEASE_A, "a", "\"\xff\"", 1);
	give_step(id, LEASE_A, "b", "1", 2);
	give_settlement(id);
	assert_string_equal(take(), numbers(id, 0));
	assert_string_equal(SAVED(id), "b=1");
	assert_non_null(strstr(answers(), "b=saved "));
	run("RENAME TABLE job_steps TO away");
	give_step(id, LEASE_A, "c", "1", 3);
	give_settlement(id);
	assert_string_equal(take(), numbers(id, 0));
	run("RENAME TABLE away TO job_steps");
	assert_non_null(strstr(answers(), "job_steps' doesn't exist"));
	give_step(id, LEASE_A, "c", "1", 3);
	assert_string_equal(take(), "");
	assert_string_equal(answers(), "c=saved ");
}

/* The session is killed while nothing is in flight, with one step and with several. */
static void test_lost_sessions(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL);

	(void)state;
	for (uint32_t n = 1; n <= 3; n++) {
		give_step(id, LEASE_A, "a", "1", 10 * n);
		assert_string_equal(take(), "");
		assert_string_equal(answers(), "a=saved ");
		run("KILL %u", db_identity(role->session.db)->session);
		for (uint32_t i = 0; i < n; i++)
			give_step(id, LEASE_A, "b", "2", 10 * n + i + 1);
		assert_string_equal(take(), "");
		assert_int_equal(strlen(answers()), n * strlen("b=saved "));
	}
	assert_string_equal(SAVED(id), "a=1,b=2");
}

/* The end: what cannot be written is refused, not left without an answer, and its settlements are handed back. */
static void test_giving_up(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL);
	struct fifo_link *left;

	(void)state;
	ok(db_begin(t.other, &t.fault));
	ask("SELECT id FROM jobs WHERE id=%u FOR UPDATE", id);
	give_step(id, LEASE_A, "a", "1", 1);
	give_settlement(id);
	assert_string_equal(take(), "");
	left = checkpoint_give_up(&saver);
	assert_non_null(left);
	ready[0] = (struct settlement *)(void *)left;
	assert_null(left->next);
	assert_string_equal(settle(1), numbers(id, 0));
	assert_non_null(strstr(answers(), "a=the worker shuts down"));
	db_rollback(t.other);
	/* No server at all. */
	db_close(role->session.db);
	settings.database.socket = (char[]){ "/nowhere" };
	gate_stop(&role->gate);
	for (uint32_t i = 1; i <= 3; i++)
		give_step(id, LEASE_A, "b", "1", i);
	assert_string_equal(take(), "");
	assert_int_equal(strlen(answers()), 3 * strlen("b=the worker shuts down, and the database cannot be reached "));
}

/* A box that its run has closed: steps that come back are freed (the sanitizers tell), and saved all the same. */
static void test_a_run_that_has_ended(void **state)
{
	uint64_t id = add_running(LEASE_A, NULL);

	(void)state;
	give_step(id, LEASE_A, "a", "1", 1);
	give_step(id, LEASE_A, "b", "1", 2);
	step_box_close(box);
	assert_string_equal(take(), "");
	assert_string_equal(SAVED(id), "a=1,b=1");
	box = step_box_new();
	assert_non_null(box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_steps_before_settlements, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_locked_row_keeps_only_its_own_waiting, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_cannot_be_saved, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lost_sessions, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_giving_up, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_run_that_has_ended, set_up, tear_down),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
