/* settings.h - the settings of one instance as plain values (layer: model). src/config fills it; everyone else only reads.
 *
 * A struct settings is immutable once loaded and shared by reference count: settings_ref, settings_unref (any thread). A
 * reload makes a new one; a job keeps the one it started with. Durations are milliseconds, sizes bytes; a string that is
 * not set is NULL. */
#ifndef LEASEHOLD_MODEL_SETTINGS_H
#define LEASEHOLD_MODEL_SETTINGS_H

#include "base/log.h"
#include "model/backoff.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum settings_tls { TLS_OFF, TLS_REQUIRED, TLS_VERIFY };
enum settings_ledger { LEDGER_FAILURES, LEDGER_ALL };
enum settings_cgroup { CGROUP_AUTO, CGROUP_ALWAYS, CGROUP_OFF };
enum handler_type { HANDLER_EXEC, HANDLER_STREAM, HANDLER_NOOP /* bench only: not accepted in a file */ };

struct database_settings {
	char *host;   /* NULL: the socket */
	int64_t port;
	char *socket; /* NULL: the library's default */
	char *name;   /* the database that holds our tables */
	char *user;
	char *password; /* from password, password_file or password_env; never printed */
	int64_t tls;    /* enum settings_tls */
	char *tls_ca, *tls_cert, *tls_key;
	int64_t connect_timeout_ms;
	int64_t timeout_ms; /* to wait for an answer; the heartbeat uses lease/4 where that is less */
	bool verify_writer; /* refuse a read-only server */
};

struct instance_settings {
	char *name;  /* for people: locked_by and job_workers */
	char *user;  /* to run as when started as root; NULL: stay */
	char *group;
	bool sole_instance;
	char *wake_socket; /* NULL: none */
	int64_t cgroup;    /* enum settings_cgroup */
	int64_t shutdown_timeout_ms;
	int64_t max_payload; /* what `enqueue` accepts, bytes */
};

struct lease_settings {
	int64_t length_ms;
	int64_t heartbeat_ms;
};

struct pool_settings {
	char *name;
	char **queues; /* NULL-terminated; earlier ones are served first */
	int64_t threads;
	int64_t prefetch;
	int64_t batch; /* most rows a claim asks for */
	int64_t poll_ms, poll_max_ms;
};

struct limit_settings { /* setrlimit(2); -1 = as inherited */
	int64_t cpu_s, memory, files, processes, file_size, core;
};

struct handler_settings {
	char *kind; /* exact, or "prefix.*", or "*" */
	int64_t type; /* enum handler_type */
	char **command; /* argument vector, NULL-terminated; command[0] is an absolute path */
	int64_t processes;       /* stream: the most warm processes; 0: as many as the worker threads need */
	int64_t max_jobs;        /* stream: after so many a process is replaced; 0: never */
	int64_t idle_timeout_ms; /* stream: a process without a job is ended after so long; 0: never */
	int64_t start_timeout_ms; /* stream: for the first line of a new process */
	int64_t timeout_ms; /* 0: none */
	int64_t kill_grace_ms;
	int64_t max_attempts; /* 0: not set, 10 applies */
	int64_t concurrency;  /* how many may run at once in the whole fleet, per concurrency key; 0: no limit */
	struct backoff backoff;
	char *user, *group; /* NULL: the instance's */
	char *cwd;
	char **env; /* NULL-terminated "NAME=value" */
	int64_t max_result, max_stderr_tail;
	bool log_stderr;
	struct limit_settings limits;
	int64_t group_memory, group_cpu; /* of the run's own control group: bytes, percent of a processor. 0 = none */
	/* resolved from user and group when the file was loaded */
	bool switch_user;
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	size_t group_count;
};

struct recovery_settings {
	int64_t interval_ms;
	int64_t max_orphans;
	struct backoff backoff; /* for kinds that have no handler here */
	int64_t promote_ms;     /* how often due jobs are looked for */
};

struct settings {
	atomic_uint refs;
	char *file; /* where it came from; NULL: defaults */
	struct database_settings database;
	struct instance_settings instance;
	struct lease_settings lease;
	struct pool_settings *pools;
	size_t pool_count;
	struct handler_settings *handlers;
	size_t handler_count;
	struct recovery_settings recovery;
	int64_t ledger;     /* enum settings_ledger */
	int64_t log_level;  /* enum log_level */
	int64_t log_format; /* enum log_format */
};

struct settings *settings_new(void); /* zeroed, one reference; NULL without memory */
struct settings *settings_ref(struct settings *s);
void settings_unref(struct settings *s); /* frees with the last reference; NULL is allowed. Wipes the password. */

/* The handler for a kind: the exact name, else the longest "prefix.*" (or "*"). NULL when there is none. Borrowed from s. */
const struct handler_settings *settings_handler(const struct settings *s, const char *kind);
/* Whether any handler has a fleet-wide limit. */
bool settings_use_slots(const struct settings *s);

/* What the settings ask of control groups: a set of these. *who is the first handler that asks for a limit; NULL when none does. */
enum settings_groups { SETTINGS_GROUPS = 1, SETTINGS_GROUPS_MEMORY = 2, SETTINGS_GROUPS_CPU = 4 };
unsigned int settings_group_needs(const struct settings *s, const struct handler_settings **who);

#endif
