/* fifo.c - see fifo.h. */
#include "base/fifo.h"

#include "base/clock.h"

#include <errno.h>

void fifo_init(struct fifo *q)
{
	pthread_condattr_t attr;

	*q = (struct fifo){ .head = NULL };
	q->tail = &q->head;
	pthread_mutex_init(&q->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&q->filled, &attr);
	pthread_cond_init(&q->gathered, &attr);
	pthread_condattr_destroy(&attr);
}

void fifo_destroy(struct fifo *q)
{
	pthread_cond_destroy(&q->gathered);
	pthread_cond_destroy(&q->filled);
	pthread_mutex_destroy(&q->lock);
}

/* With the lock held: wakes one waiting taker, unless one is on its way already. It wakes the next, where something is left
 * for it: so a burst of short jobs does not wake a thread for each, only to find that others were quicker. */
static void fifo_wake(struct fifo *q)
{
	if (q->count == 0 || q->waiting == 0 || q->waking)
		return;
	q->waking = true;
	pthread_cond_signal(&q->filled);
}

void fifo_push(struct fifo *q, struct fifo_link *item)
{
	item->next = NULL;
	pthread_mutex_lock(&q->lock);
	*q->tail = item;
	q->tail = &item->next;
	q->count++;
	if (q->lingering > 0 && q->count >= q->gather)
		pthread_cond_signal(&q->gathered);
	fifo_wake(q);
	pthread_mutex_unlock(&q->lock);
}

void fifo_close(struct fifo *q)
{
	pthread_mutex_lock(&q->lock);
	q->closed = true;
	pthread_cond_broadcast(&q->filled);
	pthread_cond_broadcast(&q->gathered);
	pthread_mutex_unlock(&q->lock);
}

size_t fifo_count(struct fifo *q)
{
	size_t count;

	pthread_mutex_lock(&q->lock);
	count = q->count;
	pthread_mutex_unlock(&q->lock);
	return count;
}

bool fifo_closed(struct fifo *q)
{
	bool closed;

	pthread_mutex_lock(&q->lock);
	closed = q->closed;
	pthread_mutex_unlock(&q->lock);
	return closed;
}

/* With the lock held: waits until there is an item, the queue is closed, or until has passed (NULL: without end). Returns
 * false when the time ran out first. */
static bool fifo_await(struct fifo *q, const struct timespec *until)
{
	int err = 0;

	while (q->count == 0 && !q->closed && err != ETIMEDOUT) {
		q->waiting++;
		if (until == NULL)
			err = pthread_cond_wait(&q->filled, &q->lock);
		else
			err = pthread_cond_timedwait(&q->filled, &q->lock, until);
		q->waiting--;
		q->waking = false; /* whatever woke us, we look now */
	}
	return q->count > 0 || q->closed;
}

/* With the lock held: gives others the time to add to what there is. */
static void fifo_linger(struct fifo *q, size_t want, int64_t linger_ms)
{
	struct timespec until = clock_mono_after(linger_ms);
	int err = 0;

	if (q->lingering++ == 0 || want < q->gather)
		q->gather = want;
	while (q->count < want && !q->closed && err != ETIMEDOUT)
		err = pthread_cond_timedwait(&q->gathered, &q->lock, &until);
	q->lingering--;
}

static size_t fifo_move(struct fifo *q, struct fifo_link **items, size_t max)
{
	size_t n = 0;

	while (n < max && q->head != NULL) {
		items[n] = q->head;
		q->head = q->head->next;
		items[n++]->next = NULL;
	}
	if (q->head == NULL)
		q->tail = &q->head;
	q->count -= n;
	return n;
}

size_t fifo_take(struct fifo *q, struct fifo_link **items, size_t max, int64_t timeout_ms, int64_t linger_ms)
{
	struct timespec until = clock_mono_after(timeout_ms);
	bool in_time;
	size_t n;

	if (max == 0)
		return 0;
	pthread_mutex_lock(&q->lock);
	do {
		in_time = fifo_await(q, timeout_ms < 0 ? NULL : &until);
		if (q->count > 0 && q->count < max && linger_ms > 0)
			fifo_linger(q, max, linger_ms);
		/* Another taker may have emptied the queue while this one lingered. */
	} while (q->count == 0 && !q->closed && in_time);
	n = fifo_move(q, items, max);
	fifo_wake(q);
	pthread_mutex_unlock(&q->lock);
	return n;
}
