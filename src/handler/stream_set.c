/* stream_set.c - see stream_set.h. */
#include "handler/stream_set.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/random.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STREAM_SET_PAUSE_FIRST_MS 100
#define STREAM_SET_PAUSE_MOST_MS 30000
#define STREAM_SET_SHORT_LIFE_MS 10000 /* who fails that soon would fail again at once */
#define STREAM_SET_COMPLAIN_MS 10000
#define STREAM_SET_FINISH_PAUSE_MS 5
#define STREAM_SET_FINISH_MS 5000 /* beyond the longest grace; KILL does not wait for anything, but a disk may */

/* The processes of one handler, by its kind as in the configuration. Never freed before the set. */
struct stream_kind {
	struct stream_kind *next;
	char *name;
	struct stream_process *idle; /* the last that was put back first */
	size_t count;                /* idle, starting, or with a job */
	size_t starting;
	unsigned int failures; /* in a row */
	int64_t start_ms;      /* CLOCK_MONOTONIC: no start before this */
	struct log_limit complained;
};

struct stream_set {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a process was put back, or makes room for another */
	struct stream_kind *kinds;
	struct stream_process *leaving;
	size_t leaving_count;  /* also while they are looked at */
	struct settings *current; /* a reference; NULL: not known */
	uint64_t round;
	bool closed;
};

struct stream_set *stream_set_new(void)
{
	struct stream_set *set = calloc(1, sizeof(*set));
	pthread_condattr_t attributes;

	if (set == NULL)
		return NULL;
	pthread_mutex_init(&set->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&set->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	return set;
}

/* The lock is held. NULL without memory. */
static struct stream_kind *stream_set_kind(struct stream_set *set, const char *name)
{
	struct stream_kind *kind = set->kinds;

	while (kind != NULL && strcmp(kind->name, name) != 0)
		kind = kind->next;
	if (kind != NULL)
		return kind;
	kind = calloc(1, sizeof(*kind));
	if (kind == NULL)
		return NULL;
	kind->name = strdup(name);
	if (kind->name == NULL) {
		free(kind);
		return NULL;
	}
	kind->next = set->kinds;
	set->kinds = kind;
	return kind;
}

/* The lock is held. */
static enum stream_take stream_set_may_start(struct stream_kind *kind, const struct handler_settings *handler, int64_t *pause_ms)
{
	int64_t left_ms = kind->start_ms - clock_mono_ms();

	if (handler->processes > 0 && kind->count >= (size_t)handler->processes)
		return STREAM_TAKE_WAIT;
	*pause_ms = left_ms > 0 ? left_ms : 0;
	/* After a failure one at a time tries whether it works again. */
	if (left_ms > 0 || (kind->failures > 0 && kind->starting > 0))
		return STREAM_TAKE_PAUSE;
	kind->count++;
	kind->starting++;
	return STREAM_TAKE_START;
}

enum stream_take stream_set_take(struct stream_set *set, const struct handler_settings *handler, struct stream_process **process,
				 struct stream_kind **kind, int64_t *pause_ms)
{
	enum stream_take take = STREAM_TAKE_FAILED;

	pthread_mutex_lock(&set->lock);
	*kind = stream_set_kind(set, handler->kind);
	if (*kind != NULL && (*kind)->idle != NULL) {
		*process = (*kind)->idle;
		(*kind)->idle = (*process)->next;
		take = STREAM_TAKE_IDLE;
	} else if (*kind != NULL) {
		take = stream_set_may_start(*kind, handler, pause_ms);
	}
	pthread_mutex_unlock(&set->lock);
	return take;
}

void stream_set_wait(struct stream_set *set, int64_t timeout_ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&set->lock);
	(void)pthread_cond_timedwait(&set->changed, &set->lock, &until);
	pthread_mutex_unlock(&set->lock);
}

void stream_set_started(struct stream_set *set, struct stream_process *process)
{
	pthread_mutex_lock(&set->lock);
	process->kind->starting--;
	pthread_mutex_unlock(&set->lock);
}

/* The lock is held. Returns the pause: between half of what the doubling gives and all of it. */
static int64_t stream_set_back_off(struct stream_kind *kind)
{
	int64_t pause_ms = STREAM_SET_PAUSE_FIRST_MS;

	for (unsigned int i = 0; i < kind->failures && pause_ms < STREAM_SET_PAUSE_MOST_MS; i++)
		pause_ms *= 2;
	if (pause_ms > STREAM_SET_PAUSE_MOST_MS)
		pause_ms = STREAM_SET_PAUSE_MOST_MS;
	pause_ms = pause_ms / 2 + (int64_t)random_below((uint64_t)pause_ms / 2 + 1);
	kind->failures++;
	kind->start_ms = clock_mono_ms() + pause_ms;
	return pause_ms;
}

static void stream_set_complain(struct stream_set *set, struct stream_kind *kind, int64_t pause_ms, const char *why)
{
	uint64_t held_back;
	char pause[32];
	bool tell;

	pthread_mutex_lock(&set->lock);
	tell = log_limit_pass(&kind->complained, clock_mono_ms(), STREAM_SET_COMPLAIN_MS);
	held_back = kind->complained.held_back;
	if (tell)
		kind->complained.held_back = 0;
	pthread_mutex_unlock(&set->lock);
	if (tell)
		log_error("handler",
			  "kind=%s its process failed: %s; the next is started in %s, its jobs are put back meanwhile (%" PRIu64
			  " more failures since this was last said)",
			  kind->name, why, parse_format_duration(pause_ms, pause, sizeof(pause)), held_back);
}

/* Takes process, which no kind counts any more. */
static void stream_set_see_off(struct stream_set *set, struct stream_process *process)
{
	if (stream_process_gone(process)) {
		stream_process_free(process);
		return;
	}
	pthread_mutex_lock(&set->lock);
	process->next = set->leaving;
	set->leaving = process;
	set->leaving_count++;
	pthread_mutex_unlock(&set->lock);
}

/* Takes process, and ends it if that has not begun. It is first among those that leave and then gone from those that its kind
 * counts, so that it is never among neither. */
static void stream_set_let_go(struct stream_set *set, struct stream_process *process)
{
	if (!process->process.over && process->gone_by_ms == 0)
		stream_process_leave(process, process->handler->kill_grace_ms);
	stream_set_see_off(set, process);
}

int64_t stream_set_failed(struct stream_set *set, struct stream_kind *kind, struct stream_process *process, const char *why)
{
	int64_t pause_ms;

	pthread_mutex_lock(&set->lock);
	pause_ms = stream_set_back_off(kind);
	pthread_mutex_unlock(&set->lock);
	stream_set_complain(set, kind, pause_ms, why);
	if (process != NULL && process->sent)
		stream_set_let_go(set, process);
	else
		stream_process_free(process);
	pthread_mutex_lock(&set->lock);
	kind->starting--;
	kind->count--;
	pthread_cond_broadcast(&set->changed);
	pthread_mutex_unlock(&set->lock);
	return pause_ms;
}

/* The lock is held. */
static bool stream_set_is_welcome(const struct stream_set *set, const struct stream_process *process)
{
	const struct handler_settings *handler = process->handler;

	return !set->closed && (handler->max_jobs == 0 || process->jobs < handler->max_jobs) &&
	       (set->current == NULL || process->settings == NULL || process->settings == set->current);
}

/* Puts one in among the idle ones, sorted by when they were put back; false when it is not wanted any more. */
static bool stream_set_lay_down(struct stream_set *set, struct stream_process *process)
{
	struct stream_process **at = &process->kind->idle;
	bool welcome;

	pthread_mutex_lock(&set->lock);
	welcome = stream_set_is_welcome(set, process);
	while (welcome && *at != NULL && (*at)->idle_ms > process->idle_ms)
		at = &(*at)->next;
	if (welcome) {
		process->next = *at;
		*at = process;
		pthread_cond_broadcast(&set->changed);
	}
	pthread_mutex_unlock(&set->lock);
	return welcome;
}

void stream_set_put(struct stream_set *set, struct stream_process *process)
{
	if (!stream_set_lay_down(set, process))
		stream_set_drop(set, process, NULL);
}

void stream_set_drop(struct stream_set *set, struct stream_process *process, const char *why)
{
	struct stream_kind *kind = process->kind;
	bool soon = clock_mono_ms() - process->born_ms < STREAM_SET_SHORT_LIFE_MS;
	char said[STREAM_WHY_SIZE];
	int64_t pause_ms = 0;

	/* It may be the process's own. */
	snprintf(said, sizeof(said), "%s", why == NULL ? "" : why);
	stream_set_let_go(set, process);
	pthread_mutex_lock(&set->lock);
	kind->count--;
	if (why != NULL && soon)
		pause_ms = stream_set_back_off(kind);
	pthread_cond_broadcast(&set->changed);
	pthread_mutex_unlock(&set->lock);
	if (pause_ms > 0)
		stream_set_complain(set, kind, pause_ms, said);
}

void stream_set_worked(struct stream_set *set, struct stream_process *process)
{
	process->jobs++;
	pthread_mutex_lock(&set->lock);
	process->kind->failures = 0;
	pthread_mutex_unlock(&set->lock);
}

/* Takes an idle process for which choose says so out of its list; NULL when there is none. The lock is held. */
static struct stream_process *stream_set_pick(struct stream_set *set, bool (*choose)(const struct stream_set *set,
										     const struct stream_process *process))
{
	for (struct stream_kind *kind = set->kinds; kind != NULL; kind = kind->next) {
		for (struct stream_process **at = &kind->idle; *at != NULL; at = &(*at)->next) {
			struct stream_process *process = *at;

			if (!choose(set, process))
				continue;
			*at = process->next;
			return process;
		}
	}
	return NULL;
}

static bool stream_set_is_unwelcome(const struct stream_set *set, const struct stream_process *process)
{
	return !stream_set_is_welcome(set, process);
}

static void stream_set_retire_unwelcome(struct stream_set *set)
{
	struct stream_process *process;

	do {
		pthread_mutex_lock(&set->lock);
		process = stream_set_pick(set, stream_set_is_unwelcome);
		pthread_mutex_unlock(&set->lock);
		if (process != NULL)
			stream_set_drop(set, process, NULL);
	} while (process != NULL);
}

void stream_set_reload(struct stream_set *set, struct settings *settings)
{
	struct settings *before;

	pthread_mutex_lock(&set->lock);
	before = set->current;
	set->current = settings_ref(settings);
	/* What was wrong may be right now. */
	for (struct stream_kind *kind = set->kinds; kind != NULL; kind = kind->next) {
		kind->start_ms = 0;
		kind->failures = 0;
	}
	pthread_mutex_unlock(&set->lock);
	settings_unref(before);
	stream_set_retire_unwelcome(set);
}

void stream_set_close(struct stream_set *set)
{
	pthread_mutex_lock(&set->lock);
	set->closed = true;
	pthread_mutex_unlock(&set->lock);
	stream_set_retire_unwelcome(set);
}

static bool stream_set_is_unseen(const struct stream_set *set, const struct stream_process *process)
{
	return process->looked != set->round;
}

static void stream_set_look_at(struct stream_set *set, struct stream_process *process)
{
	int64_t patience_ms = process->handler->idle_timeout_ms;
	char how[STREAM_WHY_SIZE];

	if (!stream_process_usable(process)) {
		stream_set_drop(set, process, stream_process_fault(process, how, sizeof(how)));
	} else if (patience_ms > 0 && clock_mono_ms() - process->idle_ms >= patience_ms) {
		stream_set_drop(set, process, NULL);
	} else {
		stream_set_put(set, process);
	}
}

static void stream_set_see_off_leaving(struct stream_set *set)
{
	struct stream_process *process, *next;

	pthread_mutex_lock(&set->lock);
	process = set->leaving;
	set->leaving = NULL;
	pthread_mutex_unlock(&set->lock);
	for (; process != NULL; process = next) {
		next = process->next;
		stream_set_see_off(set, process);
		pthread_mutex_lock(&set->lock);
		set->leaving_count--;
		pthread_mutex_unlock(&set->lock);
	}
}

void stream_set_sweep(struct stream_set *set)
{
	struct stream_process *process;

	pthread_mutex_lock(&set->lock);
	set->round++;
	pthread_mutex_unlock(&set->lock);
	do {
		pthread_mutex_lock(&set->lock);
		process = stream_set_pick(set, stream_set_is_unseen);
		if (process != NULL)
			process->looked = set->round;
		pthread_mutex_unlock(&set->lock);
		if (process != NULL)
			stream_set_look_at(set, process);
	} while (process != NULL);
	stream_set_see_off_leaving(set);
}

void stream_set_hurry(struct stream_set *set, int64_t grace_ms)
{
	struct stream_process *process;

	pthread_mutex_lock(&set->lock);
	process = set->leaving;
	set->leaving = NULL;
	pthread_mutex_unlock(&set->lock);
	for (struct stream_process *p = process, *next; p != NULL; p = next) {
		next = p->next;
		stream_process_hurry(p, grace_ms);
		pthread_mutex_lock(&set->lock);
		p->next = set->leaving;
		set->leaving = p;
		pthread_mutex_unlock(&set->lock);
	}
}

size_t stream_set_count(struct stream_set *set)
{
	size_t count;

	pthread_mutex_lock(&set->lock);
	count = set->leaving_count;
	for (const struct stream_kind *kind = set->kinds; kind != NULL; kind = kind->next)
		count += kind->count;
	pthread_mutex_unlock(&set->lock);
	return count;
}

/* The longest that one of those that leave may still take. */
static int64_t stream_set_gone_by_ms(struct stream_set *set)
{
	int64_t latest_ms = clock_mono_ms();

	pthread_mutex_lock(&set->lock);
	for (const struct stream_process *p = set->leaving; p != NULL; p = p->next)
		latest_ms = p->gone_by_ms > latest_ms ? p->gone_by_ms : latest_ms;
	pthread_mutex_unlock(&set->lock);
	return latest_ms + STREAM_SET_FINISH_MS;
}

void stream_set_finish(struct stream_set *set)
{
	int64_t until_ms;

	stream_set_close(set);
	until_ms = stream_set_gone_by_ms(set);
	stream_set_see_off_leaving(set);
	while (stream_set_count(set) > 0 && clock_mono_ms() < until_ms) {
		(void)poll(NULL, 0, STREAM_SET_FINISH_PAUSE_MS);
		stream_set_see_off_leaving(set);
	}
}

void stream_set_free(struct stream_set *set)
{
	if (set == NULL)
		return;
	stream_set_close(set);
	stream_set_hurry(set, 0);
	stream_set_finish(set);
	while (set->leaving != NULL) {
		struct stream_process *process = set->leaving;

		set->leaving = process->next;
		stream_process_free(process);
	}
	while (set->kinds != NULL) {
		struct stream_kind *kind = set->kinds;

		set->kinds = kind->next;
		free(kind->name);
		free(kind);
	}
	settings_unref(set->current);
	pthread_cond_destroy(&set->changed);
	pthread_mutex_destroy(&set->lock);
	free(set);
}
