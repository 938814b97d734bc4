#include "worker/parking.h"

#include "base/random.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PARKING_NOWHERE PARKING_KINDS

struct parking_kind {
	char *name; /* NULL: free */
	int64_t since_ms;
	bool met; /* since the handlers were last loaded */
};

struct parking_job {
	struct promote_parked job; /* id 0: none */
	size_t kind;               /* its place in kinds */
};

struct parking {
	pthread_mutex_t lock;
	struct parking_kind kinds[PARKING_KINDS];
	struct parking_job jobs[PARKING_JOBS];
	size_t next; /* where the next job goes, over the oldest */
	struct promote_parked *due;
	size_t due_count, due_done;
};

struct parking *parking_new(void)
{
	struct parking *p = calloc(1, sizeof(*p));

	if (p != NULL)
		pthread_mutex_init(&p->lock, NULL);
	return p;
}

void parking_free(struct parking *p)
{
	if (p == NULL)
		return;
	for (size_t i = 0; i < PARKING_KINDS; i++)
		free(p->kinds[i].name);
	free(p->due);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* The kind's place, made if there is room. */
static size_t parking_place(struct parking *p, const char *kind)
{
	size_t place = PARKING_NOWHERE;

	for (size_t i = 0; i < PARKING_KINDS; i++) {
		if (p->kinds[i].name != NULL && strcmp(p->kinds[i].name, kind) == 0)
			return i;
		if (p->kinds[i].name == NULL && place == PARKING_NOWHERE)
			place = i;
	}
	if (place == PARKING_NOWHERE)
		return place;
	p->kinds[place] = (struct parking_kind){ .name = strdup(kind) };
	return p->kinds[place].name != NULL ? place : PARKING_NOWHERE;
}

/* How long the kind has been unknown; the lock is held. */
static int64_t parking_age_ms(struct parking *p, size_t place, int64_t now_ms, bool *first)
{
	struct parking_kind *kind = &p->kinds[place];

	if (kind->met)
		return now_ms - kind->since_ms;
	kind->met = true;
	kind->since_ms = now_ms;
	*first = true;
	return 0;
}

int64_t parking_job(struct parking *p, const char *kind, uint64_t id, uint32_t claim_no, int64_t now_ms, bool *first)
{
	int64_t delay = PARKING_MAX_MS;
	size_t place;

	*first = false;
	pthread_mutex_lock(&p->lock);
	place = parking_place(p, kind);
	if (place != PARKING_NOWHERE) {
		delay = parking_age_ms(p, place, now_ms, first);
		p->jobs[p->next] = (struct parking_job){ .job = { .id = id, .claim_no = claim_no }, .kind = place };
		p->next = (p->next + 1) % PARKING_JOBS;
	}
	pthread_mutex_unlock(&p->lock);
	if (delay < PARKING_MIN_MS)
		delay = PARKING_MIN_MS;
	if (delay > PARKING_MAX_MS)
		delay = PARKING_MAX_MS;
	return delay + (int64_t)random_below((uint64_t)delay / 5 + 1);
}

/* Room for every job that is due already or may become so. False without memory: they wait their time, then. */
static bool parking_make_room(struct parking *p)
{
	size_t left = p->due_count - p->due_done;
	struct promote_parked *due = calloc(left + PARKING_JOBS, sizeof(*due));

	if (due == NULL)
		return false;
	if (left > 0)
		memcpy(due, p->due + p->due_done, left * sizeof(*due));
	free(p->due);
	p->due = due;
	p->due_count = left;
	p->due_done = 0;
	return true;
}

void parking_reload(struct parking *p, const struct settings *settings)
{
	bool served[PARKING_KINDS], any = false;

	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < PARKING_KINDS; i++) {
		struct parking_kind *kind = &p->kinds[i];

		kind->met = false;
		served[i] = kind->name != NULL && settings_handler(settings, kind->name) != NULL;
		any = any || served[i];
	}
	any = any && parking_make_room(p);
	for (size_t i = 0; i < PARKING_JOBS && any; i++) {
		if (p->jobs[i].job.id == 0 || !served[p->jobs[i].kind])
			continue;
		p->due[p->due_count++] = p->jobs[i].job;
		p->jobs[i].job.id = 0;
	}
	for (size_t i = 0; i < PARKING_KINDS && any; i++) {
		if (!served[i])
			continue;
		free(p->kinds[i].name);
		p->kinds[i].name = NULL;
	}
	pthread_mutex_unlock(&p->lock);
}

static int parking_by_id(const void *a, const void *b)
{
	const struct promote_parked *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

size_t parking_due(struct parking *p, struct promote_parked *out, size_t max)
{
	size_t n;

	pthread_mutex_lock(&p->lock);
	n = p->due_count - p->due_done;
	if (n > max)
		n = max;
	if (n > 0)
		memcpy(out, p->due + p->due_done, n * sizeof(*out));
	pthread_mutex_unlock(&p->lock);
	qsort(out, n, sizeof(*out), parking_by_id);
	return n;
}

void parking_done(struct parking *p, size_t n)
{
	pthread_mutex_lock(&p->lock);
	p->due_done += n;
	if (p->due_done == p->due_count) {
		free(p->due);
		p->due = NULL;
		p->due_count = p->due_done = 0;
	}
	pthread_mutex_unlock(&p->lock);
}
