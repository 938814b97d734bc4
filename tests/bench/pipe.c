/* pipe - jobs per second through a stream handler in Python, as a ratio to a bare loop over the same kind of pipe.
 *
 * usage: pipe CHILD [rounds [jobs]]
 *
 * CHILD is stream_child.py. The bare loop writes the same job line to a process of it that does no more than parse the line and
 * print an answer, and waits for that; no runner, no lease, no client library. Both have one process and one thread, and are run in
 * turn. Then the same handler with the bare process: what is ours alone. */
#include "bench.h"

#include "base/clock.h"
#include "handler/handler.h"
#include "handler/stream_message.h"
#include "handler/stream_set.h"
#include "runner/runner.h"

#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct pipes {
	struct runner_link *runner;
	struct job *job;
	uint64_t jobs;
	char *child;
};

static double pipe_rate(uint64_t jobs, int64_t began_us)
{
	return (double)jobs * 1e6 / (double)(clock_boot_us() - began_us);
}

static void pipe_write(FILE *to, const struct buf *line)
{
	if (fwrite(line->data, 1, line->len, to) != line->len || fflush(to) != 0)
		bench_die("bare loop", "the child does not read");
}

static double pipe_bare(const struct pipes *p)
{
	char flag[] = "--bare", answer[1024], *const argv[] = {p->child, flag, NULL};
	posix_spawn_file_actions_t actions;
	int in[2], out[2], status;
	int64_t began;
	struct buf line;
	FILE *to, *from;
	pid_t pid;

	if (pipe(in) != 0 || pipe(out) != 0)
		bench_die("bare loop", "no pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, in[1]);
	posix_spawn_file_actions_addclose(&actions, out[0]);
	if (posix_spawn(&pid, p->child, &actions, NULL, argv, environ) != 0)
		bench_die("bare loop", "the child cannot be started");
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	to = fdopen(in[1], "w");
	from = fdopen(out[0], "r");
	buf_init(&line, 4096);
	if (to == NULL || from == NULL || fgets(answer, sizeof(answer), from) == NULL || !stream_write_job(&line, p->job, 1, 60000))
		bench_die("bare loop", "no greeting");
	began = clock_boot_us();
	for (uint64_t i = 0; i < p->jobs; i++) {
		pipe_write(to, &line);
		if (fgets(answer, sizeof(answer), from) == NULL)
			bench_die("bare loop", "no answer");
	}
	buf_free(&line);
	fclose(to);
	fclose(from);
	waitpid(pid, &status, 0);
	return pipe_rate(p->jobs, began);
}

static bool pipe_start(void *owner, uint64_t run, bool (*send)(void *arg, int64_t kill_at_ms), void *arg)
{
	(void)owner;
	(void)run;
	return send(arg, clock_boot_ms() + 60000);
}

/* flag: NULL, or what the child is started with. */
static double pipe_handler(const struct pipes *p, char *flag)
{
	char kind[] = "bench", *command[] = {p->child, flag, NULL};
	const struct handler_settings handler = {.kind = kind,
						 .type = HANDLER_STREAM,
						 .command = command,
						 .kill_grace_ms = 1000,
						 .start_timeout_ms = 10000,
						 .max_result = 65536,
						 .max_stderr_tail = 8192,
						 .limits = {-1, -1, -1, -1, -1, -1}};
	struct stream_set *streams = stream_set_new();
	const struct run_request request = {.job = p->job,
					    .handler = &handler,
					    .streams = streams,
					    .max_attempts = 1,
					    .runner = p->runner,
					    .hooks = {.start = pipe_start}};
	int64_t began = 0;
	double rate;

	/* The first starts the process. */
	for (uint64_t i = 0; i <= p->jobs; i++) {
		struct run_report report;

		if (i == 1)
			began = clock_boot_us();
		run_report_init(&report, &handler);
		handler_stream.run(&request, &report);
		if (report.facts.end != RUN_ANSWERED || !report.facts.succeeded)
			bench_die("stream handler", "a run failed");
		run_report_free(&report);
	}
	rate = pipe_rate(p->jobs, began);
	stream_set_close(streams);
	stream_set_finish(streams);
	stream_set_free(streams);
	return rate;
}

int main(int argc, char **argv)
{
	char flag[] = "--bare";
	double with_client[BENCH_ROUNDS_MAX], alone[BENCH_ROUNDS_MAX];
	struct pipes p = {.runner = NULL};
	uint64_t rounds;
	struct fault f;

	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	if (argc < 2)
		bench_die("arguments", "usage: pipe CHILD [rounds [jobs]]");
	p.child = argv[1];
	rounds = bench_number(argc, argv, 2, 1, BENCH_ROUNDS_MAX, 5);
	p.jobs = bench_number(argc, argv, 3, 1, 1000000, 10000);
	p.job = job_new();
	signal(SIGPIPE, SIG_IGN);
	p.runner = runner_link_new(NULL);
	if (p.job == NULL || p.runner == NULL || runner_link_start(p.runner, &f) != LH_OK)
		bench_die("runner", "it could not be started");
	p.job->id = 17;
	p.job->payload = strdup("{\"to\":\"somebody@example.org\"}");
	p.job->payload_len = strlen(p.job->payload);
	for (uint64_t i = 0; i < rounds; i++) {
		double bare = pipe_bare(&p), ours = pipe_handler(&p, NULL), bare_child = pipe_handler(&p, flag);

		with_client[i] = ours / bare;
		alone[i] = bare_child / bare;
		printf("round %llu: bare loop %.0f jobs/s, stream handler %.0f jobs/s (ratio %.2f), with the bare child %.0f jobs/s"
		       " (ratio %.2f)\n",
		       (unsigned long long)i + 1, bare, ours, with_client[i], bare_child, alone[i]);
		fflush(stdout);
	}
	printf("median ratio %.2f with the client for Python, %.2f with the bare child (of %llu rounds)\n",
	       bench_median(with_client, rounds), bench_median(alone, rounds), (unsigned long long)rounds);
	runner_link_free(p.runner);
	job_free(p.job);
	return 0;
}
