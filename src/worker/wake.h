/* wake.h - local producers ring here after they committed, so that their job need not wait for the next poll (layer: worker).
 *
 * A Unix datagram socket at instance.wake_socket, with a thread that waits on it. Any datagram, even an empty one, means "look
 * now": what is in it is not read. A ring that is lost costs nothing but the wait for the poll, and rings in plenty cost one
 * scan every WAKE_REST_MS. */
#ifndef LEASEHOLD_WORKER_WAKE_H
#define LEASEHOLD_WORKER_WAKE_H

#include "base/fault.h"

#define WAKE_REST_MS 10

struct instance;
struct wake;

struct wake *wake_new(struct instance *in); /* NULL without memory */
/* Binds the socket (mode 0666: any local user may ring) and starts the thread; does nothing when no path is set. A socket that a
 * dead instance left at the path is replaced; anything else there is refused: LH_ERR_INPUT. */
enum lh_err wake_start(struct wake *w, struct fault *f) LH_MUST_CHECK;
void wake_stop(struct wake *w); /* waits for the thread, and removes the socket; one that was not started is allowed */
void wake_free(struct wake *w); /* NULL is allowed */

#endif
