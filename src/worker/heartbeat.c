#include "worker/heartbeat.h"

#include "base/clock.h"
#include "store/lease_store.h"
#include "worker/about.h"
#include "worker/handback.h"
#include "worker/role.h"
#include "worker/slot_beat.h"

#include <stdlib.h>
#include <string.h>

#define HEARTBEAT_CHUNK 100
#define HEARTBEAT_WAIT_MS 900         /* a lock wait that took so long was in vain */
#define HEARTBEAT_LOOK_MS 1000        /* the longest time for which nobody looks at what runs */
#define HEARTBEAT_LEAST_TIMEOUT_MS 2000 /* longer than a lock wait, which would else look like a lost connection */

struct heartbeat {
	struct role role; /* first */
	struct pool *pool;
	struct store_held *held;    /* what is to be renewed in this round, sorted by id */
	struct store_held *blocked; /* rows that stood alone in a lock wait: tried last */
	size_t blocked_count;
	int64_t due_ms; /* the next renewal, CLOCK_BOOTTIME */
	struct slot_beat *slots;
};

/* What a row that was read back means for its entry. The heartbeat judges only entries that nobody is settling: there the
 * completer knows better. */
static void heartbeat_act(struct heartbeat *h, const struct store_held *held, const struct lease_row *row, bool renewed,
			    int64_t sent_ms)
{
	struct instance *in = h->pool->instance;
	bool ours = row != NULL && strcmp(row->lease, held->lease) == 0;

	if (ours && row->state == JOB_RUNNING) {
		if (renewed)
			inflight_renewed(in->inflight, held->id, held->lease, sent_ms, clock_boot_ms());
		if (row->cancel_requested && inflight_cancel(in->inflight, held->id, held->lease))
			log_info("beat", "job=%llu cancel was requested; ending its handler", (unsigned long long)held->id);
		return;
	}
	if (ours && job_state_finished(row->state)) {
		if (inflight_settled_by_handler(in->inflight, held->id, held->lease)) {
			atomic_fetch_add(&in->count.by_handler, 1);
			log_debug("beat", "job=%llu was settled by its handler: %s", (unsigned long long)held->id,
				  job_state_name(row->state));
		}
		return;
	}
	if (inflight_lose(in->inflight, held->id, held->lease)) {
		atomic_fetch_add(&in->count.lost, 1);
		log_warn("beat", "job=%llu lease lost: the row is %s%s; its handler is ended and its result will not count",
			 (unsigned long long)held->id, row == NULL ? "gone" : job_state_name(row->state),
			 row != NULL && row->state == JOB_RUNNING ? " under another lease" : "");
	}
}

static void heartbeat_judge(struct heartbeat *h, const struct store_held *held, const struct lease_row *row, bool renewed,
			    int64_t sent_ms)
{
	struct about about;
	const struct log_context *before;

	/* Nothing to be told, as nearly always. */
	if (row != NULL && strcmp(row->lease, held->lease) == 0 && row->state == JOB_RUNNING && !row->cancel_requested) {
		heartbeat_act(h, held, row, renewed, sent_ms);
		return;
	}
	before = about_held(&about, h->pool->instance->inflight, held);
	heartbeat_act(h, held, row, renewed, sent_ms);
	log_about(before);
}

static enum db_class heartbeat_read_back(struct heartbeat *h, const struct store_held *rows, size_t n, bool renewed,
					 int64_t sent_ms, struct fault *f)
{
	struct lease_row found[HEARTBEAT_CHUNK];
	size_t count = 0, at = 0;
	enum db_class c = lease_store_read(h->role.session.db, rows, n, found, &count, f);

	if (c != DB_OK)
		return c;
	/* Both sides are sorted by id. */
	for (size_t i = 0; i < n; i++) {
		while (at < count && found[at].id < rows[i].id)
			at++;
		heartbeat_judge(h, &rows[i], at < count && found[at].id == rows[i].id ? &found[at] : NULL, renewed, sent_ms);
	}
	return DB_OK;
}

/* One chunk: renew, then read back. A lock wait halves it until the blocking row stands alone; that one waits for the end of the
 * round. */
static enum db_class heartbeat_chunk(struct heartbeat *h, const struct store_held *rows, size_t n, struct fault *f)
{
	int64_t sent_ms = clock_boot_ms();
	enum db_class c = lease_store_renew(h->role.session.db, rows, n, NULL, f);

	if (c == DB_OK)
		return heartbeat_read_back(h, rows, n, true, sent_ms, f);
	if (c != DB_RETRY)
		return c;
	if (n == 1) {
		h->blocked[h->blocked_count++] = rows[0];
		return DB_OK;
	}
	c = heartbeat_chunk(h, rows, n / 2, f);
	return c == DB_OK ? heartbeat_chunk(h, rows + n / 2, n - n / 2, f) : c;
}

/* A row that was locked, now that all the others are renewed. Locks are granted in turn, so a row that many write gets its
 * renewal; one that its own handler keeps locked does not, and what became of it is read all the same. *patient is cleared by a
 * wait in vain: the next ones do not wait. */
static enum db_class heartbeat_locked_row(struct heartbeat *h, const struct store_held *row, bool *patient, struct fault *f)
{
	int64_t sent_ms = clock_boot_ms();
	enum db_class c = *patient ? lease_store_renew_waiting(h->role.session.db, row, f) :
				     lease_store_renew(h->role.session.db, row, 1, NULL, f);

	if (c != DB_OK && c != DB_RETRY)
		return c;
	if (c == DB_RETRY) {
		struct about about;
		const struct log_context *before = about_held(&about, h->pool->instance->inflight, row);

		*patient = *patient && clock_boot_ms() - sent_ms < HEARTBEAT_WAIT_MS;
		log_debug("beat", "job=%llu could not be renewed: %s", (unsigned long long)row->id, f->text);
		log_about(before);
	}
	return heartbeat_read_back(h, row, 1, c == DB_OK, sent_ms, f);
}

/* Claims whose fate was unknown: a row that turned up after all is released, since its time has been running all along. */
static enum db_class heartbeat_doubt(struct heartbeat *h, struct fault *f)
{
	struct instance *in = h->pool->instance;
	size_t n = inflight_list_doubt(in->inflight, h->pool->index, clock_boot_ms(), h->held);
	struct lease_row found[HEARTBEAT_CHUNK];
	enum db_class c = DB_OK;

	for (size_t at = 0; at < n && c == DB_OK; at += HEARTBEAT_CHUNK) {
		size_t count = 0, chunk = n - at < HEARTBEAT_CHUNK ? n - at : HEARTBEAT_CHUNK;

		c = lease_store_read(h->role.session.db, h->held + at, chunk, found, &count, f);
		for (size_t i = 0, j = 0; c == DB_OK && i < count; i++) {
			while (h->held[at + j].id != found[i].id)
				j++;
			if (found[i].state == JOB_RUNNING && strcmp(found[i].lease, h->held[at + j].lease) == 0)
				handback_late(in, &h->held[at + j]);
		}
	}
	return c;
}

static enum db_class heartbeat_round(struct heartbeat *h, struct fault *f)
{
	struct inflight *inflight = h->pool->instance->inflight;
	size_t n = inflight_list_held(inflight, h->pool->index, clock_boot_ms(), h->held);
	enum db_class c = DB_OK;
	bool patient = true;

	if (n == 0)
		c = lease_store_ping(h->role.session.db, f);
	h->blocked_count = 0;
	for (size_t at = 0; at < n && c == DB_OK; at += HEARTBEAT_CHUNK)
		c = heartbeat_chunk(h, h->held + at, n - at < HEARTBEAT_CHUNK ? n - at : HEARTBEAT_CHUNK, f);
	for (size_t i = 0; i < h->blocked_count && c == DB_OK; i++)
		c = heartbeat_locked_row(h, &h->blocked[i], &patient, f);
	if (c == DB_OK)
		c = slot_beat_round(h->slots, h->role.session.db, f);
	return c == DB_OK ? heartbeat_doubt(h, f) : c;
}

/* Between two renewals: what became of the jobs that run is only read, so that a cancel, or a lost lease, is acted upon in time
 * however long the heartbeat is. It moves no trust. */
static enum db_class heartbeat_look(struct heartbeat *h, size_t n, struct fault *f)
{
	enum db_class c = session_connect(&h->role.session, f);

	for (size_t at = 0; at < n && c == DB_OK; at += HEARTBEAT_CHUNK)
		c = heartbeat_read_back(h, h->held + at, n - at < HEARTBEAT_CHUNK ? n - at : HEARTBEAT_CHUNK, false, 0, f);
	return c;
}

static enum db_class heartbeat_beat(struct heartbeat *h, int64_t began_ms, struct fault *f)
{
	enum db_class c = session_connect(&h->role.session, f);

	if (c == DB_OK)
		c = heartbeat_round(h, f);
	if (c != DB_OK)
		return c;
	atomic_store(&h->pool->beat_ok_ms, clock_boot_ms());
	h->due_ms = began_ms + h->role.instance->heartbeat_ms;
	return DB_OK;
}

/* Until the next renewal, or the next look. */
static int64_t heartbeat_rest_ms(const struct heartbeat *h)
{
	int64_t rest_ms = h->due_ms - clock_boot_ms();

	if (rest_ms < 0)
		return 0;
	return rest_ms < HEARTBEAT_LOOK_MS ? rest_ms : HEARTBEAT_LOOK_MS;
}

/* A renewal that failed stays due: no look comes before it. */
static int64_t heartbeat_step(struct role *role)
{
	struct heartbeat *h = (struct heartbeat *)role;
	int64_t now_ms = clock_boot_ms();
	struct fault f = { 0 };
	enum db_class c;
	size_t running;

	if (now_ms >= h->due_ms) {
		c = heartbeat_beat(h, now_ms, &f);
	} else {
		running = inflight_list_running(role->instance->inflight, h->pool->index, now_ms, h->held);
		if (running == 0)
			return heartbeat_rest_ms(h);
		c = heartbeat_look(h, running, &f);
	}
	if (c == DB_CROWDED)
		instance_crowded(role->instance);
	return session_outcome(&role->session, c, &f, heartbeat_rest_ms(h));
}

bool heartbeat_is_fresh(const struct pool *pool, int64_t boot_now_ms)
{
	int64_t ok_ms = atomic_load(&pool->beat_ok_ms), every_ms = pool->instance->heartbeat_ms;

	return ok_ms != 0 && boot_now_ms - ok_ms <= every_ms + every_ms / 4 + 250;
}

static void heartbeat_free(struct role *role)
{
	struct heartbeat *h = (struct heartbeat *)role;

	slot_beat_free(h->slots);
	free(h->held);
	free(h->blocked);
}

/* An answer may take a quarter of the lease, but a lock wait must fit in. */
static int64_t heartbeat_timeout_ms(const struct instance *in)
{
	int64_t timeout_ms = in->lease_ms / 4;

	if (in->startup->database.timeout_ms < timeout_ms)
		timeout_ms = in->startup->database.timeout_ms;
	return timeout_ms > HEARTBEAT_LEAST_TIMEOUT_MS ? timeout_ms : HEARTBEAT_LEAST_TIMEOUT_MS;
}

struct role *heartbeat_new(struct pool *pool)
{
	static const struct role_ops ops = { .thread = "lh-beat", .area = "beat", .step = heartbeat_step, .free = heartbeat_free };
	struct instance *in = pool->instance;
	struct heartbeat *h = role_new(sizeof(*h), &ops, in, &(struct role_options){
		.timeout_ms = heartbeat_timeout_ms(in), .most_wait_ms = in->heartbeat_ms < 1000 ? in->heartbeat_ms : 1000 });

	if (h == NULL)
		return NULL;
	h->pool = pool;
	h->held = calloc(pool->slots, sizeof(*h->held));
	h->blocked = calloc(pool->slots, sizeof(*h->blocked));
	h->slots = slot_beat_new(pool);
	if (h->held == NULL || h->blocked == NULL || h->slots == NULL) {
		role_free(&h->role);
		return NULL;
	}
	return &h->role;
}
