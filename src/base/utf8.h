/* utf8.h - turning bytes that handlers print into text a utf8mb4 column takes (layer: base; pure). */
#ifndef LEASEHOLD_BASE_UTF8_H
#define LEASEHOLD_BASE_UTF8_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* True when the bytes are well-formed UTF-8 (Unicode 15, table 3-7: no surrogates, no overlong forms, up to U+10FFFF)
 * without NUL. */
bool utf8_valid(const char *bytes, size_t len);

/* Looks at the character that starts at bytes (len > 0). Returns how many bytes it has; for an ill-formed one (well_formed
 * is then false), those of the maximal subpart that one U+FFFD stands for: at least 1. */
size_t utf8_next(const char *bytes, size_t len, bool *well_formed);

/* The largest n <= len at which the bytes can be cut without splitting a character. */
size_t utf8_cut(const char *bytes, size_t len);

/* Appends to out the bytes with each ill-formed sequence, and each NUL, replaced by U+FFFD (one for each maximal
 * subpart, as Unicode 15 section 3.9 recommends). What goes beyond out's bound is cut between two characters, and out is bad. */
void utf8_sanitise(struct buf *out, const char *bytes, size_t len);

#endif
