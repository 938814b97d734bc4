/* payload.h - reading and judging the payload that `leasehold enqueue` was given (layer: cli; one thread). */
#ifndef LEASEHOLD_CLI_PAYLOAD_H
#define LEASEHOLD_CLI_PAYLOAD_H

#include "base/buf.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>

/* value: the text itself, "@FILE", or "-" for standard input. Fills out, whose limit the caller set to at least max.
 * LH_ERR_LIMIT with both numbers when it has more than max bytes; LH_ERR_SYSTEM when it cannot be read. */
enum lh_err payload_read(const char *value, size_t max, struct buf *out, struct fault *f) LH_MUST_CHECK;

/* LH_ERR_INPUT unless it is well-formed UTF-8 and, when json is set, one JSON value (RFC 8259: any value, not only an object). */
enum lh_err payload_check(const char *text, size_t len, bool json, struct fault *f) LH_MUST_CHECK;

/* UTC "YYYY-MM-DD[ T]HH:MM[:SS[.ffffff]][Z]" to "YYYY-MM-DD HH:MM:SS.ffffff". Refused: other zones, days that do not exist. */
enum lh_err payload_time(const char *text, char *out, size_t size, struct fault *f) LH_MUST_CHECK;

#endif
