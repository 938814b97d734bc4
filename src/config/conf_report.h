/* conf_report.h - collecting the errors of one load (layer: config, private to this folder; main thread).
 *
 * A report borrows the caller's struct conf_errors. Adding never fails: what cannot be kept is still remembered in failed. */
#ifndef LEASEHOLD_CONFIG_CONF_REPORT_H
#define LEASEHOLD_CONFIG_CONF_REPORT_H

#include "base/fault.h"
#include "config/conf.h"

#include <stdbool.h>
#include <stddef.h>

#define CONF_REPORT_MAX 100
#define CONF_QUOTE_SIZE 96

struct conf_report {
	struct conf_errors *errors;
	bool failed;    /* something was refused */
	bool no_memory; /* the load cannot go on */
};

void conf_report_init(struct conf_report *report, struct conf_errors *errors);

/* Adds "file:line: " (line 0: "file: ") and the text. */
void conf_report_add(struct conf_report *report, const char *file, unsigned int line, const char *fmt, ...) LH_PRINTF(4, 5);

/* text in double quotes, with everything but printable ASCII escaped and the end of a long one left out. out has
 * CONF_QUOTE_SIZE bytes. Returns out. */
char *conf_report_quote(const char *text, char *out);

#endif
