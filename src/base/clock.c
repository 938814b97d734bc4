/* clock.c - see clock.h. */
#include "base/clock.h"

#define CLOCK_NS_PER_S 1000000000L

/* Both clocks exist on every Linux that we run on, so that clock_gettime cannot fail with a valid pointer. */
static int64_t clock_read_us(clockid_t id)
{
	struct timespec now = {0, 0};

	clock_gettime(id, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_mono_ms(void)
{
	return clock_read_us(CLOCK_MONOTONIC) / 1000;
}

int64_t clock_boot_ms(void)
{
	return clock_read_us(CLOCK_BOOTTIME) / 1000;
}

int64_t clock_boot_us(void)
{
	return clock_read_us(CLOCK_BOOTTIME);
}

struct timespec clock_mono_after(int64_t ms)
{
	struct timespec at = {0, 0};
	const int64_t longest_ms = INT64_C(1000) * 86400 * 36500; /* a century: keeps tv_sec in range whatever is asked for */

	clock_gettime(CLOCK_MONOTONIC, &at);
	if (ms <= 0)
		return at;
	if (ms > longest_ms)
		ms = longest_ms;
	at.tv_sec += (time_t)(ms / 1000);
	at.tv_nsec += (long)(ms % 1000) * 1000000L;
	if (at.tv_nsec >= CLOCK_NS_PER_S) {
		at.tv_sec++;
		at.tv_nsec -= CLOCK_NS_PER_S;
	}
	return at;
}
