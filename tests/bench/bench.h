/* bench.h - what the benchmarks share: numbers on the command line, and the median of ratios. */
#ifndef LEASEHOLD_TESTS_BENCH_H
#define LEASEHOLD_TESTS_BENCH_H

#include "base/fault.h"
#include "base/parse.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define BENCH_ROUNDS_MAX 99

static inline _Noreturn void bench_die(const char *what, const char *why)
{
	fprintf(stderr, "bench: %s: %s\n", what, why);
	exit(1);
}

static inline uint64_t bench_number(int argc, char **argv, int at, uint64_t min, uint64_t max, uint64_t fallback)
{
	struct fault f;
	uint64_t value = fallback;

	if (argc > at && parse_u64(argv[at], min, max, &value, &f) != LH_OK)
		bench_die("arguments", f.text);
	return value;
}

static inline int bench_compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Sorts the values. */
static inline double bench_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), bench_compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

#endif
