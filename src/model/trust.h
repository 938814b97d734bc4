/* trust.h - until when a holder may act under its lease (layer: model; pure).
 *
 * A lease that was claimed or renewed by a statement sent at T (CLOCK_BOOTTIME, ms) is trusted until T + lease_ms - margin.
 * The server stamps locked_at after T, so nobody may reclaim before T + lease_ms: the margin is what is left to end the
 * handler in. */
#ifndef LEASEHOLD_MODEL_TRUST_H
#define LEASEHOLD_MODEL_TRUST_H

#include <stdint.h>

/* max(200 ms, 2 % of lease_ms). */
int64_t trust_margin_ms(int64_t lease_ms);
int64_t trust_until_ms(int64_t sent_ms, int64_t lease_ms);

#endif
