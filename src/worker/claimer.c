#include "worker/claimer.h"

#include "base/clock.h"
#include "base/random.h"
#include "model/scan.h"
#include "store/claim_store.h"
#include "store/slot_store.h"
#include "store/step_store.h"
#include "worker/about.h"
#include "worker/handback.h"
#include "worker/heartbeat.h"
#include "worker/role.h"
#include "worker/slots.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CLAIMER_END_WAIT_MS 2000 /* how long a lost session is given to leave the server */

/* A claim on its way: its ids are in the register, and its fate may be unknown. */
struct claimer_claim {
	char lease[UUID_TEXT_LEN + 1];
	int64_t sent_ms;
	uint64_t *ids; /* sorted */
	size_t n;
	bool in_doubt;            /* the UPDATE's reply was lost */
	struct db_identity lost;  /* the session it was sent on */
};

struct claimer {
	struct role role; /* first */
	struct pool *pool;
	atomic_int leaving; /* 0, CLAIMER_LEAVE or CLAIMER_ABANDON */
	size_t queue_count;
	struct scan *scans; /* one a queue */
	size_t batch_max;   /* room in rows and ids */
	struct scan_row *rows;
	uint64_t *ids, *early;
	struct claimer_claim claim;
	int64_t idle_ms; /* current pause while there is nothing to do */
	size_t row_count; /* rows of the last scan that were candidates */
	struct job **taken; /* those of the claim that are ours, as the read-back brought them */
	struct job **ordered; /* the same, on their way to the workers */
	size_t ours, won; /* won: with those that were kept back for their slots */
	struct slots *slots;
	const struct settings *settings; /* during a round */
	size_t threads;                  /* that were free when the round began */
	bool parked;                     /* the round made waiters: the next one need not wait */
	bool again;                      /* the round left some for want of slots: the next one begins at the head */
};

enum { CLAIMER_LEAVE = 1, CLAIMER_ABANDON };

#define CLAIMER_BATCH_CEILING 1000 /* the largest pools.batch */

static size_t claimer_count_queues(const struct pool_settings *p)
{
	size_t n = 0;

	do
		n++;
	while (p->queues[n] != NULL); /* the loader sees to it that there is one */
	return n;
}

/* A job of the read-back's answer, or one that has got its slot. */
static void claimer_take(void *arg, struct job *job)
{
	struct claimer *c = arg;

	c->taken[c->ours++] = job;
}

static int claimer_find(const void *id, const void *job)
{
	const uint64_t *x = id;
	const struct job *const *y = job;

	return (*x > (*y)->id) - (*x < (*y)->id);
}

static int claimer_job_by_id(const void *a, const void *b)
{
	const struct job *const *x = a;

	return claimer_find(&(*x)->id, b);
}

/* Gives the jobs that had holders before us the steps that those saved; first claims cost nothing. Jobs whose steps could not be
 * read are dropped again: they stay as they are in the register, and the claim is read back once more. */
static enum db_class claimer_read_steps(struct claimer *c, struct fault *f)
{
	struct job **again = c->ordered; /* free until the jobs are put in order */
	size_t count = 0, kept = 0;
	enum db_class class;

	for (size_t i = 0; i < c->ours; i++)
		if (c->taken[i]->claim_no > 1)
			again[count++] = c->taken[i];
	qsort(again, count, sizeof(struct job *), claimer_job_by_id);
	class = step_store_read(c->role.session.db, again, count, f);
	if (class == DB_OK)
		return DB_OK;
	for (size_t i = 0; i < c->ours; i++) {
		if (c->taken[i]->claim_no > 1)
			job_free(c->taken[i]);
		else
			c->taken[kept++] = c->taken[i];
	}
	c->ours = kept;
	return class;
}

/* Those that were read are ours from now on. One that was read before has been handed over already. */
static void claimer_win(struct claimer *c)
{
	struct inflight *inflight = c->role.instance->inflight;
	char trace[TRACE_ID_LEN + 1];
	size_t kept = 0;

	for (size_t i = 0; i < c->ours; i++) {
		struct job *job = c->taken[i];

		if (!inflight_won(inflight, job->id, job->lease)) {
			job_free(job);
			continue;
		}
		if (trace_parse(job->traceparent, trace))
			inflight_set_trace(inflight, job->id, job->lease, trace);
		c->won++;
		if (!slots_claimed(c->slots, job))
			c->taken[kept++] = job;
	}
	c->ours = kept;
}

static void claimer_push(void *arg, struct job *job)
{
	struct claimer *c = arg;
	struct about about;
	const struct log_context *before = about_job(&about, job);

	atomic_fetch_add(&c->role.instance->count.claimed, 1);
	log_debug("claim", "job=%llu kind=%s queue=%s attempt=%u claimed", (unsigned long long)job->id, job->kind, job->queue,
		  job->attempt);
	log_about(before);
	fifo_push(&c->pool->handoff, &job->link);
}

/* To the workers in the order of the scan: the answer came in the order of ids, and what waits here must not overtake the more
 * urgent. All are put in order first, because a job that was handed over may be done, and gone, at any moment. */
static void claimer_hand_over(struct claimer *c)
{
	size_t n = 0;

	qsort(c->taken, c->ours, sizeof(*c->taken), claimer_job_by_id);
	for (size_t i = 0; i < c->row_count && n < c->ours; i++) {
		struct job *const *found = bsearch(&c->rows[i].id, c->taken, c->ours, sizeof(*c->taken), claimer_find);

		if (found != NULL)
			c->ordered[n++] = *found;
	}
	for (size_t i = 0; i < n; i++)
		claimer_push(c, c->ordered[i]);
}

static void claimer_forget_missed(struct claimer *c)
{
	struct claimer_claim *claim = &c->claim;

	for (size_t i = 0; i < claim->n; i++)
		inflight_missed(c->role.instance->inflight, claim->ids[i], claim->lease);
	claim->n = 0;
}

/* Whether the session that carried the claim can still write. Looked at before the read-back, or "not ours" would prove nothing. */
static enum db_end claimer_end_lost_session(struct claimer *c, struct fault *f)
{
	enum db_end end;

	if (!c->claim.in_doubt)
		return DB_END_GONE;
	end = db_end_session(c->role.session.db, &c->claim.lost, CLAIMER_END_WAIT_MS, f);
	log_info("claim", "lease=%s the reply to a claim was lost; its session %llu is %s", c->claim.lease,
		 (unsigned long long)c->claim.lost.session, end == DB_END_GONE ? "gone" : "not known to be gone");
	return end;
}

/* One try to learn whose the rows of the claim are. DB_OK: the claim is over. */
static enum db_class claimer_resolve(struct claimer *c, struct fault *f)
{
	struct claimer_claim *claim = &c->claim;
	struct instance *in = c->role.instance;
	enum db_end end = claimer_end_lost_session(c, f);
	enum db_class class, slots = DB_OK;

	if (end == DB_END_FAILED)
		return DB_GONE;
	c->ours = c->won = 0;
	class = claim_store_read(c->role.session.db, claim->ids, claim->n, claim->lease, (uint32_t)in->lease_ms, claimer_take, c,
				 f);
	if (class == DB_OK)
		class = claimer_read_steps(c, f);
	else
		(void)claimer_read_steps(c, NULL);
	claimer_win(c);
	if (class == DB_OK)
		slots = slots_take(c->slots, c->role.session.db, claimer_take, c, f);
	claimer_hand_over(c); /* also what came before a failure: it is ours, and its time runs */
	if (class != DB_OK)
		return class;
	if (end == DB_END_UNKNOWN) { /* it may still land: the heartbeat watches for one lease more */
		for (size_t i = 0; i < claim->n; i++)
			inflight_doubt(in->inflight, claim->ids[i], claim->lease, clock_boot_ms() + in->lease_ms);
		claim->n = 0;
	}
	claimer_forget_missed(c);
	return slots;
}

/* Sends the claim for the ids in c->ids. DB_OK: *won of them are ours and handed over. Otherwise claim.n > 0 says that its rows are
 * still to be looked for. */
static enum db_class claimer_send(struct claimer *c, size_t *won, struct fault *f)
{
	struct claimer_claim *claim = &c->claim;
	struct instance *in = c->role.instance;
	uint64_t matched = 0;
	enum db_class class;

	*won = 0;
	random_uuid(claim->lease);
	store_sort_ids(claim->ids, claim->n);
	claim->sent_ms = clock_boot_ms();
	claim->n = inflight_claim(in->inflight, c->pool->index, claim->ids, claim->n, claim->lease, in->lease_ms, claim->sent_ms);
	claim->in_doubt = false;
	if (claim->n == 0)
		return DB_OK;
	class = claim_store_take(c->role.session.db, claim->ids, claim->n, claim->lease, (uint32_t)in->lease_ms, in->worker,
				 &matched, f);
	if (class == DB_UNCERTAIN || class == DB_OTHER) {
		claim->in_doubt = true;
		claim->lost = *db_identity(c->role.session.db);
		return class;
	}
	if (class != DB_OK || matched == 0) {
		claimer_forget_missed(c);
		return class;
	}
	class = claimer_resolve(c, f);
	*won = class == DB_OK ? c->won : 0;
	return class;
}

/* Sorts the scan's rows into early ones and candidates (kept in c->rows, in order). Returns the number of candidates. */
static size_t claimer_sift(struct claimer *c, size_t n, size_t *early)
{
	size_t kept = 0;

	*early = 0;
	for (size_t i = 0; i < n; i++) {
		if (c->rows[i].early)
			c->early[(*early)++] = c->rows[i].id;
		else if (!inflight_holds(c->role.instance->inflight, c->rows[i].id))
			c->rows[kept++] = c->rows[i];
	}
	return kept;
}

/* The run of candidates that a scan's claim is made of. */
struct claimer_run {
	size_t offset, count; /* in the claimer's rows */
	size_t left;          /* of these, not claimed for want of a slot */
};

/* The claim of a run of the n candidates, and what is to be done with those that wait for slots. */
static enum db_class claimer_candidates(struct claimer *c, size_t n, size_t batch, struct claimer_run *run, size_t *won,
					struct fault *f)
{
	struct db *db = c->role.session.db;
	bool parked = false, again;
	enum db_class class;

	run->offset = scan_choose(n, batch, random_below(UINT64_MAX), &c->claim.n);
	for (size_t i = 0; i < c->claim.n; i++)
		c->claim.ids[i] = c->rows[run->offset + i].id;
	class = slots_choose(c->slots, db, c->threads, c->claim.ids, &c->claim.n, &run->count, &again, f);
	if (class != DB_OK) {
		c->claim.n = 0; /* nothing was sent yet */
		return class;
	}
	run->left = run->count - c->claim.n;
	c->again = c->again || again;
	if (c->claim.n > 0)
		class = claimer_send(c, won, f);
	c->threads -= *won < c->threads ? *won : c->threads;
	if (class == DB_OK)
		class = slots_park(c->slots, db, &parked, f);
	c->parked = c->parked || parked;
	return class;
}

/* One scan of one queue and a claim of at most `free` rows. */
static enum db_class claimer_queue(struct claimer *c, size_t queue, size_t free_slots, size_t *won, struct fault *f)
{
	const char *name = c->role.instance->startup->pools[c->pool->index].queues[queue];
	struct scan *scan = &c->scans[queue];
	size_t batch = free_slots < c->batch_max ? free_slots : c->batch_max;
	size_t window = scan_window(scan, batch, clock_mono_ms()), n = 0, early = 0;
	struct claimer_run run = { 0 };
	struct scan_row last;
	enum db_class class;
	bool found;

	*won = 0;
	class = claim_store_scan(c->role.session.db, name, &scan->cursor, slots_window(c->slots, window), c->rows, &n, f);
	if (class != DB_OK)
		return class;
	found = n > 0;
	if (found)
		last = c->rows[n - 1];
	n = claimer_sift(c, n, &early);
	if (early > 0) {
		store_sort_ids(c->early, early);
		class = claim_store_put_back_early(c->role.session.db, c->early, early, f);
	}
	if (class == DB_OK)
		class = slots_sift(c->slots, c->role.session.db, c->settings, c->rows, &n, f);
	n = c->row_count = n < window ? n : window;
	if (class == DB_OK)
		class = claimer_candidates(c, n, batch, &run, won, f);
	if (class != DB_OK)
		return class;
	if (found && n == 0)
		scan_skip(scan, &last); /* all of them are held here: claims in doubt must not hide what comes after */
	else
		scan_advance(scan, c->rows, n, run.offset, run.count, *won + run.left);
	return DB_OK;
}

static enum db_class claimer_round(struct claimer *c, size_t wanted, size_t *total, struct fault *f)
{
	enum db_class class = DB_OK;

	*total = 0;
	for (size_t q = 0; q < c->queue_count && wanted > *total && class == DB_OK; q++) {
		size_t won;

		class = claimer_queue(c, q, wanted - *total, &won, f);
		*total += won;
	}
	return class;
}

/* Whether a claim may be sent now; else how long to wait before looking again. */
static bool claimer_may_claim(struct claimer *c, int64_t *wait_ms)
{
	int64_t now_ms = clock_boot_ms(), crowded_ms = atomic_load(&c->role.instance->crowded_until_ms) - now_ms;

	*wait_ms = -1;
	if (!instance_claims(c->role.instance) || atomic_load(&c->leaving) != 0)
		return false;
	*wait_ms = 100;
	if (crowded_ms > 0) {
		db_close(c->role.session.db);
		*wait_ms = crowded_ms;
		return false;
	}
	return heartbeat_is_fresh(c->pool, now_ms);
}

/* After a round: at once when it brought a full load and there is room for more, else with a pause that grows while there is
 * nothing. */
static int64_t claimer_rest(struct claimer *c, const struct pool_settings *p, size_t won, size_t wanted)
{
	if (won > 0 || c->parked) {
		c->idle_ms = p->poll_ms;
		return won == wanted || c->parked ? 0 : p->poll_ms;
	}
	c->idle_ms = c->idle_ms < p->poll_ms ? p->poll_ms : 2 * c->idle_ms;
	if (c->idle_ms > p->poll_max_ms)
		c->idle_ms = p->poll_max_ms;
	return c->idle_ms - (int64_t)random_below((uint64_t)c->idle_ms / 4 + 1);
}

/* A claim into the free slots. Returns how long to wait. */
static int64_t claimer_fill(struct claimer *c, size_t occupied)
{
	struct settings *settings = instance_settings(c->role.instance);
	const struct pool_settings *pool = &settings->pools[c->pool->index];
	size_t free_slots = c->pool->slots - occupied, batch = (size_t)pool->batch, won = 0;
	size_t wanted = free_slots < batch ? free_slots : batch;
	size_t threads = (size_t)c->role.instance->startup->pools[c->pool->index].threads;
	struct fault f = { 0 };
	enum db_class class;
	int64_t wait_ms;

	c->settings = settings;
	c->threads = occupied < threads ? threads - occupied : 0;
	c->parked = false;
	for (size_t i = 0; c->again && i < c->queue_count; i++)
		c->scans[i].cursor.set = false;
	c->again = false;
	class = claimer_round(c, wanted, &won, &f);
	wait_ms = session_outcome(&c->role.session, class, &f, class == DB_OK ? claimer_rest(c, pool, won, wanted) : 0);

	settings_unref(settings);
	return wait_ms;
}

/* What an earlier claim left open comes first: slots that are to be taken, then rows whose holder is not known. */
static enum db_class claimer_finish(struct claimer *c, struct fault *f)
{
	enum db_class class = slots_take(c->slots, c->role.session.db, claimer_push, c, f);

	return class == DB_OK && c->claim.n > 0 ? claimer_resolve(c, f) : class;
}

static bool claimer_is_open(const struct claimer *c)
{
	return c->claim.n > 0 || slots_pending(c->slots);
}

static int64_t claimer_step(struct role *role)
{
	struct claimer *c = (struct claimer *)role;
	size_t occupied = inflight_occupied(role->instance->inflight, c->pool->index);
	struct fault f = { 0 };
	enum db_class class;
	int64_t wait_ms;

	if (!claimer_is_open(c) && !claimer_may_claim(c, &wait_ms))
		return wait_ms;
	if (!claimer_is_open(c) && occupied >= c->pool->slots)
		return -1; /* a slot that comes free nudges us */
	class = session_connect(&role->session, &f);
	if (class != DB_OK)
		return session_outcome(&role->session, class, &f, 0);
	if (!claimer_is_open(c))
		return claimer_fill(c, occupied);
	class = claimer_finish(c, &f);
	return session_outcome(&role->session, class, &f, 0);
}

/* Even when told to leave, a claim in doubt is resolved first, as long as its lease could matter. */
static bool claimer_may_leave(const struct claimer *c)
{
	int leaving = atomic_load(&c->leaving);

	return leaving == CLAIMER_ABANDON ||
	       (leaving != 0 && (!claimer_is_open(c) || clock_boot_ms() - c->claim.sent_ms > c->role.instance->lease_ms));
}

static void claimer_loop(struct role *role)
{
	struct claimer *c = (struct claimer *)role;
	int64_t wait_ms = 0;

	while (!claimer_may_leave(c)) {
		gate_wait(&role->gate, wait_ms);
		wait_ms = claimer_step(role);
	}
	slots_leave(c->slots);
	claimer_forget_missed(c);
}

void claimer_leave(struct role *role, bool abandon)
{
	struct claimer *c = (struct claimer *)role;

	if (c == NULL)
		return;
	atomic_store(&c->leaving, abandon ? CLAIMER_ABANDON : CLAIMER_LEAVE);
	role_nudge(role);
}

static void claimer_free(struct role *role)
{
	struct claimer *c = (struct claimer *)role;

	slots_free(c->slots);
	free(c->scans);
	free(c->rows);
	free(c->taken);
	free(c->ordered);
	free(c->early);
	free(c->ids);
}

struct role *claimer_new(struct pool *pool)
{
	static const struct role_ops ops = { .thread = "lh-claim", .area = "claim", .loop = claimer_loop, .free = claimer_free };
	struct instance *in = pool->instance;
	struct claimer *c = role_new(sizeof(*c), &ops, in, &(struct role_options){ .lock_wait_s = 1, .most_wait_ms = 2000 });
	size_t rows;

	if (c == NULL)
		return NULL;
	c->pool = pool;
	c->queue_count = claimer_count_queues(&in->startup->pools[pool->index]);
	c->batch_max = pool->slots < CLAIMER_BATCH_CEILING ? pool->slots : CLAIMER_BATCH_CEILING;
	rows = c->batch_max * SCAN_WINDOW_MAX > SLOT_STORE_PAGE ? c->batch_max * SCAN_WINDOW_MAX : SLOT_STORE_PAGE;
	c->slots = slots_new(pool, rows, c->batch_max);
	c->scans = calloc(c->queue_count, sizeof(*c->scans));
	c->rows = calloc(rows, sizeof(*c->rows));
	c->early = calloc(rows, sizeof(*c->early));
	c->ids = calloc(c->batch_max, sizeof(*c->ids));
	c->taken = calloc(c->batch_max, sizeof(struct job *));
	c->ordered = calloc(c->batch_max, sizeof(struct job *));
	if (c->slots == NULL || c->scans == NULL || c->rows == NULL || c->taken == NULL || c->ordered == NULL || c->early == NULL ||
	    c->ids == NULL) {
		role_free(&c->role);
		return NULL;
	}
	for (size_t i = 0; i < c->queue_count; i++)
		scan_init(&c->scans[i]);
	c->claim.ids = c->ids;
	return &c->role;
}
