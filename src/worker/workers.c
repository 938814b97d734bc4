#include "worker/workers.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/thread.h"
#include "handler/handler.h"
#include "model/settlement.h"
#include "worker/about.h"
#include "worker/handback.h"
#include "worker/role.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKER_TELL_MS 10000
#define WORKER_PAUSE_MS 1000
#define WORKER_CAUSE_MAX 512 /* room in last_error beside the tail of stderr */
#define WORKER_STEPS_UNFIT "its rows in job_steps are more than a handler may save, so it cannot resume"

struct workers {
	struct pool *pool;
	size_t count, started;
	pthread_t *threads;
	atomic_size_t busy, alive;
};

/* One job in the hands of a worker. */
struct worker_run {
	struct instance *instance;
	struct job *job;
	const struct handler_settings *handler;
	struct settings *settings;
	unsigned int max_attempts;
	enum inflight_go go; /* why it was not started, when it was not */
	uint32_t step_no;    /* of the latest step that was given to the completer */
	bool sent;           /* it was, at least to a process */
};

struct workers *workers_new(struct pool *pool, size_t threads)
{
	struct workers *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->pool = pool;
	w->count = threads;
	w->threads = calloc(threads, sizeof(*w->threads));
	if (w->threads == NULL) {
		free(w);
		return NULL;
	}
	return w;
}

void workers_free(struct workers *w)
{
	if (w == NULL)
		return;
	free(w->threads);
	free(w);
}

static bool worker_start_hook(void *owner, uint64_t run, bool (*send)(void *arg, int64_t kill_at_ms), void *arg)
{
	struct worker_run *r = owner;

	r->go = (r->sent ? inflight_run_again : inflight_run)(r->instance->inflight, r->job->id, r->job->lease, run,
							      r->handler->kill_grace_ms, clock_boot_ms(), send, arg);
	r->sent = r->sent || r->go == INFLIGHT_GO;
	return r->go == INFLIGHT_GO;
}

/* What is still waiting when a drain begins is given back, not started. */
static bool worker_wanted_hook(void *owner)
{
	struct worker_run *r = owner;
	struct instance *in = r->instance;

	if (atomic_load(&in->mode) >= INSTANCE_DRAINING)
		r->go = INFLIGHT_GO_CLOSED;
	else if (!r->sent)
		r->go = inflight_check(in->inflight, r->job->id, r->job->lease, clock_boot_ms());
	return r->go == INFLIGHT_GO;
}

static void worker_progress_hook(void *owner, double percent, const char *note)
{
	struct worker_run *r = owner;

	inflight_progress(r->instance->inflight, r->job->id, r->job->lease, percent, note);
}

static void worker_step_hook(void *owner, struct step *step)
{
	struct worker_run *r = owner;

	step->save_no = ++r->step_no;
	fifo_push(&r->instance->settlements, &step->out.link);
}

/* A job that will not be run at all. True when it was dealt with here. */
static bool worker_refuse(struct worker_run *r)
{
	struct instance *in = r->instance;
	const struct job *job = r->job;
	char cause[200];

	if (job->cancel_requested) {
		handback_job(in, job, SETTLE_CANCEL, 0, "cancelled before it ran");
		return true;
	}
	if (job->max_attempts != 0 || r->handler != NULL) {
		r->max_attempts =
			job_max_attempts(job->max_attempts, r->handler != NULL ? (unsigned int)r->handler->max_attempts : 0);
		if (job->attempt > r->max_attempts || job->attempt == JOB_ATTEMPT_MAX) {
			snprintf(cause, sizeof(cause), "attempts spent before it ran: attempt %u of %u", job->attempt,
				 r->max_attempts);
			log_warn("job", "job=%llu kind=%s dead: %s", (unsigned long long)job->id, job->kind, cause);
			handback_job(in, job, SETTLE_DEAD, 0, cause);
			return true;
		}
	}
	if (r->handler == NULL) {
		bool first;
		int64_t delay = parking_job(in->parking, job->kind, job->id, job->claim_no, clock_mono_ms(), &first);

		if (first)
			log_warn("job", "job=%llu kind=%s no handler here: jobs of this kind are put back until one appears",
				 (unsigned long long)job->id, job->kind);
		handback_job(in, job, SETTLE_PARK, delay, "no handler for this kind");
		return true;
	}
	if (job->steps_unfit) {
		/* Without them it would do again what it has done. */
		log_warn("job", "job=%llu kind=%s dead: " WORKER_STEPS_UNFIT, (unsigned long long)job->id, job->kind);
		handback_job(in, job, SETTLE_DEAD, 0, WORKER_STEPS_UNFIT);
		return true;
	}
	if (r->handler->concurrency > 0 && job->slot.key[0] == '\0') { /* the limit is younger than the claim */
		handback_job(in, job, SETTLE_RELEASE, 0, "it needs a slot now");
		return true;
	}
	return false;
}

/* Nothing can be started here just now. Told at most every ten seconds for the whole instance. */
static void worker_tell_unstarted(struct worker_run *r, const char *stage, int error)
{
	long long now_ms = clock_mono_ms(), told_ms = atomic_load(&r->instance->unstarted_told_ms);
	char reason[128];

	if (told_ms != 0 && now_ms - told_ms < WORKER_TELL_MS)
		return;
	if (atomic_compare_exchange_strong(&r->instance->unstarted_told_ms, &told_ms, now_ms))
		log_error("job",
			  "job=%llu kind=%s its handler could not be started (%s: %s): put back for a second or two, not counted",
			  (unsigned long long)r->job->id, r->job->kind, stage, strerror_r(error, reason, sizeof(reason)));
}

/* A pause for what would otherwise be claimed again at once, and fail again at once. */
static int64_t worker_pause_ms(void)
{
	return WORKER_PAUSE_MS + (int64_t)random_below(WORKER_PAUSE_MS);
}

/* The handler was never started. */
static void worker_not_started(struct worker_run *r)
{
	if (r->go == INFLIGHT_GO_CANCELLED) {
		handback_job(r->instance, r->job, SETTLE_CANCEL, 0, "cancelled before it ran");
	} else if (r->go == INFLIGHT_GO_UNSENT) {
		worker_tell_unstarted(r, "runner", EAGAIN);
		handback_job(r->instance, r->job, SETTLE_SNOOZE, worker_pause_ms(), "the runner could not be reached");
	} else { /* lapsed or closed: given back under its lease; a lost one is only forgotten */
		handback_job(r->instance, r->job, SETTLE_RELEASE, 0, "released before it ran");
	}
}

static void worker_fill_error(struct settlement *s, const struct run_report *report)
{
	if (s->action == SETTLE_SUCCEED || s->action == SETTLE_RELEASE || s->action == SETTLE_SNOOZE)
		return;
	buf_adds(&s->error, s->cause);
	if (report->stderr_tail.len > 0) {
		buf_adds(&s->error, "\n");
		buf_add(&s->error, report->stderr_tail.data, report->stderr_tail.len);
	}
}

static struct settlement *worker_settlement(struct worker_run *r, struct run_report *report, const struct outcome *outcome)
{
	const struct handler_settings *h = r->handler;
	struct settlement *s = settlement_new(r->job, (size_t)h->max_result + 256, (size_t)h->max_stderr_tail + WORKER_CAUSE_MAX);

	if (s == NULL || !settlement_decide(s, outcome, r->job->attempt, r->max_attempts, &h->backoff,
					    r->settings->ledger == LEDGER_ALL, random_below(UINT64_MAX))) {
		settlement_free(s);
		return NULL;
	}
	s->ran = report->facts.end == RUN_EXITED || report->facts.end == RUN_ANSWERED || report->facts.end == RUN_BROKEN;
	s->exit_code = report->facts.exited ? report->facts.exit_code : -1;
	s->signal = report->facts.signal;
	s->ran_ms = report->ran_ms;
	s->max_rss_kb = report->max_rss_kb;
	s->cpu_ms = report->cpu_ms;
	if (report->facts.end == RUN_NOT_STARTED && report->facts.exec_stage != NULL) {
		worker_tell_unstarted(r, report->facts.exec_stage, report->facts.exec_errno);
		s->action = SETTLE_SNOOZE;
		s->delay_ms = worker_pause_ms();
	}
	if (report->facts.end == RUN_NOT_STARTED && report->facts.put_back_ms > 0) {
		s->action = SETTLE_SNOOZE;
		s->delay_ms = report->facts.put_back_ms;
	}
	worker_fill_error(s, report);
	if (report->has_result && outcome->kind == OUTCOME_SUCCEEDED) {
		s->has_result = true;
		buf_add(&s->result, report->result.data, report->result.len);
	}
	return s;
}

static void worker_log(const struct worker_run *r, const struct settlement *s, const char *cause, int64_t ran_ms)
{
	const struct job *j = r->job;
	char delay[40] = "";

	if (s->action == SETTLE_SUCCEED) {
		log_debug("job", "job=%llu kind=%s attempt=%u of %u succeeded in %lld ms", (unsigned long long)j->id, j->kind,
			  j->attempt, r->max_attempts, (long long)ran_ms);
		return;
	}
	if (s->action == SETTLE_RETRY || s->action == SETTLE_SNOOZE) {
		memcpy(delay, " in ", sizeof(" in "));
		parse_format_duration(s->delay_ms, delay + 4, sizeof(delay) - 4);
	}
	log_write(s->action == SETTLE_DEAD ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "job",
		  "job=%llu kind=%s attempt=%u of %u %s%s: %s (ran %lld ms)", (unsigned long long)j->id, j->kind, j->attempt,
		  r->max_attempts, settle_action_name(s->action), delay, cause, (long long)ran_ms);
}

/* The handler ended: what becomes of the job, and of its slot. */
static void worker_settle(struct worker_run *r, struct run_report *report)
{
	struct instance *in = r->instance;
	const struct job *job = r->job;
	struct settlement *s = NULL;
	enum inflight_state state;
	struct outcome outcome;
	bool settling;

	outcome_decide(&report->facts, &outcome);
	if (outcome.kind == OUTCOME_LEASE_LOST) {
		/* Killed because the trust ended, or something of it may still be alive: the lease is left to lapse. */
		if (inflight_abandon(in->inflight, job->id, job->lease)) {
			atomic_fetch_add(&in->lapsed, 1);
			role_nudge(in->recovery); /* alone, it looks for nothing else */
			log_warn("job", "job=%llu kind=%s attempt=%u lease lost: %s; left to recovery", (unsigned long long)job->id,
				 job->kind, job->attempt,
				 report->facts.group_gone ? "it could not be renewed in time, so its handler was ended"
							  : "processes of its handler could not be ended");
		}
	} else {
		s = worker_settlement(r, report, &outcome);
	}
	if (s != NULL && !report->facts.group_gone) /* what may be left of it still counts: its slot lapses */
		s->slot.key[0] = '\0';
	settling = inflight_settle(in->inflight, job->id, job->lease, &state);
	/* A result under a lost lease is sent too: it changes nothing, and the ledger keeps it. So is that of a job which its
	 * handler settled, where the ledger keeps successes. */
	if (s != NULL && (settling || state == INFLIGHT_LOST || (state == INFLIGHT_SETTLED && s->ledger_success))) {
		if (settling)
			worker_log(r, s, outcome.cause, report->ran_ms);
		fifo_push(&in->settlements, &s->out.link);
		return;
	}
	if (!settling && report->facts.group_gone) { /* its lease is lost, or it settled itself: what it still has is its slot */
		handback_slot(in, job, s);
		return;
	}
	settlement_free(s);
	if (settling) { /* no memory for a settlement: nobody would ever end the entry, so its lease is left to lapse */
		log_error("job", "job=%llu kind=%s no memory to settle it: left to recovery", (unsigned long long)job->id,
			  job->kind);
		inflight_refused(in->inflight, job->id, job->lease);
	}
	handback_forget(in, job->id, job->lease);
}

static void worker_job(struct instance *in, struct job *job)
{
	struct worker_run r = { .instance = in, .job = job, .settings = instance_settings(in), .step_no = job->step_no };
	struct run_report report;
	struct about about;
	const struct log_context *before = about_job(&about, job);

	r.handler = settings_handler(r.settings, job->kind);
	if (!worker_refuse(&r)) {
		if (!worker_wanted_hook(&r)) {
			worker_not_started(&r);
		} else {
			const struct run_request request = {
				.job = job,
				.handler = r.handler,
				.settings = r.settings,
				.streams = in->streams,
				.max_attempts = r.max_attempts,
				.runner = in->runner,
				.hooks = { .owner = &r,
					   .start = worker_start_hook,
					   .wanted = worker_wanted_hook,
					   .progress = worker_progress_hook,
					   .step = worker_step_hook },
			};

			run_report_init(&report, r.handler);
			handler_ops_for((enum handler_type)r.handler->type)->run(&request, &report);
			if (r.go != INFLIGHT_GO)
				worker_not_started(&r);
			else
				worker_settle(&r, &report);
			run_report_free(&report);
		}
	}
	settings_unref(r.settings);
	log_about(before);
	job_free(job);
}

static void *worker_main(void *arg)
{
	struct workers *w = arg;
	struct fifo_link *item;

	while (fifo_take(&w->pool->handoff, &item, 1, -1, 0) == 1) {
		atomic_fetch_add(&w->busy, 1);
		worker_job(w->pool->instance, (struct job *)(void *)item);
		atomic_fetch_sub(&w->busy, 1);
	}
	atomic_fetch_sub(&w->alive, 1);
	return NULL;
}

enum lh_err workers_start(struct workers *w, struct fault *f)
{
	enum lh_err err = LH_OK;
	char name[16];

	for (; w->started < w->count && err == LH_OK; w->started += err == LH_OK) {
		snprintf(name, sizeof(name), "lh-w%02u", (unsigned int)(w->started % 10000));
		atomic_fetch_add(&w->alive, 1);
		err = thread_start(&w->threads[w->started], name, worker_main, w, f);
		if (err != LH_OK)
			atomic_fetch_sub(&w->alive, 1);
	}
	return err;
}

void workers_join(struct workers *w)
{
	if (w == NULL)
		return;
	for (size_t i = 0; i < w->started; i++)
		pthread_join(w->threads[i], NULL);
	w->started = 0;
}

size_t workers_busy(const struct workers *w)
{
	return atomic_load(&w->busy);
}

size_t workers_alive(const struct workers *w)
{
	return atomic_load(&w->alive);
}
