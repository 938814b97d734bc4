/* exec_bench.c - see exec_bench.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec_bench.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BENCH_THREADS_MAX 16

static struct runner_link *bench_link;

int bench_start_link(void **state)
{
	char self[PATH_MAX] = "";
	struct runner_link *link;
	struct fault f;

	/* Not NULL, which is /proc/self/exe: under valgrind that is valgrind. */
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0)
		return -1;
	link = runner_link_new(self);
	/* As in all threads of the daemon. */
	signal(SIGPIPE, SIG_IGN);
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT, open("/dev/null", O_WRONLY | O_CLOEXEC));
	if (link == NULL || runner_link_start(link, &f) != LH_OK)
		return -1;
	bench_link = link;
	*state = link;
	return 0;
}

/* Nothing stays open and no child is left, the runner least of all. */
int bench_stop_link(void **state)
{
	(void)runner_link_revive(*state, NULL);
	runner_link_free(*state);
	return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? 0 : -1;
}

/* By a process of its own, for ours is about to wait. */
static void bench_wake_later(pid_t pid)
{
	if (fork() != 0)
		return;
	(void)poll(NULL, 0, 100);
	kill(pid, SIGCONT);
	_exit(0);
}

static void bench_wait_for_end(pid_t pid)
{
	int64_t until_ms = clock_mono_ms() + 10000;

	while (pid > 1 && kill(pid, 0) == 0 && clock_mono_ms() < until_ms)
		(void)poll(NULL, 0, 1);
}

void bench_kill(pid_t pid)
{
	int64_t until_ms = clock_mono_ms() + 10000;
	char path[64], text[512], *state;
	bool lives = true;
	FILE *stat;

	(void)kill(pid, SIGKILL);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (lives && clock_mono_ms() < until_ms) {
		stat = fopen(path, "re");
		lives = stat != NULL && fgets(text, sizeof(text), stat) != NULL && (state = strrchr(text, ')')) != NULL &&
			state[2] != 'Z' && state[2] != 'X';
		if (stat != NULL)
			fclose(stat);
	}
}

static bool bench_start(void *owner, uint64_t run, bool (*send)(void *arg, int64_t kill_at_ms), void *arg)
{
	struct bench *b = owner;

	if (b->refuse)
		return false;
	if (b->kill_before_send != 0) {
		/* Stopped first, so that the message is surely in its queue when it dies. */
		kill(b->kill_before_send, SIGSTOP);
		send(arg, clock_boot_ms() + b->lease_left_ms);
		kill(b->kill_before_send, SIGKILL);
		return true;
	}
	if (b->wake_later != 0)
		bench_wake_later(b->wake_later);
	if (b->kill_at_start != 0)
		bench_kill(b->kill_at_start);
	b->kill_at_start = 0;
	if (!send(arg, clock_boot_ms() + b->lease_left_ms))
		return false;
	b->starts++;
	if (b->end_with != END_NONE)
		runner_link_end(b->link, run, b->end_with, b->end_grace_ms);
	return true;
}

static void bench_progress(void *owner, double percent, const char *note)
{
	struct bench *b = owner;

	if (percent >= 0)
		b->percent = percent;
	if (note != NULL)
		snprintf(b->note, sizeof(b->note), "%s", note);
	if (b->wait_for_noted_pid && note != NULL)
		bench_wait_for_end((pid_t)strtol(note, NULL, 10));
	if (b->kill_on_progress != 0)
		kill(b->kill_on_progress, SIGKILL);
}

static void bench_step(void *owner, struct step *step)
{
	struct bench *b = owner;
	size_t len = strlen(b->steps);

	snprintf(b->steps + len, sizeof(b->steps) - len, "%s=%s;", step->name, step->data);
	b->step_count++;
	if (!b->keep_steps) {
		step_answer(step, b->step_why);
		return;
	}
	step->out.link.next = b->kept == NULL ? NULL : &b->kept->out.link;
	b->kept = step;
}

void bench_init(struct bench *b, const char *script)
{
	memset(b, 0, sizeof(*b));
	b->job.id = UINT64_MAX;
	strcpy(b->job.queue, "default");
	strcpy(b->job.kind, "mail");
	strcpy(b->job.lease, "123e4567-e89b-42d3-a456-426614174000");
	b->job.attempt = 2;
	b->job.claim_no = 5;
	b->job.lease_ms = 60000;
	b->script[0] = strdup("/bin/sh");
	b->script[1] = strdup("-c");
	b->script[2] = strdup(script);
	b->handler.command = b->script;
	b->handler.kill_grace_ms = 5000;
	b->handler.max_result = 64 * 1024;
	b->handler.max_stderr_tail = 8 * 1024;
	b->handler.log_stderr = true;
	b->handler.limits = (struct limit_settings){-1, -1, -1, -1, -1, -1};
	b->ops = &handler_exec;
	b->link = bench_link;
	b->lease_left_ms = 600000;
	b->end_grace_ms = 60000;
	b->percent = -1;
}

void bench_payload(struct bench *b, const char *payload, size_t len)
{
	b->job.payload = malloc(len + 1);
	assert_non_null(b->job.payload);
	memcpy(b->job.payload, payload, len);
	b->job.payload[len] = '\0';
	b->job.payload_len = len;
}

static bool bench_wanted(void *owner)
{
	const struct bench *b = owner;

	return !b->unwanted;
}

void bench_run_warm(struct bench *b)
{
	struct run_request request = {.job = &b->job,
				      .handler = &b->handler,
				      .max_attempts = 10,
				      .runner = b->link,
				      .streams = b->streams,
				      .settings = b->settings,
				      .hooks = {.owner = b,
						.start = bench_start,
						.progress = bench_progress,
						.wanted = bench_wanted,
						.step = b->no_steps ? NULL : bench_step}};

	run_report_init(&b->report, &b->handler);
	b->ops->run(&request, &b->report);
	if (b->wake_later != 0)
		(void)waitpid(-1, NULL, 0);
}

static int bench_count_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

void bench_run(struct bench *b)
{
	int before = bench_count_descriptors();

	bench_run_warm(b);
	/* Steps that are still under way keep the box that they come back to. */
	assert_int_equal(bench_count_descriptors(), before + (b->kept != NULL));
}

void bench_free(struct bench *b)
{
	while (b->kept != NULL) {
		struct step *step = b->kept;

		b->kept = (struct step *)(void *)step->out.link.next;
		step_answer(step, "too late");
	}
	for (size_t i = 0; i < 3; i++)
		free(b->script[i]);
	free(b->job.payload);
	run_report_free(&b->report);
}

struct bench_thread {
	pthread_t thread;
	int runs, wrong;
};

/* No assertions here: they belong to the main thread. */
static void *bench_thread_main(void *arg)
{
	static const char payload[] = "0123456789";
	struct bench_thread *t = arg;

	for (int i = 0; i < t->runs; i++) {
		struct bench b;

		bench_init(&b, "cat; echo '{\"progress\":50}' >&3; exit 3");
		bench_payload(&b, payload, 10);
		bench_run_warm(&b);
		if (!b.report.facts.exited || b.report.facts.exit_code != 3 || strcmp(b.report.result.data, payload) != 0 ||
		    b.percent < 50)
			t->wrong++;
		bench_free(&b);
	}
	return NULL;
}

int bench_run_threads(size_t threads, int runs)
{
	struct bench_thread all[BENCH_THREADS_MAX] = {0};
	struct fault f;
	int wrong = 0;

	assert_true(threads <= BENCH_THREADS_MAX);
	for (size_t i = 0; i < threads; i++) {
		all[i].runs = runs;
		assert_int_equal(thread_start(&all[i].thread, "bench", bench_thread_main, &all[i], &f), LH_OK);
	}
	for (size_t i = 0; i < threads; i++) {
		pthread_join(all[i].thread, NULL);
		wrong += all[i].wrong;
	}
	return wrong;
}

long bench_peak_kb(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}
