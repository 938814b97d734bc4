/* test_conf_shipped.c - the configuration files that are shipped, and what is near them. */
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

static struct settings *load_good(const char *text)
{
	struct conf_errors errors;
	struct settings *s = NULL;

	if (conf_load_text(text, "test.conf", &s, &errors) != LH_OK) {
		conf_text_print(&errors);
		fail_msg("it is refused");
	}
	return s;
}

static char *read_shipped(const char *name)
{
	const char *root = getenv("LEASEHOLD_SRCDIR");
	char path[4096], *text;
	FILE *file;
	size_t len;

	snprintf(path, sizeof(path), "%s/etc/%s", root != NULL ? root : ".", name);
	file = fopen(path, "r");
	text = calloc(1, 65536);
	if (file == NULL || text == NULL)
		fail_msg("%s cannot be read: is LEASEHOLD_SRCDIR set?", path);
	len = fread(text, 1, 65535, file);
	assert_true(len > 0 && len < 65535);
	fclose(file);
	return text;
}

/* Replaces a part of the text by another one that is not longer. */
static void replace(char *text, const char *part, const char *with)
{
	char *at = strstr(text, part);

	assert_non_null(at);
	assert_true(strlen(with) <= strlen(part));
	memset(at, ' ', strlen(part));
	memcpy(at, with, strlen(with));
}

static void test_shipped_files(void **state)
{
	char *text = read_shipped("leasehold.conf");
	struct settings *s;

	(void)state;
	s = load_good(text);
	assert_int_equal(s->handler_count, 1);
	assert_int_equal(s->lease.length_ms, 60000);
	settings_unref(s);
	free(text);

	text = read_shipped("leasehold-minimal.conf");
	replace(text, "password_file = \"/etc/leasehold/password\"", "password = \"x\"");
	s = load_good(text);
	assert_int_equal(s->handler_count, 1);
	settings_unref(s);
	free(text);
}

/* With every "#" before an option taken away, what is left to complain of is what depends on the machine or excludes itself. */
static void test_shipped_examples(void **state)
{
	char *text = read_shipped("leasehold.conf"), *out = text;
	struct conf_errors errors;
	struct settings *s = NULL;

	(void)state;
	for (const char *p = text; *p != '\0'; p++)
		if (*p != '#' || p == text || (p[-1] != '\t' && p[-1] != '\n') || p[1] < 'a' || p[1] > 'z')
			*out++ = *p;
	*out = '\0';
	assert_int_equal(conf_load_text(text, "test.conf", &s, &errors), LH_ERR_INPUT);
	for (size_t i = 0; i < errors.count; i++) {
		bool expected = strstr(errors.lines[i], " contradicts ") != NULL ||
				strstr(errors.lines[i], "there is no ") != NULL || strstr(errors.lines[i], "cannot open") != NULL ||
				strstr(errors.lines[i], " of this process") != NULL;

		if (!expected)
			fail_msg("%s", errors.lines[i]);
	}
	assert_true(conf_text_has(&errors, "database.socket: contradicts database.host", NULL, NULL));
	conf_errors_free(&errors);
	free(text);
}

/* The sample cut off, and with bytes changed: always a result, never anything else. */
static void test_damaged_files(void **state)
{
	char *text = read_shipped("leasehold.conf"), *damaged = malloc(65536);
	size_t len = strlen(text);
	uint32_t seed = 12345;
	struct conf_errors errors;
	struct settings *s;

	(void)state;
	assert_non_null(damaged);
	for (size_t i = 0; i < 600; i++) {
		enum lh_err err;

		memcpy(damaged, text, len + 1);
		if (i % 2 == 0)
			damaged[len * i / 600] = '\0';
		for (size_t j = 0; i % 2 == 1 && j < 3; j++) {
			seed = seed * 1664525 + 1013904223;
			damaged[(seed >> 8) % len] = "{}()[]\"=;@#/*\n\\0x9L"[(seed >> 4) % 19];
		}
		err = conf_load_text(damaged, "test.conf", &s, &errors);
		assert_true(err == LH_OK ? errors.count == 0 : err == LH_ERR_INPUT && errors.count > 0);
		if (err == LH_OK)
			settings_unref(s);
		conf_errors_free(&errors);
	}
	free(damaged);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shipped_files),
		cmocka_unit_test(test_shipped_examples),
		cmocka_unit_test(test_damaged_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
