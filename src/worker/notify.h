/* notify.h - telling systemd how we are (layer: worker; the supervising thread). Does nothing where we do not run under it, or
 * were built without libsystemd. */
#ifndef LEASEHOLD_WORKER_NOTIFY_H
#define LEASEHOLD_WORKER_NOTIFY_H

#include "base/fault.h"

#include <stdint.h>

void notify_state(const char *fmt, ...) LH_PRINTF(1, 2); /* sd_notify(3) assignments, as "READY=1\nSTATUS=..." */
int64_t notify_watchdog_ms(void); /* how often WATCHDOG=1 is due; 0 = no watchdog */

#endif
