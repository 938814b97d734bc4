/* parking.h - kinds for which this instance has no handler (layer: worker; any thread).
 *
 * Most likely a deploy is under way elsewhere, so a job of such a kind is put back without counting an attempt, first for 30 s,
 * then for as long as the kind has been unknown, up to 10 min, with jitter. The table is bounded: kinds beyond PARKING_KINDS
 * share the longest delay. */
#ifndef LEASEHOLD_WORKER_PARKING_H
#define LEASEHOLD_WORKER_PARKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARKING_KINDS 256
#define PARKING_MIN_MS INT64_C(30000)
#define PARKING_MAX_MS INT64_C(600000)

struct parking;
struct parking *parking_new(void); /* NULL without memory */
void parking_free(struct parking *p);
/* The delay for a job of the kind, seen now. *first is true the first time: log it once. */
int64_t parking_delay_ms(struct parking *p, const char *kind, int64_t now_ms, bool *first);
void parking_reset(struct parking *p); /* handlers were reloaded */

#endif
