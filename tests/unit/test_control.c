/* test_control.c - what handlers say on descriptor 3, well put and otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "handler/control.h"

#include "base/thread.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_RESULT 100
#define NOT_SAID -1.0

struct heard {
	double percent;
	char note[1200];
	int progress_calls, complaints;
	char complaint[300];
	char steps[300]; /* "name=data;" each */
};

static void hear_progress(void *owner, double percent, const char *note)
{
	struct heard *h = owner;

	h->progress_calls++;
	if (percent >= 0)
		h->percent = percent;
	if (note != NULL)
		snprintf(h->note, sizeof(h->note), "%s", note);
}

static void hear_complaint(void *owner, const char *why)
{
	struct heard *h = owner;

	h->complaints++;
	snprintf(h->complaint, sizeof(h->complaint), "%s", why);
}

static void hear_step(void *owner, const json_t *name, const json_t *data)
{
	struct heard *h = owner;
	char *text = data == NULL ? strdup("-") : json_dumps(data, JSON_COMPACT | JSON_ENCODE_ANY);
	size_t len = strlen(h->steps);

	snprintf(h->steps + len, sizeof(h->steps) - len, "%s=%s;", json_string_value(name), text);
	free(text);
}

static void begin(struct control *c, struct heard *h)
{
	*h = (struct heard){.percent = NOT_SAID};
	control_init(c, MAX_RESULT);
	c->owner = h;
	c->progress = hear_progress;
	c->complain = hear_complaint;
	c->step = hear_step;
}

/* All at once, or a byte at a time. */
static void say(struct control *c, const char *bytes, size_t len, bool bytewise)
{
	if (!bytewise)
		control_feed(c, bytes, len);
	for (size_t i = 0; bytewise && i < len; i++)
		control_feed(c, bytes + i, 1);
	control_end(c);
}

struct control_case {
	const char *text;
	int complaints;
	double percent;
	const char *note;   /* "" = none */
	const char *result; /* NULL = none */
	int64_t retry_after_ms, snooze_ms;
	const char *dead; /* NULL = no; "" without a reason */
};

#define NOTHING NOT_SAID, "", NULL, -1, -1, NULL

static const struct control_case cases[] = {
	{"", 0, NOTHING},
	{"\n\n \t\r\n", 0, NOTHING},
	{"{}\n", 0, NOTHING},
	{"{\"progress\":40}\n", 0, 40, "", NULL, -1, -1, NULL},
	{"{\"progress\":40}", 0, 40, "", NULL, -1, -1, NULL}, /* no newline at the end */
	{"{\"progress\":0}\r\n", 0, 0, "", NULL, -1, -1, NULL},
	{"{\"progress\":100, \"note\":\"halfway \\u00e9\"}\n", 0, 100, "halfway \xc3\xa9", NULL, -1, -1, NULL},
	{"{\"progress\":12.5}\n{\"note\":\"a\"}\n{\"note\":\"b\"}\n", 0, 12.5, "b", NULL, -1, -1, NULL},
	{"{\"note\":\"\"}", 0, NOTHING},
	{"{\"result\":\"plain\"}", 0, NOT_SAID, "", "plain", -1, -1, NULL},
	{"{\"result\":\"\"}", 0, NOT_SAID, "", "", -1, -1, NULL},
	{"{\"result\":{\"b\": [1, 2.5, null],\"a\":\"x\"}}", 0, NOT_SAID, "", "{\"b\":[1,2.5,null],\"a\":\"x\"}", -1, -1, NULL},
	{"{\"result\":17}", 0, NOT_SAID, "", "17", -1, -1, NULL},
	{"{\"result\":false}", 0, NOT_SAID, "", "false", -1, -1, NULL},
	{"{\"result\":1}\n{\"result\":null}", 0, NOTHING},
	{"{\"result\":1}\n{\"result\":2}", 0, NOT_SAID, "", "2", -1, -1, NULL},
	{"{\"result\":1,\"result\":2}", 0, NOT_SAID, "", "2", -1, -1, NULL},
	{"{\"result\":\"a\\u0000b\"}", 0, NOT_SAID, "", "a\xef\xbf\xbd" "b", -1, -1, NULL},
	{"{\"retry_after_ms\":1500}", 0, NOT_SAID, "", NULL, 1500, -1, NULL},
	{"{\"retry_after_ms\":0}", 0, NOT_SAID, "", NULL, 0, -1, NULL},
	{"{\"retry_after_ms\":1500.9}", 0, NOT_SAID, "", NULL, 1500, -1, NULL},
	{"{\"retry_after_ms\":5}\n{\"retry_after_ms\":null}", 0, NOTHING},
	{"{\"snooze_ms\":60000}\n{\"snooze_ms\":1}", 0, NOT_SAID, "", NULL, -1, 1, NULL},
	{"{\"dead\":\"no such user\"}", 0, NOT_SAID, "", NULL, -1, -1, "no such user"},
	{"{\"dead\":\"\"}", 0, NOT_SAID, "", NULL, -1, -1, ""},
	{"{\"dead\":true}", 0, NOT_SAID, "", NULL, -1, -1, ""},
	{"{\"dead\":\"x\"}\n{\"dead\":false}", 0, NOTHING},
	{"{\"progress\":1,\"note\":\"n\",\"result\":\"r\",\"retry_after_ms\":2,\"snooze_ms\":3,\"dead\":\"d\"}",
	 0, 1, "n", "r", 2, 3, "d"},
	/* What is out of range or of the wrong type is complained about, and the rest of the line counts. */
	{"{\"progress\":-1}", 1, NOTHING},
	{"{\"progress\":100.1}", 1, NOTHING},
	{"{\"progress\":\"40\",\"note\":\"n\"}", 1, NOT_SAID, "n", NULL, -1, -1, NULL},
	{"{\"note\":5}", 1, NOTHING},
	{"{\"retry_after_ms\":-1}", 1, NOTHING},
	{"{\"retry_after_ms\":\"5s\"}", 1, NOTHING},
	{"{\"retry_after_ms\":31622400001}", 1, NOTHING},
	{"{\"retry_after_ms\":31622400000}", 0, NOT_SAID, "", NULL, 31622400000, -1, NULL},
	{"{\"retry_after_ms\":1e300}", 1, NOTHING},
	{"{\"snooze_ms\":9223372036854775808}", 1, NOTHING}, /* more than 64 bits: not even JSON to the parser */
	{"{\"snooze_ms\":7}\n{\"snooze_ms\":-7}", 1, NOT_SAID, "", NULL, -1, 7, NULL},
	{"{\"dead\":1}", 1, NOTHING},
	{"{\"retry_afterms\":1}", 1, NOTHING},
	/* What is no object. The next line counts again. */
	{"progress 40\n{\"progress\":1}", 1, 1, "", NULL, -1, -1, NULL},
	{"[1]\n\"x\"\n7\nnull\n", 4, NOTHING},
	{"{\"progress\":40} {\"progress\":50}\n", 1, NOTHING},
	{"{\"progress\":40\n}\n", 2, NOTHING},
	{"{\"note\":\"\xff\xfe\"}\n", 1, NOTHING},
	{"{'progress':1}\n", 1, NOTHING},
	{"{\"progress\":NaN}\n{\"progress\":1e999}\n", 2, NOTHING},
};

static void check(const struct control_case *e, bool bytewise)
{
	struct control c;
	struct heard h;

	begin(&c, &h);
	say(&c, e->text, strlen(e->text), bytewise);
	if (h.complaints != e->complaints)
		print_error("case: %s: %s\n", e->text, h.complaint);
	assert_int_equal(h.complaints, e->complaints);
	assert_true(h.percent == e->percent);
	assert_string_equal(h.note, e->note);
	assert_int_equal(c.has_result, e->result != NULL);
	assert_string_equal(c.result.data, e->result == NULL ? "" : e->result);
	assert_int_equal(c.asked.retry_after_ms, e->retry_after_ms);
	assert_int_equal(c.asked.snooze_ms, e->snooze_ms);
	assert_int_equal(c.asked.dead, e->dead != NULL);
	assert_string_equal(c.asked.dead_reason, e->dead == NULL ? "" : e->dead);
	control_free(&c);
}

static void test_lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		check(&cases[i], false);
		check(&cases[i], true);
	}
}

static char *repeat(const char *before, const char *unit, size_t times, const char *after, size_t *len)
{
	struct buf b;

	buf_init(&b, 8 * 1024 * 1024);
	buf_adds(&b, before);
	for (size_t i = 0; i < times; i++)
		buf_adds(&b, unit);
	buf_adds(&b, after);
	assert_true(buf_ok(&b));
	*len = b.len;
	return buf_take(&b);
}

/* The text is said once; afterwards a plain line must still be understood. */
static void say_repeated(struct control *c, struct heard *h, const char *before, const char *unit, size_t times, const char *after)
{
	static const char plain[] = "\n{\"progress\":77}\n";
	size_t len;
	char *text = repeat(before, unit, times, after, &len);

	begin(c, h);
	control_feed(c, text, len);
	control_feed(c, plain, strlen(plain));
	control_end(c);
	free(text);
	assert_true(h->percent == 77);
}

static void test_too_long(void **state)
{
	struct control c;
	struct heard h;

	(void)state;
	/* As long as may be. */
	say_repeated(&c, &h, "{\"result\":\"", "x", CONTROL_LINE_MAX - 13, "\"}");
	assert_int_equal(h.complaints, 0);
	assert_string_equal(c.result.data + c.result.len - 13, "bytes in all]");
	assert_true(c.result.len <= MAX_RESULT);
	control_free(&c);
	say_repeated(&c, &h, "{\"result\":\"", "x", CONTROL_LINE_MAX - 12, "\"}");
	assert_int_equal(h.complaints, 1);
	assert_false(c.has_result);
	control_free(&c);
	/* Much longer: complained about once, and no memory is held for it. */
	say_repeated(&c, &h, "", "0123456789abcdef", 300000, "");
	assert_int_equal(h.complaints, 1);
	assert_true(c.lines.line.cap < CONTROL_LINE_MAX / 2);
	control_free(&c);
}

#define CLOSE_11 "]]]]]]]]]]]"
#define CLOSE_99 CLOSE_11 CLOSE_11 CLOSE_11 CLOSE_11 CLOSE_11 CLOSE_11 CLOSE_11 CLOSE_11 CLOSE_11

/* In a thread of the size that workers have: a parser that recurses must not use its stack up. */
static void *nest(void *arg)
{
	static const struct {
		const char *before, *unit, *after;
		size_t times;
		int complaints;
	} nested[] = {
		{"", "[", "", 1000000, 1},
		{"", "{\"a\":", "", 200000, 1},
		{"{\"result\":", "[", CLOSE_99 "}", 99, 0},
		{"{\"result\":", "[", CLOSE_99 "]}", 100, 1},
		{"{\"result\":\"", "[", "\"}", 1000, 0},          /* brackets in a string are text */
		{"{\"result\":\"\\\"", "[", "\"}", 1000, 0},      /* also after a quote that does not end it */
		{"{\"result\":\"\\\\\",\"note\":", "[", "", 1000, 1},
		{"", "]", "", 1000, 1},
	};
	int *wrong = arg;

	*wrong = 0;
	for (size_t i = 0; i < COUNT(nested); i++) {
		struct control c;
		struct heard h;

		say_repeated(&c, &h, nested[i].before, nested[i].unit, nested[i].times, nested[i].after);
		if (h.complaints != nested[i].complaints)
			*wrong = (int)i + 1;
		control_free(&c);
	}
	return NULL;
}

static void test_deep(void **state)
{
	pthread_t thread;
	int wrong = -1;
	struct fault f;

	(void)state;
	assert_int_equal(thread_start(&thread, "test", nest, &wrong, &f), LH_OK);
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
}

static void test_long_texts_are_cut(void **state)
{
	struct control c;
	struct heard h;

	(void)state;
	/* 255 characters, not bytes. */
	say_repeated(&c, &h, "{\"note\":\"", "\xf0\x9f\x91\x8d", 300, "\"}");
	assert_int_equal(strlen(h.note), 255 * 4);
	assert_true(utf8_valid(h.note, strlen(h.note)));
	control_free(&c);
	say_repeated(&c, &h, "{\"dead\":\"", "\xc3\xa9", 300, "\"}");
	assert_true(c.asked.dead);
	assert_int_equal(strlen(c.asked.dead_reason), sizeof(c.asked.dead_reason) - 2);
	assert_true(utf8_valid(c.asked.dead_reason, strlen(c.asked.dead_reason)));
	control_free(&c);
	say_repeated(&c, &h, "{\"result\":[\"", "\xe2\x82\xac", 300, "\"]}");
	assert_true(c.has_result && c.result.len <= MAX_RESULT && utf8_valid(c.result.data, c.result.len));
	assert_non_null(strstr(c.result.data, " [truncated: 904 bytes in all]"));
	control_free(&c);
}

/* Any bytes at all: nothing but complaints. */
static void test_noise(void **state)
{
	static const char letters[] = "{}[]\":,\\\n0e-.\xff\x80tfn u\0";
	uint64_t seed = 42;
	struct control c;
	struct heard h;

	(void)state;
	begin(&c, &h);
	for (int i = 0; i < 200000; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		control_feed(&c, letters + (seed >> 33) % sizeof(letters), 1);
	}
	control_end(&c);
	assert_true(h.complaints > 100);
	control_free(&c);
}

/* Each is passed on, in order; what is a name and fits is not judged here. */
static void test_steps(void **state)
{
	static const struct {
		const char *text, *steps;
		int complaints;
	} table[] = {
		{"{\"step\":\"a\"}", "a=-;", 0},
		{"{\"step\":\"a\",\"data\":{\"x\":[1,null]}}\n{\"data\":7,\"step\":\"b\"}", "a={\"x\":[1,null]};b=7;", 0},
		{"{\"step\":\"a\",\"data\":1}\n{\"step\":\"a\",\"data\":2}", "a=1;a=2;", 0},
		{"{\"step\":\"a\",\"progress\":5,\"data\":null}", "a=null;", 0},
		{"{\"step\":\"\"}", "=-;", 0},
		{"{\"step\":5,\"data\":1}", "", 2},
		{"{\"data\":1}", "", 1},
		{"{\"step\":null}", "", 1},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct control c;
		struct heard h;

		begin(&c, &h);
		say(&c, table[i].text, strlen(table[i].text), i % 2 == 1);
		assert_string_equal(h.steps, table[i].steps);
		assert_int_equal(h.complaints, table[i].complaints);
		control_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_long_texts_are_cut),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
