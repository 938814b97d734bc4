/* test_stream_message.c - the lines of the stream protocol: every form that is good, and what is wrong with the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "handler/stream_message.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ID "\"id\":17,\"claim_no\":3"

static void test_good_lines(void **state)
{
	static const struct {
		const char *line;
		enum stream_outcome outcome;
		int64_t delay_ms;
		const char *error;
		double percent;
		const char *note; /* NULL: none */
		bool step, result, complaint;
	} cases[] = {
		{"{" ID "}", STREAM_NO_OUTCOME, -1, "", -1, NULL, false, false, false},
		{"{\"claim_no\":3,\"x\":[{}],\"id\":17}", STREAM_NO_OUTCOME, -1, "", -1, NULL, false, false, false},
		{"{" ID ",\"progress\":40}", STREAM_NO_OUTCOME, -1, "", 40, NULL, false, false, false},
		{"{" ID ",\"progress\":0.5,\"note\":\"n\"}", STREAM_NO_OUTCOME, -1, "", 0.5, "n", false, false, false},
		{"{" ID ",\"note\":\"a\\u0000b\"}", STREAM_NO_OUTCOME, -1, "", -1, "a\xef\xbf\xbd" "b", false, false, false},
		{"{" ID ",\"progress\":null,\"note\":null}", STREAM_NO_OUTCOME, -1, "", -1, NULL, false, false, false},
		{"{" ID ",\"progress\":-1}", STREAM_NO_OUTCOME, -1, "", -1, NULL, false, false, true},
		{"{" ID ",\"progress\":\"4\",\"note\":\"n\"}", STREAM_NO_OUTCOME, -1, "", -1, "n", false, false, true},
		{"{" ID ",\"note\":7,\"progress\":1}", STREAM_NO_OUTCOME, -1, "", 1, NULL, false, false, true},
		{"{" ID ",\"step\":\"a\"}", STREAM_NO_OUTCOME, -1, "", -1, NULL, true, false, false},
		{"{" ID ",\"step\":\"\",\"data\":null}", STREAM_NO_OUTCOME, -1, "", -1, NULL, true, false, false},
		{"{" ID ",\"outcome\":\"succeeded\"}", STREAM_SUCCEEDED, -1, "", -1, NULL, false, false, false},
		{"{" ID ",\"outcome\":\"succeeded\",\"result\":0}", STREAM_SUCCEEDED, -1, "", -1, NULL, false, true, false},
		{"{" ID ",\"outcome\":\"succeeded\",\"result\":null}", STREAM_SUCCEEDED, -1, "", -1, NULL, false, false,
		 false},
		{"{" ID ",\"outcome\":\"retry\"}", STREAM_RETRY, -1, "", -1, NULL, false, false, false},
		{"{" ID ",\"outcome\":\"retry\",\"retry_after_ms\":0,\"error\":\"e\"}", STREAM_RETRY, 0, "e", -1, NULL, false,
		 false, false},
		{"{" ID ",\"outcome\":\"retry\",\"retry_after_ms\":2.9}", STREAM_RETRY, 2, "", -1, NULL, false, false, false},
		{"{" ID ",\"outcome\":\"snooze\",\"snooze_ms\":31622400000}", STREAM_SNOOZE, 31622400000, "", -1, NULL, false,
		 false, false},
		{"{" ID ",\"outcome\":\"dead\",\"error\":\"\"}", STREAM_DEAD, -1, "", -1, NULL, false, false, false},
		{"{" ID ",\"outcome\":\"cancelled\"}", STREAM_CANCELLED, -1, "", -1, NULL, false, false, false},
		{"  {" ID "} \r", STREAM_NO_OUTCOME, -1, "", -1, NULL, false, false, false},
	};
	char why[JSON_READ_WHY_SIZE];
	struct stream_message m;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (!stream_message_read(&m, cases[i].line, strlen(cases[i].line), why))
			fail_msg("%s: %s", cases[i].line, why);
		assert_true(m.has_identity && !m.hello && m.id == 17 && m.claim_no == 3);
		assert_int_equal(m.outcome, cases[i].outcome);
		assert_int_equal(m.delay_ms, cases[i].delay_ms);
		assert_string_equal(m.error, cases[i].error);
		assert_true(m.percent == cases[i].percent);
		assert_int_equal(m.noted, cases[i].note != NULL);
		if (m.noted)
			assert_string_equal(m.note, cases[i].note);
		assert_int_equal(m.step != NULL, cases[i].step);
		assert_int_equal(m.result != NULL, cases[i].result);
		assert_int_equal(m.complaint != NULL, cases[i].complaint);
		stream_message_free(&m);
	}
}

static void test_bad_lines(void **state)
{
	static const struct {
		const char *line, *why;
	} cases[] = {
		{"x", "it is not JSON"},
		{"{", "it is not JSON"},
		{"{" ID "}{" ID "}", "it is not JSON"},
		{"{" ID ",\"note\":\"\xff\"}", "it is not JSON"},
		{"{" ID ",\"note\":\"\xed\xa0\x80\"}", "it is not JSON"},
		{"\xef\xbb\xbf{" ID "}", "it is not JSON"},
		{"[]", "not a JSON object"},
		{"7", "it is not JSON"},
		{"{}", "without the whole numbers"},
		{"{\"id\":17}", "without the whole numbers"},
		{"{\"id\":17.0,\"claim_no\":3}", "without the whole numbers"},
		{"{\"id\":\"17\",\"claim_no\":3}", "without the whole numbers"},
		{"{\"id\":18446744073709551615,\"claim_no\":3}", "it is not JSON"},
		{"{" ID ",\"step\":null}", "\"step\" is not a string"},
		{"{" ID ",\"outcome\":null}", "\"outcome\" is not a string"},
		{"{" ID ",\"outcome\":\"\"}", "there is no outcome \"\""},
		{"{" ID ",\"outcome\":\"Succeeded\"}", "there is no outcome \"Succeeded\""},
		{"{" ID ",\"outcome\":\"snooze\"}", "\"snooze_ms\" is not a number"},
		{"{" ID ",\"outcome\":\"snooze\",\"snooze_ms\":null}", "\"snooze_ms\" is not a number"},
		{"{" ID ",\"outcome\":\"snooze\",\"snooze_ms\":31622400001}", "\"snooze_ms\" is not a number"},
		{"{" ID ",\"outcome\":\"retry\",\"retry_after_ms\":-1}", "\"retry_after_ms\" is not a number"},
		{"{" ID ",\"outcome\":\"dead\",\"error\":[]}", "\"error\" is not a string"},
		{"{\"hello\":1}", "no whole number \"protocol\""},
		{"{\"hello\":{}}", "no whole number \"protocol\""},
		{"{\"hello\":{\"protocol\":\"1\"}}", "no whole number \"protocol\""},
	};
	char why[JSON_READ_WHY_SIZE];
	struct stream_message m;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		bool good = stream_message_read(&m, cases[i].line, strlen(cases[i].line), why);

		if (good || strstr(why, cases[i].why) == NULL)
			fail_msg("%s: %s", cases[i].line, good ? "accepted" : why);
		assert_true(utf8_valid(why, strlen(why)));
		stream_message_free(&m);
	}
	/* A blank line is none. */
	assert_true(stream_message_read(&m, " \t\r", 3, why));
	assert_null(m.root);
	stream_message_free(&m);
}

static void test_hello(void **state)
{
	static const char one[] = "{\"hello\":{\"protocol\":1}}";
	static const char two[] = "{\"hello\":{\"client\":\"x 1\",\"protocol\":2,\"more\":[]}}";
	static const char three[] = "{\"hello\":{\"protocol\":1,\"client\":5}}";
	char why[JSON_READ_WHY_SIZE];
	struct stream_message m;

	(void)state;
	assert_true(stream_message_read(&m, one, sizeof(one) - 1, why));
	assert_true(m.hello && m.protocol == 1 && m.client[0] == '\0' && !m.has_identity);
	stream_message_free(&m);
	assert_true(stream_message_read(&m, two, sizeof(two) - 1, why));
	assert_true(m.hello && m.protocol == 2);
	assert_string_equal(m.client, "x 1");
	stream_message_free(&m);
	assert_true(stream_message_read(&m, three, sizeof(three) - 1, why));
	assert_string_equal(m.client, "");
	stream_message_free(&m);
}

/* Texts are cut to what is kept of them, between two characters. */
static void test_long_texts(void **state)
{
	char line[8192], why[JSON_READ_WHY_SIZE];
	struct stream_message m;
	size_t len = (size_t)snprintf(line, sizeof(line), "{" ID ",\"outcome\":\"dead\",\"error\":\"");

	(void)state;
	for (int i = 0; i < 1000; i++)
		len += (size_t)snprintf(line + len, sizeof(line) - len, "\xe2\x82\xac");
	len += (size_t)snprintf(line + len, sizeof(line) - len, "\",\"note\":\"");
	for (int i = 0; i < 300; i++)
		len += (size_t)snprintf(line + len, sizeof(line) - len, "\xf0\x9f\x91\x8d");
	len += (size_t)snprintf(line + len, sizeof(line) - len, "\"}");
	assert_true(stream_message_read(&m, line, len, why));
	assert_int_equal(strlen(m.error), STREAM_ERROR_MAX / 3 * 3);
	assert_int_equal(strlen(m.note), JSON_READ_NOTE_BYTES);
	assert_true(utf8_valid(m.error, strlen(m.error)) && utf8_valid(m.note, strlen(m.note)));
	stream_message_free(&m);
}

static struct job sample(void)
{
	return (struct job){.id = 17,
			    .queue = "default",
			    .kind = "mail.send",
			    .lease = "123e4567-e89b-42d3-a456-426614174000",
			    .attempt = 1,
			    .claim_no = 4294967295u,
			    .lease_ms = 60000};
}

static void test_identity(void **state)
{
	struct job job = sample();
	struct stream_message m = {.has_identity = true, .id = 17, .claim_no = 4294967295};

	(void)state;
	assert_true(stream_message_is_for(&m, &job));
	m.claim_no--;
	assert_false(stream_message_is_for(&m, &job));
	m.claim_no = -1;
	assert_false(stream_message_is_for(&m, &job));
	m = (struct stream_message){.has_identity = true, .id = -1, .claim_no = 4294967295};
	job.id = UINT64_MAX;
	assert_false(stream_message_is_for(&m, &job));
	assert_false(stream_can_tell(&job));
	job.id = INT64_MAX;
	assert_true(stream_can_tell(&job));
}

static void expect_line(struct buf *out, bool written, const char *want)
{
	assert_true(written);
	assert_string_equal(out->data, want);
	buf_clear(out);
}

static void test_lines_for_handlers(void **state)
{
	char payload[] = "{\"to\":\"a\xc3\xa9\"}\n\0\x7f", one[] = "{\"n\": 1}";
	struct job_step saved[] = {{.name = "z", .data = one, .data_len = strlen(one)}};
	struct job job = sample();
	struct buf out;

	(void)state;
	buf_init(&out, 4096);
	expect_line(&out, stream_write_hello(&out, "mail.*", 1048576),
		    "{\"hello\":{\"protocol\":1,\"leasehold\":\"" PACKAGE_VERSION "\",\"kind\":\"mail.*\","
		    "\"max_line\":1048576}}\n");
	expect_line(&out, stream_write_job(&out, &job, 10, 0),
		    "{\"job\":{\"id\":17,\"claim_no\":4294967295,\"kind\":\"mail.send\",\"queue\":\"default\",\"attempt\":1,"
		    "\"max_attempts\":10,\"lease_id\":\"123e4567-e89b-42d3-a456-426614174000\",\"lease_ms\":60000,\"timeout_ms\":0,"
		    "\"payload\":\"\",\"steps\":{}}}\n");
	job.payload = payload;
	job.payload_len = sizeof(payload) - 1;
	job.steps = saved;
	job.step_count = 1;
	strcpy(job.traceparent, "00-1-2-01");
	expect_line(&out, stream_write_job(&out, &job, 10, 300000),
		    "{\"job\":{\"id\":17,\"claim_no\":4294967295,\"kind\":\"mail.send\",\"queue\":\"default\",\"attempt\":1,"
		    "\"max_attempts\":10,\"lease_id\":\"123e4567-e89b-42d3-a456-426614174000\",\"lease_ms\":60000,"
		    "\"timeout_ms\":300000,\"traceparent\":\"00-1-2-01\","
		    "\"payload\":\"{\\\"to\\\":\\\"a\xc3\xa9\\\"}\\n\\u0000\x7f\","
		    "\"steps\":{\"z\":{\"n\":1}}}}\n");
	/* The column takes no other, but what if: */
	payload[8] = '\xff';
	assert_true(stream_write_job(&out, &job, 10, 0));
	assert_true(utf8_valid(out.data, out.len));
	buf_clear(&out);
	expect_line(&out, stream_write_step(&out, &job, "z", NULL),
		    "{\"step\":{\"id\":17,\"claim_no\":4294967295,\"name\":\"z\",\"saved\":true}}\n");
	expect_line(&out, stream_write_step(&out, &job, "z", "no"),
		    "{\"step\":{\"id\":17,\"claim_no\":4294967295,\"name\":\"z\",\"saved\":false,\"why\":\"no\"}}\n");
	expect_line(&out, stream_write_cancel(&out, &job, END_SHUTDOWN),
		    "{\"cancel\":{\"id\":17,\"claim_no\":4294967295,\"reason\":\"shutdown\"}}\n");
	buf_free(&out);
	buf_init(&out, 100);
	assert_false(stream_write_job(&out, &job, 10, 0));
	buf_free(&out);
}

/* Bytes of the sort that a protocol is made of, in every order that comes up. */
static void test_noise(void **state)
{
	static const char *const pieces[] = {
		"{",     "}",   "\"id\":17", "\"claim_no\":3", ",",     "\"outcome\":", "\"dead\"",  "[", "]", "\"step\":",
		"\"a\"", "null", "1e999",    "\"\\ud800\"",   "\"",    "\"hello\":",   "\xc3",      "0",  "\"error\":",
	};
	uint64_t seed = 42;
	int good = 0;

	(void)state;
	for (int i = 0; i < 50000; i++) {
		char line[512], why[JSON_READ_WHY_SIZE];
		struct stream_message m;
		size_t len = 0;

		for (int n = 0; n < 12; n++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			len += (size_t)snprintf(line + len, sizeof(line) - len, "%s", pieces[(seed >> 33) % COUNT(pieces)]);
		}
		good += stream_message_read(&m, line, len, why);
		stream_message_free(&m);
	}
	assert_true(good < 50000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_lines), cmocka_unit_test(test_bad_lines),
		cmocka_unit_test(test_hello),      cmocka_unit_test(test_long_texts),
		cmocka_unit_test(test_identity),   cmocka_unit_test(test_lines_for_handlers),
		cmocka_unit_test(test_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
