#include "worker/parking.h"

#include "base/random.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct parking {
	pthread_mutex_t lock;
	size_t count;
	struct {
		char *kind;
		int64_t since_ms;
	} known[PARKING_KINDS];
};

struct parking *parking_new(void)
{
	struct parking *p = calloc(1, sizeof(*p));

	if (p != NULL)
		pthread_mutex_init(&p->lock, NULL);
	return p;
}

void parking_reset(struct parking *p)
{
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->count; i++)
		free(p->known[i].kind);
	p->count = 0;
	pthread_mutex_unlock(&p->lock);
}

void parking_free(struct parking *p)
{
	if (p == NULL)
		return;
	parking_reset(p);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* How long the kind has been unknown; the lock is held. */
static int64_t parking_age_ms(struct parking *p, const char *kind, int64_t now_ms, bool *first)
{
	char *copy;

	for (size_t i = 0; i < p->count; i++)
		if (strcmp(p->known[i].kind, kind) == 0)
			return now_ms - p->known[i].since_ms;
	copy = p->count < PARKING_KINDS ? strdup(kind) : NULL;
	if (copy == NULL)
		return PARKING_MAX_MS;
	p->known[p->count].kind = copy;
	p->known[p->count++].since_ms = now_ms;
	*first = true;
	return 0;
}

int64_t parking_delay_ms(struct parking *p, const char *kind, int64_t now_ms, bool *first)
{
	int64_t delay;

	*first = false;
	pthread_mutex_lock(&p->lock);
	delay = parking_age_ms(p, kind, now_ms, first);
	pthread_mutex_unlock(&p->lock);
	if (delay < PARKING_MIN_MS)
		delay = PARKING_MIN_MS;
	if (delay > PARKING_MAX_MS)
		delay = PARKING_MAX_MS;
	return delay + (int64_t)random_below((uint64_t)delay / 5 + 1);
}
