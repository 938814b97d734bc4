/* cmd_enqueue.c - leasehold enqueue: a producer for shells and operators. It needs a producer's privileges only. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/payload.h"
#include "model/trace.h"
#include "store/enqueue_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENQUEUE_KEY_MAX 128
#define ENQUEUE_COUNT_MAX 1000000
#define ENQUEUE_DELAY_MAX_MS (3650 * INT64_C(86400000))
#define ENQUEUE_HOLD_MAX_MS (3650 * INT64_C(86400000))
#define ENQUEUE_FREE_TRIES 20 /* a key that was let go of just after it was refused */
#define ENQUEUE_TIMEOUT_MAX_MS (30 * INT64_C(86400000))

enum {
	ENQUEUE_PAYLOAD = 'p',
	ENQUEUE_QUEUE = 'q',
	ENQUEUE_PRIORITY = 256,
	ENQUEUE_DELAY,
	ENQUEUE_AT,
	ENQUEUE_KEY,
	ENQUEUE_HOLD,
	ENQUEUE_TRACE,
	ENQUEUE_ATTEMPTS,
	ENQUEUE_COUNT,
	ENQUEUE_TIMEOUT,
	ENQUEUE_RAW
};

static const struct cli_option enqueue_options[] = {
	{"payload", ENQUEUE_PAYLOAD, "JSON|@FILE|-",
	 "what the handler gets on its standard input; - reads standard input (default: {})"},
	{"raw", ENQUEUE_RAW, NULL, "take any UTF-8 text as the payload, not only JSON"},
	{"queue", ENQUEUE_QUEUE, "QUEUE", "1 to 64 ASCII characters (default: default)"},
	{"priority", ENQUEUE_PRIORITY, "N", "-32768 to 32767, lower runs first (default: 0)"},
	{"delay", ENQUEUE_DELAY, "DURATION", "not before so long from now, by the server's clock: 30s, 5m, 2h, 7d; up to 3650d"},
	{"at", ENQUEUE_AT, "TIME", "not before that time, UTC: 2026-01-31T23:59:59Z"},
	{"unique-key", ENQUEUE_KEY, "KEY", "1 to 128 bytes: refused while an unfinished job of this kind has it"},
	{"unique-for", ENQUEUE_HOLD, "DURATION",
	 "with --unique-key: the job has it for so long from now, even when it is finished; up to 3650d"},
	{"max-attempts", ENQUEUE_ATTEMPTS, "N", "1 to 65535 (default: the handler's setting, else 10)"},
	{"timeout", ENQUEUE_TIMEOUT, "DURATION", "for one attempt, up to 30d; 0s is none (default: the handler's setting)"},
	{"traceparent", ENQUEUE_TRACE, "CONTEXT",
	 "W3C trace context of the request (default: $TRACEPARENT, when that is well-formed)"},
	{"count", ENQUEUE_COUNT, "N", "so many equal jobs, 1 to 1000000, in one transaction (default: 1)"},
	{NULL, 0, NULL, NULL},
};

struct enqueue {
	struct enqueue_request request;
	const char *payload; /* as given; NULL: the default */
	bool raw;
	uint64_t count;
	char at[32], person[129];
	struct buf text;
};

static bool enqueue_is_traceparent(const char *text)
{
	char id[TRACE_ID_LEN + 1];

	return strlen(text) <= JOB_TRACEPARENT_MAX && trace_parse(text, id);
}

static bool enqueue_take_more(struct cli *cli, int key, struct enqueue *e)
{
	int64_t number;
	struct fault f;

	switch (key) {
	case ENQUEUE_AT:
		if (payload_time(cli->value, e->at, sizeof(e->at), &f) != LH_OK) {
			cli_usage(cli, "--at: %s", f.text);
			return false;
		}
		e->request.at = e->at;
		return true;
	case ENQUEUE_KEY:
		if (cli->value[0] == '\0' || strlen(cli->value) > ENQUEUE_KEY_MAX) {
			cli_usage(cli, "--unique-key: %zu bytes, it takes 1 to %d", strlen(cli->value), ENQUEUE_KEY_MAX);
			return false;
		}
		e->request.unique_key = cli->value;
		return true;
	case ENQUEUE_HOLD:
		return cli_take_duration(cli, "--unique-for", ENQUEUE_HOLD_MAX_MS, &e->request.hold_ms);
	case ENQUEUE_TRACE:
		e->request.traceparent = cli->value;
		if (enqueue_is_traceparent(cli->value))
			return true;
		cli_usage(cli, "--traceparent: '%s' is not well-formed (00-<32 hex digits>-<16>-<2>, in lower case)", cli->value);
		return false;
	case ENQUEUE_ATTEMPTS:
		if (!cli_take_number(cli, "--max-attempts", 1, JOB_ATTEMPT_MAX, &number))
			return false;
		e->request.max_attempts = (unsigned int)number;
		return true;
	case ENQUEUE_COUNT:
		if (!cli_take_number(cli, "--count", 1, ENQUEUE_COUNT_MAX, &number))
			return false;
		e->count = (uint64_t)number;
		return true;
	default:
		return false;
	}
}

static bool enqueue_take(struct cli *cli, int key, struct enqueue *e)
{
	int64_t number;

	switch (key) {
	case ENQUEUE_PAYLOAD:
		e->payload = cli->value;
		return true;
	case ENQUEUE_RAW:
		e->raw = true;
		return true;
	case ENQUEUE_QUEUE:
		e->request.queue = cli->value;
		return cli_take_name(cli, "--queue", cli->value, JOB_QUEUE_MAX);
	case ENQUEUE_PRIORITY:
		if (!cli_take_number(cli, "--priority", INT16_MIN, INT16_MAX, &number))
			return false;
		e->request.has_priority = true;
		e->request.priority = (int)number;
		return true;
	case ENQUEUE_DELAY:
		return cli_take_duration(cli, "--delay", ENQUEUE_DELAY_MAX_MS, &e->request.delay_ms);
	case ENQUEUE_TIMEOUT:
		return cli_take_duration(cli, "--timeout", ENQUEUE_TIMEOUT_MAX_MS, &e->request.timeout_ms);
	default:
		return enqueue_take_more(cli, key, e);
	}
}

/* The payload is read once the configuration has said how long it may be. */
static int enqueue_payload(struct cli *cli, struct enqueue *e)
{
	size_t max = (size_t)cli->settings->instance.max_payload;
	enum lh_err err;
	struct fault f;

	if (e->payload == NULL)
		return CLI_OK;
	err = payload_read(e->payload, max, &e->text, &f);
	if (err == LH_OK)
		err = payload_check(e->text.data, e->text.len, !e->raw, &f);
	if (err != LH_OK) {
		cli_say(cli, "%s", f.text);
		return CLI_FAILED;
	}
	e->request.payload = e->text.data;
	e->request.payload_len = e->text.len;
	return CLI_OK;
}

static void enqueue_origin(struct enqueue *e)
{
	const char *traceparent = getenv("TRACEPARENT");

	e->request.enqueued_by = cli_person(e->person, sizeof(e->person));
	if (e->request.traceparent == NULL && traceparent != NULL && enqueue_is_traceparent(traceparent))
		e->request.traceparent = traceparent;
}

/* All jobs or none. One statement each: the ids of an INSERT of many rows need not be neighbours, where several servers number
 * in turn. */
static enum db_class enqueue_all(struct cli *cli, struct enqueue *e, uint64_t *ids, struct fault *f)
{
	enum db_class class = e->count > 1 ? db_begin(cli->db, f) : DB_OK;

	for (uint64_t i = 0; i < e->count && class == DB_OK; i++) {
		class = enqueue_store_insert(cli->db, &e->request, &ids[i], f);
		cli_progress(cli, i, e->count);
	}
	if (e->count > 1 && class == DB_OK)
		class = db_commit(cli->db, f);
	else if (e->count > 1)
		db_rollback(cli->db);
	cli_progress_end(cli);
	return class;
}

static int enqueue_print(struct cli *cli, const struct enqueue *e, const uint64_t *ids)
{
	json_t *array = NULL;

	if (!cli->json) {
		for (uint64_t i = 0; i < e->count; i++)
			printf("%" PRIu64 "\n", ids[i]);
		return CLI_OK;
	}
	array = json_array();
	for (uint64_t i = 0; i < e->count; i++)
		(void)json_array_append_new(array, output_json_id(ids[i]));
	return output_json(array);
}

static void enqueue_print_holder(const struct enqueue *e, const struct enqueue_holder *holder)
{
	json_t *held_by = json_null();
	char until[OUTPUT_TIME_MAX] = "";

	if (holder->id != 0)
		held_by = json_pack("{so, ss, ss?}", "id", output_json_id(holder->id), "state", job_state_name(holder->state),
				    "unique_hold_until",
				    holder->hold_until[0] != '\0' ? output_time(holder->hold_until, false, until) : NULL);
	(void)output_json(json_pack("{ss, ss, so, so}", "error", "duplicate", "kind", e->request.kind, "unique_key",
				    output_json_text(e->request.unique_key, strlen(e->request.unique_key)), "held_by",
				    held_by));
}

static int enqueue_taken(struct cli *cli, const struct enqueue *e, const struct enqueue_holder *holder)
{
	char until[OUTPUT_TIME_MAX];

	if (holder->id == 0)
		cli_say(cli, "another job of kind %s has the unique key '%s' (which one, this account may not see)",
			e->request.kind, e->request.unique_key);
	else if (!job_state_finished(holder->state))
		cli_say(cli, "job %" PRIu64 " of kind %s, which is %s, has the unique key '%s'", holder->id, e->request.kind,
			job_state_name(holder->state), e->request.unique_key);
	else
		cli_say(cli, "job %" PRIu64 " of kind %s, which is %s, has the unique key '%s' until %s", holder->id,
			e->request.kind, job_state_name(holder->state), e->request.unique_key,
			output_time(holder->hold_until, true, until));
	if (cli->json)
		enqueue_print_holder(e, holder);
	return CLI_FAILED;
}

/* The INSERT, again where the server asked for another try, and where a key that was refused is free by now. */
static enum db_class enqueue_try(struct cli *cli, struct enqueue *e, uint64_t *ids, struct enqueue_holder *holder, struct fault *f)
{
	int64_t until_ms = cli_patience();
	enum db_class class, seen = DB_OK;

	*holder = (struct enqueue_holder){.id = 0};
	for (int tries = 0; tries < ENQUEUE_FREE_TRIES; tries++) {
		do {
			class = enqueue_all(cli, e, ids, f);
		} while (cli_again(class, until_ms));
		if (class != DB_DUPLICATE || e->request.unique_key == NULL)
			break;
		seen = enqueue_store_holder(cli->db, e->request.kind, e->request.unique_key, holder, NULL);
		if (seen != DB_OK || holder->id != 0)
			break;
	}
	return class;
}

static int enqueue_jobs(struct cli *cli, struct enqueue *e)
{
	uint64_t *ids = calloc(e->count, sizeof(*ids));
	struct enqueue_holder holder;
	struct fault f = {.code = LH_OK};
	enum db_class class;
	int status;

	if (ids == NULL) {
		cli_say(cli, "out of memory");
		return CLI_FAILED;
	}
	class = enqueue_try(cli, e, ids, &holder, &f);
	if (class == DB_OK)
		status = enqueue_print(cli, e, ids);
	else if (class == DB_DUPLICATE && e->request.unique_key != NULL)
		status = enqueue_taken(cli, e, &holder);
	else
		status = cli_failed(cli, class, &f, "nothing was enqueued");
	free(ids);
	return status;
}

static int enqueue_run(struct cli *cli, int argc, char **argv)
{
	struct enqueue e = {.request = {.delay_ms = -1, .hold_ms = -1, .timeout_ms = -1}, .count = 1};
	int key, status;

	while ((key = cli_next(cli, argc, argv)) != CLI_END) {
		if (key == CLI_STOP)
			return cli->status;
		if (!enqueue_take(cli, key, &e))
			return CLI_USAGE;
	}
	if (argc - optind != 1)
		return cli_usage(cli, optind == argc ? "which kind of job?" : "one kind only: the payload goes after --payload");
	e.request.kind = argv[optind];
	if (!cli_take_name(cli, "KIND", e.request.kind, JOB_KIND_MAX))
		return CLI_USAGE;
	if (e.request.delay_ms >= 0 && e.request.at != NULL)
		return cli_usage(cli, "either --delay or --at, not both");
	if (e.request.hold_ms >= 0 && e.request.unique_key == NULL)
		return cli_usage(cli, "--unique-for goes with --unique-key: it says for how long that is taken");
	if (e.request.unique_key != NULL && e.count > 1)
		return cli_usage(cli, "--unique-key and --count exclude each other: the second job would be refused");
	status = cli_load(cli);
	if (status != CLI_OK)
		return status;
	buf_init(&e.text, (size_t)cli->settings->instance.max_payload);
	enqueue_origin(&e);
	status = enqueue_payload(cli, &e);
	if (status == CLI_OK)
		status = cli_open(cli, CLI_PRODUCES);
	if (status == CLI_OK)
		status = enqueue_jobs(cli, &e);
	buf_free(&e.text);
	return status;
}

const struct cli_command cmd_enqueue = {
	.name = "enqueue",
	.operands = "KIND [OPTION...]",
	.summary = "Add a job, and print its id",
	.options = enqueue_options,
	.notes = "The payload may have instance.max_payload bytes and has to be UTF-8. The status is 1, and the job that holds "
		 "the key is named, when the unique key is taken; with --json an object then tells of it: error, kind, "
		 "unique_key, held_by.",
	.json = true,
	.run = enqueue_run,
};
