/* spawn - runs of /bin/true per second through the exec handler and the runner, as a ratio to a bare loop of posix_spawn and
 * waitpid.
 *
 * usage: spawn [rounds [runs [threads]]]
 *
 * No database: the handler's own path is measured, from the pipes to the reaped group. Both are run in turn; the median of the
 * ratios is printed. */
#include "bench.h"

#include "base/clock.h"
#include "handler/handler.h"
#include "runner/runner.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPAWN_PROGRAM "/bin/true"
#define SPAWN_MAX_THREADS 64

struct spawn {
	struct handler_settings handler;
	struct runner_link *runner;
	uint64_t runs, threads;
	atomic_ullong taken, failed;
};

static double spawn_rate(uint64_t runs, int64_t began_us)
{
	return (double)runs * 1e6 / (double)(clock_boot_us() - began_us);
}

static double spawn_bare(uint64_t runs)
{
	char program[] = SPAWN_PROGRAM;
	char *const argv[] = { program, NULL }, *const env[] = { NULL };
	int64_t began = clock_boot_us();
	int status;
	pid_t pid;

	for (uint64_t i = 0; i < runs; i++)
		if (posix_spawn(&pid, SPAWN_PROGRAM, NULL, NULL, argv, env) != 0 || waitpid(pid, &status, 0) != pid || status != 0)
			bench_die("spawn", "the bare loop failed");
	return spawn_rate(runs, began);
}

static bool spawn_start(void *owner, uint64_t run, bool (*send)(void *arg, int64_t kill_at_ms), void *arg)
{
	(void)owner;
	(void)run;
	return send(arg, clock_boot_ms() + 60000);
}

static void *spawn_main(void *arg)
{
	struct spawn *s = arg;
	struct run_report report;
	struct job *job = job_new();
	const struct run_request request = { .job = job, .handler = &s->handler, .max_attempts = 1, .runner = s->runner,
					     .hooks = { .start = spawn_start } };

	if (job == NULL)
		bench_die("spawn", "no memory");
	job->id = 1;
	job->payload = strdup("{}");
	job->payload_len = 2;
	while (atomic_fetch_add(&s->taken, 1) < s->runs) {
		run_report_init(&report, &s->handler);
		handler_exec.run(&request, &report);
		if (report.facts.end != RUN_EXITED || !report.facts.exited || report.facts.exit_code != 0 ||
		    !report.facts.group_gone)
			atomic_fetch_add(&s->failed, 1);
		run_report_free(&report);
	}
	job_free(job);
	return NULL;
}

static double spawn_handler(struct spawn *s)
{
	pthread_t threads[SPAWN_MAX_THREADS];
	int64_t began = clock_boot_us();

	atomic_store(&s->taken, 0);
	for (uint64_t i = 0; i < s->threads; i++)
		pthread_create(&threads[i], NULL, spawn_main, s);
	for (uint64_t i = 0; i < s->threads; i++)
		pthread_join(threads[i], NULL);
	if (atomic_load(&s->failed) != 0)
		bench_die("spawn", "a run through the handler failed");
	return spawn_rate(s->runs, began);
}

int main(int argc, char **argv)
{
	char program[] = SPAWN_PROGRAM;
	char *command[] = { program, NULL };
	struct spawn s = { .handler = { .kind = program,
					.command = command,
					.kill_grace_ms = 1000,
					.max_result = 65536,
					.max_stderr_tail = 8192,
					.limits = { -1, -1, -1, -1, -1, -1 } } };
	double ratios[BENCH_ROUNDS_MAX];
	uint64_t rounds;
	struct fault f;

	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	rounds = bench_number(argc, argv, 1, 1, BENCH_ROUNDS_MAX, 5);
	s.runs = bench_number(argc, argv, 2, 1, 1000000, 3000);
	s.threads = bench_number(argc, argv, 3, 1, SPAWN_MAX_THREADS, 4);
	signal(SIGPIPE, SIG_IGN);
	s.runner = runner_link_new(NULL);
	if (s.runner == NULL || runner_link_start(s.runner, &f) != LH_OK)
		bench_die("spawn", "the runner could not be started");
	for (uint64_t i = 0; i < rounds; i++) {
		double bare = spawn_bare(s.runs), ours = spawn_handler(&s);

		ratios[i] = ours / bare;
		printf("round %llu: bare loop %.0f runs/s, exec handler with %llu threads %.0f runs/s, ratio %.2f\n",
		       (unsigned long long)i + 1, bare, (unsigned long long)s.threads, ours, ratios[i]);
		fflush(stdout);
	}
	printf("median ratio %.2f (of %llu rounds)\n", bench_median(ratios, rounds), (unsigned long long)rounds);
	runner_link_free(s.runner);
	return 0;
}
