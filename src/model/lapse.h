/* lapse.h - when recovery may believe that a lease has lapsed (layer: model; pure: every time is given).
 *
 * Two rules. While the server's clock runs steadily against our own, the server's word is enough. Otherwise (at our start,
 * after the server's clock jumped by more than the margin, after the server became another one) a row is taken only when we
 * have seen it with the same lease_id and locked_at for the row's own lease_ms on our own clock. The same holds always for
 * a heartbeat that lies in the future. Trust in the clock returns after steady readings for one lease. All local times are
 * CLOCK_BOOTTIME milliseconds. */
#ifndef LEASEHOLD_MODEL_LAPSE_H
#define LEASEHOLD_MODEL_LAPSE_H

#include "base/random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one reading proves is an interval: the server's clock is ahead of ours by at least server - after and at most server
 * - before. The clock is steady while the intervals of all readings of the last lease (and of up to two, as they are kept
 * in two halves) lie within one margin: then no jump beyond the margin can have come between them, and a holder's own
 * margin, which is as large, covers the rest. Drift that slews the clock by less than a margin in two leases (1 % with the
 * default margin) stays inside; the oldest readings are dropped, so it may go on for ever. */
struct lapse_span {
	int64_t lo_us, hi_us;
};
struct lapse_clock {
	int64_t margin_us;  /* a change of (server - own) beyond this is a jump */
	int64_t lease_ms;   /* steady for this long before it is trusted (again) */
	bool known;         /* the spans and server hold */
	uint64_t server;    /* a hash of the server's identity */
	struct lapse_span recent, older; /* all readings since turned_ms, and those of the lease before it */
	int64_t turned_ms;
	int64_t steady_since_ms; /* the first reading that no later one contradicts */
	int64_t read_ms;         /* the last reading that proved something */
};
void lapse_clock_init(struct lapse_clock *c, int64_t margin_ms, int64_t lease_ms);
/* A reading: the server said server_us (UTC, microseconds since 1970) somewhere between the local times before_us and
 * after_us. A reading that took so long that it cannot tell a jump from its own delay (after - before > margin) neither
 * proves nor disproves: it only restarts the steady time. Slow drift (a slewed clock) is followed; a jump forward or back
 * is not. */
void lapse_clock_read(struct lapse_clock *c, int64_t server_us, int64_t before_us, int64_t after_us, uint64_t server);
/* Read the clock first: a reading older than one lease says nothing about now, and the answer is false. */
bool lapse_clock_trusted(const struct lapse_clock *c, int64_t now_ms);
/* The same for one row: a row whose holder promised a longer lease than ours was perhaps stamped before a jump that is
 * older than our own lease, so the clock must have been steady for the longer of the two. lease_ms <= 0: our own. */
bool lapse_clock_trusted_for(const struct lapse_clock *c, int64_t lease_ms, int64_t now_ms);

/* What was seen of running rows that only the observation rule may judge. Bounded: when full, unseen rows are simply not
 * yet observed. */
struct lapse_watch;
struct lapse_watch *lapse_watch_new(size_t max_rows); /* NULL without memory */
void lapse_watch_free(struct lapse_watch *w);
/* The row was just read. Returns true when it has been unchanged (same lease, same locked_at text; either may be "") for
 * lease_ms of own time since it was first seen so. now_ms is taken after the rows were read: what follows it is later
 * still. lease_ms <= 0 (a row that nobody holds properly) needs no waiting. */
bool lapse_watch_see(struct lapse_watch *w, uint64_t id, const char *lease, const char *locked_at, int64_t lease_ms,
		     int64_t now_ms);
/* Forgets rows that were not seen since the time given (the start of the last full pass). */
void lapse_watch_sweep(struct lapse_watch *w, int64_t before_ms);
size_t lapse_watch_count(const struct lapse_watch *w);

#endif
