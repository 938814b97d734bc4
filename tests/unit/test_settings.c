/* test_settings.c - the life of a struct settings, and which handler a kind gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"
#include "model/settings.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HOLDERS 4

static struct settings *with_handlers(const char *const *kinds, size_t n)
{
	struct settings *s = settings_new();

	assert_non_null(s);
	s->handlers = calloc(n, sizeof(*s->handlers));
	assert_non_null(s->handlers);
	for (size_t i = 0; i < n; i++)
		s->handlers[i].kind = strdup(kinds[i]);
	s->handler_count = n;
	return s;
}

static void test_handler_for_a_kind(void **state)
{
	static const char *const kinds[] = {"mail.*", "mail.send", "mail.bulk.*", "report", "a", "ab.*"};
	static const char *const kinds_and_all[] = {"*", "mail.*", "mail.send", "mail.bulk.*", "report", "a", "ab.*"};
	static const struct {
		const char *kind, *handler; /* NULL: none, unless "*" is there */
	} table[] = {
		{"mail.send", "mail.send"},
		{"mail.sent", "mail.*"},
		{"mail.send.now", "mail.*"},
		{"mail.", "mail.*"},
		{"mail.bulk", "mail.*"},
		{"mail.bulk.x", "mail.bulk.*"},
		{"mail.bulk.x.y", "mail.bulk.*"},
		{"mail", NULL},
		{"mailx", NULL},
		{"mailx.y", NULL},
		{"Mail.send", NULL},
		{"report", "report"},
		{"report.x", NULL},
		{"repor", NULL},
		{"a", "a"},
		{"ab", NULL},
		{"ab.c", "ab.*"},
		{"", NULL},
		{"mail.*", "mail.*"}, /* a kind may look like a pattern: it is one of its kinds */
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table) * 2; i++) {
		bool all = i % 2 == 1;
		struct settings *s = with_handlers(all ? kinds_and_all : kinds, all ? COUNT(kinds_and_all) : COUNT(kinds));
		const char *expect = table[i / 2].handler;
		const struct handler_settings *h = settings_handler(s, table[i / 2].kind);

		if (expect == NULL && all)
			expect = "*";
		if (expect == NULL)
			assert_null(h);
		else
			assert_string_equal(h == NULL ? "(none)" : h->kind, expect);
		settings_unref(s);
	}
}

static void test_order_in_the_file_does_not_matter(void **state)
{
	static const char *const orders[][3] = {{"*", "x.*", "x.y"}, {"x.y", "x.*", "*"}, {"x.*", "*", "x.y"}, {"x.y", "*", "x.*"}};

	(void)state;
	for (size_t i = 0; i < COUNT(orders); i++) {
		struct settings *s = with_handlers(orders[i], 3);

		assert_string_equal(settings_handler(s, "x.y")->kind, "x.y");
		assert_string_equal(settings_handler(s, "x.z")->kind, "x.*");
		assert_string_equal(settings_handler(s, "z")->kind, "*");
		settings_unref(s);
	}
}

/* A star behind anything but a dot is a letter like others. */
static void test_not_a_pattern(void **state)
{
	static const char *const kinds[] = {"pre*"};
	struct settings *s = with_handlers(kinds, 1);

	(void)state;
	assert_null(settings_handler(s, "prefix"));
	assert_null(settings_handler(s, "pre"));
	assert_non_null(settings_handler(s, "pre*"));
	settings_unref(s);
}

static void test_no_handlers(void **state)
{
	struct settings *s = settings_new();

	(void)state;
	assert_null(settings_handler(s, "mail"));
	settings_unref(s);
	settings_unref(NULL);
}

static char **strings(const char *a, const char *b)
{
	char **list = calloc(3, sizeof(*list));

	assert_non_null(list);
	list[0] = strdup(a);
	list[1] = strdup(b);
	return list;
}

/* Everything set: a memory checker sees what is left. */
static struct settings *full(void)
{
	static const char *const kinds[] = {"a", "b"};
	struct settings *s = with_handlers(kinds, 2);

	s->file = strdup("f");
	s->database = (struct database_settings){.host = strdup("h"), .socket = strdup("s"), .name = strdup("n"),
		.user = strdup("u"), .password = strdup("secret"),
		.tls_ca = strdup("1"), .tls_cert = strdup("2"), .tls_key = strdup("3")};
	s->instance = (struct instance_settings){.name = strdup("i"), .user = strdup("u"), .group = strdup("g")};
	s->pools = calloc(2, sizeof(*s->pools));
	assert_non_null(s->pools);
	s->pool_count = 2;
	for (size_t i = 0; i < 2; i++) {
		struct handler_settings *h = &s->handlers[i];

		s->pools[i].name = strdup("p");
		s->pools[i].queues = strings("q1", "q2");
		h->command = strings("/bin/true", "-x");
		h->env = strings("A=1", "B=2");
		h->user = strdup("u");
		h->group = strdup("g");
		h->cwd = strdup("/");
		h->groups = calloc(4, sizeof(*h->groups));
	}
	return s;
}

static void test_references(void **state)
{
	struct settings *s = full();

	(void)state;
	assert_ptr_equal(settings_ref(s), s);
	assert_ptr_equal(settings_ref(s), s);
	settings_unref(s);
	settings_unref(s);
	assert_string_equal(s->database.password, "secret"); /* still ours */
	settings_unref(s);
}

static void *holder_main(void *arg)
{
	struct settings *s = arg;

	for (int i = 0; i < 2000; i++) {
		settings_ref(s);
		if (settings_handler(s, "a") == NULL)
			return NULL;
		settings_unref(s);
	}
	settings_unref(s);
	return s;
}

/* The last holder frees, whoever that is. */
static void test_references_of_many_threads(void **state)
{
	struct settings *s = full();
	pthread_t holders[HOLDERS];
	void *result;

	(void)state;
	for (int i = 0; i < HOLDERS; i++)
		assert_int_equal(thread_start(&holders[i], "holder", holder_main, settings_ref(s), NULL), LH_OK);
	settings_unref(s);
	for (int i = 0; i < HOLDERS; i++) {
		pthread_join(holders[i], &result);
		assert_non_null(result);
	}
}

static void test_control_groups(void **state)
{
	static const char *const kinds[] = {"a", "b", "c"};
	struct settings *s = with_handlers(kinds, COUNT(kinds));
	const struct handler_settings *who;

	(void)state;
	assert_int_equal(settings_group_needs(s, &who), 0);
	assert_null(who);
	s->instance.cgroup = CGROUP_ALWAYS;
	assert_int_equal(settings_group_needs(s, &who), SETTINGS_GROUPS);
	assert_null(who);
	s->instance.cgroup = CGROUP_AUTO;
	s->handlers[2].group_cpu = 150;
	assert_int_equal(settings_group_needs(s, &who), SETTINGS_GROUPS | SETTINGS_GROUPS_CPU);
	assert_ptr_equal(who, &s->handlers[2]);
	s->handlers[1].group_memory = 1;
	assert_int_equal(settings_group_needs(s, &who), SETTINGS_GROUPS | SETTINGS_GROUPS_CPU | SETTINGS_GROUPS_MEMORY);
	assert_ptr_equal(who, &s->handlers[1]);
	settings_unref(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_handler_for_a_kind),
		cmocka_unit_test(test_control_groups),
		cmocka_unit_test(test_order_in_the_file_does_not_matter),
		cmocka_unit_test(test_not_a_pattern),
		cmocka_unit_test(test_no_handlers),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_references_of_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
