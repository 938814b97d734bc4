/* parse.h - checked parsing of numbers, durations and sizes (layer: base; pure, any thread).
 *
 * All return LH_OK or LH_ERR_INPUT with a text that quotes the value. No leading space, no trailing text, no overflow is
 * accepted. Durations: a whole number and a unit, "250ms", "30s", "5m", "2h", "7d". Sizes: a whole number, plain bytes or
 * with KiB, MiB, GiB. */
#ifndef LEASEHOLD_BASE_PARSE_H
#define LEASEHOLD_BASE_PARSE_H

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

enum lh_err parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *value, struct fault *f) LH_MUST_CHECK;
enum lh_err parse_i64(const char *text, int64_t min, int64_t max, int64_t *value, struct fault *f) LH_MUST_CHECK;
enum lh_err parse_duration_ms(const char *text, int64_t *ms, struct fault *f) LH_MUST_CHECK;
enum lh_err parse_size(const char *text, uint64_t *bytes, struct fault *f) LH_MUST_CHECK;

/* The shortest exact form, "90s", "1500ms", "5m"; out is at least 32 bytes. Returns out. */
char *parse_format_duration(int64_t ms, char *out, size_t size);

#endif
