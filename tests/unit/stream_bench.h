/* stream_bench.h - for tests of stream handlers: warm processes that do with a job what its payload, a piece of Python, says.
 *
 * tests/harness/handlers/stream.py is the program. One set and one handler a test; a run is a job of its own. */
#ifndef LEASEHOLD_TESTS_STREAM_BENCH_H
#define LEASEHOLD_TESTS_STREAM_BENCH_H

#include "exec_bench.h"
#include "handler/stream_set.h"

struct stream_bench {
	struct bench b;
	char *argv[5];
	int fds_before;
	bool ran; /* the report of the last run is still there */
};

/* mode: how it spoils its start; NULL: it does not. */
void stream_bench_init(struct stream_bench *s, const char *mode);
/* Everything ends, and fails the test when a descriptor is left. */
void stream_bench_free(struct stream_bench *s);
/* Runs one job; the report is b.report until the next. payload NULL: the one that is set. */
const struct run_facts *stream_bench_run(struct stream_bench *s, const char *payload);
/* As often as it is put back; and then it ended so, with these words (NULL: any). */
void stream_bench_expect(struct stream_bench *s, const char *payload, enum outcome_kind kind, const char *cause);
/* The process that runs this job. */
pid_t stream_bench_pid(struct stream_bench *s);
/* Sweeps until so many processes are left. */
void stream_bench_await(struct stream_bench *s, size_t count);

#endif
