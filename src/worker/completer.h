/* completer.h - the role that writes outcomes back (layer: worker; one per instance).
 *
 * Takes settlements in batches, writes each batch in one transaction, and reports to the register what became of it. A batch
 * stays with it until its fate is known, however long the database is away; one bad row never stops the rest. Also saves
 * progress notes, at most one a second for each job. */
#ifndef LEASEHOLD_WORKER_COMPLETER_H
#define LEASEHOLD_WORKER_COMPLETER_H

#include <stddef.h>
#include <stdint.h>

struct instance;
struct role;

struct role *completer_new(struct instance *in); /* NULL without memory */
/* No more settlements will come: commits what is left, and ends. After give_up_ms what still cannot be committed is left to its
 * lease. Returns how many were. */
size_t completer_finish(struct role *completer, int64_t give_up_ms);

#endif
