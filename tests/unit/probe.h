/* probe.h - for tests of the runner: this program, executed again as the runner, and handlers that it starts.
 *
 * One runner at a time. Everything is waited for with a deadline; what does not come fails the test. main must hand
 * RUNNER_ARGUMENT on to runner_main, and make the process a subreaper where a test kills the runner. */
#ifndef LEASEHOLD_TESTS_PROBE_H
#define LEASEHOLD_TESTS_PROBE_H

#include "runner/messages.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROBE_PATIENCE_MS 20000 /* for what must happen */
#define PROBE_LATE_MS 3000      /* a busy machine may be late by this much, never early */
#define PROBE_FAR_MS 600000

extern int probe_socket; /* to the runner */
extern pid_t probe_runner;

/* One run. */
struct probe {
	uint64_t run;
	int fds[RUNNER_FDS]; /* our ends */
	pid_t pid;
};

const char *probe_self(void); /* the path of this program: under valgrind, /proc/self/exe would execute that instead */
void probe_spawn_runner(void);
int probe_setup(void **state);    /* a runner */
int probe_teardown(void **state); /* closes its socket: it must leave, and cleanly */

struct runner_command probe_defaults(void); /* a START with a number of its own and a deadline far out */
void probe_start(struct probe *h, struct runner_command command, const char *cwd, const char *const *argv);
void probe_start_shell(struct probe *h, struct runner_command command, const char *script);
void probe_send_deadline(const struct probe *h, int64_t kill_at_ms);
void probe_send_end(const struct probe *h, enum end_reason reason, int64_t grace_ms);
void probe_close(struct probe *h);
void probe_close_stdin(struct probe *h);

bool probe_readable(int fd, int64_t until_ms);
bool probe_news(struct probe *h, struct runner_report *news); /* the next; false at the end of file */
void probe_expect_started(struct probe *h);
struct runner_report probe_expect_ended(struct probe *h); /* and that it is the last word; closes h */
long probe_read_number(struct probe *h);                  /* a line that the handler prints */
char *probe_read_all(struct probe *h);                    /* all that it prints; valid until the next call */
void probe_expect_gone(pid_t pid);                        /* the process, reaped if it came to us */
void probe_expect_between(int64_t at_ms, int64_t earliest_ms);
void probe_pause_ms(int ms);

#endif
