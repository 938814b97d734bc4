/* exec_bench.h - for tests of the exec handler: a job, its handler's settings, and what the worker around them would do. */
#ifndef LEASEHOLD_TESTS_EXEC_BENCH_H
#define LEASEHOLD_TESTS_EXEC_BENCH_H

#include "handler/handler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BENCH_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BENCH_SANITIZED 1
#endif
#endif
#ifndef BENCH_SANITIZED
#define BENCH_SANITIZED 0
#endif

struct bench {
	struct job job;
	struct handler_settings handler;
	char *script[4];
	const struct handler_ops *ops;
	struct runner_link *link;
	struct stream_set *streams; /* NULL for exec */
	struct settings *settings;  /* NULL for exec */
	struct run_report report;
	/* what the hooks do */
	bool unwanted;             /* nobody wants the job to be started any more */
	bool refuse;               /* the lease is not held any more */
	int64_t lease_left_ms;     /* until the deadline */
	enum end_reason end_with;  /* asked for right after the start */
	int64_t end_grace_ms;
	pid_t kill_on_progress;    /* SIGKILL when the handler reports progress */
	pid_t kill_before_send;
	pid_t kill_at_start;       /* SIGKILL right before it is sent */
	pid_t wake_later;          /* SIGCONT a moment after the START is on its way */
	bool wait_for_noted_pid;   /* the note is a process: the hook returns when that has ended */
	bool no_steps;             /* there is no hook for them */
	bool keep_steps;           /* they are not answered before bench_free */
	const char *step_why;      /* what they are answered; NULL: saved */
	/* what they heard */
	int starts; /* how often it was sent */
	double percent;
	char note[1024];
	char steps[4096]; /* "name=data;" each, as far as they fit */
	size_t step_count;
	struct step *kept; /* the last one first */
};

/* Of the group of tests: a runner, which is *state; main hands RUNNER_ARGUMENT on to runner_main. At the end nothing of it is
 * left. */
int bench_start_link(void **state);
int bench_stop_link(void **state);

/* A handler that is this shell script; everything else as a test would have it. */
void bench_init(struct bench *b, const char *script);
void bench_payload(struct bench *b, const char *payload, size_t len); /* copied */
void bench_run_warm(struct bench *b); /* as often as you like, with a report each that is to be freed */
void bench_run(struct bench *b); /* open descriptors are counted: it fails the test when some are left */
void bench_free(struct bench *b);

/* Each of so many threads runs so many jobs; returns how many went wrong. */
int bench_run_threads(size_t threads, int runs);

void bench_kill(pid_t pid); /* and waits until it is dead, though perhaps not reaped */

long bench_peak_kb(void); /* of this process */

#endif
