/* parking.h - kinds for which this instance has no handler, and the jobs that it put back for that (layer: worker; any thread).
 *
 * Most likely a deploy is under way elsewhere, so a job of such a kind is put back without counting an attempt, first for 30 s,
 * then for as long as the kind has been unknown, up to 10 min, with jitter. When a reload brings a handler, the jobs of that kind
 * that were put back here are to run at once: the promoter takes them from parking_due. Both tables are bounded: kinds beyond
 * PARKING_KINDS share the longest delay, and of the jobs the last PARKING_JOBS are remembered; the others wait their time. */
#ifndef LEASEHOLD_WORKER_PARKING_H
#define LEASEHOLD_WORKER_PARKING_H

#include "model/settings.h"
#include "store/promote_store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARKING_KINDS 256
#define PARKING_JOBS 10000
#define PARKING_MIN_MS INT64_C(30000)
#define PARKING_MAX_MS INT64_C(600000)

struct parking;
struct parking *parking_new(void); /* NULL without memory */
void parking_free(struct parking *p);
/* Remembers a job of the kind, put back under this claim, and returns the delay. *first is true the first time: log it once. */
int64_t parking_job(struct parking *p, const char *kind, uint64_t id, uint32_t claim_no, int64_t now_ms, bool *first);
/* Handlers were reloaded: jobs of kinds that have one now become due, the other kinds count as just met. */
void parking_reload(struct parking *p, const struct settings *settings);
/* Up to max jobs that are due now, sorted by id. They stay until parking_done says that those first n are written: one caller
 * only. */
size_t parking_due(struct parking *p, struct promote_parked *out, size_t max);
void parking_done(struct parking *p, size_t n);

#endif
