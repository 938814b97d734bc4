/* startup.h - what must hold before an instance works (layer: worker; the main thread, before any other is started). */
#ifndef LEASEHOLD_WORKER_STARTUP_H
#define LEASEHOLD_WORKER_STARTUP_H

#include "base/fault.h"
#include "model/settings.h"

#include <signal.h>

#define STARTUP_REFUSED 69 /* the database refuses us (EX_UNAVAILABLE) */
#define STARTUP_UNFIT 78   /* the schema or the server cannot be worked with (EX_CONFIG) */

/* Takes the control groups that the settings ask for; says which option asks, and what stands in the way. Before the runner. */
enum lh_err startup_take_groups(const struct settings *s, struct fault *f) LH_MUST_CHECK;

/* Becomes instance.user and instance.group for good, when the file names them and we are root. */
enum lh_err startup_drop_privileges(const struct settings *s, struct fault *f) LH_MUST_CHECK;

/* Connects, waiting as long as it takes for a server that cannot be reached, until one of the signals in `quit` arrives, and
 * checks schema, route and plans. Returns 0, or an exit code; *stopped is set when a signal ended the wait. */
int startup_check_database(const struct settings *s, const sigset_t *quit, int *stopped);

#endif
