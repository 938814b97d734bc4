/* messages.h - what the daemon and its runner say to each other (layer: runner; pure encoding, and the two calls that carry
 * it).
 *
 * Daemon to runner: datagrams on a SOCK_SEQPACKET pair, one struct runner_command each, START followed by its strings and
 * carrying its five descriptors (SCM_RIGHTS). Runner to daemon: fixed-size struct runner_report records on the run's own
 * status pipe, so the worker that waits for the run reads nobody else's news; end of file there without RUNNER_ENDED means the
 * runner died. Both sides are the same binary: no byte order, no versions. */
#ifndef LEASEHOLD_RUNNER_MESSAGES_H
#define LEASEHOLD_RUNNER_MESSAGES_H

#include "base/fault.h"
#include "model/outcome.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RUNNER_MESSAGE_MAX (128u * 1024) /* one START with all its strings */
#define RUNNER_FDS 5

enum runner_fd { RUNNER_FD_STDIN, RUNNER_FD_STDOUT, RUNNER_FD_STDERR, RUNNER_FD_CONTROL, RUNNER_FD_STATUS };

enum runner_verb {
	RUNNER_START = 1,
	RUNNER_DEADLINE, /* the trust of the lease was moved: kill_at_ms */
	RUNNER_END,      /* TERM now, KILL after grace_ms: reason. END_NONE: without asking first */
	/* The process goes on for something else: from now it is known as next_run, what is sent for its old number changes
	 * nothing, and its times start anew. Refused once a signal has gone out, and when kill_at_ms has passed. */
	RUNNER_ASSIGN
};

struct runner_limits { /* -1 = as inherited; units as setrlimit(2) */
	int64_t cpu_s, memory, files, processes, file_size, core;
};

struct runner_command {
	uint32_t verb;
	uint32_t reason;    /* END: enum end_reason */
	uint64_t run;       /* the daemon's number for this run, never reused */
	uint64_t next_run;  /* ASSIGN: as run */
	int64_t kill_at_ms; /* START, DEADLINE, ASSIGN: CLOCK_BOOTTIME; the group is dead by then. TERM comes grace_ms earlier */
	int64_t timeout_ms; /* START: from the fork, ASSIGN: from now; 0 = none */
	int64_t grace_ms;   /* START, ASSIGN: between the begin of the end and KILL. END: 0 = KILL at once */
	/* START, ASSIGN: at the begin of the end the daemon is told (RUNNER_ENDING), so that it can ask the process to end; TERM
	 * follows after so long, or after half of grace_ms where that is less. 0 = TERM at once, and nobody is told */
	int64_t ask_ms;
	/* START only: */
	struct runner_limits limits;
	int64_t group_memory, group_cpu; /* of the run's own control group: bytes, percent of a processor. 0 = none */
	uint32_t switch_user, uid, gid;
	/* How many follow: gid_t[group_count], then strings: cwd ("" = inherited), argv, env. runner_send counts argc and envc. */
	uint32_t group_count, argc, envc;
};

/* A START to be sent: the command and what it points to (all borrowed). */
struct runner_start {
	struct runner_command command;
	const gid_t *groups;
	const char *cwd; /* NULL = inherited */
	char *const *argv;
	char *const *env;
	int fds[RUNNER_FDS];
};

/* STARTED is written by the new process itself, right before it becomes the handler: where it is missing, nothing of the
 * handler ever ran. */
enum runner_news {
	RUNNER_STARTED = 1, /* pid */
	RUNNER_NOT_STARTED, /* final; never ran: the deadline had passed (error 0) or it could not be forked (error) */
	RUNNER_ENDED,       /* final; also after a failed exec (error, stage) */
	RUNNER_ENDING,      /* reason: TERM is near; see ask_ms */
	RUNNER_ASSIGNED,    /* run: the new number; started_ms */
	RUNNER_NOT_ASSIGNED /* run: the number that it did not get; the deadline had passed (error 0) or it is being ended */
};

struct runner_report {
	uint32_t news;
	uint32_t reason;     /* enum end_reason: why the runner ended it */
	int32_t pid;
	int32_t wait_status; /* as wait(2) */
	int32_t error;       /* errno of what failed before exec; 0 = exec succeeded */
	uint32_t stage;      /* enum runner_stage */
	uint32_t group_gone;
	uint32_t oom;        /* enum run_oom */
	int64_t started_ms, ended_ms; /* CLOCK_BOOTTIME; started_ms is that of the last ASSIGN, where there was one */
	int64_t max_rss_kb, cpu_ms;
	uint64_t run; /* ENDED, ENDING, ASSIGNED, NOT_ASSIGNED */
};

enum runner_stage {
	RUNNER_STAGE_NONE,
	RUNNER_STAGE_FORK,
	RUNNER_STAGE_GROUP,
	RUNNER_STAGE_SETUP,
	RUNNER_STAGE_LIMITS,
	RUNNER_STAGE_USER,
	RUNNER_STAGE_CWD,
	RUNNER_STAGE_EXEC,
	RUNNER_STAGES
};
const char *runner_stage_name(uint32_t stage); /* "fork", "setrlimit", "setuid", "chdir", "execve" ...: static */

/* Tells the run's worker. Never waits (a pipe has room for hundreds of records, and there are a few for each command) and
 * ignores a reader that has gone away. */
void runner_tell(int status_fd, const struct runner_report *report);

/* Sends one command (MSG_DONTWAIT | MSG_NOSIGNAL). LH_ERR_LIMIT: the message is larger than RUNNER_MESSAGE_MAX; LH_ERR_LOST:
 * the runner is gone; LH_ERR_SYSTEM with EAGAIN: its queue is full; LH_ERR_INPUT: a START without a program or without its
 * descriptors. start may be NULL for verbs other than START; for START, its command is what is sent. */
enum lh_err runner_send(int socket, const struct runner_command *command, const struct runner_start *start,
			struct fault *f) LH_MUST_CHECK;

/* A decoded command. Pointers go into the message buffer, arrays are allocated: free with runner_received_free, which also
 * closes the descriptors that are still in fds (whoever keeps one puts -1 in its place). */
struct runner_received {
	struct runner_command command;
	const gid_t *groups;
	const char *cwd; /* NULL = inherited */
	char **argv, **env;
	int fds[RUNNER_FDS]; /* -1 where none came: of a START, when this process may open no more. The status pipe always came */
};
/* Receives one command without waiting; buffer is aligned as by malloc. 1: got one; 0: none waiting; -1: the daemon is gone;
 * -2: malformed (dropped, its descriptors closed). */
int runner_receive(int socket, void *buffer, size_t size, struct runner_received *out);
/* The decoding alone, for tests and fuzzers: true when bytes are a well-formed command. */
bool runner_decode(void *bytes, size_t len, struct runner_received *out);
void runner_received_free(struct runner_received *r);

#endif
