/* fuzz.h - what the fuzzers share: each is one function for libFuzzer, and ends the process where a promise does not hold. */
#ifndef LEASEHOLD_TESTS_FUZZ_H
#define LEASEHOLD_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As assert(3), but in every build. */
#define FUZZ_HOLDS(promise) \
	do { \
		if (!(promise)) { \
			fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #promise); \
			abort(); \
		} \
	} while (0)

#endif
