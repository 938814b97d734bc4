#include "worker/recovery.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/random.h"
#include "model/lapse.h"
#include "model/trust.h"
#include "store/instance_store.h"
#include "store/recover_store.h"
#include "store/slot_store.h"
#include "worker/about.h"
#include "worker/instance.h"
#include "worker/role.h"
#include "worker/slot_keeper.h"

#include <stdio.h>
#include <stdlib.h>

#define RECOVERY_WATCHED 20000 /* running rows that the observation rule can follow at once */

struct recovery {
	struct role role; /* first */
	struct lapse_clock clock;
	struct lapse_watch *watch;
	bool trusted;      /* as last told in the log */
	int64_t margin_us;
	uint32_t min_lease_ms; /* the smallest that any live instance uses */
	int64_t next_ms;   /* until the earliest lease can lapse, after a pass; -1 = nothing runs */
	unsigned int passes;
	struct recover_row rows[RECOVER_PAGE];
};

static int64_t recovery_step(struct role *role);

static void recovery_free(struct role *role)
{
	lapse_watch_free(((struct recovery *)role)->watch);
}

struct role *recovery_new(struct instance *in)
{
	static const struct role_ops ops = {
		.thread = "lh-recover", .area = "recover", .step = recovery_step, .free = recovery_free
	};
	struct recovery *r = role_new(sizeof(*r), &ops, in, &(struct role_options){ .lock_wait_s = 1, .most_wait_ms = 2000 });

	if (r == NULL)
		return NULL;
	r->margin_us = trust_margin_ms(in->lease_ms) * 1000;
	r->min_lease_ms = (uint32_t)in->lease_ms;
	lapse_clock_init(&r->clock, trust_margin_ms(in->lease_ms), in->lease_ms);
	r->watch = lapse_watch_new(RECOVERY_WATCHED);
	if (r->watch == NULL) {
		role_free(&r->role);
		return NULL;
	}
	return &r->role;
}

/* What becomes of a lapsed row, and why. A row is given up only by its own max_attempts, by a handler setting that this instance
 * itself has, or by the limit on lapses in a row. */
static enum recover_to recovery_decide(const struct recovery *r, const struct settings *settings, const struct recover_row *row,
				       int64_t *delay_ms, char *reason, size_t size)
{
	const struct handler_settings *h = settings_handler(settings, row->kind);
	unsigned int most = row->max_attempts;
	const char *worker = row->locked_by[0] != '\0' ? row->locked_by : "unknown";

	(void)r;
	if (most == 0 && h != NULL)
		most = job_max_attempts(0, (unsigned int)h->max_attempts);
	*delay_ms = backoff_delay_ms(h != NULL ? &h->backoff : &settings->recovery.backoff, row->attempt, random_below(UINT64_MAX));
	snprintf(reason, size, "lease lapsed: worker %s stopped renewing it", worker);
	if (row->cancel_requested)
		return RECOVER_CANCELLED;
	if (most != 0 && row->attempt >= most) {
		snprintf(reason, size, "lease lapsed: worker %s stopped renewing it; attempt %u of %u was the last", worker,
			 row->attempt, most);
		return RECOVER_DEAD;
	}
	if ((int64_t)row->orphan_streak + 1 >= settings->recovery.max_orphans) {
		snprintf(reason, size,
			 "lease lapsed: worker %s stopped renewing it; %u leases in a row lapsed (recovery.max_orphans is %lld)",
			 worker, row->orphan_streak + 1, (long long)settings->recovery.max_orphans);
		return RECOVER_DEAD;
	}
	return RECOVER_SCHEDULED;
}

/* The slot that goes with the lease. Where this instance has no limits, or may not look, the slot lapses by itself. */
static enum db_class recovery_find_slot(struct recovery *r, const struct settings *settings, struct recover_row *row,
					struct fault *f)
{
	enum db_class c;

	if (!settings_use_slots(settings) || row->lease[0] == '\0')
		return DB_OK;
	c = slot_store_find(r->role.session.db, row->id, row->lease, &row->slot, f);
	return c == DB_DENIED || c == DB_SCHEMA ? DB_OK : c;
}

static enum db_class recovery_take(struct recovery *r, struct recover_row *row, struct fault *f)
{
	static const char *const to_name[] = {
		[RECOVER_SCHEDULED] = "scheduled", [RECOVER_DEAD] = "dead", [RECOVER_CANCELLED] = "cancelled"
	};
	struct settings *settings = instance_settings(r->role.instance);
	char reason[768], delay[32];
	int64_t delay_ms;
	bool taken = false;
	enum recover_to to = recovery_decide(r, settings, row, &delay_ms, reason, sizeof(reason));
	enum db_class c = recovery_find_slot(r, settings, row, f);

	if (c == DB_OK)
		c = recover_store_take(r->role.session.db, row, to, delay_ms, reason, &taken, f);
	settings_unref(settings);
	if (!taken)
		return c;
	atomic_fetch_add(&r->role.instance->count.recovered, 1);
	log_write(to == RECOVER_DEAD ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "recover", "job=%llu kind=%s attempt=%u %s: %s%s%s",
		  (unsigned long long)row->id, row->kind, row->attempt, reason, to_name[to], to == RECOVER_SCHEDULED ? " in " : "",
		  to == RECOVER_SCHEDULED ? parse_format_duration(delay_ms, delay, sizeof(delay)) : "");
	if (row->slot.key[0] != '\0')
		slot_keeper_touch(r->role.instance->slot_keeper, &row->slot);
	role_nudge(r->role.instance->promoter);
	return c;
}

/* Takes a row at a time; a deadlock or a lock wait with the holder's own statements leaves it to the next pass. */
static enum db_class recovery_try_take(struct recovery *r, struct recover_row *row, struct fault *f)
{
	struct about about;
	const struct log_context *before = about_row(&about, row);
	enum db_class c = recovery_take(r, row, f);

	if (c == DB_RETRY || c == DB_DATA || c == DB_DUPLICATE) {
		log_debug("recover", "job=%llu left to the next pass: %s", (unsigned long long)row->id, f->text);
		c = DB_OK;
	}
	log_about(before);
	return c;
}

/* The row was just read. Now, after the reading, is the right time in both cases: the first sight counts late, and before a row
 * is taken the UPDATE proves that it is still the same. */
static bool recovery_seen_long_enough(struct recovery *r, const struct recover_row *row)
{
	int64_t lease_ms = row->lease_ms != 0 ? row->lease_ms : r->role.instance->lease_ms;

	return lapse_watch_see(r->watch, row->id, row->lease, row->locked_at, lease_ms, clock_boot_ms());
}

/* The server's word is not enough for a heartbeat in its future, nor for a lease that began before the clock was steady. */
static bool recovery_must_watch(const struct recovery *r, const struct recover_row *row)
{
	return row->future || !lapse_clock_trusted_for(&r->clock, row->lease_ms, clock_boot_ms());
}

static enum db_class recovery_read_clock(struct recovery *r, struct fault *f)
{
	int64_t server_us, before_us = clock_boot_us();
	enum db_class c = recover_store_clock(r->role.session.db, &server_us, f);
	bool trusted;

	if (c != DB_OK)
		return c;
	lapse_clock_read(&r->clock, server_us, before_us, clock_boot_us(), db_identity_hash(db_identity(r->role.session.db)));
	trusted = lapse_clock_trusted(&r->clock, clock_boot_ms());
	if (trusted != r->trusted && r->passes > 0)
		log_write(trusted ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, "recover", "%s",
			  trusted ? "the server's clock has been steady for one lease: it is trusted"
				  : "the server's clock jumped, or the server is another one: a job is taken back only after "
				    "watching it for its whole lease");
	r->trusted = trusted;
	return DB_OK;
}

/* With a steady clock: what the server says has lapsed is taken; a heartbeat in the future is judged by observation. One row
 * that was found lapsed under a steady clock, and has not changed since, stays lapsed whatever the clock does then. */
static enum db_class recovery_pass_trusting(struct recovery *r, struct fault *f)
{
	enum db_class c;
	size_t n;

	do {
		size_t taken = 0;

		c = recover_store_scan(r->role.session.db, r->margin_us, r->rows, &n, f);
		/* The clock may have jumped between the reading that was judged and this page: then the page proves nothing. */
		if (c == DB_OK && n > 0)
			c = recovery_read_clock(r, f);
		for (size_t i = 0; i < n && c == DB_OK && r->trusted; i++) {
			if (recovery_must_watch(r, &r->rows[i]) && !recovery_seen_long_enough(r, &r->rows[i]))
				continue;
			c = recovery_try_take(r, &r->rows[i], f);
			taken++;
		}
		if (taken == 0)
			break; /* a page of rows that cannot be taken yet: the next pass looks again */
	} while (c == DB_OK && n == RECOVER_PAGE && !gate_stopped(&r->role.gate));
	return c;
}

/* With a clock that may not be believed: every running row is watched, and taken once it has not changed for its own lease on
 * our clock. */
static enum db_class recovery_pass_watching(struct recovery *r, struct fault *f)
{
	struct recover_row last;
	bool more = false;
	enum db_class c;
	size_t n;

	do {
		c = recover_store_running(r->role.session.db, r->margin_us, more ? &last : NULL, r->rows, &n, f);
		for (size_t i = 0; i < n && c == DB_OK; i++)
			if (recovery_seen_long_enough(r, &r->rows[i]))
				c = recovery_try_take(r, &r->rows[i], f);
		more = n == RECOVER_PAGE;
		if (more)
			last = r->rows[n - 1];
	} while (c == DB_OK && more && !gate_stopped(&r->role.gate));
	return c;
}

static enum db_class recovery_pass(struct recovery *r, struct fault *f)
{
	int64_t began_ms = clock_boot_ms();
	uint32_t min_lease_ms = 0;
	uint64_t instances = 0;
	enum db_class c = recovery_read_clock(r, f);

	if (c == DB_OK)
		c = r->trusted ? recovery_pass_trusting(r, f) : recovery_pass_watching(r, f);
	if (c == DB_OK)
		c = instance_store_peers(r->role.session.db, &min_lease_ms, &instances, f);
	if (c == DB_OK)
		c = recover_store_next(r->role.session.db, &r->next_ms, f);
	if (c != DB_OK)
		return c;
	lapse_watch_sweep(r->watch, began_ms);
	r->min_lease_ms = (uint32_t)r->role.instance->lease_ms;
	if (min_lease_ms != 0 && min_lease_ms < r->min_lease_ms)
		r->min_lease_ms = min_lease_ms;
	atomic_store(&r->role.instance->peers, instances);
	r->passes++;
	return DB_OK;
}

/* Until the next pass. While rows are being watched: the interval. Otherwise until the earliest lease that can lapse, where a
 * lease that is claimed meanwhile bounds it too; never more often than the interval. */
static int64_t recovery_rest_ms(const struct recovery *r)
{
	struct settings *settings = instance_settings(r->role.instance);
	int64_t interval_ms = settings->recovery.interval_ms, rest_ms = r->min_lease_ms;

	settings_unref(settings);
	if (lapse_watch_count(r->watch) > 0)
		return interval_ms;
	if (r->next_ms >= 0 && r->next_ms < rest_ms)
		rest_ms = r->next_ms;
	/* Alone, nothing lapses but what was there at the start, and what we lose ourselves: then we are nudged. */
	if (r->role.instance->startup->instance.sole_instance && r->trusted && r->next_ms < 0)
		return -1;
	return rest_ms > interval_ms ? rest_ms : interval_ms;
}

static int64_t recovery_step(struct role *role)
{
	struct recovery *r = (struct recovery *)role;
	struct fault f = { 0 };
	enum db_class c = session_connect(&role->session, &f);

	if (c == DB_OK)
		c = recovery_pass(r, &f);
	return session_outcome(&role->session, c, &f, recovery_rest_ms(r));
}
