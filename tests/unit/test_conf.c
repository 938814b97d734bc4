/* test_conf.c - every option of the table: its default, its range, wrong types, misspelt; and contradictions between options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/conf.h"
#include "config/conf_group.h"
#include "conf_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *full_name(const struct conf_option *option, char *out, size_t size)
{
	snprintf(out, size, "%s.%s", option->group, option->name);
	return out;
}

/* As an error names it: the only pool and the only handler have the index 0. */
static const char *label_of(const struct conf_option *option, char *out, size_t size)
{
	bool list = strcmp(option->group, "pools") == 0 || strcmp(option->group, "handlers") == 0;

	snprintf(out, size, "%s%s.%s: ", option->group, list ? "[0]" : "", option->name);
	return out;
}

static const void *field_of(const struct conf_option *option, const struct settings *s)
{
	return (const char *)conf_group_at_const(conf_group_find(option->group), s, 0) + option->offset;
}

static bool is_number(const struct conf_option *option)
{
	return option->type == CONF_INT || option->type == CONF_DURATION || option->type == CONF_SIZE;
}

/* ---- defaults ---- */

static void test_defaults_by_name(void **state)
{
	struct conf_errors errors;
	struct settings *s = NULL;

	(void)state;
	assert_int_equal(conf_load_text("", "empty.conf", &s, &errors), LH_OK);
	assert_int_equal(errors.count, 0);
	assert_string_equal(s->file, "empty.conf");
	assert_null(s->database.host);
	assert_null(s->database.socket);
	assert_null(s->database.password);
	assert_string_equal(s->database.name, "leasehold");
	assert_string_equal(s->database.user, "leasehold");
	assert_int_equal(s->database.port, 3306);
	assert_int_equal(s->database.tls, TLS_OFF);
	assert_int_equal(s->database.connect_timeout_ms, 5000);
	assert_int_equal(s->database.timeout_ms, 10000);
	assert_true(s->database.verify_writer);
	assert_true(strlen(s->instance.name) > 0);
	assert_null(s->instance.user);
	assert_false(s->instance.sole_instance);
	assert_null(s->instance.wake_socket);
	assert_int_equal(s->instance.cgroup, CGROUP_AUTO);
	assert_int_equal(s->instance.shutdown_timeout_ms, 30000);
	assert_int_equal(s->instance.max_payload, 262144);
	assert_int_equal(s->lease.length_ms, 60000);
	assert_int_equal(s->lease.heartbeat_ms, 15000);
	assert_int_equal(s->pool_count, 1);
	assert_string_equal(s->pools[0].name, "default");
	assert_string_equal(s->pools[0].queues[0], "default");
	assert_null(s->pools[0].queues[1]);
	assert_true(s->pools[0].threads >= 2 && s->pools[0].threads % 2 == 0);
	assert_int_equal(s->pools[0].prefetch, 0);
	assert_int_equal(s->pools[0].batch, 100);
	assert_int_equal(s->pools[0].poll_ms, 100);
	assert_int_equal(s->pools[0].poll_max_ms, 1000);
	assert_int_equal(s->handler_count, 0);
	assert_int_equal(s->recovery.interval_ms, 5000);
	assert_int_equal(s->recovery.max_orphans, 5);
	assert_int_equal(s->recovery.backoff.base_ms, 1000);
	assert_int_equal(s->recovery.backoff.max_ms, 3600000);
	assert_int_equal(s->recovery.promote_ms, 500);
	assert_int_equal(s->ledger, LEDGER_FAILURES);
	assert_int_equal(s->log_level, LOG_LEVEL_INFO);
	assert_int_equal(s->log_format, LOG_FORMAT_TEXT);
	settings_unref(s);
}

static void test_defaults_of_a_handler(void **state)
{
	const struct conf_text_pair pairs[] = {{"handlers.kill_grace", NULL}};
	struct conf_errors errors;
	const struct handler_settings *h;
	struct settings *s;

	(void)state;
	assert_int_equal(conf_text_load(pairs, COUNT(pairs), &s, &errors), LH_OK);
	assert_int_equal(s->handler_count, 1);
	h = &s->handlers[0];
	assert_string_equal(h->kind, "test");
	assert_int_equal(h->type, HANDLER_EXEC);
	assert_string_equal(h->command[0], "/bin/true");
	assert_null(h->command[1]);
	assert_int_equal(h->processes, 0);
	assert_int_equal(h->max_jobs, 1000);
	assert_int_equal(h->idle_timeout_ms, 300000);
	assert_int_equal(h->start_timeout_ms, 10000);
	assert_int_equal(h->timeout_ms, 300000);
	assert_int_equal(h->kill_grace_ms, 5000);
	assert_int_equal(h->max_attempts, 0);
	assert_int_equal(h->backoff.base_ms, 1000);
	assert_int_equal(h->backoff.max_ms, 3600000);
	assert_true(h->user == NULL && h->group == NULL && h->cwd == NULL && h->env == NULL);
	assert_int_equal(h->max_result, 65536);
	assert_int_equal(h->max_stderr_tail, 8192);
	assert_true(h->log_stderr);
	assert_int_equal(h->limits.cpu_s, -1);
	assert_int_equal(h->limits.memory, -1);
	assert_int_equal(h->limits.files, -1);
	assert_int_equal(h->limits.processes, -1);
	assert_int_equal(h->limits.file_size, -1);
	assert_int_equal(h->limits.core, -1);
	assert_int_equal(h->group_memory, 0);
	assert_int_equal(h->group_cpu, 0);
	assert_false(h->switch_user);
	settings_unref(s);
}

/* Options that are refused for exec handlers. */
static bool for_stream(const char *name)
{
	static const char *const names[] = {"handlers.processes", "handlers.max_jobs", "handlers.idle_timeout",
					    "handlers.start_timeout"};

	for (size_t i = 0; i < COUNT(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* Writing a default out changes nothing: every fallback of the table is a value that its own row takes. */
static void test_defaults_written_out(void **state)
{
	struct conf_errors errors;
	struct settings *plain, *written;
	char name[64], value[64];

	(void)state;
	assert_int_equal(conf_text_load(NULL, 0, &plain, &errors), LH_OK);
	for (size_t i = 0; i < conf_option_count; i++) {
		const struct conf_option *option = &conf_options[i];
		bool bare = option->type == CONF_INT || option->type == CONF_BOOL;
		struct conf_text_pair pairs[2] = {{full_name(option, name, sizeof(name)), value}, {"handlers.type", "\"stream\""}};

		if (option->fallback == NULL || strcmp(name, "handlers.kill_grace") == 0)
			continue;
		snprintf(value, sizeof(value),
			 bare                           ? "%s"
			 : option->type == CONF_STRINGS ? "[ \"%s\" ]"
							: "\"%s\"",
			 option->fallback);
		if (conf_text_load(pairs, for_stream(name) ? 2 : 1, &written, &errors) != LH_OK) {
			conf_text_print(&errors);
			fail_msg("%s", name);
		}
		if (is_number(option) || option->type == CONF_CHOICE)
			assert_memory_equal(field_of(option, plain), field_of(option, written), sizeof(int64_t));
		if (option->type == CONF_BOOL)
			assert_memory_equal(field_of(option, plain), field_of(option, written), sizeof(bool));
		settings_unref(written);
	}
	settings_unref(plain);
}

/* ---- ranges ---- */

static char *number_text(const struct conf_option *option, int64_t value, char *out, size_t size)
{
	if (option->type == CONF_DURATION)
		snprintf(out, size, "\"%" PRId64 "ms\"", value);
	else
		snprintf(out, size, "%" PRId64, value);
	return out;
}

/* What else must be set so that an option can be at the ends of its range. */
static const struct {
	const char *name;
	bool at_max;
	struct conf_text_pair with[2];
} companions[] = {
	{"lease.length", false, {{"lease.heartbeat", "\"1s\""}, {"recovery.interval", "\"3s\""}}},
	{"lease.heartbeat", true, {{"lease.length", "\"1h\""}}},
	{"recovery.interval", true, {{"lease.length", "\"1h\""}}},
	{"handlers.kill_grace", true, {{"lease.length", "\"1h\""}}},
	{"handlers.backoff.base", true, {{"handlers.backoff.max", "\"30d\""}}},
	{"handlers.backoff.max", false, {{"handlers.backoff.base", "\"1ms\""}}},
	{"recovery.backoff.base", true, {{"recovery.backoff.max", "\"30d\""}}},
	{"recovery.backoff.max", false, {{"recovery.backoff.base", "\"1ms\""}}},
	{"pools.poll", true, {{"pools.poll_max", "\"1h\""}}},
	{"pools.poll_max", false, {{"pools.poll", "\"1ms\""}}},
};

static enum lh_err load_number(const struct conf_option *option, int64_t value, bool at_max, struct settings **out,
			       struct conf_errors *errors)
{
	char name[64], text[64];
	struct conf_text_pair pairs[3] = {{full_name(option, name, sizeof(name)), number_text(option, value, text, sizeof(text))}};
	size_t count = 1;

	for (size_t i = 0; i < COUNT(companions); i++)
		for (size_t j = 0; j < 2 && strcmp(companions[i].name, name) == 0 && companions[i].at_max == at_max; j++)
			if (companions[i].with[j].name != NULL)
				pairs[count++] = companions[i].with[j];
	if (for_stream(name))
		pairs[count++] = (struct conf_text_pair){"handlers.type", "\"stream\""};
	return conf_text_load(pairs, count, out, errors);
}

static void expect_number(const struct conf_option *option, int64_t value, bool at_max)
{
	struct conf_errors errors;
	struct settings *s;
	int64_t got;

	if (load_number(option, value, at_max, &s, &errors) != LH_OK) {
		conf_text_print(&errors);
		fail_msg("%s.%s refuses %" PRId64, option->group, option->name, value);
	}
	memcpy(&got, field_of(option, s), sizeof(got));
	assert_true(got == value);
	settings_unref(s);
}

static void expect_no_number(const struct conf_option *option, int64_t value, bool at_max)
{
	struct conf_errors errors;
	struct settings *s;
	char label[64], range[64];

	if (load_number(option, value, at_max, &s, &errors) != LH_ERR_INPUT)
		fail_msg("%s.%s takes %" PRId64, option->group, option->name, value);
	assert_null(s);
	label_of(option, label, sizeof(label));
	conf_option_range(option, range, sizeof(range));
	if (!conf_text_has(&errors, "test.conf:", label,
			   value < 0 && option->type == CONF_DURATION ? "is not a duration" : range)) {
		conf_text_print(&errors);
		fail_msg("%s%s", label, range);
	}
	conf_errors_free(&errors);
}

static void test_number_ranges(void **state)
{
	(void)state;
	for (size_t i = 0; i < conf_option_count; i++) {
		const struct conf_option *option = &conf_options[i];

		if (!is_number(option))
			continue;
		expect_number(option, option->min, false);
		expect_number(option, option->max, true);
		expect_no_number(option, option->max + 1, true);
		expect_no_number(option, INT64_C(9223372036854775807), true);
		expect_no_number(option, -1, false);
		if (option->min > 0 && !(option->zero && option->min == 1))
			expect_no_number(option, option->min - 1, false);
		if (option->zero)
			expect_number(option, 0, false);
		else if (option->min > 0)
			expect_no_number(option, 0, false);
	}
}

/* What libconfig would have taken modulo 2^32, and what fits no number at all. */
static void test_numbers_that_do_not_fit(void **state)
{
	static const char *const numbers[] = {"4294967300",
					      "4294967300L",
					      "-4294967292",
					      "99999999999999999999",
					      "18446744073709551620L",
					      "-99999999999999999999",
					      "0x100000004",
					      "0xFFFFFFFFFFFFFFFFF",
					      "2147483648",
					      "0xFFFFFFFF"};
	struct conf_errors errors;
	struct settings *s;

	(void)state;
	for (size_t i = 0; i < COUNT(numbers); i++) {
		struct conf_text_pair pair = {"pools.threads", numbers[i]};

		assert_int_equal(conf_text_load(&pair, 1, &s, &errors), LH_ERR_INPUT);
		assert_true(conf_text_has(&errors, "pools[0].threads: must be 1 to 1024, not ", NULL, NULL));
		conf_errors_free(&errors);
	}
}

static void test_numbers_in_other_forms(void **state)
{
	const struct conf_text_pair pairs[] = {{"pools.threads", "0x10"},
					       {"pools.batch", "7L"},
					       {"pools.prefetch", "+9"},
					       {"handlers.limits.memory", "5000000000"},
					       {"handlers.limits.core", "\"2MiB\""},
					       {"handlers.max_result", "\"100\""}};
	struct conf_errors errors;
	struct settings *s;

	(void)state;
	assert_int_equal(conf_text_load(pairs, COUNT(pairs), &s, &errors), LH_OK);
	assert_int_equal(s->pools[0].threads, 16);
	assert_int_equal(s->pools[0].batch, 7);
	assert_int_equal(s->pools[0].prefetch, 9);
	assert_true(s->handlers[0].limits.memory == INT64_C(5000000000));
	assert_int_equal(s->handlers[0].limits.core, 2097152);
	assert_int_equal(s->handlers[0].max_result, 100);
	settings_unref(s);
}

/* ---- types ---- */

static bool takes(const struct conf_option *option, const char *literal)
{
	switch (option->type) {
	case CONF_INT:
		return literal[0] == '5' && strcmp(literal, "5.5") != 0;
	case CONF_SIZE:
		return (literal[0] == '5' && strcmp(literal, "5.5") != 0) || literal[0] == '"';
	case CONF_BOOL:
		return strcmp(literal, "true") == 0;
	case CONF_STRINGS:
		return literal[0] == '[' || literal[0] == '(';
	default:
		return literal[0] == '"';
	}
}

static void test_wrong_types(void **state)
{
	static const struct {
		const char *literal, *named;
	} literals[] = {{"5", "whole number 5"},  {"5L", "whole number 5"},    {"5.5", "number with a fraction"},
			{"true", "boolean true"}, {"\"zz\"", "string \"zz\""}, {"{ }", "group"},
			{"[ \"a\" ]", "list"},    {"( \"a\" )", "list"}};

	(void)state;
	for (size_t i = 0; i < conf_option_count; i++) {
		const struct conf_option *option = &conf_options[i];
		char name[64], label[64], wanted[64];

		snprintf(wanted, sizeof(wanted), "must be a %s, not", conf_type_name(option->type));
		label_of(option, label, sizeof(label));
		for (size_t j = 0; j < COUNT(literals); j++) {
			struct conf_text_pair pair = {full_name(option, name, sizeof(name)), literals[j].literal};
			struct conf_errors errors;
			struct settings *s;

			if (takes(option, pair.value))
				continue;
			assert_int_equal(conf_text_load(&pair, 1, &s, &errors), LH_ERR_INPUT);
			if (!conf_text_has(&errors, label, wanted, option->secret ? "" : literals[j].named)) {
				conf_text_print(&errors);
				fail_msg("%s = %s", name, literals[j].literal);
			}
			conf_errors_free(&errors);
		}
	}
}

static void test_wrong_type_hints(void **state)
{
	static const struct {
		struct conf_text_pair pair;
		const char *hint;
	} table[] = {
		{{"lease.length", "60"}, "write it as a string with a unit, as in \"30s\""},
		{{"lease.length", "\"60\""}, "has no unit"},
		{{"lease.length", "\"3x\""}, "is not a duration"},
		{{"lease.length", "\"1.5m\""}, "is not a duration"},
		{{"pools.threads", "\"4\""}, "without quotes"},
		{{"database.verify_writer", "\"true\""}, "without quotes"},
		{{"pools.queues", "\"default\""}, "write [ \"...\" ]"},
		{{"pools.queues", "( \"a\", 5 )"}, "pools[0].queues[1]: must be a string, not the whole number 5"},
		{{"database.tls", "\"on\""}, "must be off, required or verify, not \"on\""},
		{{"handlers.type", "\"noop\""}, "must be exec or stream, not \"noop\""},
		{{"handlers.max_result", "\"64KB\""}, "is not a size"},
		{{"handlers.backoff", "\"1s\""}, "handlers[0].backoff: must be a group"},
		{{"handlers.limits", "[ 5 ]"}, "handlers[0].limits: must be a group"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct conf_errors errors;
		struct settings *s;

		assert_int_equal(conf_text_load(&table[i].pair, 1, &s, &errors), LH_ERR_INPUT);
		if (!conf_text_has(&errors, table[i].hint, NULL, NULL)) {
			conf_text_print(&errors);
			fail_msg("%s", table[i].hint);
		}
		conf_errors_free(&errors);
	}
}

/* ---- strings ---- */

/* A string of the length given, in the double quotes of a file. */
static char *long_string(const struct conf_option *option, size_t len)
{
	char *text = malloc(len + 3);

	assert_non_null(text);
	memset(text, 'a', len + 2);
	text[0] = text[len + 1] = '"';
	if (option->unit != NULL && len > 0)
		text[1] = '/';
	text[len + 2] = '\0';
	return text;
}

static void test_string_lengths(void **state)
{
	(void)state;
	for (size_t i = 0; i < conf_option_count; i++) {
		const struct conf_option *option = &conf_options[i];
		const size_t lengths[] = {0, (size_t)option->min, (size_t)option->max, (size_t)option->max + 1};
		char name[64], label[64];

		if (option->type != CONF_STRING)
			continue;
		label_of(option, label, sizeof(label));
		full_name(option, name, sizeof(name));
		for (size_t j = 0; j < COUNT(lengths); j++) {
			char *value = long_string(option, lengths[j]);
			struct conf_text_pair pair = {name, value};
			struct conf_errors errors;
			struct settings *s;
			bool good = lengths[j] >= (size_t)option->min && lengths[j] <= (size_t)option->max;

			if (conf_text_load(&pair, 1, &s, &errors) == LH_OK)
				assert_true(good);
			else
				assert_true(conf_text_has(&errors, label, "must have", "characters") == !good);
			settings_unref(s);
			conf_errors_free(&errors);
			free(value);
		}
	}
}

static void test_string_contents(void **state)
{
	(void)state;
	for (size_t i = 0; i < conf_option_count; i++) {
		const struct conf_option *option = &conf_options[i];
		char name[64], label[64];
		struct conf_text_pair pair = {full_name(option, name, sizeof(name)), "\"/a\\x01b\""};
		struct conf_errors errors;
		struct settings *s;

		if (option->type != CONF_STRING)
			continue;
		label_of(option, label, sizeof(label));
		if (option->secret) {
			assert_int_equal(conf_text_load(&pair, 1, &s, &errors), LH_OK);
			settings_unref(s);
			continue;
		}
		assert_int_equal(conf_text_load(&pair, 1, &s, &errors), LH_ERR_INPUT);
		assert_true(conf_text_has(&errors, label, "control characters", "\"/a\\x01b\""));
		conf_errors_free(&errors);
		if (option->unit == NULL)
			continue;
		pair.value = "\"relative/path\"";
		assert_int_equal(conf_text_load(&pair, 1, &s, &errors), LH_ERR_INPUT);
		assert_true(conf_text_has(&errors, label, "must be an absolute path", "relative/path"));
		conf_errors_free(&errors);
	}
}

/* ---- misspelt ---- */

static void test_misspelt(void **state)
{
	(void)state;
	for (size_t i = 0; i < conf_option_count; i++) {
		const struct conf_option *option = &conf_options[i];
		const char *leaf = strrchr(option->name, '.') != NULL ? strrchr(option->name, '.') + 1 : option->name;
		char name[64], wanted[64];
		struct conf_text_pair pair = {name, "1"};
		struct conf_errors errors;
		struct settings *s;

		snprintf(name, sizeof(name), "%s.%s%c", option->group, option->name, leaf[strlen(leaf) - 1]);
		snprintf(wanted, sizeof(wanted), "did you mean \"%s\"?", leaf);
		assert_int_equal(conf_text_load(&pair, 1, &s, &errors), LH_ERR_INPUT);
		if (!conf_text_has(&errors, "test.conf:", "unknown option", wanted)) {
			conf_text_print(&errors);
			fail_msg("%s", name);
		}
		conf_errors_free(&errors);
	}
}

static void test_misspelt_otherwise(void **state)
{
	static const struct {
		const char *text, *error;
	} table[] = {
		{"leases = { };", "leases: unknown group; did you mean \"lease\"?"},
		{"Database = { };", "did you mean \"database\"?"},
		{"pool = ( );", "did you mean \"pools\"?"},
		{"http = { };", "http: unknown group; known here: database instance lease pools handlers recovery retention log"},
		{"threads = 4;", "threads: unknown group; there is pools.threads"},
		{"lease = { Lenght = \"5s\"; };", "lease.Lenght: unknown option; did you mean \"length\"?"},
		{"lease = { timeout = \"5s\"; };", "lease.timeout: unknown option; there is database.timeout"},
		{"lease = { qqq = 1; };", "lease.qqq: unknown option; known here: length heartbeat"},
		{"recovery = { bakcoff = { }; };", "recovery.bakcoff: unknown option; did you mean \"backoff\"?"},
		{"recovery = { backoff = { bas = \"1s\"; }; };", "recovery.backoff.bas: unknown option; did you mean \"base\"?"},
		{"recovery = { backoff = { backoff = { base = \"1s\"; }; }; };", "recovery.backoff.backoff: unknown option"},
		{"handlers = ( { kind = \"a\"; comand = [ \"/x\" ]; } );",
		 "handlers[0].comand: unknown option; did you mean \"command\"?"},
		{"handlers = ( { kind = \"a\"; retyAfter = 5; } );", "handlers[0].retyAfter: unknown option"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct conf_errors errors;
		struct settings *s;

		assert_int_equal(conf_load_text(table[i].text, "test.conf", &s, &errors), LH_ERR_INPUT);
		if (!conf_text_has(&errors, "test.conf:1: ", table[i].error, NULL)) {
			conf_text_print(&errors);
			fail_msg("%s", table[i].error);
		}
		conf_errors_free(&errors);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults_by_name),
		cmocka_unit_test(test_defaults_of_a_handler),
		cmocka_unit_test(test_defaults_written_out),
		cmocka_unit_test(test_number_ranges),
		cmocka_unit_test(test_numbers_that_do_not_fit),
		cmocka_unit_test(test_numbers_in_other_forms),
		cmocka_unit_test(test_wrong_types),
		cmocka_unit_test(test_wrong_type_hints),
		cmocka_unit_test(test_string_lengths),
		cmocka_unit_test(test_string_contents),
		cmocka_unit_test(test_misspelt),
		cmocka_unit_test(test_misspelt_otherwise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
