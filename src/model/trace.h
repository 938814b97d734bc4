/* trace.h - the trace that a job belongs to: W3C Trace Context, level 2, section 3.2 (layer: model; pure).
 *
 * traceparent: version "-" trace-id "-" parent-id "-" flags, in lower-case hex of 2, 32, 16 and 2 digits. Neither id is all
 * zeros, and the version is not ff. What a later version adds comes after a further dash. */
#ifndef LEASEHOLD_MODEL_TRACE_H
#define LEASEHOLD_MODEL_TRACE_H

#include <stdbool.h>

#define TRACE_ID_LEN 32

/* False, and out "", for what is not well-formed. out gets the trace-id. */
bool trace_parse(const char *traceparent, char out[TRACE_ID_LEN + 1]);

#endif
