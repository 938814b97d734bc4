/* stream_bench.c - see stream_bench.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stream_bench.h"

#include "base/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_BENCH_PATIENCE_MS 30000

static int stream_bench_count_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

void stream_bench_init(struct stream_bench *s, const char *mode)
{
	const char *srcdir = getenv("LEASEHOLD_SRCDIR");
	char path[4096];

	memset(s, 0, sizeof(*s));
	s->fds_before = stream_bench_count_descriptors();
	bench_init(&s->b, "");
	snprintf(path, sizeof(path), "%s/tests/harness/handlers/stream.py", srcdir == NULL ? "." : srcdir);
	s->argv[0] = strdup("/usr/bin/python3");
	s->argv[1] = strdup(path);
	s->argv[2] = mode == NULL ? NULL : strdup(mode);
	s->b.handler.kind = s->b.job.kind;
	s->b.handler.type = HANDLER_STREAM;
	s->b.handler.command = s->argv;
	s->b.handler.start_timeout_ms = 60000;
	s->b.ops = handler_ops_for(HANDLER_STREAM);
	s->b.streams = stream_set_new();
	assert_non_null(s->b.streams);
	s->b.job.id = 16;
	s->b.job.claim_no = 3;
}

static void stream_bench_forget(struct stream_bench *s)
{
	if (s->ran)
		run_report_free(&s->b.report);
	s->ran = false;
}

void stream_bench_free(struct stream_bench *s)
{
	stream_bench_forget(s);
	stream_set_free(s->b.streams);
	for (size_t i = 0; s->argv[i] != NULL; i++)
		free(s->argv[i]);
	run_report_init(&s->b.report, &s->b.handler);
	bench_free(&s->b);
	assert_int_equal(stream_bench_count_descriptors(), s->fds_before);
}

const struct run_facts *stream_bench_run(struct stream_bench *s, const char *payload)
{
	stream_bench_forget(s);
	s->b.job.id++;
	s->b.percent = -1;
	s->b.note[0] = s->b.steps[0] = '\0';
	s->b.step_count = 0;
	s->b.starts = 0;
	if (payload != NULL) {
		free(s->b.job.payload);
		bench_payload(&s->b, payload, strlen(payload));
	}
	bench_run_warm(&s->b);
	s->ran = true;
	return &s->b.report.facts;
}

void stream_bench_expect(struct stream_bench *s, const char *payload, enum outcome_kind kind, const char *cause)
{
	int64_t until_ms = clock_mono_ms() + STREAM_BENCH_PATIENCE_MS;
	struct outcome out;

	/* A process that has failed makes the start of the next one wait. */
	while (stream_bench_run(s, payload)->put_back_ms > 0 && clock_mono_ms() < until_ms)
		(void)poll(NULL, 0, 5);
	outcome_decide(&s->b.report.facts, &out);
	if (out.kind != kind || (cause != NULL && strcmp(out.cause, cause) != 0))
		fail_msg("%s: %s (%s), and %s (%s) was expected", payload, outcome_name(out.kind), out.cause, outcome_name(kind),
			 cause == NULL ? "anything" : cause);
}

pid_t stream_bench_pid(struct stream_bench *s)
{
	stream_bench_expect(s, "answer(result=str(os.getpid()))", OUTCOME_SUCCEEDED, "");
	assert_true(s->b.report.has_result);
	return (pid_t)strtol(s->b.report.result.data, NULL, 10);
}

void stream_bench_await(struct stream_bench *s, size_t count)
{
	int64_t until_ms = clock_mono_ms() + STREAM_BENCH_PATIENCE_MS;

	for (stream_set_sweep(s->b.streams); stream_set_count(s->b.streams) > count; stream_set_sweep(s->b.streams)) {
		if (clock_mono_ms() >= until_ms)
			fail_msg("%zu processes are left", stream_set_count(s->b.streams));
		(void)poll(NULL, 0, 5);
	}
	assert_int_equal(stream_set_count(s->b.streams), count);
}
