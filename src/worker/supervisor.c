#include "worker/supervisor.h"

#include "base/clock.h"
#include "base/log.h"
#include "handler/stream_set.h"
#include "store/store.h"
#include "worker/lifecycle.h"
#include "worker/notify.h"
#include "worker/role.h"
#include "worker/startup.h"
#include "worker/workers.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define SUPERVISOR_TICK_MS 1000
#define SUPERVISOR_BUSY_TICK_MS 20 /* while it waits for the last handlers */
#define SUPERVISOR_NOW_GRACE_MS 1000 /* between TERM and KILL when it must be quick */

struct supervisor {
	struct instance *instance;
	const struct supervisor_reload *reload;
	sigset_t signals;
	int64_t drain_until_ms;
	int64_t watchdog_ms, watchdog_last_ms;
	bool root_runner; /* the runner runs as root, and we can not start another such */
	bool failed;      /* something that the supervisor above us should know of */
};

static void supervisor_signal_set(sigset_t *set)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE };

	sigemptyset(set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(set, signals[i]);
}

static void supervisor_role_status(const struct role *r, const char *pool, int64_t now_ms)
{
	log_info("status", "role=%s pool=%s last success %lld ms ago", r->ops->area, pool, (long long)role_age_ms(r, now_ms));
}

static void supervisor_status(struct supervisor *s)
{
	struct instance *in = s->instance;
	const struct instance_counters *n = &in->count;
	struct inflight_counts held;
	int64_t now_ms = clock_mono_ms();

	inflight_count(in->inflight, &held);
	log_info("status", "worker=%s mode=%s up %lld s, %llu live instances, %llu reconnects, runner pid %ld, "
		 "%zu warm processes", in->worker,
		 instance_mode_name(atomic_load(&in->mode)), (long long)((now_ms - in->started_ms) / 1000),
		 (unsigned long long)atomic_load(&in->peers), (unsigned long long)atomic_load(&n->reconnects),
		 (long)runner_link_pid(in->runner), stream_set_count(in->streams));
	log_info("status", "held: claiming %zu (%zu in doubt), queued %zu, running %zu, settling %zu, settled %zu, lost %zu",
		 held.by_state[INFLIGHT_CLAIMING], held.doubtful, held.by_state[INFLIGHT_QUEUED], held.by_state[INFLIGHT_RUNNING],
		 held.by_state[INFLIGHT_SETTLING], held.by_state[INFLIGHT_SETTLED], held.by_state[INFLIGHT_LOST]);
	log_info("status",
		 "since start: claimed %llu, succeeded %llu, by handler %llu, retried %llu, dead %llu, cancelled %llu, snoozed "
		 "%llu, parked %llu, "
		 "released %llu, lost %llu, lapsed %llu, stale results %llu, recovered %llu, promoted %llu",
		 (unsigned long long)atomic_load(&n->claimed), (unsigned long long)atomic_load(&n->succeeded),
		 (unsigned long long)atomic_load(&n->by_handler), (unsigned long long)atomic_load(&n->retried),
		 (unsigned long long)atomic_load(&n->dead), (unsigned long long)atomic_load(&n->cancelled),
		 (unsigned long long)atomic_load(&n->snoozed), (unsigned long long)atomic_load(&n->parked),
		 (unsigned long long)atomic_load(&n->released), (unsigned long long)atomic_load(&n->lost),
		 (unsigned long long)atomic_load(&in->lapsed), (unsigned long long)atomic_load(&n->stale),
		 (unsigned long long)atomic_load(&n->recovered), (unsigned long long)atomic_load(&n->promoted));
	log_info("status", "fleet slots: jobs that had to wait %llu, waiters made ready %llu, slots lost %llu",
		 (unsigned long long)atomic_load(&n->slot_waits), (unsigned long long)atomic_load(&n->slot_promoted),
		 (unsigned long long)atomic_load(&n->slots_lost));
	for (unsigned int p = 0; p < in->pool_count; p++) {
		const struct pool *pool = &in->pools[p];

		log_info("status", "pool=%s slots %zu, occupied %zu, threads busy %zu of %zu", pool->name, pool->slots,
			 inflight_occupied(in->inflight, p), workers_busy(pool->workers), workers_alive(pool->workers));
		supervisor_role_status(pool->claimer, pool->name, now_ms);
		supervisor_role_status(pool->heartbeat, pool->name, now_ms);
	}
	supervisor_role_status(in->completer, "-", now_ms);
	supervisor_role_status(in->recovery, "-", now_ms);
	supervisor_role_status(in->promoter, "-", now_ms);
}

static void supervisor_reload(struct supervisor *s)
{
	struct settings *loaded;

	notify_state("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)clock_mono_ms() * 1000);
	loaded = s->reload->load(s->reload->arg, s->instance->startup);
	if (loaded != NULL) {
		log_setup((enum log_level)loaded->log_level, (enum log_format)loaded->log_format, STDERR_FILENO);
		/* First, so that no job of the new settings meets a process of the old. */
		stream_set_reload(s->instance->streams, loaded);
		instance_swap_settings(s->instance, loaded);
		log_info("reload", "the new settings are in force");
	} else {
		log_error("reload", "the old settings stay");
	}
	notify_state("READY=1");
}

static void supervisor_quiet(struct supervisor *s)
{
	int mode = atomic_load(&s->instance->mode);

	if (mode != INSTANCE_RUNNING && mode != INSTANCE_QUIET)
		return;
	mode = mode == INSTANCE_RUNNING ? INSTANCE_QUIET : INSTANCE_RUNNING;
	atomic_store(&s->instance->mode, mode);
	log_info("signal",
		 mode == INSTANCE_QUIET ? "USR2: quiet, no further job is claimed; USR2 again to go on" : "USR2: claiming again");
	instance_nudge_claimers(s->instance);
}

static void supervisor_now(struct supervisor *s, const char *why)
{
	log_info("signal", "%s: ending handlers now; their jobs are released", why);
	lifecycle_end_handlers(s->instance, SUPERVISOR_NOW_GRACE_MS);
}

static void supervisor_drain(struct supervisor *s, const char *why)
{
	struct instance *in = s->instance;
	struct settings *settings = instance_settings(in);
	int mode = atomic_load(&in->mode);

	notify_state("STOPPING=1\nSTATUS=draining");
	if (mode == INSTANCE_DRAINING) {
		supervisor_now(s, why);
	} else if (mode < INSTANCE_DRAINING) {
		log_info("signal", "%s: draining, handlers have %lld ms to finish; a second signal ends them now", why,
			 (long long)settings->instance.shutdown_timeout_ms);
		s->drain_until_ms = clock_mono_ms() + settings->instance.shutdown_timeout_ms;
		lifecycle_begin_drain(in);
	}
	settings_unref(settings);
}

/* At every wake-up: a runner that died is replaced, and one that could not be is tried again with the next tick. */
static void supervisor_runner(struct supervisor *s)
{
	struct fault f = { 0 };
	bool revived;

	if (s->failed)
		return;
	revived = runner_link_revive(s->instance->runner, &f);
	if (!revived && f.code == LH_OK)
		return;
	log_error("runner", revived ? "the runner died (%s) and its handlers with it; another one is at work" :
				      "no runner: %s; nothing can be run until there is one", f.text);
	if (!s->root_runner)
		return;
	log_error("runner",
		  "only root can start a runner that switches users: stopping, so that the service manager starts us again");
	s->failed = true;
	if (atomic_load(&s->instance->mode) < INSTANCE_DRAINING)
		supervisor_drain(s, "runner lost");
}

static void supervisor_signal(struct supervisor *s, int signal)
{
	switch (signal) {
	case SIGTERM:
		supervisor_drain(s, "TERM");
		break;
	case SIGINT:
		supervisor_drain(s, "INT");
		break;
	case SIGQUIT:
		if (atomic_load(&s->instance->mode) < INSTANCE_DRAINING)
			lifecycle_begin_drain(s->instance);
		notify_state("STOPPING=1\nSTATUS=stopping");
		supervisor_now(s, "QUIT");
		break;
	case SIGHUP:
		supervisor_reload(s);
		break;
	case SIGUSR1:
		supervisor_status(s);
		break;
	case SIGUSR2:
		supervisor_quiet(s);
		break;
	default: /* SIGCHLD only wakes us up */
		break;
	}
}

static void supervisor_watchdog(struct supervisor *s, int64_t now_ms)
{
	if (s->watchdog_ms == 0 || now_ms - s->watchdog_last_ms < s->watchdog_ms)
		return;
	s->watchdog_last_ms = now_ms;
	notify_state("WATCHDOG=1");
}

/* Until everything that runs has ended. */
static void supervisor_loop(struct supervisor *s)
{
	struct instance *in = s->instance;

	for (;;) {
		int mode = atomic_load(&in->mode);
		int64_t tick_ms = mode < INSTANCE_DRAINING ? SUPERVISOR_TICK_MS : SUPERVISOR_BUSY_TICK_MS;
		struct timespec tick = { .tv_sec = tick_ms / 1000, .tv_nsec = tick_ms % 1000 * 1000000 };
		int signal = sigtimedwait(&s->signals, NULL, &tick);
		int64_t now_ms = clock_mono_ms();

		if (signal > 0)
			supervisor_signal(s, signal);
		supervisor_runner(s);
		/* Right behind that: what a dead runner leaves of warm processes is not yet reaped. */
		stream_set_sweep(in->streams);
		supervisor_watchdog(s, now_ms);
		mode = atomic_load(&in->mode);
		if (mode >= INSTANCE_DRAINING && lifecycle_is_quiet(in))
			return;
		if (mode == INSTANCE_DRAINING && now_ms >= s->drain_until_ms) {
			if (lifecycle_busy(in) > 0)
				log_warn("signal",
					 "%zu jobs are not finished after instance.shutdown_timeout: their handlers are ended and "
					 "the jobs released",
					 lifecycle_busy(in));
			lifecycle_end_handlers(in, -1);
		}
	}
}

static int supervisor_live(struct supervisor *s, struct settings *settings, struct runner_link *runner)
{
	struct fault f = { 0 };
	bool clean;

	s->instance = lifecycle_new(settings, runner, &f);
	if (s->instance == NULL || lifecycle_start(s->instance, &f) != LH_OK) {
		log_error("start", "%s", f.text);
		if (s->instance != NULL)
			lifecycle_stop(s->instance, 0, 0);
		lifecycle_free(s->instance);
		return 1;
	}
	s->watchdog_ms = notify_watchdog_ms();
	log_info("start", "leasehold %s runs as %s: lease %lld ms, heartbeat %lld ms", PACKAGE_VERSION, s->instance->worker,
		 (long long)s->instance->lease_ms, (long long)s->instance->heartbeat_ms);
	notify_state("READY=1\nSTATUS=running as %s", s->instance->worker);
	supervisor_loop(s);
	lifecycle_end_handlers(s->instance, SUPERVISOR_NOW_GRACE_MS);
	clean = lifecycle_finish(s->instance);
	supervisor_status(s);
	log_info("stop", "%s",
		 clean ? "everything is settled or released"
		       : "some outcomes could not be written: their leases are left to lapse");
	lifecycle_free(s->instance);
	return clean && !s->failed ? 0 : 1;
}

int supervisor_run(struct settings *settings, const struct supervisor_reload *reload)
{
	struct supervisor s = { .reload = reload };
	struct runner_link *runner = NULL;
	struct fault f = { 0 };
	sigset_t quit;
	int code = 1, stopped = 0;

	mallopt(M_ARENA_MAX, 2); /* many threads that allocate little: keep the process small */
	supervisor_signal_set(&s.signals);
	sigprocmask(SIG_BLOCK, &s.signals, NULL);
	log_setup((enum log_level)settings->log_level, (enum log_format)settings->log_format, STDERR_FILENO);
	if (startup_take_groups(settings, &f) != LH_OK) {
		log_error("start", "%s", f.text);
		return STARTUP_UNFIT;
	}
	runner = runner_link_new(NULL);
	/* The runner first: it keeps root where handlers switch users, and nothing of ours exists in it. */
	if (runner == NULL || runner_link_start(runner, &f) != LH_OK || startup_drop_privileges(settings, &f) != LH_OK ||
	    db_library_init(&f) != LH_OK) {
		log_error("start", "%s", f.text);
		goto out;
	}
	s.root_runner = settings->instance.user != NULL && geteuid() != 0;
	sigemptyset(&quit);
	sigaddset(&quit, SIGTERM);
	sigaddset(&quit, SIGINT);
	sigaddset(&quit, SIGQUIT);
	code = startup_check_database(settings, &quit, &stopped);
	if (stopped)
		code = 0;
	else if (code == 0)
		code = supervisor_live(&s, settings, runner);
	db_library_end();
out:
	runner_link_free(runner);
	return code;
}
