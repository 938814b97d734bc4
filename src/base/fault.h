/* fault.h - what went wrong, in a form that a person can act on (layer: base).
 *
 * A function that can fail returns an enum lh_err (0 = success) and fills a struct fault that its caller owns, usually on
 * the stack. A fault owns no memory: it may be copied and dropped. Any thread. Database calls return an enum db_class
 * instead (src/db/db.h) and fill the same struct. */
#ifndef LEASEHOLD_BASE_FAULT_H
#define LEASEHOLD_BASE_FAULT_H

#include <stdarg.h>

#define LH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define LH_MUST_CHECK __attribute__((warn_unused_result))

enum lh_err {
	LH_OK = 0,
	LH_ERR_MEMORY,  /* an allocation failed */
	LH_ERR_SYSTEM,  /* a system call failed: number is its errno */
	LH_ERR_INPUT,   /* what the caller or the user gave cannot be used: text says which value and why */
	LH_ERR_LIMIT,   /* a documented bound was reached */
	LH_ERR_STOPPED, /* the thing was closed or is shutting down */
	LH_ERR_LOST     /* the other side (runner, lease) is gone */
};

struct fault {
	enum lh_err code;
	unsigned int number; /* errno or the server's error number; 0 where neither applies */
	char sqlstate[6];    /* "" unless a database server reported it */
	char text[512];      /* one line, no newline, always terminated */
};

/* Fills f (which may be NULL) and returns code, so that a function can end with `return fault_set(...)`. */
enum lh_err fault_set(struct fault *f, enum lh_err code, const char *fmt, ...) LH_PRINTF(3, 4);

/* As fault_set with LH_ERR_SYSTEM: appends ": " and the text of errno_value. */
enum lh_err fault_set_errno(struct fault *f, int errno_value, const char *fmt, ...) LH_PRINTF(3, 4);

/* Puts "prefix: " before the text that f already has (cut at the end where it does not fit). f may be NULL. */
void fault_prefix(struct fault *f, const char *fmt, ...) LH_PRINTF(2, 3);

#endif
