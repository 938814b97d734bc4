/* check_plan.h - the probes of `leasehold check` that concern statements: how the server would run them, and whether this
 * account may (layer: store; one thread). Nothing is executed: EXPLAIN resolves a statement and its privileges, and stops
 * there. */
#ifndef LEASEHOLD_STORE_CHECK_PLAN_H
#define LEASEHOLD_STORE_CHECK_PLAN_H

#include "store/check_say.h"

/* Each statement of the daemon: a missing privilege, a wrong index, a sort or a full scan is a failure. */
enum db_class check_plan_statements(struct check *c) LH_MUST_CHECK;

/* Privileges that a daemon should not have are a warning. */
enum db_class check_plan_excess(struct check *c) LH_MUST_CHECK;

#endif
