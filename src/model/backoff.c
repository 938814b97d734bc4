/* backoff.c - see backoff.h. */
#include "model/backoff.h"

int64_t backoff_ceiling_ms(const struct backoff *b, unsigned int attempt)
{
	int64_t max = b->max_ms < BACKOFF_FLOOR_MS ? BACKOFF_FLOOR_MS : b->max_ms;
	int64_t ceiling = b->base_ms < BACKOFF_FLOOR_MS ? BACKOFF_FLOOR_MS : b->base_ms;

	/* Doubles only what stays within max: 62 rounds at the very most, whatever the attempt. */
	for (unsigned int n = 1; n < attempt; n++) {
		if (ceiling > max / 2)
			return max;
		ceiling *= 2;
	}
	return ceiling < max ? ceiling : max;
}

int64_t backoff_delay_ms(const struct backoff *b, unsigned int attempt, uint64_t random)
{
	uint64_t choices = (uint64_t)backoff_ceiling_ms(b, attempt) + 1;
	/* Some values are likelier than others by choices / 2^64, for 30 days less than one in 10^9. */
	int64_t delay = (int64_t)(random % choices);

	return delay < BACKOFF_FLOOR_MS ? BACKOFF_FLOOR_MS : delay;
}
