/* gate.c - see gate.h. */
#include "base/gate.h"

#include "base/clock.h"

#include <errno.h>

void gate_init(struct gate *g)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&g->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g->changed, &attr);
	pthread_condattr_destroy(&attr);
	g->nudged = false;
	g->stopped = false;
}

void gate_destroy(struct gate *g)
{
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
}

void gate_nudge(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->nudged = true;
	pthread_cond_signal(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

void gate_stop(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->stopped = true;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

bool gate_stopped(struct gate *g)
{
	bool stopped;

	pthread_mutex_lock(&g->lock);
	stopped = g->stopped;
	pthread_mutex_unlock(&g->lock);
	return stopped;
}

bool gate_wait(struct gate *g, int64_t timeout_ms)
{
	struct timespec until = clock_mono_after(timeout_ms);
	bool stopped;
	int err = 0;

	pthread_mutex_lock(&g->lock);
	while (!g->nudged && !g->stopped && err != ETIMEDOUT) {
		if (timeout_ms < 0)
			err = pthread_cond_wait(&g->changed, &g->lock);
		else
			err = pthread_cond_timedwait(&g->changed, &g->lock, &until);
	}
	g->nudged = false;
	stopped = g->stopped;
	pthread_mutex_unlock(&g->lock);
	return !stopped;
}
