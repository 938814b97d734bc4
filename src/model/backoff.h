/* backoff.h - how long until a failed job is tried again (layer: model; pure).
 *
 * Exponential with full jitter, capped: uniform in [0, min(max_ms, base_ms * 2^(attempt-1))] but never under
 * BACKOFF_FLOOR_MS. Full jitter: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015. */
#ifndef LEASEHOLD_MODEL_BACKOFF_H
#define LEASEHOLD_MODEL_BACKOFF_H

#include <stdint.h>

struct backoff {
	int64_t base_ms; /* 1 ms to 1 d */
	int64_t max_ms;  /* base_ms to 30 d */
};

#define BACKOFF_FLOOR_MS 1

/* The upper end of the jitter for an attempt number (0 counts as 1): never negative, never overflows, never above max_ms. */
int64_t backoff_ceiling_ms(const struct backoff *b, unsigned int attempt);

/* The delay for a random number drawn uniformly from all 64-bit values. */
int64_t backoff_delay_ms(const struct backoff *b, unsigned int attempt, uint64_t random);

#endif
