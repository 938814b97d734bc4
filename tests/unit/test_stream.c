/* test_stream.c - stream handlers over real processes and a real runner: those that keep to the protocol, and those that do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stream_bench.h"

#include "base/clock.h"
#include "runner/runner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_warm(void **state)
{
	struct stream_bench s;
	pid_t first;

	(void)state;
	stream_bench_init(&s, NULL);
	first = stream_bench_pid(&s);
	for (int i = 0; i < 5; i++)
		assert_int_equal(stream_bench_pid(&s), first);
	assert_int_equal(stream_set_count(s.b.streams), 1);
	assert_int_equal(s.b.report.max_rss_kb, -1);
	assert_true(s.b.report.ran_ms >= 0 && s.b.report.ran_ms < 60000);
	assert_int_equal(s.b.starts, 1);
	stream_bench_free(&s);
	assert_int_equal(kill(first, 0), -1);
}

static void test_outcomes(void **state)
{
	static const struct {
		const char *payload;
		enum outcome_kind kind;
		const char *cause;
		int64_t delay_ms;
	} cases[] = {
		{"pass", OUTCOME_SUCCEEDED, "", -1},
		{"answer('retry')", OUTCOME_RETRY, "the handler asked for another attempt", -1},
		{"answer('retry', retry_after_ms=70, error='SMTP 451')", OUTCOME_RETRY, "SMTP 451", 70},
		{"answer('retry', retry_after_ms=None, error=None)", OUTCOME_RETRY, "the handler asked for another attempt", -1},
		{"answer('snooze', snooze_ms=80)", OUTCOME_SNOOZE, "the handler asked to be called later", 80},
		{"answer('dead', error='no such user')", OUTCOME_DEAD, "no such user", -1},
		{"answer('dead')", OUTCOME_DEAD, "the handler gave the job up (it answered)", -1},
		{"answer('succeeded', unknown={'x': 1}, error='what')", OUTCOME_SUCCEEDED, "", -1},
		{"raise ValueError('x')", OUTCOME_RETRY, "ValueError('x')", -1},
		{"say(b'\\n  \\r\\n'); answer()", OUTCOME_SUCCEEDED, "", -1},
		{"say({**me, 'from': 'the future'}); answer()", OUTCOME_SUCCEEDED, "", -1},
		{"answer('retry', error='\xc3\xa9' * 300)", OUTCOME_RETRY, NULL, -1},
	};
	struct stream_bench s;
	struct outcome out;
	pid_t pid;

	(void)state;
	stream_bench_init(&s, NULL);
	pid = stream_bench_pid(&s);
	for (size_t i = 0; i < COUNT(cases); i++) {
		stream_bench_expect(&s, cases[i].payload, cases[i].kind, cases[i].cause);
		outcome_decide(&s.b.report.facts, &out);
		assert_int_equal(out.delay_ms, cases[i].delay_ms);
	}
	assert_int_equal(stream_bench_pid(&s), pid);
	stream_bench_free(&s);
}

static void test_results(void **state)
{
	static const struct {
		const char *payload, *result; /* NULL: none */
	} cases[] = {
		{"answer()", NULL},
		{"answer(result=None)", NULL},
		{"answer(result='text \\u00e9')", "text \xc3\xa9"},
		{"answer(result='a\\x00b')", "a\xef\xbf\xbd" "b"},
		{"answer(result={'n': [1, 2.5, True]})", "{\"n\":[1,2.5,true]}"},
		{"answer(result=7)", "7"},
		{"answer(result='')", ""},
		{"answer(result=job['payload'][:6])", "answer"},
	};
	struct stream_bench s;

	(void)state;
	stream_bench_init(&s, NULL);
	for (size_t i = 0; i < COUNT(cases); i++) {
		stream_bench_expect(&s, cases[i].payload, OUTCOME_SUCCEEDED, "");
		assert_int_equal(s.b.report.has_result, cases[i].result != NULL);
		if (cases[i].result != NULL)
			assert_string_equal(s.b.report.result.data, cases[i].result);
	}
	/* Cut like the output of exec. */
	stream_bench_expect(&s, "answer(result='x' * 900000)", OUTCOME_SUCCEEDED, "");
	assert_true(s.b.report.result.len <= (size_t)s.b.handler.max_result);
	assert_non_null(strstr(s.b.report.result.data, " [truncated: 900000 bytes in all]"));
	stream_bench_free(&s);
}

static void test_what_a_job_is_told(void **state)
{
	struct stream_bench s;

	(void)state;
	unsetenv("LANG");
	unsetenv("TZ");
	stream_bench_init(&s, NULL);
	s.b.handler.timeout_ms = 300000;
	strcpy(s.b.job.traceparent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
	stream_bench_expect(&s, "answer(result={k: v for k, v in job.items() if k != 'payload'})", OUTCOME_SUCCEEDED, "");
	assert_string_equal(s.b.report.result.data,
			    "{\"id\":17,\"claim_no\":3,\"kind\":\"mail\",\"queue\":\"default\",\"attempt\":2,\"max_attempts\":10,"
			    "\"lease_id\":\"123e4567-e89b-42d3-a456-426614174000\",\"lease_ms\":60000,\"timeout_ms\":300000,"
			    "\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\",\"steps\":{}}");
	s.b.job.traceparent[0] = '\0';
	stream_bench_expect(&s, "answer(result='traceparent' in job)", OUTCOME_SUCCEEDED, "");
	assert_string_equal(s.b.report.result.data, "false");
	/* Its environment is built from nothing, and names no job. */
	stream_bench_expect(&s, "answer(result=sorted(k for k in os.environ if k != 'LC_CTYPE'))", OUTCOME_SUCCEEDED, "");
	assert_string_equal(s.b.report.result.data, "[\"HOME\",\"PATH\"]");
	stream_bench_free(&s);
}

static void test_progress(void **state)
{
	struct stream_bench s;

	(void)state;
	stream_bench_init(&s, NULL);
	stream_bench_expect(&s, "say({**me, 'progress': 10, 'note': 'one'}); say({**me, 'progress': 20})", OUTCOME_SUCCEEDED, "");
	assert_true(s.b.percent == 20);
	assert_string_equal(s.b.note, "one");
	/* What only people look at fails no job. */
	stream_bench_expect(&s, "say({**me, 'progress': 101, 'note': 5}); say({**me, 'progress': None, 'note': None})",
			    OUTCOME_SUCCEEDED, "");
	assert_true(s.b.percent < 0);
	stream_bench_expect(&s, "answer(progress=100, note='done')", OUTCOME_SUCCEEDED, "");
	assert_true(s.b.percent == 100);
	stream_bench_free(&s);
}

static void test_steps(void **state)
{
	char one[] = "{\"n\":1}";
	struct job_step saved[] = {{.name = "charged", .data = one, .data_len = strlen(one)}};
	struct stream_bench s;

	(void)state;
	stream_bench_init(&s, NULL);
	stream_bench_expect(&s, "answer(result=[step('a', {'n': 1}), step('b c')])", OUTCOME_SUCCEEDED, "");
	assert_string_equal(s.b.steps, "a={\"n\":1};");
	assert_string_equal(s.b.report.result.data,
			    "[{\"step\":{\"id\":17,\"claim_no\":3,\"name\":\"a\",\"saved\":true}},"
			    "{\"step\":{\"id\":17,\"claim_no\":3,\"name\":\"b c\",\"saved\":false,\"why\":"
			    "\"a name has 1 to 64 characters of A-Z a-z 0-9 _ . : -\"}}]");
	/* Not waited for: saved before the outcome, and answered to nobody. */
	s.b.keep_steps = true;
	stream_bench_expect(&s, "say({**me, 'step': 'a'}); say({**me, 'step': 'b', 'data': 2})", OUTCOME_SUCCEEDED, "");
	assert_string_equal(s.b.steps, "a=null;b=2;");
	s.b.keep_steps = false;
	s.b.job.steps = saved;
	s.b.job.step_count = 1;
	stream_bench_expect(&s, "answer(result=job['steps'])", OUTCOME_SUCCEEDED, "");
	assert_string_equal(s.b.report.result.data, "{\"charged\":{\"n\":1}}");
	/* More than is answered at a time. */
	stream_bench_expect(&s, "for i in range(3000): say({**me, 'step': 'a'})\nfor i in range(3000): hear()",
			    OUTCOME_SUCCEEDED, "");
	assert_int_equal(s.b.step_count, 3000);
	s.b.job.steps = NULL;
	s.b.job.step_count = 0;
	stream_bench_free(&s);
}

/* Each of these costs its job one attempt; the process is replaced, and the next job knows nothing of it. */
static void test_broken_protocol(void **state)
{
	static const struct {
		const char *payload, *cause;
	} cases[] = {
		{"say(b'hello world\\n')", "protocol error: it is not JSON: "},
		{"say(b'[1]\\n')", "protocol error: it is not a JSON object"},
		{"say(b'{\"id\":17,\"note\":\"\\xff\"}\\n')", "protocol error: it is not JSON: "},
		{"say(b'{\"a\":' * 200 + b'\\n')", "protocol error: it is nested more than 100 deep"},
		{"say(b'x' * 3000000)", "protocol error: a line of more than 1048576 bytes"},
		{"say({'outcome': 'succeeded'})", "protocol error: a line without the whole numbers \"id\" and \"claim_no\""},
		{"say({'id': job['id'], 'outcome': 'succeeded'})", "protocol error: a line without the whole numbers"},
		{"say({'id': str(job['id']), 'claim_no': 3, 'outcome': 'succeeded'})", "protocol error: a line without"},
		{"say({'id': 1.5, 'claim_no': 3})", "protocol error: a line without"},
		{"say({**me, 'id': 5, 'outcome': 'succeeded'})", "protocol error: it speaks of job 5 claim 3, and was given job "},
		{"say({**me, 'claim_no': 2, 'progress': 5})", "protocol error: it speaks of job "},
		{"say({**me, 'id': -1})", "protocol error: it speaks of job -1"},
		{"say({'hello': {'protocol': 1}})", "protocol error: a second \"hello\""},
		{"answer('done')", "protocol error: there is no outcome \"done\""},
		{"answer(5)", "protocol error: \"outcome\" is not a string"},
		{"answer('cancelled')", "protocol error: outcome \"cancelled\" for a job that nobody cancels"},
		{"answer('snooze')", "protocol error: \"snooze_ms\" is not a number of milliseconds from 0 to 31622400000"},
		{"answer('snooze', snooze_ms=-1)", "protocol error: \"snooze_ms\" is not"},
		{"answer('retry', retry_after_ms='5')", "protocol error: \"retry_after_ms\" is not"},
		{"answer('retry', error=5)", "protocol error: \"error\" is not a string"},
		{"say({**me, 'step': 5})", "protocol error: \"step\" is not a string"},
		{"os.close(1); time.sleep(1000)", "protocol error: it has closed its standard output"},
		{"os._exit(0)", "the handler process died: exit status 0"},
		{"os._exit(3)", "the handler process died: exit status 3"},
		{"os.kill(os.getpid(), signal.SIGKILL)", "the handler process died: killed by SIGKILL"},
		{"os.write(1, b'{\"id\":17'); os._exit(1)", "protocol error: it is not JSON: "},
		{"subprocess.Popen(['sleep', '1000']); os._exit(4)", "the handler process died: exit status 4"},
	};
	struct stream_bench s;
	struct outcome out;
	pid_t before;

	(void)state;
	stream_bench_init(&s, NULL);
	for (size_t i = 0; i < COUNT(cases); i++) {
		before = stream_bench_pid(&s);
		outcome_decide(stream_bench_run(&s, cases[i].payload), &out);
		if (out.kind != OUTCOME_RETRY || strncmp(out.cause, cases[i].cause, strlen(cases[i].cause)) != 0)
			fail_msg("%s: %s (%s)", cases[i].payload, outcome_name(out.kind), out.cause);
		assert_true(s.b.report.facts.group_gone);
		assert_int_equal(kill(before, 0), -1);
	}
	stream_bench_free(&s);
}

/* What comes after a good answer costs the process, and not the job. */
static void test_too_much(void **state)
{
	static const char *const payloads[] = {
		"answer(); answer()",
		"answer(); say({**me, 'progress': 5})",
		"answer(); say(b'garbage\\n')",
		"answer(); say(b'{\"half')",
		"answer(); say({'hello': {'protocol': 1}})",
		"answer(); os._exit(0)",
		"answer(); os._exit(9)",
		"answer(); os.close(1)",
		"answer(); os.close(0)",
		"answer(); time.sleep(0.05); answer()",
	};
	struct stream_bench s;

	(void)state;
	stream_bench_init(&s, NULL);
	for (size_t i = 0; i < COUNT(payloads); i++) {
		stream_bench_expect(&s, payloads[i], OUTCOME_SUCCEEDED, "");
		/* Where it comes late enough, the next job is the one that meets it. */
		if (stream_bench_run(&s, "pass")->end == RUN_BROKEN)
			assert_true(s.b.report.facts.said[0] != '\0');
		stream_bench_expect(&s, "pass", OUTCOME_SUCCEEDED, "");
	}
	stream_bench_free(&s);
}

static void test_timeout(void **state)
{
	static const struct {
		const char *payload, *cause;
		bool warm;
	} cases[] = {
		{"hear(); answer('cancelled')", "timed out: the handler stopped", true},
		{"c = hear()['cancel']; answer('retry', error=c['reason'])", "timed out: timeout", true},
		{"time.sleep(1000)", "timed out: the handler process died: killed by SIGTERM", false},
		{"signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)",
		 "timed out: the handler process died: killed by SIGKILL", false},
		{"os.kill(os.getpid(), signal.SIGSTOP)", "timed out: the handler process died: killed by SIGTERM", false},
		{"signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); time.sleep(1000)",
		 "timed out: the handler process died: exit status 0", false},
		{"hear(); say(b'[]\\n')", "timed out: protocol error: it is not a JSON object", false},
	};
	struct stream_bench s;
	pid_t before;

	(void)state;
	stream_bench_init(&s, NULL);
	s.b.handler.kill_grace_ms = 2000;
	for (size_t i = 0; i < COUNT(cases); i++) {
		s.b.handler.timeout_ms = 60000;
		before = stream_bench_pid(&s);
		s.b.handler.timeout_ms = 200;
		stream_bench_expect(&s, cases[i].payload, OUTCOME_TIMED_OUT, cases[i].cause);
		assert_true(s.b.report.ran_ms >= 200);
		assert_int_equal(kill(before, 0), cases[i].warm ? 0 : -1);
	}
	stream_bench_free(&s);
}

/* The reasons are told apart, and a success counts all the same. */
static void test_asked_to_end(void **state)
{
	static const struct {
		enum end_reason reason;
		const char *name;
		enum outcome_kind kind;
	} cases[] = {
		{END_CANCEL, "cancel", OUTCOME_CANCELLED},
		{END_SHUTDOWN, "shutdown", OUTCOME_RELEASED},
		{END_LEASE, "lease", OUTCOME_LEASE_LOST},
	};
	struct stream_bench s;
	char payload[200];
	pid_t pid;

	(void)state;
	stream_bench_init(&s, NULL);
	pid = stream_bench_pid(&s);
	for (size_t i = 0; i < COUNT(cases); i++) {
		s.b.end_with = cases[i].reason;
		snprintf(payload, sizeof(payload),
			 "c = hear(); assert c == {'cancel': {**me, 'reason': '%s'}}, c; answer('cancelled')",
			 cases[i].name);
		stream_bench_expect(&s, payload, cases[i].kind, NULL);
		assert_int_equal(s.b.report.facts.end, RUN_ANSWERED);
		assert_null(strstr(s.b.report.facts.said, "Assertion"));
		stream_bench_expect(&s, "hear(); answer()",
				    cases[i].reason == END_LEASE ? OUTCOME_LEASE_LOST : OUTCOME_SUCCEEDED, NULL);
		/* Too late: SIGTERM has come and gone. */
		s.b.end_with = END_NONE;
		assert_int_equal(stream_bench_pid(&s), pid);
	}
	/* No time for politeness. */
	s.b.end_with = END_CANCEL;
	s.b.end_grace_ms = 0;
	stream_bench_expect(&s, "time.sleep(1000)", OUTCOME_CANCELLED,
			    "cancelled on request: the handler process died: killed by SIGKILL");
	stream_bench_free(&s);
}

/* It answers after SIGTERM: that still counts, though the process is on its way out. */
static void test_late_answer(void **state)
{
	struct stream_bench s;
	pid_t pid;

	(void)state;
	stream_bench_init(&s, NULL);
	pid = stream_bench_pid(&s);
	s.b.end_with = END_CANCEL;
	s.b.end_grace_ms = 1000;
	stream_bench_expect(&s, "s = []; signal.signal(signal.SIGTERM, lambda *_: s.append(1))\n"
				"while not s: time.sleep(0.01)\nanswer()",
			    OUTCOME_SUCCEEDED, "");
	s.b.end_with = END_NONE;
	assert_true(stream_bench_pid(&s) != pid);
	stream_bench_free(&s);
}

/* A grandchild may hold every pipe: the job is over when it is answered, and the process when it has ended. */
static void test_pipes_are_kept_open(void **state)
{
	static const char payload[] = "p = subprocess.Popen(['sleep', '1000'], start_new_session=True); answer(result=str(p.pid))";
	struct stream_bench s;
	pid_t escaped;

	(void)state;
	stream_bench_init(&s, NULL);
	stream_bench_expect(&s, payload, OUTCOME_SUCCEEDED, "");
	escaped = (pid_t)strtol(s.b.report.result.data, NULL, 10);
	assert_true(escaped > 1);
	stream_bench_expect(&s, "pass", OUTCOME_SUCCEEDED, "");
	assert_int_equal(kill(escaped, 0), 0);
	stream_bench_expect(&s, "os._exit(5)", OUTCOME_RETRY, "the handler process died: exit status 5");
	/* It ends with the process. */
	assert_int_equal(kill(escaped, 0), -1);
	assert_int_equal(errno, ESRCH);
	stream_bench_free(&s);
}

/* 10 MB for a process that does not read them: the lease and the timeout go on all the same. */
static void test_job_is_not_read(void **state)
{
	size_t size = (size_t)10 * 1024 * 1024;
	char *payload = malloc(size + 1);
	struct stream_bench s;

	(void)state;
	assert_non_null(payload);
	memset(payload, 'x', size);
	payload[size] = '\0';
	stream_bench_init(&s, "deaf");
	s.b.handler.timeout_ms = 300;
	s.b.handler.kill_grace_ms = 200;
	stream_bench_expect(&s, payload, OUTCOME_TIMED_OUT, "timed out: the handler process died: killed by SIGKILL");
	stream_bench_free(&s);
	/* One that answers before it has read all of it has answered, and gets no other job. */
	stream_bench_init(&s, "hasty");
	s.b.handler.kill_grace_ms = 200;
	stream_bench_expect(&s, payload, OUTCOME_SUCCEEDED, "");
	stream_bench_await(&s, 0);
	stream_bench_free(&s);
	free(payload);
}

static void test_any_payload(void **state)
{
	size_t size = (size_t)5 * 1024 * 1024;
	char *payload = malloc(size + 1);
	static const char head[] = "answer(result=[len(job['payload']), job['payload'][-8:]])\n#";
	struct stream_bench s;

	(void)state;
	assert_non_null(payload);
	stream_bench_init(&s, NULL);
	memset(payload, '\t', size);
	memcpy(payload, head, sizeof(head) - 1);
	memcpy(payload + size - 8, "\"\\/'\x7f\xc3\xa9" "e", 8);
	bench_payload(&s.b, payload, size);
	stream_bench_expect(&s, NULL, OUTCOME_SUCCEEDED, "");
	assert_string_equal(s.b.report.result.data, "[5242879,\"\\t\\\"\\\\/'\x7f\xc3\xa9" "e\"]");
	/* Longer than a line may be. */
	free(s.b.job.payload);
	free(payload);
	payload = malloc((size_t)17 * 1024 * 1024);
	assert_non_null(payload);
	memset(payload, 'x', (size_t)17 * 1024 * 1024);
	bench_payload(&s.b, payload, (size_t)17 * 1024 * 1024);
	stream_bench_expect(&s, NULL, OUTCOME_RETRY, "the job does not fit into a line of 16 MiB");
	free(payload);
	s.b.job.id = UINT64_MAX - 1;
	stream_bench_expect(&s, "pass", OUTCOME_RETRY, "the job's id is beyond 9223372036854775807");
	stream_bench_free(&s);
}

static void test_stderr_is_of_the_job(void **state)
{
	struct stream_bench s;

	(void)state;
	stream_bench_init(&s, NULL);
	stream_bench_expect(&s, "os.write(2, b'one\\n'); answer('retry')", OUTCOME_RETRY, NULL);
	assert_string_equal(s.b.report.stderr_tail.data, "one\n");
	stream_bench_expect(&s, "os.write(2, b'two\\n'); answer('retry'); os.write(2, b'after\\n')", OUTCOME_RETRY, NULL);
	assert_non_null(strstr(s.b.report.stderr_tail.data, "two\n"));
	assert_null(strstr(s.b.report.stderr_tail.data, "one"));
	/* What comes after an answer may be under way when the next job is given: it is this one's then, and no later one's. */
	stream_bench_expect(&s, "pass", OUTCOME_SUCCEEDED, "");
	stream_bench_expect(&s, "os.write(2, b'dying\\n'); os._exit(1)", OUTCOME_RETRY, NULL);
	assert_non_null(strstr(s.b.report.stderr_tail.data, "dying\n"));
	assert_null(strstr(s.b.report.stderr_tail.data, "after"));
	stream_bench_expect(&s, "os.write(2, b'z' * 3000000)", OUTCOME_SUCCEEDED, "");
	stream_bench_free(&s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_warm),
		cmocka_unit_test(test_outcomes),
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_what_a_job_is_told),
		cmocka_unit_test(test_progress),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_broken_protocol),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_asked_to_end),
		cmocka_unit_test(test_late_answer),
		cmocka_unit_test(test_pipes_are_kept_open),
		cmocka_unit_test(test_job_is_not_read),
		cmocka_unit_test(test_any_payload),
		cmocka_unit_test(test_stderr_is_of_the_job),
	};

	if (argc == 2 && strcmp(argv[1], RUNNER_ARGUMENT) == 0)
		return runner_main(RUNNER_SOCKET_FD);
	return cmocka_run_group_tests(tests, bench_start_link, bench_stop_link);
}
