#include "worker/slot_keeper.h"

#include "base/clock.h"
#include "model/lapse.h"
#include "store/slot_store.h"
#include "worker/role.h"
#include "worker/instance.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_KEEPER_NOTES 64
#define SLOT_KEEPER_WATCHED 8192
#define SLOT_KEEPER_LAPSED 100 /* freed at once; the next sweep goes on */
#define SLOT_KEEPER_TRIES 4
#define SLOT_KEEPER_TELL_MS 60000

struct slot_keeper_note {
	struct job_slot slot;
	size_t times;
};

struct slot_keeper {
	struct instance *instance;
	pthread_mutex_t lock; /* of the next three */
	struct slot_keeper_note notes[SLOT_KEEPER_NOTES];
	size_t count;
	bool renewed; /* a full sweep is due */
	/* of the promoter's thread */
	struct slot_keeper_note taken[SLOT_KEEPER_NOTES];
	struct lapse_watch *watch;
	bool full;        /* the next sweep is */
	int64_t sweep_ms; /* when it is due; -1: never */
	int64_t house_ms;
	struct settings *settings; /* during a step */
	struct log_limit limit;
	/* of a sweep */
	struct slot_waiter waiters[SLOT_STORE_KEYS];
	char kinds[SLOT_STORE_KEYS][JOB_KIND_MAX + 1];
	char names[SLOT_STORE_KEYS][JOB_KIND_MAX + 1];
	size_t waiter_count, held[SLOT_STORE_KEYS], freed[SLOT_STORE_KEYS];
	struct slot_row lapsed[SLOT_KEEPER_LAPSED];
	size_t lapsed_count;
	struct slot_row last;
	uint64_t ids[SLOT_STORE_PAGE];
};

struct slot_keeper *slot_keeper_new(struct instance *in)
{
	struct slot_keeper *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return NULL;
	k->instance = in;
	k->renewed = true;
	pthread_mutex_init(&k->lock, NULL);
	k->watch = lapse_watch_new(SLOT_KEEPER_WATCHED);
	if (k->watch == NULL) {
		slot_keeper_free(k);
		return NULL;
	}
	return k;
}

void slot_keeper_free(struct slot_keeper *k)
{
	if (k == NULL)
		return;
	lapse_watch_free(k->watch);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

void slot_keeper_touch(struct slot_keeper *k, const struct job_slot *slot)
{
	size_t i = 0;

	pthread_mutex_lock(&k->lock);
	while (i < k->count && strcmp(k->notes[i].slot.key, slot->key) != 0)
		i++;
	if (i == SLOT_KEEPER_NOTES) {
		k->renewed = true; /* so many at once: the sweep sees them all */
	} else {
		if (i == k->count)
			k->notes[k->count++] = (struct slot_keeper_note){ .slot = *slot };
		k->notes[i].times++;
		if (slot->limit != 0)
			k->notes[i].slot.limit = slot->limit;
	}
	pthread_mutex_unlock(&k->lock);
	role_nudge(k->instance->promoter);
}

void slot_keeper_renew(struct slot_keeper *k)
{
	pthread_mutex_lock(&k->lock);
	k->renewed = true;
	pthread_mutex_unlock(&k->lock);
	role_nudge(k->instance->promoter);
}

static size_t slot_keeper_take_notes(struct slot_keeper *k)
{
	size_t n;

	pthread_mutex_lock(&k->lock);
	n = k->count;
	memcpy(k->taken, k->notes, n * sizeof(*k->taken));
	k->count = 0;
	if (k->renewed) {
		k->full = true;
		k->sweep_ms = 0;
	}
	k->renewed = false;
	pthread_mutex_unlock(&k->lock);
	return n;
}

/* ---- One key ----------------------------------------------------------------------------------------------------------------- */

/* How many jobs of a kind may run at once: 0 = as many as like to. False: nobody here knows. */
static bool slot_keeper_limit(const struct slot_keeper *k, const char *kind, size_t otherwise, size_t *limit)
{
	const struct handler_settings *h = settings_handler(k->settings, kind);

	*limit = h != NULL ? (size_t)h->concurrency : otherwise;
	return h != NULL || otherwise != 0;
}

static void slot_keeper_count(void *arg, const struct slot_row *row)
{
	size_t *held = arg;

	*held += row->held;
}

static enum db_class slot_keeper_free_slots(struct db *db, const char *key, size_t limit, size_t *free_slots, struct fault *f)
{
	char name[1][JOB_KIND_MAX + 1];
	size_t held = 0;
	enum db_class c;

	memcpy(name[0], key, sizeof(name[0]));
	c = slot_store_read(db, (const char(*)[JOB_KIND_MAX + 1])name, 1, slot_keeper_count, &held, f);
	*free_slots = held < limit ? limit - held : 0;
	return c;
}

static enum db_class slot_keeper_promote(struct slot_keeper *k, struct db *db, const char *key, size_t n, uint64_t *promoted,
					 struct fault *f)
{
	enum db_class c = slot_store_promote(db, key, k->ids, n, promoted, f);

	if (c != DB_OK || *promoted == 0)
		return c;
	atomic_fetch_add(&k->instance->count.slot_promoted, *promoted);
	log_debug("slots", "key=%s %llu of its waiters are ready now", key, (unsigned long long)*promoted);
	instance_nudge_claimers(k->instance);
	return c;
}

/* One round of slot_keeper_serve. *left: how many more may be promoted; 0 when there is nothing more to do. */
static enum db_class slot_keeper_serve_once(struct slot_keeper *k, struct db *db, const struct job_slot *slot, size_t *left,
					    struct fault *f)
{
	size_t n = 0, limit, room = SLOT_STORE_PAGE, wanted = *left;
	char kind[JOB_KIND_MAX + 1];
	uint64_t promoted = 0;
	enum db_class c;

	*left = 0;
	c = slot_store_oldest(db, slot->key, 1, k->ids, &n, kind, sizeof(kind), f);
	if (c != DB_OK || n == 0 || !slot_keeper_limit(k, kind, slot->limit, &limit))
		return c;
	if (limit != 0) {
		c = slot_keeper_free_slots(db, slot->key, limit, &room, f);
		room = room < wanted ? room : wanted;
	}
	if (c == DB_OK && room > 1)
		c = slot_store_oldest(db, slot->key, room < SLOT_STORE_PAGE ? room : SLOT_STORE_PAGE, k->ids, &n, kind,
				      sizeof(kind), f);
	if (c != DB_OK || room == 0 || n == 0)
		return c;
	c = slot_keeper_promote(k, db, slot->key, n, &promoted, f);
	/* A limit that was taken away lets all of them go. */
	if (promoted < n || n == SLOT_STORE_PAGE)
		*left = limit == 0 ? 1 : wanted - (size_t)promoted;
	return c;
}

/* Promotes the oldest waiters of a key, as many as it has free slots, and at most so many. Another instance may take the same
 * ones at the same moment for slots that it freed: then the next. */
static enum db_class slot_keeper_serve(struct slot_keeper *k, struct db *db, const struct job_slot *slot, size_t most,
				       struct fault *f)
{
	enum db_class c = DB_OK;

	for (size_t tries = 0; tries < SLOT_KEEPER_TRIES + most / SLOT_STORE_PAGE && most > 0 && c == DB_OK; tries++)
		c = slot_keeper_serve_once(k, db, slot, &most, f);
	if (c == DB_OK && most > 0)
		k->sweep_ms = 0; /* the rest soon */
	return c;
}

/* ---- Slots of the dead ------------------------------------------------------------------------------------------------------- */

static uint64_t slot_keeper_hash(const struct slot_row *row)
{
	uint64_t hash = UINT64_C(14695981039346656037) ^ row->number;

	for (const char *p = row->key; *p != '\0'; p++)
		hash = (hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
	return hash * UINT64_C(1099511628211);
}

/* A slot is taken from its holder only after it was seen unchanged for the holder's own lease, on our own clock: whatever the
 * server's clock did, by then its holder's trust has passed. */
static void slot_keeper_watch(struct slot_keeper *k, const struct slot_row *row)
{
	uint64_t id = slot_keeper_hash(row);

	if (row->held && lapse_watch_see(k->watch, id, row->lease, row->locked_at, row->lease_ms, clock_boot_ms()) &&
	    k->lapsed_count < SLOT_KEEPER_LAPSED)
		k->lapsed[k->lapsed_count++] = *row;
}

static size_t slot_keeper_index(const struct slot_keeper *k, const char *key)
{
	size_t i = 0;

	while (i < k->waiter_count && strcmp(k->waiters[i].key, key) != 0)
		i++;
	return i;
}

static enum db_class slot_keeper_free_lapsed(struct slot_keeper *k, struct db *db, struct fault *f)
{
	enum db_class c = DB_OK;

	for (size_t i = 0; i < k->lapsed_count && c == DB_OK; i++) {
		const struct slot_row *row = &k->lapsed[i];
		size_t at = slot_keeper_index(k, row->key);
		bool freed = false;

		c = slot_store_free_lapsed(db, row, &freed, f);
		if (!freed)
			continue;
		log_info("slots", "key=%s slot=%u lapsed: job %llu did not renew it; it is free", row->key, row->number,
			 (unsigned long long)row->job);
		if (at < k->waiter_count) {
			k->held[at]--;
			k->freed[at]++;
		}
	}
	k->lapsed_count = 0;
	return c;
}

static void slot_keeper_see_page(void *arg, const struct slot_row *row)
{
	struct slot_keeper *k = arg;

	slot_keeper_watch(k, row);
	k->last = *row;
}

/* All slots, once a lease: those that nobody waits for come free too. */
static enum db_class slot_keeper_clean(struct slot_keeper *k, struct db *db, struct fault *f)
{
	size_t count = SLOT_STORE_PAGE;
	enum db_class c = DB_OK;

	k->waiter_count = 0;
	for (bool first = true; count == SLOT_STORE_PAGE && c == DB_OK; first = false) {
		c = slot_store_page(db, first ? NULL : &k->last, slot_keeper_see_page, k, &count, f);
		if (c == DB_OK)
			c = slot_keeper_free_lapsed(k, db, f);
	}
	return c;
}

/* ---- The sweep --------------------------------------------------------------------------------------------------------------- */

static void slot_keeper_see_kind(void *arg, const struct slot_job *job)
{
	struct slot_keeper *k = arg;

	for (size_t i = 0; i < k->waiter_count; i++)
		if (k->waiters[i].id == job->id)
			memcpy(k->kinds[i], job->kind, sizeof(k->kinds[i]));
}

static void slot_keeper_see_slot(void *arg, const struct slot_row *row)
{
	struct slot_keeper *k = arg;
	size_t at = slot_keeper_index(k, row->key);

	if (at < k->waiter_count)
		k->held[at] += row->held;
	slot_keeper_watch(k, row);
}

/* The kinds of a page of oldest waiters, and the slots of those keys that have a limit here. */
static enum db_class slot_keeper_look(struct slot_keeper *k, struct db *db, struct fault *f)
{
	size_t limited = 0, limit;
	enum db_class c;

	for (size_t i = 0; i < k->waiter_count; i++) {
		k->ids[i] = k->waiters[i].id;
		k->kinds[i][0] = '\0';
		k->held[i] = k->freed[i] = 0;
	}
	store_sort_ids(k->ids, k->waiter_count);
	c = slot_store_jobs(db, k->ids, k->waiter_count, slot_keeper_see_kind, k, f);
	for (size_t i = 0; i < k->waiter_count; i++)
		if (k->kinds[i][0] != '\0' && slot_keeper_limit(k, k->kinds[i], 0, &limit) && limit != 0)
			memcpy(k->names[limited++], k->waiters[i].key, sizeof(k->names[0]));
	if (c == DB_OK && limited > 0)
		c = slot_store_read(db, (const char(*)[JOB_KIND_MAX + 1])k->names, limited, slot_keeper_see_slot, k, f);
	return c == DB_OK ? slot_keeper_free_lapsed(k, db, f) : c;
}

/* full: as many as there are slots. Otherwise one, beside those that took the place of the dead: what was promoted already and
 * waits for a thread still has no slot, and must not be joined by ever more. */
static enum db_class slot_keeper_sweep_page(struct slot_keeper *k, struct db *db, bool full, struct fault *f)
{
	enum db_class c = slot_keeper_look(k, db, f);
	size_t limit;

	for (size_t i = 0; i < k->waiter_count && c == DB_OK; i++) {
		struct job_slot slot = { .number = 0 };

		if (k->kinds[i][0] == '\0' || !slot_keeper_limit(k, k->kinds[i], 0, &limit) || (limit != 0 && k->held[i] >= limit))
			continue;
		memcpy(slot.key, k->waiters[i].key, sizeof(slot.key));
		c = slot_keeper_serve(k, db, &slot, full && limit != 0 ? limit - k->held[i] : 1 + k->freed[i], f);
	}
	return c;
}

static enum db_class slot_keeper_sweep(struct slot_keeper *k, struct db *db, bool full, bool *waiting, struct fault *f)
{
	char after[JOB_KIND_MAX + 1] = "";
	enum db_class c;

	*waiting = false;
	do {
		c = slot_store_waiting(db, after, k->waiters, &k->waiter_count, f);
		if (c != DB_OK || k->waiter_count == 0)
			break;
		*waiting = true;
		memcpy(after, k->waiters[k->waiter_count - 1].key, sizeof(after));
		c = slot_keeper_sweep_page(k, db, full, f);
	} while (c == DB_OK && k->waiter_count == SLOT_STORE_KEYS);
	return c;
}

static enum db_class slot_keeper_sweep_when_due(struct slot_keeper *k, struct db *db, struct fault *f)
{
	int64_t now_ms = clock_mono_ms(), lease_ms = k->instance->lease_ms;
	bool uses = settings_use_slots(k->settings), waiting = false;
	enum db_class c = DB_OK;

	if (k->sweep_ms < 0 || now_ms < k->sweep_ms)
		return DB_OK;
	k->sweep_ms = now_ms + k->settings->recovery.interval_ms;
	c = slot_keeper_sweep(k, db, k->full, &waiting, f);
	k->full = k->full && c != DB_OK;
	if (c == DB_OK && uses && now_ms >= k->house_ms) {
		c = slot_keeper_clean(k, db, f);
		k->house_ms = now_ms + lease_ms;
		lapse_watch_sweep(k->watch, clock_boot_ms() - 3 * lease_ms);
	}
	if (c != DB_OK || k->sweep_ms == 0)
		return c;
	if (!uses)
		k->sweep_ms = -1;
	else if (!waiting)
		k->sweep_ms = now_ms + lease_ms;
	return c;
}

static enum db_class slot_keeper_work(struct slot_keeper *k, struct db *db, size_t notes, struct fault *f)
{
	int64_t soon_ms = clock_mono_ms() + k->settings->recovery.interval_ms;
	enum db_class c = DB_OK;

	for (size_t i = 0; i < notes && c == DB_OK; i++)
		c = slot_keeper_serve(k, db, &k->taken[i].slot, k->taken[i].times, f);
	/* Where something happens, there may be waiters. */
	if (notes > 0 && (k->sweep_ms < 0 || k->sweep_ms > soon_ms))
		k->sweep_ms = soon_ms;
	return c == DB_OK ? slot_keeper_sweep_when_due(k, db, f) : c;
}

enum db_class slot_keeper_step(struct slot_keeper *k, struct db *db, int64_t *wait_ms, struct fault *f)
{
	int64_t now_ms, rest_ms;
	size_t notes = slot_keeper_take_notes(k);
	enum db_class c;

	k->settings = instance_settings(k->instance);
	c = slot_keeper_work(k, db, notes, f);
	now_ms = clock_mono_ms();
	if (c != DB_OK) /* whatever was to be done, the next sweep does */
		k->sweep_ms = now_ms + k->settings->recovery.interval_ms;
	settings_unref(k->settings);
	if (c == DB_DENIED || c == DB_SCHEMA || c == DB_RETRY || c == DB_DATA || c == DB_DUPLICATE) {
		if (c != DB_RETRY && log_limit_pass(&k->limit, now_ms, SLOT_KEEPER_TELL_MS))
			log_error("slots", "jobs that wait for a slot cannot be looked after: %s (%s); see `leasehold check`",
				  f->text, db_class_name(c));
		c = DB_OK; /* due jobs are promoted all the same */
	}
	rest_ms = k->sweep_ms < 0 ? *wait_ms : k->sweep_ms - now_ms;
	if (rest_ms < *wait_ms)
		*wait_ms = rest_ms > 0 ? rest_ms : 0;
	return c;
}
