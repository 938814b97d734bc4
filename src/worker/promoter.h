/* promoter.h - the role that makes due jobs ready, ends the holds of unique keys, and shows that the instance is alive (layer:
 * worker; one per instance).
 *
 * Nudge it when something was scheduled, maybe sooner than it expects. */
#ifndef LEASEHOLD_WORKER_PROMOTER_H
#define LEASEHOLD_WORKER_PROMOTER_H

struct instance;
struct role;

struct role *promoter_new(struct instance *in); /* NULL without memory */

#endif
