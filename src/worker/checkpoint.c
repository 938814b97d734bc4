/* checkpoint.c - see checkpoint.h. */
#include "worker/checkpoint.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "handler/step_box.h"
#include "store/step_store.h"
#include "worker/instance.h"
#include "worker/role.h"

#include <stdio.h>
#include <string.h>

#define CHECKPOINT_AGAIN_MS 25
#define CHECKPOINT_TELL_MS 10000
#define CHECKPOINT_END_WAIT_MS 500 /* ending a lost session only speeds things up: a late copy of a step changes nothing */

enum checkpoint_fate { CHECKPOINT_KNOWN, CHECKPOINT_LATER, CHECKPOINT_OVER };

void checkpoint_init(struct checkpoint *k, struct role *completer)
{
	*k = (struct checkpoint){ .completer = completer };
	k->last = &k->first;
}

bool checkpoint_waits(const struct checkpoint *k)
{
	return k->first != NULL;
}

int64_t checkpoint_rest_ms(const struct checkpoint *k, int64_t most_ms)
{
	int64_t left;

	if (k->first == NULL)
		return most_ms;
	left = k->again_ms - clock_mono_ms();
	return left < 0 ? 0 : left < most_ms ? left : most_ms;
}

static struct step *checkpoint_step(struct fifo_link *item)
{
	return ((struct outgoing *)(void *)item)->kind == OUTGOING_STEP ? (struct step *)(void *)item : NULL;
}

static uint64_t checkpoint_job(struct fifo_link *item)
{
	const struct step *step = checkpoint_step(item);

	return step != NULL ? step->id : ((struct settlement *)(void *)item)->id;
}

/* Something of the job was put aside. */
static bool checkpoint_holds(const struct checkpoint *k, uint64_t job)
{
	for (struct fifo_link *item = k->first; item != NULL; item = item->next)
		if (checkpoint_job(item) == job)
			return true;
	return false;
}

static void checkpoint_put_aside(struct checkpoint *k, struct fifo_link *item)
{
	item->next = NULL;
	*k->last = item;
	k->last = &item->next;
}

static struct fifo_link *checkpoint_take_all(struct checkpoint *k)
{
	struct fifo_link *all = k->first;

	k->first = NULL;
	k->last = &k->first;
	return all;
}

static void checkpoint_refuse(struct step *step, enum log_level level, const char *why)
{
	log_write(level, "settle", "job=%llu step=%s was not saved: %s", (unsigned long long)step->id, step->name, why);
	step_answer(step, why);
}

/* The server's words, for the handler's author. */
static void checkpoint_refuse_fault(struct step *step, const struct fault *f)
{
	char why[sizeof(step->why)];
	struct buf text;

	buf_init(&text, sizeof(f->text) * 4);
	utf8_sanitise(&text, f->text, strlen(f->text));
	snprintf(why, sizeof(why), "%.*s", (int)utf8_cut(text.data, text.len < sizeof(why) ? text.len : sizeof(why) - 1),
		 text.data);
	buf_free(&text);
	checkpoint_refuse(step, LOG_LEVEL_WARN, why);
}

static void checkpoint_answer(struct step *step, bool saved)
{
	if (saved)
		step_answer(step, NULL);
	else
		checkpoint_refuse(step, LOG_LEVEL_INFO, "the lease is not held any more");
}

static struct step_row checkpoint_row(const struct step *step)
{
	return (struct step_row){ .id = step->id,
				  .lease = step->lease,
				  .name = step->name,
				  .data = step->data,
				  .data_len = step->data_len,
				  .save_no = step->save_no };
}

/* Several steps are committed together, where nothing stands against it. False: it is not known of any of them. */
static bool checkpoint_write_all(struct checkpoint *k, struct step **steps, size_t n)
{
	struct session *session = &k->completer->session;
	struct step_row rows[CHECKPOINT_MOST];
	bool saved[CHECKPOINT_MOST] = { false };
	struct fault f = { 0 };
	enum db_class class = session_connect(session, &f);

	for (size_t i = 0; i < n; i++)
		rows[i] = checkpoint_row(steps[i]);
	if (class == DB_OK)
		class = step_store_save(session->db, rows, n, saved, &f);
	if (class == DB_UNCERTAIN)
		k->lost = *db_identity(session->db);
	if (class != DB_OK)
		return false;
	session_outcome(session, DB_OK, &f, 0);
	for (size_t i = 0; i < n; i++)
		checkpoint_answer(steps[i], saved[i]);
	return true;
}

/* The step cannot be written just now, and all else may go on meanwhile. */
static enum checkpoint_fate checkpoint_postpone(struct checkpoint *k, const struct fault *f, int64_t wait_ms)
{
	int64_t now_ms = clock_mono_ms();

	if (k->tell_ms == 0)
		k->tell_ms = now_ms + CHECKPOINT_TELL_MS;
	k->again_ms = now_ms + (wait_ms > CHECKPOINT_AGAIN_MS ? wait_ms : CHECKPOINT_AGAIN_MS);
	k->why = *f;
	return CHECKPOINT_LATER;
}

/* One try, on a connection, after the end of the session whose outcome is unknown. *reached: the statement was sent. */
static enum db_class checkpoint_try(struct checkpoint *k, const struct step *step, bool *saved, bool *reached, struct fault *f)
{
	struct session *session = &k->completer->session;
	const struct step_row row = checkpoint_row(step);
	enum db_class class = session_connect_after(session, &k->lost, CHECKPOINT_END_WAIT_MS, f);

	*reached = class == DB_OK;
	if (!*reached)
		return class;
	class = step_store_save(session->db, &row, 1, saved, f);
	if (class == DB_UNCERTAIN || class == DB_OTHER)
		k->lost = *db_identity(session->db);
	else
		k->lost.session = 0;
	return class;
}

/* Tries until the fate of the step is known, and answers it; or until it has to wait for others, or it is time to give up. A
 * privilege or a table that is missing concerns this step, and an operator, who hears of it: it must not keep outcomes from being
 * written. */
static enum checkpoint_fate checkpoint_write(struct checkpoint *k, struct step *step)
{
	struct session *session = &k->completer->session;
	struct fault f = { 0 };
	int64_t wait_ms;

	do {
		bool saved = false, reached;
		enum db_class class = checkpoint_try(k, step, &saved, &reached, &f);

		if (class == DB_CROWDED)
			instance_crowded(k->completer->instance);
		wait_ms = class == DB_DATA || class == DB_DUPLICATE ? 0 : session_outcome(session, class, &f, 0);
		if (class == DB_OK) {
			checkpoint_answer(step, saved);
			return CHECKPOINT_KNOWN;
		}
		if (class == DB_RETRY || (reached && class == DB_OTHER))
			return checkpoint_postpone(k, &f, wait_ms);
		if (reached && (class == DB_DATA || class == DB_DUPLICATE || class == DB_SCHEMA || class == DB_DENIED)) {
			checkpoint_refuse_fault(step, &f);
			return CHECKPOINT_KNOWN;
		}
	} while (gate_wait(&k->completer->gate, wait_ms));
	return CHECKPOINT_OVER;
}

static void checkpoint_write_each(struct checkpoint *k, struct step **steps, size_t n)
{
	enum checkpoint_fate fate = CHECKPOINT_KNOWN;

	for (size_t i = 0; i < n; i++) {
		if (fate != CHECKPOINT_OVER)
			fate = checkpoint_holds(k, steps[i]->id) ? CHECKPOINT_LATER : checkpoint_write(k, steps[i]);
		if (fate == CHECKPOINT_LATER)
			checkpoint_put_aside(k, &steps[i]->out.link);
		else if (fate == CHECKPOINT_OVER)
			checkpoint_refuse(steps[i], LOG_LEVEL_WARN, "the worker shuts down, and the database cannot be reached");
	}
}

size_t checkpoint_save(struct checkpoint *k, struct fifo_link **items, size_t n, struct settlement **ready)
{
	struct step *steps[CHECKPOINT_MOST];
	size_t count = 0, settlements = 0, kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct step *step = checkpoint_step(items[i]);

		if (k->first != NULL && checkpoint_holds(k, checkpoint_job(items[i])))
			checkpoint_put_aside(k, items[i]);
		else if (step != NULL)
			steps[count++] = step;
		else
			ready[settlements++] = (struct settlement *)(void *)items[i];
	}
	if (count == 0)
		return settlements;
	if (count == 1 || !checkpoint_write_all(k, steps, count))
		checkpoint_write_each(k, steps, count);
	/* No settlement goes before a step of its run. */
	for (size_t i = 0; i < settlements; i++) {
		if (k->first != NULL && checkpoint_holds(k, ready[i]->id))
			checkpoint_put_aside(k, &ready[i]->out.link);
		else
			ready[kept++] = ready[i];
	}
	return kept;
}

struct fifo_link *checkpoint_recall(struct checkpoint *k)
{
	int64_t now_ms = clock_mono_ms();
	struct fifo_link *first = k->first;

	if (first == NULL)
		k->tell_ms = 0;
	if (first == NULL || now_ms < k->again_ms)
		return NULL;
	if (now_ms >= k->tell_ms) {
		log_warn("settle", "job=%llu its step still waits to be saved, and its handler for the answer: %s",
			 (unsigned long long)checkpoint_job(first), k->why.text);
		k->tell_ms = now_ms + CHECKPOINT_TELL_MS;
	}
	return checkpoint_take_all(k);
}

struct fifo_link *checkpoint_give_up(struct checkpoint *k)
{
	struct fifo_link *item = checkpoint_take_all(k), *settlements = NULL, **last = &settlements;

	while (item != NULL) {
		struct fifo_link *next = item->next;
		struct step *step = checkpoint_step(item);

		item->next = NULL;
		if (step != NULL) {
			checkpoint_refuse(step, LOG_LEVEL_WARN, "the worker shuts down, and the row of the job is locked");
		} else {
			*last = item;
			last = &item->next;
		}
		item = next;
	}
	return settlements;
}
