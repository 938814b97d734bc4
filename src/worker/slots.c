#include "worker/slots.h"

#include "base/clock.h"
#include "base/random.h"
#include "store/slot_store.h"
#include "worker/handback.h"
#include "worker/slot_keeper.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_END_WAIT_MS 2000 /* how long a lost session is given to leave the server */
#define SLOTS_TELL_MS 60000
#define SLOTS_PAUSE_MS 1000

/* A scanned job that needs a slot. */
struct slots_job {
	uint64_t id;
	char key[JOB_KIND_MAX + 1];
	unsigned int limit;
	size_t key_index;
	bool blocked;
};

/* A key of the scanned jobs, and what job_slots has of it. */
struct slots_key {
	const char *key;
	unsigned int held;    /* by anybody, whatever the number */
	unsigned int given;   /* to jobs of the claim that is being made */
	unsigned int missing; /* the first number without a row */
	size_t first, count;  /* its free slots, in slots.numbers */
	size_t start;         /* where to begin among them: others take some at the same time */
};

enum slots_stage {
	SLOTS_UNSENT,
	SLOTS_IN_DOUBT, /* sent, and the reply was lost */
	SLOTS_SENT      /* not all matched: which did is to be read */
};

struct slots {
	struct pool *pool;
	size_t most_rows, most_jobs;
	bool ready; /* the arrays are there */
	/* of the last scan */
	struct slots_job *jobs; /* sorted by id, once they are all there */
	size_t job_count, blocked, scanned;
	const struct settings *settings;
	struct slots_key *keys;
	size_t key_count, key_first, key_last, key_at; /* the last three: which are being read */
	unsigned int *numbers; /* of free slots, key by key */
	size_t number_count, number_room;
	uint64_t *ids;
	char (*names)[JOB_KIND_MAX + 1];
	struct log_limit limit;
	/* of the claim */
	struct slot_held *plan;
	size_t planned;
	struct slot_held *held; /* what is pending, and its jobs */
	struct job **waiting;
	bool *ours;
	size_t pending;
	enum slots_stage stage;
	int64_t sent_ms;
	struct db_identity lost;
};

struct slots *slots_new(struct pool *pool, size_t most_rows, size_t most_jobs)
{
	struct slots *s = calloc(1, sizeof(*s));

	if (s != NULL) {
		s->pool = pool;
		s->most_rows = most_rows;
		s->most_jobs = most_jobs;
	}
	return s;
}

void slots_free(struct slots *s)
{
	if (s == NULL)
		return;
	free(s->jobs);
	free(s->keys);
	free(s->numbers);
	free(s->ids);
	free(s->names);
	free(s->plan);
	free(s->held);
	free(s->waiting);
	free(s->ours);
	free(s);
}

/* The arrays come with the first limit that a handler has: most instances have none. */
static bool slots_prepare(struct slots *s)
{
	if (s->ready)
		return true;
	if (s->jobs == NULL)
		s->jobs = calloc(s->most_rows, sizeof(*s->jobs));
	if (s->keys == NULL)
		s->keys = calloc(s->most_rows, sizeof(*s->keys));
	if (s->ids == NULL)
		s->ids = calloc(s->most_rows, sizeof(*s->ids));
	if (s->names == NULL)
		s->names = calloc(SLOT_STORE_KEYS, sizeof(*s->names));
	if (s->plan == NULL)
		s->plan = calloc(s->most_jobs, sizeof(*s->plan));
	if (s->held == NULL)
		s->held = calloc(s->most_jobs, sizeof(*s->held));
	if (s->waiting == NULL)
		s->waiting = calloc(s->most_jobs, sizeof(struct job *));
	if (s->ours == NULL)
		s->ours = calloc(s->most_jobs, sizeof(*s->ours));
	s->ready = s->jobs != NULL && s->keys != NULL && s->ids != NULL && s->names != NULL && s->plan != NULL && s->held != NULL &&
		   s->waiting != NULL && s->ours != NULL;
	return s->ready;
}

static enum db_class slots_no_memory(struct fault *f)
{
	(void)fault_set(f, LH_ERR_MEMORY, "no memory for fleet slots");
	return DB_OTHER;
}

/* ---- Which rows have to wait ------------------------------------------------------------------------------------------------- */

size_t slots_window(const struct slots *s, size_t window)
{
	bool deep = 2 * s->blocked > s->scanned;

	return deep && window < SLOT_STORE_PAGE ? SLOT_STORE_PAGE : window;
}

static int slots_job_by_id(const void *a, const void *b)
{
	const struct slots_job *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int slots_job_by_key(const void *a, const void *b)
{
	const struct slots_job *x = a, *y = b;

	return strcmp(x->key, y->key);
}

static struct slots_job *slots_find(struct slots *s, uint64_t id)
{
	const struct slots_job wanted = { .id = id };

	return bsearch(&wanted, s->jobs, s->job_count, sizeof(*s->jobs), slots_job_by_id);
}

static void slots_see_job(void *arg, const struct slot_job *job)
{
	struct slots *s = arg;
	const struct handler_settings *h = settings_handler(s->settings, job->kind);
	struct slots_job *seen;

	if (h == NULL || h->concurrency == 0)
		return;
	seen = &s->jobs[s->job_count++];
	*seen = (struct slots_job){ .id = job->id, .limit = (unsigned int)h->concurrency };
	memcpy(seen->key, job->key, sizeof(seen->key));
}

/* Gathers the keys of the jobs. Their names stay in the jobs, which have found their places only at the end. */
static void slots_gather_keys(struct slots *s)
{
	s->key_count = 0;
	qsort(s->jobs, s->job_count, sizeof(*s->jobs), slots_job_by_key);
	for (size_t i = 0; i < s->job_count; i++) {
		if (i == 0 || strcmp(s->jobs[i].key, s->jobs[i - 1].key) != 0)
			s->keys[s->key_count++] = (struct slots_key){ .key = NULL };
		s->jobs[i].key_index = s->key_count - 1;
	}
	qsort(s->jobs, s->job_count, sizeof(*s->jobs), slots_job_by_id);
	for (size_t i = 0; i < s->job_count; i++)
		s->keys[s->jobs[i].key_index].key = s->jobs[i].key;
}

static bool slots_note_number(struct slots *s, unsigned int number)
{
	if (s->number_count == s->number_room) {
		size_t room = s->number_room != 0 ? 2 * s->number_room : 256;
		unsigned int *numbers = realloc(s->numbers, room * sizeof(*numbers));

		if (numbers == NULL)
			return false;
		s->numbers = numbers;
		s->number_room = room;
	}
	s->numbers[s->number_count++] = number;
	return true;
}

/* Rows come key by key, each in the order of its numbers. */
static void slots_see_row(void *arg, const struct slot_row *row)
{
	struct slots *s = arg;
	struct slots_key *k = &s->keys[s->key_at];

	if (strcmp(k->key, row->key) != 0) {
		s->key_at = s->key_first;
		while (s->key_at < s->key_last && strcmp(s->keys[s->key_at].key, row->key) != 0)
			s->key_at++;
		if (s->key_at == s->key_last) {
			s->key_at = s->key_first;
			return;
		}
		k = &s->keys[s->key_at];
	}
	if (row->number == k->missing)
		k->missing++;
	if (row->held) {
		k->held++;
	} else if (k->count < s->most_jobs && slots_note_number(s, row->number)) {
		if (k->count++ == 0)
			k->first = s->number_count - 1;
	}
}

static enum db_class slots_read_keys(struct slots *s, struct db *db, struct fault *f)
{
	enum db_class c = DB_OK;

	s->number_count = 0;
	for (size_t at = 0, n; at < s->key_count && c == DB_OK; at += n) {
		n = s->key_count - at < SLOT_STORE_KEYS ? s->key_count - at : SLOT_STORE_KEYS;
		for (size_t i = 0; i < n; i++)
			memcpy(s->names[i], s->keys[at + i].key, sizeof(s->names[i]));
		s->key_first = s->key_at = at;
		s->key_last = at + n;
		c = slot_store_read(db, (const char(*)[JOB_KIND_MAX + 1])s->names, n, slots_see_row, s, f);
	}
	for (size_t i = 0; i < s->key_count; i++)
		if (s->keys[i].count > 0)
			s->keys[i].start = (size_t)random_below(s->keys[i].count);
	return c;
}

/* Without job_slots no job that needs a slot may run; the others go on. */
static void slots_tell_unfit(struct slots *s, enum db_class c, const struct fault *f)
{
	if (log_limit_pass(&s->limit, clock_mono_ms(), SLOTS_TELL_MS))
		log_error("slots", "jobs of kinds with handlers.concurrency are not run: %s (%s); see `leasehold check`", f->text,
			  db_class_name(c));
}

static bool slots_is_unfit(enum db_class c)
{
	return c == DB_DENIED || c == DB_SCHEMA;
}

static bool slots_is_full(const struct slots *s, const struct slots_job *job)
{
	return s->keys[job->key_index].held + s->keys[job->key_index].given >= job->limit;
}

enum db_class slots_sift(struct slots *s, struct db *db, const struct settings *settings, struct scan_row *rows, size_t *n,
			 struct fault *f)
{
	enum db_class c;
	size_t kept = 0;

	s->job_count = s->key_count = s->blocked = s->planned = 0;
	s->scanned = *n;
	if (*n == 0 || !settings_use_slots(settings))
		return DB_OK;
	if (!slots_prepare(s))
		return slots_no_memory(f);
	for (size_t i = 0; i < *n; i++)
		s->ids[i] = rows[i].id;
	store_sort_ids(s->ids, *n);
	s->settings = settings;
	c = slot_store_jobs(db, s->ids, *n, slots_see_job, s, f);
	if (c != DB_OK || s->job_count == 0)
		return c;
	slots_gather_keys(s);
	c = slots_read_keys(s, db, f);
	if (c != DB_OK && !slots_is_unfit(c))
		return c;
	if (c != DB_OK)
		slots_tell_unfit(s, c, f);
	for (size_t i = 0; i < *n; i++) {
		struct slots_job *job = slots_find(s, rows[i].id);

		if (job != NULL && c == DB_OK && slots_is_full(s, job)) {
			job->blocked = true;
			s->blocked++;
		} else if (job == NULL || c == DB_OK) {
			rows[kept++] = rows[i];
		}
	}
	*n = kept;
	return DB_OK;
}

/* A free number below the limit: one that has a row, else one that gets it now. False: there is none after all. */
static bool slots_pick(const struct slots *s, struct slots_key *k, unsigned int limit, unsigned int *number, bool *make)
{
	*make = false;
	for (size_t i = 0; i < k->count; i++) {
		unsigned int *at = &s->numbers[k->first + (k->start + i) % k->count];

		if (*at >= limit)
			continue;
		*number = *at;
		*at = UINT32_MAX; /* given */
		return true;
	}
	if (k->missing >= limit)
		return false;
	*number = k->missing++;
	*make = true;
	return true;
}

/* A slot for the job to try for, if there is one. It is made where it does not exist yet. */
static enum db_class slots_plan(struct slots *s, struct db *db, const struct slots_job *job, bool *planned, struct fault *f)
{
	struct slots_key *k = &s->keys[job->key_index];
	struct slot_held *plan = &s->plan[s->planned];
	bool make = false;

	*plan = (struct slot_held){ .id = job->id, .slot = { .limit = job->limit } };
	memcpy(plan->slot.key, job->key, sizeof(plan->slot.key));
	*planned = !slots_is_full(s, job) && slots_pick(s, k, job->limit, &plan->slot.number, &make);
	if (!*planned)
		return DB_OK;
	k->given++;
	s->planned++;
	return make ? slot_store_make(db, &plan->slot, f) : DB_OK;
}

enum db_class slots_choose(struct slots *s, struct db *db, size_t threads, uint64_t *ids, size_t *n, size_t *tried, bool *again,
			   struct fault *f)
{
	enum db_class c = DB_OK;
	size_t kept = 0;

	*again = false;
	*tried = *n;
	for (size_t i = 0; i < *n && c == DB_OK && s->job_count > 0; i++) {
		const struct slots_job *job = slots_find(s, ids[i]);
		bool claim = true;

		if (job != NULL && kept >= threads) {
			*tried = i;
			break;
		}
		if (job != NULL)
			c = slots_plan(s, db, job, &claim, f);
		if (claim)
			ids[kept++] = ids[i];
		else
			*again = true; /* its key is full now: the next scan parks it */
	}
	if (s->job_count > 0)
		*n = kept;
	return c;
}

/* ---- Taking ------------------------------------------------------------------------------------------------------------------ */

bool slots_claimed(struct slots *s, struct job *job)
{
	for (size_t i = 0; i < s->planned; i++) {
		struct slot_held *held = &s->held[s->pending];

		if (s->plan[i].id != job->id)
			continue;
		*held = s->plan[i];
		memcpy(held->lease, job->lease, sizeof(held->lease));
		s->waiting[s->pending++] = job;
		return true;
	}
	return false;
}

bool slots_pending(const struct slots *s)
{
	return s->pending > 0;
}

/* The job and the slot that it has, may have, or did not get: whatever ends it frees what is held under its lease. */
static void slots_give_back(struct slots *s, size_t i, enum settle_action action, int64_t delay_ms, const char *cause)
{
	struct job *job = s->waiting[i];

	job->slot = s->held[i].slot;
	handback_job(s->pool->instance, job, action, delay_ms, cause);
	job_free(job);
}

/* It is known who has his slot. */
static void slots_deliver(struct slots *s, void (*each)(void *arg, struct job *job), void *arg)
{
	struct instance *in = s->pool->instance;

	for (size_t i = 0; i < s->pending; i++) {
		struct job *job = s->waiting[i];

		if (!s->ours[i]) {
			slots_give_back(s, i, SETTLE_WAIT, 0, "no free slot");
		} else if (!inflight_took_slot(in->inflight, job->id, job->lease, &s->held[i].slot, s->sent_ms)) {
			slots_give_back(s, i, SETTLE_RELEASE, 0, "lost before it had its slot");
		} else {
			job->slot = s->held[i].slot;
			each(arg, job);
		}
	}
	s->pending = 0;
	s->stage = SLOTS_UNSENT;
}

/* The server will not have it: the jobs come again in a moment, when somebody may have acted. */
static enum db_class slots_refused(struct slots *s, enum db_class c, const struct fault *f)
{
	slots_tell_unfit(s, c, f);
	for (size_t i = 0; i < s->pending; i++)
		slots_give_back(s, i, SETTLE_SNOOZE, SLOTS_PAUSE_MS + (int64_t)random_below(SLOTS_PAUSE_MS),
				"slots cannot be taken");
	s->pending = 0;
	s->stage = SLOTS_UNSENT;
	return DB_OK;
}

static enum db_class slots_send(struct slots *s, struct db *db, struct fault *f)
{
	struct instance *in = s->pool->instance;
	uint64_t won = 0;
	enum db_class c;

	s->sent_ms = clock_boot_ms();
	c = slot_store_take(db, s->held, s->pending, (uint32_t)in->lease_ms, in->worker, &won, f);
	if (c == DB_UNCERTAIN || c == DB_OTHER) {
		s->stage = SLOTS_IN_DOUBT;
		s->lost = *db_identity(db);
	}
	if (c != DB_OK)
		return c;
	s->stage = SLOTS_SENT;
	for (size_t i = 0; i < s->pending; i++)
		s->ours[i] = true;
	return won == s->pending ? DB_OK : slot_store_check(db, s->held, s->pending, s->ours, f);
}

/* A taking whose reply was lost counts as what the rows say, once the old session cannot write any more. Where that cannot be
 * known, a slot that turns up later is nobody's, and lapses. */
static enum db_class slots_resolve(struct slots *s, struct db *db, struct fault *f)
{
	if (s->stage == SLOTS_IN_DOUBT) {
		enum db_end end = db_end_session(db, &s->lost, SLOTS_END_WAIT_MS, f);

		if (end == DB_END_FAILED)
			return DB_GONE;
		log_info("slots", "the reply to a taking of slots was lost; its session %llu is %s",
			 (unsigned long long)s->lost.session, end == DB_END_GONE ? "gone" : "not known to be gone");
		s->stage = SLOTS_SENT;
	}
	return slot_store_check(db, s->held, s->pending, s->ours, f);
}

enum db_class slots_take(struct slots *s, struct db *db, void (*each)(void *arg, struct job *job), void *arg, struct fault *f)
{
	enum db_class c;

	if (s->pending == 0)
		return DB_OK;
	c = s->stage == SLOTS_UNSENT ? slots_send(s, db, f) : slots_resolve(s, db, f);
	if (c == DB_OK)
		slots_deliver(s, each, arg);
	else if (s->stage == SLOTS_UNSENT && (slots_is_unfit(c) || c == DB_DATA || c == DB_DUPLICATE))
		return slots_refused(s, c, f);
	return c;
}

void slots_leave(struct slots *s)
{
	for (size_t i = 0; i < s->pending; i++)
		slots_give_back(s, i, SETTLE_RELEASE, 0, "released by a shutdown");
	s->pending = 0;
}

/* ---- Parking ----------------------------------------------------------------------------------------------------------------- */

/* Whoever freed a slot while they were being parked saw no waiter: so somebody has to look again, now that they are. */
static void slots_look_again(struct slots *s)
{
	for (size_t i = 0; i < s->key_count; i++)
		s->keys[i].given = 0;
	for (size_t i = 0; i < s->job_count; i++) {
		struct slots_job *job = &s->jobs[i];
		struct job_slot slot = { .limit = job->limit };

		if (!job->blocked || s->keys[job->key_index].given++ != 0)
			continue;
		memcpy(slot.key, job->key, sizeof(slot.key));
		slot_keeper_touch(s->pool->instance->slot_keeper, &slot);
	}
}

enum db_class slots_park(struct slots *s, struct db *db, bool *parked, struct fault *f)
{
	enum db_class c = DB_OK;
	uint64_t matched = 0, total = 0;
	size_t count = 0;

	*parked = s->blocked > 0;
	if (s->blocked == 0)
		return DB_OK;
	for (size_t i = 0; i < s->job_count; i++)
		if (s->jobs[i].blocked)
			s->ids[count++] = s->jobs[i].id;
	for (size_t at = 0, n; at < count && c == DB_OK; at += n) {
		n = count - at < SLOT_STORE_PAGE ? count - at : SLOT_STORE_PAGE;
		c = slot_store_park(db, s->ids + at, n, &matched, f);
		total += c == DB_OK ? matched : 0;
	}
	atomic_fetch_add(&s->pool->instance->count.slot_waits, total);
	if (total > 0)
		log_debug("slots", "%llu jobs wait for a slot now", (unsigned long long)total);
	slots_look_again(s);
	return c;
}
