/* random.h - lease ids and jitter (layer: base; any thread). Bytes come from getrandom(2); a system
 * that refuses it ends the process, as no lease could be told from another. */
#ifndef LEASEHOLD_BASE_RANDOM_H
#define LEASEHOLD_BASE_RANDOM_H

#include <stdint.h>

#define UUID_TEXT_LEN 36

/* A fresh UUID version 4 (RFC 9562) in lower-case text, with its NUL. */
void random_uuid(char out[UUID_TEXT_LEN + 1]);

/* Uniform in 0 .. bound - 1; 0 when bound is 0. */
uint64_t random_below(uint64_t bound);

#endif
