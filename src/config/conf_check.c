/* conf_check.c - contradictions between options. Both are named, with their values, at the place of the one that is in the file. */
#include "config/conf_check.h"

#include "base/parse.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CONF_CHECK_VALUE 64

struct conf_check_duration {
	struct conf_key key;
	int64_t ms;
};

static bool conf_check_is_set(const struct conf_state *state, struct conf_key key)
{
	return conf_state_find(state, key);
}

static void conf_check_format(const struct conf_state *state, const struct conf_check_duration *d, char *out, size_t size)
{
	char ms[32];

	snprintf(out, size, "%s%s", parse_format_duration(d->ms, ms, sizeof(ms)),
		 conf_check_is_set(state, d->key) ? "" : " (the default)");
}

/* Two durations that do not go together. */
static void conf_check_durations(struct conf_state *state, struct conf_check_duration a, struct conf_check_duration b,
				 const char *rule)
{
	struct conf_check_duration first = a, second = b;
	char first_value[CONF_CHECK_VALUE], second_value[CONF_CHECK_VALUE], label[CONF_LABEL_SIZE];

	if (!conf_state_usable(state, a.key) || !conf_state_usable(state, b.key))
		return;
	if (!conf_check_is_set(state, a.key)) {
		first = b;
		second = a;
	}
	conf_check_format(state, &first, first_value, sizeof(first_value));
	conf_check_format(state, &second, second_value, sizeof(second_value));
	conf_state_contradict(state, first.key, "%s contradicts %s, %s: %s", first_value, conf_state_label(second.key, label),
			      second_value, rule);
}

static void conf_check_backoff(struct conf_state *state, const char *group, int index, const struct backoff *backoff)
{
	struct conf_check_duration base = {{group, index, "backoff.base"}, backoff->base_ms};
	struct conf_check_duration max = {{group, index, "backoff.max"}, backoff->max_ms};

	if (backoff->base_ms > backoff->max_ms)
		conf_check_durations(state, base, max, "base must not be more than max");
}

static void conf_check_times(struct conf_state *state)
{
	const struct settings *s = state->settings;
	struct conf_check_duration length = {{"lease", CONF_NO_INDEX, "length"}, s->lease.length_ms};
	struct conf_check_duration heartbeat = {{"lease", CONF_NO_INDEX, "heartbeat"}, s->lease.heartbeat_ms};
	struct conf_check_duration interval = {{"recovery", CONF_NO_INDEX, "interval"}, s->recovery.interval_ms};

	if (3 * heartbeat.ms > length.ms)
		conf_check_durations(state, heartbeat, length, "3 x heartbeat must not be more than length");
	if (interval.ms > length.ms)
		conf_check_durations(state, interval, length, "interval must not be more than length");
	conf_check_backoff(state, "recovery", CONF_NO_INDEX, &s->recovery.backoff);
	for (int i = 0; i < (int)s->handler_count; i++) {
		struct conf_check_duration grace = {{"handlers", i, "kill_grace"}, s->handlers[i].kill_grace_ms};

		if (3 * grace.ms >= length.ms)
			conf_check_durations(state, grace, length, "kill_grace must be less than a third of length");
		conf_check_backoff(state, "handlers", i, &s->handlers[i].backoff);
	}
	for (int i = 0; i < (int)s->pool_count; i++) {
		struct conf_check_duration poll = {{"pools", i, "poll"}, s->pools[i].poll_ms};
		struct conf_check_duration poll_max = {{"pools", i, "poll_max"}, s->pools[i].poll_max_ms};

		if (poll.ms > poll_max.ms)
			conf_check_durations(state, poll, poll_max, "poll must not be more than poll_max");
	}
}

/* At most one of the options of the database group may be there. */
static void conf_check_only_one(struct conf_state *state, const char *const *names, size_t count)
{
	struct conf_key first = {"database", CONF_NO_INDEX, NULL};

	for (size_t i = 0; i < count; i++) {
		struct conf_key key = {"database", CONF_NO_INDEX, names[i]};
		char label[CONF_LABEL_SIZE];
		unsigned int line;
		const char *file;

		if (!conf_check_is_set(state, key))
			continue;
		if (!first.name) {
			first = key;
			continue;
		}
		file = conf_state_place(state, conf_state_find(state, first), &line);
		conf_state_contradict(state, key, "contradicts %s of %s:%u: set only one of them", conf_state_label(first, label),
				      file, line);
	}
}

static void conf_check_database(struct conf_state *state)
{
	static const char *const ways[] = {"host", "socket"};
	static const char *const secrets[] = {"password", "password_file", "password_env"};
	static const char *const files[] = {"tls_ca", "tls_cert", "tls_key"};
	const struct conf_key tls = {"database", CONF_NO_INDEX, "tls"};

	conf_check_only_one(state, ways, sizeof(ways) / sizeof(ways[0]));
	conf_check_only_one(state, secrets, sizeof(secrets) / sizeof(secrets[0]));
	if (state->settings->database.tls != TLS_OFF || !conf_state_usable(state, tls))
		return;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct conf_key key = {"database", CONF_NO_INDEX, files[i]};

		if (conf_check_is_set(state, key))
			conf_state_contradict(state, key,
					      "contradicts database.tls, \"off\"%s: the connection would not be encrypted",
					      conf_check_is_set(state, tls) ? "" : " (the default)");
	}
}

/* A name that must be there once: reports a and names the place of b. */
static void conf_check_twice(struct conf_state *state, struct conf_key a, struct conf_key b, const char *name)
{
	char label[CONF_LABEL_SIZE], quoted[CONF_QUOTE_SIZE];
	unsigned int line;
	const char *file;

	if (!conf_state_usable(state, a) || !conf_state_usable(state, b))
		return;
	if (!conf_check_is_set(state, b))
		b.name = NULL; /* a default: its group is what has a place */
	file = conf_state_place(state, conf_state_find(state, b), &line);
	conf_state_contradict(state, a, "%s is taken by %s at %s:%u", conf_report_quote(name, quoted), conf_state_label(b, label),
			      file, line);
}

static void conf_check_kinds(struct conf_state *state)
{
	const struct handler_settings *handlers = state->settings->handlers;

	for (size_t i = 0; i < state->settings->handler_count; i++) {
		for (size_t j = 0; j < i; j++) {
			if (!handlers[i].kind || !handlers[j].kind || strcmp(handlers[i].kind, handlers[j].kind) != 0)
				continue;
			conf_check_twice(state, (struct conf_key){"handlers", (int)i, "kind"},
					 (struct conf_key){"handlers", (int)j, "kind"}, handlers[i].kind);
			break;
		}
	}
}

static void conf_check_pool_names(struct conf_state *state)
{
	const struct pool_settings *pools = state->settings->pools;

	for (size_t i = 0; i < state->settings->pool_count; i++) {
		for (size_t j = 0; j < i; j++) {
			if (strcmp(pools[i].name, pools[j].name) != 0)
				continue;
			conf_check_twice(state, (struct conf_key){"pools", (int)i, "name"},
					 (struct conf_key){"pools", (int)j, "name"}, pools[i].name);
			break;
		}
	}
}

/* Is pools[pool].queues[queue] among the queues of an earlier pool, or earlier in its own? *owner is the pool that has it. */
static bool conf_check_queue_is_taken(const struct pool_settings *pools, size_t pool, size_t queue, size_t *owner)
{
	for (*owner = 0; *owner <= pool; (*owner)++)
		for (size_t i = 0; pools[*owner].queues[i] && (*owner < pool || i < queue); i++)
			if (!strcmp(pools[*owner].queues[i], pools[pool].queues[queue]))
				return true;
	return false;
}

static void conf_check_queues(struct conf_state *state)
{
	const struct pool_settings *pools = state->settings->pools;
	size_t owner;

	for (size_t i = 0; i < state->settings->pool_count; i++)
		for (size_t j = 0; pools[i].queues[j]; j++)
			if (conf_check_queue_is_taken(pools, i, j, &owner))
				conf_check_twice(state, (struct conf_key){"pools", (int)i, "queues"},
						 (struct conf_key){"pools", (int)owner, "queues"}, pools[i].queues[j]);
}

static void conf_check_groups(struct conf_state *state)
{
	static const char *const limits[] = {"limits.cgroup_memory", "limits.cgroup_cpu"};
	const struct conf_key off = {"instance", CONF_NO_INDEX, "cgroup"};

	if (state->settings->instance.cgroup != CGROUP_OFF || !conf_state_usable(state, off))
		return;
	for (int i = 0; i < (int)state->settings->handler_count; i++) {
		for (size_t j = 0; j < sizeof(limits) / sizeof(limits[0]); j++) {
			struct conf_key key = {"handlers", i, limits[j]};

			if (conf_check_is_set(state, key))
				conf_state_contradict(state, key, "contradicts instance.cgroup, \"off\": it takes a control group");
		}
	}
}

/* What only warm processes have. */
static void conf_check_stream(struct conf_state *state)
{
	static const char *const options[] = {"processes", "max_jobs", "idle_timeout", "start_timeout"};

	for (int i = 0; i < (int)state->settings->handler_count; i++) {
		const struct conf_key type = {"handlers", i, "type"};
		char label[CONF_LABEL_SIZE];

		if (state->settings->handlers[i].type != HANDLER_EXEC || !conf_state_usable(state, type))
			continue;
		for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++) {
			struct conf_key key = {"handlers", i, options[k]};

			if (conf_check_is_set(state, key))
				conf_state_contradict(state, key,
						      "contradicts %s, \"exec\"%s: only stream handlers keep their processes",
						      conf_state_label(type, label),
						      conf_check_is_set(state, type) ? "" : " (the default)");
		}
	}
}

void conf_check(struct conf_state *state)
{
	conf_check_stream(state);
	conf_check_times(state);
	conf_check_database(state);
	conf_check_kinds(state);
	conf_check_pool_names(state);
	conf_check_queues(state);
	conf_check_groups(state);
}
