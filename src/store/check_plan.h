/* check_plan.h - the probes of `leasehold check` that concern statements: how the server would run them, and whether this
 * account may (layer: store; one thread). Nothing is executed: EXPLAIN resolves a statement and its privileges, and stops
 * there. */
#ifndef LEASEHOLD_STORE_CHECK_PLAN_H
#define LEASEHOLD_STORE_CHECK_PLAN_H

#include "store/check_say.h"

/* Each statement of the daemon: a missing privilege, a wrong index, a sort or a full scan is a failure. */
enum db_class check_plan_statements(struct check *c) LH_MUST_CHECK;

/* One statement, and how it has to be run. */
struct check_statement {
	const char *name;
	void (*add)(struct db *db, struct buf *sql);
	const char *index; /* the one it has to use */
	bool covering;     /* without touching the rows */
	const char *table; /* NULL: jobs */
};
/* What is wrong with its plan is told as a failure; *good counts those that are fine. *class is the server's answer to it: denied
 * or unknown things are the caller's to tell. Anything else but DB_OK is returned. */
enum db_class check_plan_of(struct check *c, const struct check_statement *s, unsigned int *good,
			    enum db_class *class) LH_MUST_CHECK;

/* Privileges that a daemon should not have are a warning. */
enum db_class check_plan_excess(struct check *c) LH_MUST_CHECK;

#endif
