/* conf_text.h - for the tests of src/config: a configuration that is right except for what a test sets. */
#ifndef LEASEHOLD_TESTS_CONF_TEXT_H
#define LEASEHOLD_TESTS_CONF_TEXT_H

#include "config/conf.h"

#include <stdbool.h>
#include <stddef.h>

/* "lease.length" and what stands behind its "=". The last one of a name counts; NULL as a value takes it away. */
struct conf_text_pair {
	const char *name, *value;
};

/* A handler and these pairs, as the text of a file, one option a line. The caller frees it. */
char *conf_text_make(const struct conf_text_pair *pairs, size_t count);

/* Loads that text as test.conf, as conf_load_text does; *out is NULL where it fails. */
enum lh_err conf_text_load(const struct conf_text_pair *pairs, size_t count, struct settings **out, struct conf_errors *errors)
	LH_MUST_CHECK;

/* Is there a line that has all the words (NULL: none)? */
bool conf_text_has(const struct conf_errors *errors, const char *a, const char *b, const char *c);

/* For a failed assertion: what was reported. */
void conf_text_print(const struct conf_errors *errors);

#endif
