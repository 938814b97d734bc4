#include "worker/lifecycle.h"

#include "base/clock.h"
#include "base/random.h"
#include "handler/stream_set.h"
#include "worker/claimer.h"
#include "worker/completer.h"
#include "worker/handback.h"
#include "worker/heartbeat.h"
#include "worker/promoter.h"
#include "worker/recovery.h"
#include "worker/role.h"
#include "worker/slot_keeper.h"
#include "worker/wake.h"
#include "worker/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIFECYCLE_FLUSH_MS 5000 /* for committing the last outcomes after the last handler ended */

/* "host:pid:random", for people: which process held a lease. */
static void lifecycle_name_worker(struct instance *in)
{
	char host[65] = "", uuid[UUID_TEXT_LEN + 1];

	if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
		memcpy(host, "localhost", sizeof("localhost"));
	random_uuid(uuid);
	snprintf(in->worker, sizeof(in->worker), "%s:%ld:%.8s", host, (long)getpid(), uuid);
}

static void lifecycle_deadline(void *owner, uint64_t run, int64_t kill_at_ms)
{
	struct instance *in = owner;

	if (in->runner != NULL)
		runner_link_deadline(in->runner, run, kill_at_ms);
}

static void lifecycle_end_run(void *owner, uint64_t run, enum end_reason reason, int64_t grace_ms)
{
	struct instance *in = owner;

	if (in->runner != NULL)
		runner_link_end(in->runner, run, reason, grace_ms);
}

static bool lifecycle_new_pool(struct instance *in, unsigned int index)
{
	const struct pool_settings *p = &in->startup->pools[index];
	struct pool *pool = &in->pools[index];

	pool->instance = in;
	pool->index = index;
	pool->name = p->name;
	pool->slots = (size_t)(p->threads + p->prefetch);
	fifo_init(&pool->handoff);
	in->pool_count++;
	pool->claimer = claimer_new(pool);
	pool->heartbeat = heartbeat_new(pool);
	pool->workers = workers_new(pool, (size_t)p->threads);
	return pool->claimer != NULL && pool->heartbeat != NULL && pool->workers != NULL;
}

static bool lifecycle_new_parts(struct instance *in)
{
	const struct inflight_signals signals = { .owner = in, .deadline = lifecycle_deadline, .end = lifecycle_end_run };
	size_t capacity = 0;

	for (size_t p = 0; p < in->startup->pool_count; p++)
		capacity += (size_t)(in->startup->pools[p].threads + in->startup->pools[p].prefetch);
	in->inflight = inflight_new(capacity, (unsigned int)in->startup->pool_count, &signals);
	in->parking = parking_new();
	in->streams = stream_set_new();
	in->slot_keeper = slot_keeper_new(in);
	in->pools = calloc(in->startup->pool_count, sizeof(*in->pools));
	in->completer = completer_new(in);
	in->recovery = recovery_new(in);
	in->promoter = promoter_new(in);
	in->wake = wake_new(in);
	if (in->inflight == NULL || in->parking == NULL || in->streams == NULL || in->slot_keeper == NULL || in->pools == NULL ||
	    in->completer == NULL ||
	    in->recovery == NULL || in->promoter == NULL || in->wake == NULL)
		return false;
	for (unsigned int p = 0; p < in->startup->pool_count; p++)
		if (!lifecycle_new_pool(in, p))
			return false;
	return true;
}

struct instance *lifecycle_new(struct settings *settings, struct runner_link *runner, struct fault *f)
{
	struct instance *in = calloc(1, sizeof(*in));

	if (in == NULL) {
		fault_set(f, LH_ERR_MEMORY, "no memory for an instance");
		return NULL;
	}
	pthread_mutex_init(&in->settings_lock, NULL);
	fifo_init(&in->settlements);
	in->startup = settings_ref(settings);
	in->current = settings_ref(settings);
	in->lease_ms = settings->lease.length_ms;
	in->heartbeat_ms = settings->lease.heartbeat_ms;
	in->runner = runner;
	in->started_ms = clock_mono_ms();
	lifecycle_name_worker(in);
	if (!lifecycle_new_parts(in)) {
		fault_set(f, LH_ERR_MEMORY, "no memory for an instance of %zu pools", settings->pool_count);
		lifecycle_free(in);
		return NULL;
	}
	return in;
}

void lifecycle_free(struct instance *in)
{
	if (in == NULL)
		return;
	for (unsigned int p = 0; p < in->pool_count; p++) {
		role_free(in->pools[p].claimer);
		role_free(in->pools[p].heartbeat);
		workers_free(in->pools[p].workers);
		fifo_destroy(&in->pools[p].handoff);
	}
	role_free(in->completer);
	role_free(in->recovery);
	role_free(in->promoter);
	wake_free(in->wake);
	inflight_free(in->inflight);
	parking_free(in->parking);
	stream_set_free(in->streams);
	slot_keeper_free(in->slot_keeper);
	free(in->pools);
	settings_unref(in->current);
	settings_unref(in->startup);
	fifo_destroy(&in->settlements);
	pthread_mutex_destroy(&in->settings_lock);
	free(in);
}

/* Heartbeats first, so that their connections are there before the others can take the last one; claimers last. */
enum lh_err lifecycle_start(struct instance *in, struct fault *f)
{
	enum lh_err err = LH_OK;

	for (unsigned int p = 0; p < in->pool_count && err == LH_OK; p++)
		err = role_start(in->pools[p].heartbeat, f);
	if (err == LH_OK)
		err = role_start(in->completer, f);
	for (unsigned int p = 0; p < in->pool_count && err == LH_OK; p++)
		err = workers_start(in->pools[p].workers, f);
	if (err == LH_OK)
		err = role_start(in->recovery, f);
	if (err == LH_OK)
		err = role_start(in->promoter, f);
	for (unsigned int p = 0; p < in->pool_count && err == LH_OK; p++)
		err = role_start(in->pools[p].claimer, f);
	if (err == LH_OK)
		err = wake_start(in->wake, f);
	return err;
}

void lifecycle_begin_drain(struct instance *in)
{
	atomic_store(&in->mode, INSTANCE_DRAINING);
	for (unsigned int p = 0; p < in->pool_count; p++)
		claimer_leave(in->pools[p].claimer, false);
	for (unsigned int p = 0; p < in->pool_count; p++)
		handback_waiting(in, &in->pools[p]);
	stream_set_close(in->streams);
}

void lifecycle_end_handlers(struct instance *in, int64_t grace_ms)
{
	atomic_store(&in->mode, INSTANCE_STOPPING);
	inflight_close(in->inflight);
	for (unsigned int p = 0; p < in->pool_count; p++)
		handback_waiting(in, &in->pools[p]);
	inflight_end_all(in->inflight, END_SHUTDOWN, grace_ms);
	stream_set_close(in->streams);
	if (grace_ms >= 0)
		stream_set_hurry(in->streams, grace_ms);
}

size_t lifecycle_busy(struct instance *in)
{
	size_t busy = 0;

	for (unsigned int p = 0; p < in->pool_count; p++)
		busy += fifo_count(&in->pools[p].handoff) + workers_busy(in->pools[p].workers);
	return busy;
}

bool lifecycle_is_quiet(struct instance *in)
{
	return lifecycle_busy(in) == 0 &&
	       (atomic_load(&in->mode) == INSTANCE_STOPPING || stream_set_count(in->streams) == 0);
}

/* The order of the end: claimers, then the workers with what the claimers still handed over, then the outcomes, and only then
 * the heartbeats. */
bool lifecycle_finish(struct instance *in)
{
	size_t left;

	wake_stop(in->wake);
	for (unsigned int p = 0; p < in->pool_count; p++) {
		claimer_leave(in->pools[p].claimer, true);
		role_stop(in->pools[p].claimer);
		handback_waiting(in, &in->pools[p]);
		fifo_close(&in->pools[p].handoff);
	}
	for (unsigned int p = 0; p < in->pool_count; p++)
		workers_join(in->pools[p].workers);
	stream_set_finish(in->streams);
	role_stop(in->recovery);
	left = completer_finish(in->completer, LIFECYCLE_FLUSH_MS);
	for (unsigned int p = 0; p < in->pool_count; p++)
		role_stop(in->pools[p].heartbeat);
	role_stop(in->promoter);
	return left == 0;
}

bool lifecycle_stop(struct instance *in, int64_t shutdown_ms, int64_t grace_ms)
{
	int64_t until_ms = clock_mono_ms() + shutdown_ms;
	struct gate rest;

	gate_init(&rest);
	lifecycle_begin_drain(in);
	while (lifecycle_busy(in) > 0 && clock_mono_ms() < until_ms)
		gate_wait(&rest, 10);
	lifecycle_end_handlers(in, grace_ms);
	gate_destroy(&rest);
	return lifecycle_finish(in);
}
