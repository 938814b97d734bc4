/* test_conf_check.c - what no single option says: contradictions, names that must be unique, forms of names; and what a reload
 * cannot change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/conf.h"
#include "conf_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void expect_good(const struct conf_text_pair *pairs, size_t count)
{
	struct conf_errors errors;
	struct settings *s;

	if (conf_text_load(pairs, count, &s, &errors) != LH_OK) {
		conf_text_print(&errors);
		fail_msg("%s = %s", pairs[0].name, pairs[0].value);
	}
	settings_unref(s);
}

/* One error, and it has all the words. */
static void expect_refused(const struct conf_text_pair *pairs, size_t count, const char *a, const char *b, const char *c)
{
	struct conf_errors errors;
	struct settings *s;

	assert_int_equal(conf_text_load(pairs, count, &s, &errors), LH_ERR_INPUT);
	if (errors.count != 1 || !conf_text_has(&errors, a, b, c)) {
		conf_text_print(&errors);
		fail_msg("%s ... %s ... %s", a, b ? b : "", c ? c : "");
	}
	conf_errors_free(&errors);
}

static void expect_text_refused(const char *text, const char *a, const char *b, const char *c)
{
	struct conf_errors errors;
	struct settings *s;

	assert_int_equal(conf_load_text(text, "test.conf", &s, &errors), LH_ERR_INPUT);
	if (errors.count != 1 || !conf_text_has(&errors, a, b, c)) {
		conf_text_print(&errors);
		fail_msg("%s ... %s ... %s", a, b ? b : "", c ? c : "");
	}
	conf_errors_free(&errors);
}

/* Two options that contradict each other, and the nearest values that do not. */
static const struct {
	struct conf_text_pair bad[3], good[3];
	const char *first, *second, *rule;
} contradictions[] = {
	{{{"lease.heartbeat", "\"4s\""}, {"lease.length", "\"11s\""}},
	 {{"lease.heartbeat", "\"4s\""}, {"lease.length", "\"12s\""}},
	 "lease.heartbeat: 4s contradicts",
	 "lease.length, 11s:",
	 "3 x heartbeat"},
	{{{"lease.length", "\"44s\""}},
	 {{"lease.length", "\"45s\""}},
	 "lease.length: 44s contradicts",
	 "lease.heartbeat, 15s (the default)",
	 "3 x heartbeat"},
	{{{"lease.heartbeat", "\"20001ms\""}},
	 {{"lease.heartbeat", "\"20s\""}},
	 "lease.heartbeat: 20001ms contradicts",
	 "lease.length, 1m (the default)",
	 "3 x heartbeat"},
	{{{"handlers.kill_grace", "\"20s\""}},
	 {{"handlers.kill_grace", "\"19999ms\""}},
	 "handlers[0].kill_grace: 20s contradicts",
	 "lease.length, 1m (the default)",
	 "less than a third"},
	{{{"handlers.kill_grace", "\"3334ms\""}, {"lease.length", "\"10s\""}, {"lease.heartbeat", "\"1s\""}},
	 {{"handlers.kill_grace", "\"3333ms\""}, {"lease.length", "\"10s\""}, {"lease.heartbeat", "\"1s\""}},
	 "handlers[0].kill_grace: 3334ms contradicts",
	 "lease.length, 10s",
	 "less than a third"},
	{{{"handlers.kill_grace", NULL}, {"lease.length", "\"15s\""}, {"lease.heartbeat", "\"5s\""}},
	 {{"handlers.kill_grace", NULL}, {"lease.length", "\"15001ms\""}, {"lease.heartbeat", "\"5s\""}},
	 "lease.length: 15s contradicts",
	 "handlers[0].kill_grace, 5s (the default)",
	 "less than a third"},
	{{{"pools.poll", "\"2s\""}, {"pools.poll_max", "\"1999ms\""}},
	 {{"pools.poll", "\"2s\""}, {"pools.poll_max", "\"2s\""}},
	 "pools[0].poll: 2s contradicts",
	 "pools[0].poll_max, 1999ms",
	 "not be more"},
	{{{"pools.poll_max", "\"99ms\""}},
	 {{"pools.poll_max", "\"100ms\""}},
	 "pools[0].poll_max: 99ms contradicts",
	 "pools[0].poll, 100ms (the default)",
	 "not be more"},
	{{{"handlers.backoff.base", "\"61m\""}},
	 {{"handlers.backoff.base", "\"1h\""}},
	 "handlers[0].backoff.base: 61m contradicts",
	 "handlers[0].backoff.max, 1h (the default)",
	 "not be more"},
	{{{"recovery.backoff.max", "\"999ms\""}},
	 {{"recovery.backoff.max", "\"1s\""}},
	 "recovery.backoff.max: 999ms contradicts",
	 "recovery.backoff.base, 1s (the default)",
	 "not be more"},
	{{{"recovery.interval", "\"61s\""}},
	 {{"recovery.interval", "\"1m\""}},
	 "recovery.interval: 61s contradicts",
	 "lease.length, 1m (the default)",
	 "not be more"},
};

static void test_durations_that_contradict(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(contradictions); i++) {
		size_t count = contradictions[i].bad[1].name == NULL ? 1 : contradictions[i].bad[2].name == NULL ? 2 : 3;

		expect_refused(contradictions[i].bad, count, contradictions[i].first, contradictions[i].second,
			       contradictions[i].rule);
		expect_good(contradictions[i].good, count);
	}
}

static void test_ways_that_contradict(void **state)
{
	static const struct conf_text_pair both[] = {{"database.host", "\"db\""}, {"database.socket", "\"/s\""}};
	static const struct conf_text_pair tls[] = {{"database.tls_ca", "\"/ca\""}};
	static const struct conf_text_pair tls_off[] = {{"database.tls_key", "\"/key\""}, {"database.tls", "\"off\""}};
	static const struct conf_text_pair tls_on[] = {{"database.tls_ca", "\"/ca\""}, {"database.tls", "\"verify\""}};

	(void)state;
	expect_refused(both, 2, "test.conf:3: database.socket", "contradicts database.host of test.conf:2", "only one");
	expect_good(&both[0], 1);
	expect_good(&both[1], 1);
	expect_refused(tls, 1, "database.tls_ca: contradicts database.tls, \"off\" (the default)", NULL, NULL);
	expect_refused(tls_off, 2, "database.tls_key: contradicts database.tls, \"off\":", NULL, NULL);
	expect_good(tls_on, 2);
}

static void test_groups_that_contradict(void **state)
{
	static const struct conf_text_pair pairs[] = {{"instance.cgroup", "\"off\""},
						      {"handlers.limits.cgroup_memory", "\"1MiB\""}};
	static const struct conf_text_pair cpu[] = {{"handlers.limits.cgroup_cpu", "150"}, {"instance.cgroup", "\"off\""}};
	static const struct conf_text_pair good[] = {{"handlers.limits.cgroup_cpu", "150"}, {"instance.cgroup", "\"always\""}};

	(void)state;
	expect_refused(pairs, 2, "limits.cgroup_memory: contradicts instance.cgroup, \"off\"", "it takes a control group", NULL);
	expect_refused(cpu, 2, "limits.cgroup_cpu: contradicts instance.cgroup, \"off\"", NULL, NULL);
	expect_good(&pairs[0], 1);
	expect_good(&pairs[1], 1);
	expect_good(good, 2);
}

/* What is known to be wrong is not held against other options too. */
static void test_errors_do_not_multiply(void **state)
{
	static const struct conf_text_pair pairs[] = {{"lease.length", "\"1s\""}, {"recovery.interval", "\"2s\""}};

	(void)state;
	expect_refused(pairs, 2, "lease.length: must be 3s to 1h, not 1s", NULL, NULL);
}

static void test_all_errors_at_once(void **state)
{
	const char *text =
		"lease = { length = 5; };\npools = ( { threads = 0; } );\nlog = { levle = \"info\"; };\nhandlers = ( { } );\n"
		"database = { host = \"a\"; socket = \"/b\"; };\nrecovery = { interval = \"50m\"; };\n";
	struct conf_errors errors;
	struct settings *s = NULL;

	(void)state;
	assert_int_equal(conf_load_text(text, "test.conf", &s, &errors), LH_ERR_INPUT);
	assert_null(s);
	assert_true(conf_text_has(&errors, "test.conf:1: lease.length: must be a duration", NULL, NULL));
	assert_true(conf_text_has(&errors, "test.conf:2: pools[0].threads: must be 1 to 1024, not 0", NULL, NULL));
	assert_true(conf_text_has(&errors, "test.conf:3: log.levle: unknown option", NULL, NULL));
	assert_true(conf_text_has(&errors, "test.conf:4: handlers[0].kind: is required", NULL, NULL));
	assert_true(conf_text_has(&errors, "test.conf:4: handlers[0].command: is required", NULL, NULL));
	assert_true(conf_text_has(&errors, "test.conf:5: database.socket: contradicts", NULL, NULL));
	assert_int_equal(errors.count, 6);
	conf_errors_free(&errors);
}

static void test_errors_end_at_a_hundred(void **state)
{
	char text[32768];
	struct conf_errors errors;
	struct settings *s;
	size_t len = 0;

	(void)state;
	for (int i = 0; i < 150; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "unknown%d = %d;\n", i, i);
	assert_int_equal(conf_load_text(text, "test.conf", &s, &errors), LH_ERR_INPUT);
	assert_int_equal(errors.count, 101);
	assert_non_null(strstr(errors.lines[99], "unknown99"));
	assert_non_null(strstr(errors.lines[100], "more than 100 errors"));
	conf_errors_free(&errors);
}

static void test_lists(void **state)
{
	static const struct {
		const char *text, *a, *b;
	} table[] = {
		{"pools = ( );", "test.conf:1: pools: must have 1 to 64 groups, not 0", NULL},
		{"pools = { };", "test.conf:1: pools: must be a list of groups", NULL},
		{"pools = [ ];", "test.conf:1: pools: must be a list of groups", NULL},
		{"handlers = 5;", "test.conf:1: handlers: must be a list of groups", NULL},
		{"pools = ( { }, 5 );", "test.conf:1: pools[1]: must be a group", NULL},
		{"lease = ( );", "test.conf:1: lease: must be a group", NULL},
		{"lease = \"60s\";", "test.conf:1: lease: must be a group", NULL},
		{"pools = ( { queues = [ ]; } );", "test.conf:1: pools[0].queues: must have 1 to 256 entries, not 0", NULL},
		{"handlers = ( { kind = \"a\"; command = [ ]; } );", "handlers[0].command: must have 1 to 1024 entries, not 0",
		 NULL},
		{"pools = (\n{ name = \"a\"; queues = [ \"x\" ]; },\n{ name = \"a\"; queues = [ \"y\" ]; } );",
		 "test.conf:3: pools[1].name: \"a\" is taken by pools[0].name at test.conf:2", NULL},
		{"pools = (\n{ },\n{ queues = [ \"y\" ]; } );",
		 "test.conf:3: pools[1].name: \"default\" is taken by pools[0] at test.conf:2", NULL},
		{"pools = (\n{ queues = [ \"x\", \"y\" ]; },\n{ name = \"b\"; queues = [ \"z\", \"y\" ]; } );",
		 "test.conf:3: pools[1].queues: \"y\" is taken by pools[0].queues at test.conf:2", NULL},
		{"pools = (\n{ queues = [ \"x\", \"x\" ]; } );",
		 "pools[0].queues: \"x\" is taken by pools[0].queues at test.conf:2", NULL},
		{"handlers = (\n{ kind = \"a.*\"; command = [ \"/x\" ]; },\n{ kind = \"a\"; command = [ \"/x\" ]; },\n"
		 "{ kind = \"a.*\"; command = [ \"/y\" ]; } );",
		 "test.conf:4: handlers[2].kind: \"a.*\" is taken by handlers[0].kind at test.conf:2", NULL},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++)
		expect_text_refused(table[i].text, table[i].a, table[i].b, NULL);
}

static void test_stream_options(void **state)
{
	static const struct conf_text_pair options[] = {{"handlers.processes", "4"},
							{"handlers.max_jobs", "0"},
							{"handlers.idle_timeout", "\"0s\""},
							{"handlers.start_timeout", "\"1s\""}};

	(void)state;
	for (size_t i = 0; i < COUNT(options); i++) {
		struct conf_text_pair pairs[] = {options[i], {"handlers.type", "\"exec\""}};
		char what[64];

		snprintf(what, sizeof(what), "handlers[0].%s: contradicts", options[i].name + strlen("handlers."));
		expect_refused(pairs, 1, what, "handlers[0].type, \"exec\" (the default)", "only stream handlers");
		expect_refused(pairs, 2, what, "handlers[0].type, \"exec\":", "only stream handlers");
		pairs[1].value = "\"stream\"";
		expect_good(pairs, 2);
	}
}

static void test_kinds(void **state)
{
	static const char *const good[] = {"\"a\"", "\"mail.send\"",   "\"mail.*\"", "\"a.b.*\"",
					   "\"*\"", "\"A-b_c/d:e.f\"", "\"~!\""};
	static const char *const bad[] = {"\"a b\"",   "\" a\"", "\"a*\"",   "\".*\"",  "\"*.a\"",
					  "\"a.*.b\"", "\"**\"", "\"a.**\"", "\"*.*\"", "\"\xc3\xa9\""};

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++)
		expect_good(&(struct conf_text_pair){"handlers.kind", good[i]}, 1);
	for (size_t i = 0; i < COUNT(bad); i++)
		expect_refused(&(struct conf_text_pair){"handlers.kind", bad[i]}, 1, "handlers[0].kind: must be", NULL, NULL);
}

static void test_forms(void **state)
{
	static const struct {
		struct conf_text_pair pair;
		const char *error; /* NULL: good */
	} table[] = {
		{{"instance.name", "\"worker-1.example\""}, NULL},
		{{"instance.name", "\"worker 1\""}, "instance.name: must be printable ASCII without spaces, not \"worker 1\""},
		{{"instance.name", "\"caf\xc3\xa9\""},
		 "instance.name: must be printable ASCII without spaces, not \"caf\\xc3\\xa9\""},
		{{"pools.name", "\"a.B_c-9\""}, NULL},
		{{"pools.name", "\"a/b\""}, "pools[0].name: may hold letters"},
		{{"pools.name", "\"a b\""}, "pools[0].name: may hold letters"},
		{{"pools.queues", "[ \"a b\", \"c:d/e\" ]"}, NULL},
		{{"pools.queues", "[ \"a\", \"b \" ]"}, "pools[0].queues: entry 2 must be 1 to 64 printable ASCII"},
		{{"pools.queues", "[ \" a\" ]"}, "pools[0].queues: entry 1 must be"},
		{{"pools.queues", "[ \"\" ]"}, "pools[0].queues: entry 1 must be"},
		{{"pools.queues", "[ \"a\tb\" ]"}, "pools[0].queues: entry 1 must be"},
		{{"handlers.command", "[ \"/bin/sh\", \"\", \"-c\" ]"}, NULL},
		{{"handlers.command", "[ \"sh\" ]"},
		 "handlers[0].command: must start with the absolute path of a program, not \"sh\""},
		{{"handlers.command", "[ \"\" ]"}, "handlers[0].command: must start with the absolute path"},
		{{"handlers.env", "[ ]"}, NULL},
		{{"handlers.env", "[ \"A=1\", \"_b2=x=y\", \"C=\" ]"}, NULL},
		{{"handlers.env", "[ \"A=1\", \"A=2\" ]"}, "handlers[0].env: entry 2 sets A a second time"},
		{{"handlers.env", "[ \"AB=1\", \"A=2\" ]"}, NULL},
		{{"handlers.env", "[ \"LEASEHOLD_JOB_ID=7\" ]"}, "handlers[0].env: entry 1: names that start with LEASEHOLD_"},
		{{"handlers.env", "[ \"A\" ]"}, "handlers[0].env: entry 1 must be \"NAME=value\""},
		{{"handlers.env", "[ \"=x\" ]"}, "handlers[0].env: entry 1 must be \"NAME=value\""},
		{{"handlers.env", "[ \"1A=x\" ]"}, "handlers[0].env: entry 1 must be \"NAME=value\""},
		{{"handlers.env", "[ \"A-B=x\" ]"}, "handlers[0].env: entry 1 must be \"NAME=value\""},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		if (table[i].error == NULL)
			expect_good(&table[i].pair, 1);
		else
			expect_refused(&table[i].pair, 1, table[i].error, "test.conf:", NULL);
	}
}

static void test_queue_name_length(void **state)
{
	char value[80];

	(void)state;
	snprintf(value, sizeof(value), "[ \"%064d\" ]", 0);
	expect_good(&(struct conf_text_pair){"pools.queues", value}, 1);
	snprintf(value, sizeof(value), "[ \"%065d\" ]", 0);
	expect_refused(&(struct conf_text_pair){"pools.queues", value}, 1, "pools[0].queues: entry 1 must be 1 to 64", NULL, NULL);
}

/* The runner takes all strings of a handler in one message. */
static void test_command_size(void **state)
{
	size_t size = 98304 - 1;
	char *value = malloc(size + 64);

	(void)state;
	assert_non_null(value);
	snprintf(value, size + 64, "[ \"/%0*d\" ]", (int)size - 1, 0);
	expect_good(&(struct conf_text_pair){"handlers.command", value}, 1);
	snprintf(value, size + 64, "[ \"/%0*d\" ]", (int)size, 0);
	expect_refused(&(struct conf_text_pair){"handlers.command", value}, 1, "handlers[0].command: must have at most 98304 bytes",
		       "98305", NULL);
	free(value);
}

static struct settings *load_good(const char *text)
{
	struct conf_errors errors;
	struct settings *s = NULL;

	if (conf_load_text(text, "test.conf", &s, &errors) != LH_OK) {
		conf_text_print(&errors);
		fail_msg("%s", text);
	}
	return s;
}

static void test_restart_needed(void **state)
{
	static const struct {
		const char *text, *needed;
	} table[] = {
		{"", ""},
		{"log = { level = \"debug\"; };", ""},
		{"handlers = ( { kind = \"a\"; command = [ \"/x\" ]; }, { kind = \"b\"; command = [ \"/x\" ]; } );", ""},
		{"recovery = { interval = \"1s\"; backoff = { base = \"2s\"; }; };", ""},
		{"pools = ( { batch = 5; poll = \"1ms\"; poll_max = \"2s\"; } );", ""},
		{"pools = ( { threads = 999; } );", "pools[0].threads"},
		{"pools = ( { name = \"x\"; queues = [ \"default\", \"b\" ]; prefetch = 3; } );",
		 "pools[0].name, pools[0].queues, pools[0].prefetch"},
		{"pools = ( { }, { name = \"b\"; queues = [ \"b\" ]; } );", "pools"},
		{"database = { timeout = \"11s\"; port = 3307; password = \"x\"; };",
		 "database.port, database.password, database.timeout"},
		{"database = { verify_writer = false; tls = \"required\"; };", "database.tls, database.verify_writer"},
		{"lease = { length = \"61s\"; };", "lease.length"},
	};
	struct settings *running = load_good("");
	struct buf out;

	(void)state;
	buf_init(&out, 1000);
	for (size_t i = 0; i < COUNT(table); i++) {
		struct settings *loaded = load_good(table[i].text);

		conf_restart_needed(running, loaded, &out);
		assert_string_equal(out.data, table[i].needed);
		buf_clear(&out);
		conf_restart_needed(loaded, running, &out);
		assert_string_equal(out.data, table[i].needed);
		buf_clear(&out);
		conf_restart_needed(loaded, loaded, &out);
		assert_string_equal(out.data, "");
		settings_unref(loaded);
	}
	buf_free(&out);
	settings_unref(running);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_durations_that_contradict),
		cmocka_unit_test(test_ways_that_contradict),
		cmocka_unit_test(test_groups_that_contradict),
		cmocka_unit_test(test_errors_do_not_multiply),
		cmocka_unit_test(test_all_errors_at_once),
		cmocka_unit_test(test_errors_end_at_a_hundred),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_stream_options),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_queue_name_length),
		cmocka_unit_test(test_command_size),
		cmocka_unit_test(test_restart_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
