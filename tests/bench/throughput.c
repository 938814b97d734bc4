/* throughput - jobs per second of a whole instance with an in-process handler that does nothing, as a ratio to the raw ceiling
 * of the server.
 *
 * The ceiling: two connections, each over its own known range of ids: for 100 ids at a time, one UPDATE from ready to running
 * with all that a claim writes, then one UPDATE to succeeded that carries id and lease. No selection, no register, no hand-over.
 * Both are run in turn on the same server and table, and the median of the ratios is printed. With CHILD, a program that speaks
 * the stream protocol, it is instead the rate of an instance with that handler as a ratio to the rate with the handler that does
 * nothing.
 *
 * usage: throughput [jobs [rounds [threads [prefetch [batch [CHILD]]]]]]
 *
 * The server is the one at LEASEHOLD_TEST_SOCKET (LEASEHOLD_TEST_USER, LEASEHOLD_TEST_PASSWORD), with the migrations applied to
 * the database LEASEHOLD_TEST_DATABASE. */
#include "bench.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "db/db.h"
#include "store/claim_store.h"
#include "store/settle_store.h"
#include "runner/runner.h"
#include "worker/lifecycle.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CEILING_CONNECTIONS 2
#define CEILING_BATCH 100
#define INSERT_ROWS 1000

struct bench {
	struct settings *settings, *stream; /* stream: NULL without a child */
	struct runner_link *runner;
	struct db *db;
	uint64_t jobs, rounds;
	uint64_t first_id;
};

static void bench_must(enum db_class c, const char *what, const struct fault *f)
{
	if (c != DB_OK)
		bench_die(what, f->text);
}

static char *bench_env(const char *name, const char *fallback)
{
	const char *value = getenv(name);

	return strdup(value != NULL ? value : fallback);
}

/* child: NULL for the handler that does nothing. */
static struct settings *bench_settings(uint64_t threads, uint64_t prefetch, uint64_t batch, const char *child)
{
	struct settings *s = settings_new();

	s->database.socket = bench_env("LEASEHOLD_TEST_SOCKET", "");
	s->database.user = bench_env("LEASEHOLD_TEST_USER", "root");
	s->database.password = bench_env("LEASEHOLD_TEST_PASSWORD", "");
	s->database.name = bench_env("LEASEHOLD_TEST_DATABASE", "leasehold");
	s->database.connect_timeout_ms = 5000;
	s->database.timeout_ms = 20000;
	s->instance.name = strdup("bench");
	s->lease = (struct lease_settings){ .length_ms = 60000, .heartbeat_ms = 15000 };
	s->pools = calloc(1, sizeof(*s->pools));
	s->pool_count = 1;
	s->pools[0] = (struct pool_settings){ .name = strdup("default"), .threads = (int64_t)threads, .prefetch = (int64_t)prefetch,
					      .batch = (int64_t)batch, .poll_ms = 100, .poll_max_ms = 1000 };
	s->pools[0].queues = calloc(2, sizeof(char *));
	s->pools[0].queues[0] = strdup("default");
	s->handlers = calloc(1, sizeof(*s->handlers));
	s->handler_count = 1;
	s->handlers[0] = (struct handler_settings){ .kind = strdup("noop"), .type = HANDLER_NOOP, .kill_grace_ms = 5000,
						    .start_timeout_ms = 10000, .limits = { -1, -1, -1, -1, -1, -1 } };
	if (child != NULL) {
		s->handlers[0].type = HANDLER_STREAM;
		s->handlers[0].command = calloc(2, sizeof(char *));
		s->handlers[0].command[0] = strdup(child);
	}
	s->recovery = (struct recovery_settings){ .interval_ms = 5000, .max_orphans = 5, .promote_ms = 500 };
	return s;
}

/* An empty table, then all jobs ready. */
static void bench_fill(struct bench *b)
{
	struct db_rows *rows;
	struct fault f;
	struct buf sql;

	/* job_steps refers to it, and is empty. */
	bench_must(db_execf(b->db, NULL, &f, "SET SESSION foreign_key_checks=0"), "truncate", &f);
	bench_must(db_execf(b->db, NULL, &f, "TRUNCATE TABLE jobs"), "truncate", &f);
	buf_init(&sql, STORE_SQL_MAX);
	for (uint64_t done = 0; done < b->jobs; done += INSERT_ROWS) {
		buf_clear(&sql);
		buf_adds(&sql, "INSERT INTO jobs (kind) VALUES ('noop')");
		for (uint64_t i = 1; i < INSERT_ROWS && done + i < b->jobs; i++)
			buf_adds(&sql, ",('noop')");
		bench_must(db_exec(b->db, &sql, NULL, &f), "insert", &f);
	}
	buf_free(&sql);
	bench_must(db_queryf(b->db, &rows, &f, "SELECT MIN(id) FROM jobs"), "first id", &f);
	b->first_id = db_rows_next(rows) ? db_u64(rows, 0) : 0;
	db_rows_free(rows);
}

static uint64_t bench_left(struct bench *b)
{
	struct db_rows *rows;
	uint64_t left;
	struct fault f;

	bench_must(db_queryf(b->db, &rows, &f, "SELECT COUNT(*) FROM jobs WHERE state <> 'succeeded'"), "count", &f);
	left = db_rows_next(rows) ? db_u64(rows, 0) : 0;
	db_rows_free(rows);
	return left;
}

struct ceiling {
	const struct bench *bench;
	uint64_t from, to;
};

static void *ceiling_main(void *arg)
{
	const struct ceiling *part = arg;
	const struct db_options options = { .database = &part->bench->settings->database, .timeout_ms = 20000, .lock_wait_s = 1 };
	struct db *db = db_new(&options);
	struct store_held rows[CEILING_BATCH];
	uint64_t ids[CEILING_BATCH], won;
	struct fault f;
	struct buf sql;

	bench_must(db_open(db, &f), "connect", &f);
	buf_init(&sql, STORE_SQL_MAX);
	for (uint64_t at = part->from; at < part->to; at += CEILING_BATCH) {
		size_t n = part->to - at < CEILING_BATCH ? part->to - at : CEILING_BATCH;
		char lease[UUID_TEXT_LEN + 1];

		random_uuid(lease);
		for (size_t i = 0; i < n; i++) {
			ids[i] = rows[i].id = at + i;
			memcpy(rows[i].lease, lease, sizeof(lease));
		}
		bench_must(claim_store_take(db, ids, n, lease, 60000, "ceiling", &won, &f), "claim", &f);
		buf_clear(&sql);
		buf_adds(&sql, "UPDATE jobs FORCE INDEX (PRIMARY) SET state='succeeded', finished_at=UTC_TIMESTAMP(6), "
			       "orphan_streak=0 WHERE id IN ");
		store_add_ids(&sql, rows, n);
		buf_adds(&sql, " AND (id, lease_id) IN ");
		store_add_pairs(db, &sql, rows, n);
		buf_adds(&sql, " AND state='running'");
		bench_must(db_exec(db, &sql, NULL, &f), "settle", &f);
	}
	buf_free(&sql);
	db_free(db);
	return NULL;
}

static double bench_ceiling(struct bench *b)
{
	struct ceiling parts[CEILING_CONNECTIONS];
	pthread_t threads[CEILING_CONNECTIONS];
	int64_t began, took;

	bench_fill(b);
	began = clock_boot_us();
	for (size_t i = 0; i < CEILING_CONNECTIONS; i++) {
		parts[i] = (struct ceiling){ .bench = b, .from = b->first_id + b->jobs * i / CEILING_CONNECTIONS,
					     .to = b->first_id + b->jobs * (i + 1) / CEILING_CONNECTIONS };
		pthread_create(&threads[i], NULL, ceiling_main, &parts[i]);
	}
	for (size_t i = 0; i < CEILING_CONNECTIONS; i++)
		pthread_join(threads[i], NULL);
	took = clock_boot_us() - began;
	if (bench_left(b) != 0)
		bench_die("ceiling", "not every job succeeded");
	return (double)b->jobs * 1e6 / (double)took;
}

/* From the first claim to the last commit; the instance's own counter tells when all are settled, so that nothing is asked of
 * the server meanwhile. */
static double bench_instance(struct bench *b, struct settings *settings)
{
	struct instance *in;
	struct fault f;
	struct gate rest;
	int64_t began, took;

	bench_fill(b);
	gate_init(&rest);
	in = lifecycle_new(settings, b->runner, &f);
	if (in == NULL)
		bench_die("instance", f.text);
	began = clock_boot_us();
	if (lifecycle_start(in, &f) != LH_OK)
		bench_die("instance", f.text);
	while (atomic_load(&in->count.succeeded) < b->jobs)
		gate_wait(&rest, 2);
	took = clock_boot_us() - began;
	lifecycle_stop(in, 1000, 0);
	lifecycle_free(in);
	gate_destroy(&rest);
	if (bench_left(b) != 0)
		bench_die("instance", "not every job succeeded");
	return (double)b->jobs * 1e6 / (double)took;
}

static long bench_peak_kb(void)
{
	char line[256];
	long kb = -1;
	FILE *status = fopen("/proc/self/status", "r");

	while (status != NULL && fgets(line, sizeof(line), status) != NULL)
		if (sscanf(line, "VmHWM: %ld kB", &kb) == 1)
			break;
	if (status != NULL)
		fclose(status);
	return kb;
}

static void bench_runner(struct bench *b)
{
	struct fault f;

	b->runner = runner_link_new(NULL);
	if (b->runner == NULL || runner_link_start(b->runner, &f) != LH_OK)
		bench_die("runner", "it could not be started");
}

static void bench_rounds(struct bench *b, uint64_t rounds)
{
	double ratios[BENCH_ROUNDS_MAX];

	for (uint64_t i = 0; i < rounds; i++) {
		bool stream = b->stream != NULL;
		double base = stream ? bench_instance(b, b->settings) : bench_ceiling(b);
		double ours = bench_instance(b, stream ? b->stream : b->settings);

		ratios[i] = ours / base;
		printf("round %llu: %s %.0f jobs/s, %s %.0f jobs/s, ratio %.2f\n", (unsigned long long)i + 1,
		       stream ? "no-op handler" : "ceiling", base, stream ? "stream handler" : "instance", ours, ratios[i]);
		fflush(stdout);
	}
	printf("median ratio %.2f (of %llu rounds); peak resident memory of this process %ld KiB\n", bench_median(ratios, rounds),
	       (unsigned long long)rounds, bench_peak_kb());
}

static void bench_run(int argc, char **argv)
{
	struct bench b = { .jobs = bench_number(argc, argv, 1, 1, 10000000, 40000) };
	uint64_t rounds = bench_number(argc, argv, 2, 1, BENCH_ROUNDS_MAX, 5), threads = bench_number(argc, argv, 3, 1, 1024, 64),
		 prefetch = bench_number(argc, argv, 4, 0, 10000, 1000), batch = bench_number(argc, argv, 5, 1, 1000, 200);
	struct db_options options;
	struct fault f;

	mallopt(M_ARENA_MAX, 2); /* as supervisor_run does */
	signal(SIGPIPE, SIG_IGN);
	if (argc > 6)
		bench_runner(&b); /* before the database library, as in the daemon */
	if (db_library_init(&f) != LH_OK)
		bench_die("library", f.text);
	log_setup(LOG_LEVEL_WARN, LOG_FORMAT_TEXT, 2);
	b.settings = bench_settings(threads, prefetch, batch, NULL);
	b.stream = argc > 6 ? bench_settings(threads, prefetch, batch, argv[6]) : NULL;
	options = (struct db_options){ .database = &b.settings->database, .timeout_ms = 60000, .lock_wait_s = 1 };
	b.db = db_new(&options);
	bench_must(db_open(b.db, &f), "connect", &f);
	printf("%s; %llu jobs a round, %llu threads, prefetch %llu, claims of up to %llu\n", db_version_text(b.db),
	       (unsigned long long)b.jobs, (unsigned long long)threads, (unsigned long long)prefetch, (unsigned long long)batch);
	bench_rounds(&b, rounds);
	db_free(b.db);
	settings_unref(b.stream);
	settings_unref(b.settings);
	db_library_end();
	runner_link_free(b.runner);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	bench_run(argc, argv);
	return 0;
}
