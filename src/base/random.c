/* random.c - see random.h. */
#include "base/random.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/random.h>

/* A request of up to 256 bytes is only refused by a kernel that lacks the call or a filter that forbids it. Nothing of the
 * lease protocol is safe then, and no caller could go on. */
static void random_fill(void *bytes, size_t len)
{
	ssize_t got;

	do
		got = getrandom(bytes, len, 0);
	while (got < 0 && errno == EINTR);
	if (got < 0 || (size_t)got != len)
		abort();
}

void random_uuid(char out[UUID_TEXT_LEN + 1])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bytes[16];
	char *p = out;

	random_fill(bytes, sizeof(bytes));
	bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40); /* version 4 */
	bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80); /* the variant of RFC 9562 */
	for (size_t i = 0; i < sizeof(bytes); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		*p++ = digits[bytes[i] >> 4];
		*p++ = digits[bytes[i] & 0x0f];
	}
	*p = '\0';
}

uint64_t random_below(uint64_t bound)
{
	uint64_t value, uneven;

	if (bound == 0)
		return 0;
	/* 2^64 mod bound: so many of the lowest values would make some remainders more likely than others. */
	uneven = (0 - bound) % bound;
	do
		random_fill(&value, sizeof(value));
	while (value < uneven);
	return value % bound;
}
