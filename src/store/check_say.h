/* check_say.h - what the probes of `leasehold check` share: the connection and the way to report (layer: store; one thread). */
#ifndef LEASEHOLD_STORE_CHECK_SAY_H
#define LEASEHOLD_STORE_CHECK_SAY_H

#include "store/check_store.h"

struct check {
	struct db *db; /* open; borrowed, as all below */
	check_say say;
	void *arg;
	struct fault *fault;    /* never NULL */
	enum check_level least; /* what is below it is not told */
};

void check_ok(struct check *c, const char *subject, const char *fmt, ...) LH_PRINTF(3, 4);
void check_warn(struct check *c, const char *subject, const char *fmt, ...) LH_PRINTF(3, 4);
void check_fail(struct check *c, const char *subject, const char *fmt, ...) LH_PRINTF(3, 4);

#endif
