/* clock.h - the two clocks we use, in milliseconds (layer: base; any thread). Neither is ever compared with a server's clock.
 *
 * clock_mono_ms: CLOCK_MONOTONIC, for waits and intervals. clock_boot_ms: CLOCK_BOOTTIME, which also runs while the machine is
 * suspended, for everything that a lease depends on (the trust window and the runner's deadlines). */
#ifndef LEASEHOLD_BASE_CLOCK_H
#define LEASEHOLD_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

int64_t clock_mono_ms(void);
int64_t clock_boot_ms(void);
int64_t clock_boot_us(void);

/* The point on CLOCK_MONOTONIC that lies ms from now, for pthread_cond_timedwait. Negative counts as 0. */
struct timespec clock_mono_after(int64_t ms);

#endif
