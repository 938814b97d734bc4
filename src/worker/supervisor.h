/* supervisor.h - the main thread of `leasehold run`: signals, reload, status, the runner's life, and the end (layer: worker). */
#ifndef LEASEHOLD_WORKER_SUPERVISOR_H
#define LEASEHOLD_WORKER_SUPERVISOR_H

#include "model/settings.h"

/* How the configuration is loaded anew. load returns settings (one reference, handed over) that may replace the running ones: as
 * many pools, and the same lease; NULL, having logged why, when they may not. What needs a restart to change, it tells. */
struct supervisor_reload {
	struct settings *(*load)(void *arg, const struct settings *running);
	void *arg;
};

/* The life of `leasehold run` in the foreground, from loaded settings (borrowed) to its end. Takes over the signals of the
 * process: TERM and INT drain (the second one ends handlers now), QUIT ends them at once, USR2 quiet on and off, HUP calls
 * reload, USR1 status to the log. Returns the exit code: 0 after an orderly end, 1 when something had to be left to its lease or
 * could not be started, 69 the database refused us, 78 schema or server unfit. */
int supervisor_run(struct settings *settings, const struct supervisor_reload *reload);

#endif
