#include "worker/completer.h"

#include "base/clock.h"
#include "store/settle_store.h"
#include "worker/about.h"
#include "worker/checkpoint.h"
#include "worker/handback.h"
#include "worker/role.h"
#include "worker/slot_keeper.h"

#include <stddef.h>
#include <stdlib.h>

#define COMPLETER_BATCH CHECKPOINT_MOST
#define COMPLETER_LINGER_MS 2
#define COMPLETER_PROGRESS_MS 1000
#define COMPLETER_NOTES 32
#define COMPLETER_END_WAIT_MS 500 /* ending a lost session only speeds things up here */

struct completer {
	struct role role; /* first. Its gate is stopped when it is time to give up */
	struct gate finished; /* nudged when the thread has written all there was */
	size_t left;                 /* given up */
	struct checkpoint steps;
	int64_t noted_ms; /* when progress was last looked for */
	struct inflight_note notes[COMPLETER_NOTES];
};

static atomic_ullong *completer_counter(struct instance *in, const struct settlement *s, enum settle_result result)
{
	static const size_t at[SETTLE_ACTIONS] = {
		[SETTLE_SUCCEED] = offsetof(struct instance_counters, succeeded),
		[SETTLE_RETRY] = offsetof(struct instance_counters, retried),
		[SETTLE_SNOOZE] = offsetof(struct instance_counters, snoozed),
		[SETTLE_PARK] = offsetof(struct instance_counters, parked),
		[SETTLE_WAIT] = offsetof(struct instance_counters, slot_waits),
		[SETTLE_RELEASE] = offsetof(struct instance_counters, released),
		[SETTLE_DEAD] = offsetof(struct instance_counters, dead),
		[SETTLE_CANCEL] = offsetof(struct instance_counters, cancelled),
	};

	if (result == SETTLE_LOST)
		return &in->count.stale;
	if (result == SETTLE_CANCELLED)
		return &in->count.cancelled;
	return (atomic_ullong *)(void *)((char *)&in->count + at[s->action]);
}

/* The heartbeat may have seen it before, and counted it: then this is for the ledger only. */
static void completer_by_handler(struct instance *in, const struct settlement *s)
{
	if (!inflight_settled(in->inflight, s->id, s->lease))
		return;
	atomic_fetch_add(&in->count.by_handler, 1);
	if (s->action != SETTLE_SUCCEED)
		log_info("settle", "job=%llu kind=%s attempt=%u had been settled by its handler: its outcome (%s) changes nothing",
			 (unsigned long long)s->id, s->kind, s->attempt, settle_action_name(s->action));
}

/* What became of one settlement is known: the register hears of it, the slot comes free, and the settlement ends. */
static void completer_report(struct completer *c, struct settlement *s, enum settle_result result)
{
	struct instance *in = c->role.instance;
	struct about about;
	const struct log_context *before = about_settlement(&about, s);

	if (result == SETTLE_BY_HANDLER && !s->slot_only)
		completer_by_handler(in, s);
	else if (!s->slot_only)
		atomic_fetch_add(completer_counter(in, s, result), 1);
	if (result == SETTLE_LOST) {
		/* One that the heartbeat had found lost was told then; this is the other way to find out. */
		if (inflight_refused(in->inflight, s->id, s->lease))
			log_warn("settle",
				 "job=%llu kind=%s attempt=%u lease lost: the row is no longer ours; its outcome (%s) changed "
				 "nothing and is in the ledger",
				 (unsigned long long)s->id, s->kind, s->attempt, settle_action_name(s->action));
	} else {
		inflight_settled(in->inflight, s->id, s->lease);
	}
	/* It may be due before the promoter looks again. */
	if ((s->action == SETTLE_RETRY || s->action == SETTLE_SNOOZE) && result == SETTLE_DONE)
		role_nudge(in->promoter);
	if (s->slot.key[0] != '\0') /* one came free, or one waits */
		slot_keeper_touch(in->slot_keeper, &s->slot);
	handback_forget(in, s->id, s->lease);
	log_about(before);
	settlement_free(s);
}

/* One try: on a connection, after the end of the session whose outcome is unknown. */
static enum db_class completer_try(struct completer *c, struct settlement **items, size_t n, bool again,
				   const struct db_identity *lost, enum settle_result *results, struct fault *f)
{
	struct session *session = &c->role.session;
	enum db_class class = session_connect_after(session, lost, COMPLETER_END_WAIT_MS, f);

	if (class != DB_OK)
		return class;
	return settle_store_write(session->db, items, n, c->role.instance->worker, again, results, f);
}

static void completer_tell_refused(const struct settlement *s, const struct fault *f)
{
	struct about about;
	const struct log_context *before = about_settlement(&about, s);

	log_warn("settle", "job=%llu kind=%s the outcome cannot be written as it is: %s", (unsigned long long)s->id, s->kind,
		 f->text);
	log_about(before);
}

/* Tries until the batch is written (DB_OK), the server refuses its data (DB_DATA), or it is time to give up (DB_GONE). */
static enum db_class completer_write(struct completer *c, struct settlement **items, size_t n, bool *again,
				     enum settle_result *results)
{
	struct session *session = &c->role.session;
	struct db_identity lost = { 0 };
	struct fault f = { 0 };
	int64_t wait_ms;

	do {
		enum db_class class = completer_try(c, items, n, *again, &lost, results, &f);

		*again = *again || class != DB_OK;
		if (class == DB_DATA || class == DB_DUPLICATE) {
			if (n == 1)
				completer_tell_refused(items[0], &f);
			return DB_DATA;
		}
		if (class == DB_UNCERTAIN || class == DB_OTHER) {
			lost = *db_identity(session->db);
		} else if (class == DB_RETRY) {
			lost.session = 0; /* it has been ended */
		}
		if (class == DB_CROWDED)
			instance_crowded(c->role.instance);
		wait_ms = session_outcome(session, class, &f, -1);
		if (class == DB_OK)
			return DB_OK;
	} while (gate_wait(&c->role.gate, wait_ms));
	return DB_GONE;
}

static void completer_give_up(struct completer *c, struct settlement **items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct about about;
		const struct log_context *before = about_settlement(&about, items[i]);

		log_error("settle", "job=%llu kind=%s attempt=%u the outcome (%s) could not be written: the lease is left to lapse",
			  (unsigned long long)items[i]->id, items[i]->kind, items[i]->attempt,
			  settle_action_name(items[i]->action));
		log_about(before);
		inflight_refused(c->role.instance->inflight, items[i]->id, items[i]->lease);
		handback_forget(c->role.instance, items[i]->id, items[i]->lease);
		settlement_free(items[i]);
		c->left++;
	}
}

/* Writes a batch, however long it takes. Data that the server refuses is cornered by halving; a single row is then reduced to
 * what any server takes. */
static void completer_batch(struct completer *c, struct settlement **items, size_t n, bool again, bool reduced)
{
	enum settle_result results[COMPLETER_BATCH] = { SETTLE_PENDING };
	enum db_class class = completer_write(c, items, n, &again, results);

	if (class == DB_OK) {
		for (size_t i = 0; i < n; i++)
			completer_report(c, items[i], results[i]);
	} else if (class == DB_DATA && n > 1) {
		completer_batch(c, items, n / 2, again, reduced);
		completer_batch(c, items + n / 2, n - n / 2, again, reduced);
	} else if (class == DB_DATA && !reduced) {
		settlement_minimise(items[0], "the server refused the full record");
		completer_batch(c, items, 1, again, true);
	} else {
		completer_give_up(c, items, n);
	}
}

static void completer_progress(struct completer *c)
{
	struct session *session = &c->role.session;
	int64_t now_ms = clock_mono_ms();
	enum db_class class = DB_OK;
	struct fault f = { 0 };
	size_t n;

	if (now_ms - c->noted_ms < COMPLETER_PROGRESS_MS / 4)
		return;
	c->noted_ms = now_ms;
	n = inflight_take_progress(c->role.instance->inflight, now_ms - COMPLETER_PROGRESS_MS, now_ms, c->notes, COMPLETER_NOTES);
	if (n == 0)
		return;
	class = session_connect(session, &f);
	for (size_t i = 0; i < n && class == DB_OK; i++) {
		const struct inflight_note *note = &c->notes[i];

		class = settle_store_progress(session->db, note->id, note->lease, note->percent, note->has_note ? note->note : NULL,
					      &f);
		if (class == DB_DATA || class == DB_RETRY)
			class = DB_OK; /* a note is not worth more */
	}
	session_outcome(session, class, &f, 0);
}

/* How many of the n settlements fit into one batch by their bytes: at least one. */
static size_t completer_fit(const struct completer *c, struct settlement *const *items, size_t n)
{
	size_t most = db_packet_max(c->role.session.db) / 4, bytes = settle_store_size(items[0]), fit = 1;

	while (fit < n && (bytes += settle_store_size(items[fit])) <= most)
		fit++;
	return fit;
}

/* The connection is there before there is anything to write: what runs must be able to end. */
static void completer_stand_by(struct completer *c)
{
	struct session *session = &c->role.session;
	struct fault f = { 0 };
	enum db_class class;

	if (db_is_open(session->db))
		return;
	class = session_connect(session, &f);
	if (class == DB_CROWDED)
		instance_crowded(c->role.instance);
	session_outcome(session, class, &f, 0);
}

/* Steps first: a settlement never goes before a step of its own run. */
static void completer_take(struct completer *c, struct fifo_link **links, size_t n)
{
	struct settlement *items[COMPLETER_BATCH];

	n = checkpoint_save(&c->steps, links, n, items);
	for (size_t at = 0, fit; at < n; at += fit) {
		fit = completer_fit(c, items + at, n - at);
		completer_batch(c, items + at, fit, false, false);
	}
}

/* What had to wait for a step that could not be saved at once. */
static void completer_recall(struct completer *c)
{
	struct fifo_link *links[COMPLETER_BATCH];
	struct fifo_link *item = checkpoint_recall(&c->steps);

	while (item != NULL) {
		size_t n = 0;

		for (; item != NULL && n < COMPLETER_BATCH; item = item->next)
			links[n++] = item;
		completer_take(c, links, n);
	}
}

/* It was time to give up while steps were still waiting. */
static void completer_give_up_waiting(struct completer *c)
{
	struct fifo_link *item = checkpoint_give_up(&c->steps);

	while (item != NULL) {
		struct settlement *s = (struct settlement *)(void *)item;

		item = item->next;
		completer_give_up(c, &s, 1);
	}
}

static void completer_loop(struct role *role)
{
	struct completer *c = (struct completer *)role;
	struct fifo *queue = &role->instance->settlements;
	struct fifo_link *links[COMPLETER_BATCH];

	while (!fifo_closed(queue) || fifo_count(queue) > 0 || checkpoint_waits(&c->steps)) {
		int64_t rest_ms = checkpoint_rest_ms(&c->steps, COMPLETER_PROGRESS_MS / 2);
		size_t n;

		completer_stand_by(c);
		n = fifo_take(queue, links, COMPLETER_BATCH, rest_ms, COMPLETER_LINGER_MS);
		completer_take(c, links, n);
		completer_recall(c);
		completer_progress(c);
		/* A closed queue does not wait, but what was put aside has to. */
		if (n == 0 && checkpoint_waits(&c->steps) && !gate_wait(&role->gate, fifo_closed(queue) ? rest_ms : 0))
			completer_give_up_waiting(c);
	}
	gate_nudge(&c->finished);
}

size_t completer_finish(struct role *role, int64_t give_up_ms)
{
	struct completer *c = (struct completer *)role;

	if (c == NULL || !role->started)
		return 0;
	fifo_close(&role->instance->settlements);
	gate_wait(&c->finished, give_up_ms);
	role_stop(role);
	return c->left;
}

static void completer_free(struct role *role)
{
	gate_destroy(&((struct completer *)role)->finished);
}

struct role *completer_new(struct instance *in)
{
	static const struct role_ops ops = {
		.thread = "lh-settle", .area = "settle", .loop = completer_loop, .free = completer_free
	};
	struct completer *c = role_new(sizeof(*c), &ops, in, &(struct role_options){ .lock_wait_s = 1, .most_wait_ms = 2000 });

	if (c == NULL)
		return NULL;
	gate_init(&c->finished);
	checkpoint_init(&c->steps, &c->role);
	return &c->role;
}
