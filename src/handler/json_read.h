/* json_read.h - what handlers say in JSON, read with bounds: the members that descriptor 3 and the stream protocol have in common
 * (layer: handler; pure). */
#ifndef LEASEHOLD_HANDLER_JSON_READ_H
#define LEASEHOLD_HANDLER_JSON_READ_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_READ_NOTE_CHARACTERS 255
#define JSON_READ_NOTE_BYTES (JSON_READ_NOTE_CHARACTERS * 4)
#define JSON_READ_DELAY_MAX_MS (366LL * 24 * 3600 * 1000)
#define JSON_READ_WHY_SIZE 256

/* Nested no deeper than the parser, which recurses, and a worker's small stack can take. */
bool json_read_is_shallow(const char *bytes, size_t len);

/* One line as an object, the caller's to json_decref; NULL, and why it is none. Blank: NULL, and why is "". */
json_t *json_read_object(const char *bytes, size_t len, char why[JSON_READ_WHY_SIZE]);

/* Appends up to most characters of a JSON string to out: valid UTF-8 without NUL. */
void json_read_text(struct buf *out, const json_t *value, size_t most);
/* As above into text, which gets a NUL at its end; never cut within a character. */
void json_read_short(char *text, size_t size, const json_t *value);
/* A number of milliseconds from 0 to a year. */
bool json_read_delay(const json_t *value, int64_t *delay_ms);
/* A number from 0 to 100. */
bool json_read_percent(const json_t *value, double *percent);
/* A string as it is, anything else as JSON text, cut to out's limit with a mark. False without memory. */
bool json_read_result(struct buf *out, const json_t *value);

#endif
