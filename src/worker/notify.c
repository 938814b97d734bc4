#include "worker/notify.h"

#ifdef HAVE_LIBSYSTEMD
#include <stdarg.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>

void notify_state(const char *fmt, ...)
{
	char state[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(state, sizeof(state), fmt, args);
	va_end(args);
	sd_notify(0, state);
}

int64_t notify_watchdog_ms(void)
{
	uint64_t us = 0;

	return sd_watchdog_enabled(0, &us) > 0 ? (int64_t)(us / 2000) : 0;
}

#else

void notify_state(const char *fmt, ...)
{
	(void)fmt;
}

int64_t notify_watchdog_ms(void)
{
	return 0;
}

#endif
