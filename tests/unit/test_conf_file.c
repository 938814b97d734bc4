/* test_conf_file.c - files as they come: includes, strange bytes, broken syntax; secrets; users. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/conf.h"
#include "conf_text.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NOBODY 65534

static char directory[64];

/* Everything of a test goes into one new directory. */
static int make_directory(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/lh-conf-XXXXXX");
	return mkdtemp(directory) == NULL || chmod(directory, 0755) != 0;
}

static const char *const leftovers[] = {"sub/b.conf", "sub/c.conf", "a.conf", "b.conf", "big.conf",
					"fifo",       "link",       "secret", "sub"};

static char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static int remove_directory(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(leftovers); i++)
		remove(path_of(leftovers[i]));
	return rmdir(directory);
}

static void write_bytes(const char *name, const char *bytes, size_t len, mode_t mode)
{
	FILE *file = fopen(path_of(name), "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path_of(name), mode), 0);
}

static void write_text(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text), 0644);
}

static struct settings *expect_good(const char *name)
{
	struct conf_errors errors;
	struct settings *s = NULL;

	if (conf_load(path_of(name), &s, &errors) != LH_OK) {
		conf_text_print(&errors);
		fail_msg("%s", name);
	}
	assert_int_equal(errors.count, 0);
	return s;
}

/* The file is refused with as many errors, one of which is "directory/" and then where, and what. */
static void expect_refused(const char *name, size_t count, const char *where, const char *what)
{
	struct conf_errors errors;
	struct settings *s = NULL;
	char place[256];

	assert_int_equal(conf_load(path_of(name), &s, &errors), LH_ERR_INPUT);
	assert_null(s);
	snprintf(place, sizeof(place), "%s/%s: ", directory, where);
	if (errors.count != count || !conf_text_has(&errors, place, what, NULL)) {
		conf_text_print(&errors);
		fail_msg("%s%s", place, what);
	}
	conf_errors_free(&errors);
}

static void test_line_ends(void **state)
{
	struct settings *s;

	(void)state;
	write_text("a.conf", "lease = {\r\n  length = \"61s\";\r\n  # note\r\n  heartbeat = \"2s\";\r\n};\r\n");
	s = expect_good("a.conf");
	assert_int_equal(s->lease.length_ms, 61000);
	assert_int_equal(s->lease.heartbeat_ms, 2000);
	assert_string_equal(s->file, path_of("a.conf"));
	settings_unref(s);
	write_text("a.conf", "lease = {\r\n  length = \"61s\";\r\n  bogus = 1;\r\n};\r\n");
	expect_refused("a.conf", 1, "a.conf:3", "lease.bogus: unknown option");
	write_text("a.conf", "lease = { length = \"61s\"; }; # no newline at the end");
	settings_unref(expect_good("a.conf"));
	write_text("a.conf", "");
	settings_unref(expect_good("a.conf"));
}

static void test_bytes_that_are_no_text(void **state)
{
	static const char utf16[] = "\xff\xfel\0o\0g\0";

	(void)state;
	write_text("a.conf", "\xef\xbb\xbflog = { };\n");
	expect_refused("a.conf", 1, "a.conf:1", "byte order mark");
	write_bytes("a.conf", utf16, sizeof(utf16) - 1, 0644);
	expect_refused("a.conf", 1, "a.conf:1", "UTF-16 byte order mark");
	write_bytes("a.conf", "log = { };\n\n\0\n", 14, 0644);
	expect_refused("a.conf", 1, "a.conf:3", "NUL byte");
	write_bytes("a.conf", "# \0\n", 4, 0644);
	expect_refused("a.conf", 1, "a.conf:1", "NUL byte");
	write_text("a.conf", "log = { level = \"info\\x00\"; };\n");
	expect_refused("a.conf", 1, "a.conf:1", "a string cannot hold \\x00");
	write_text("a.conf", "\n\x80\xff\n");
	expect_refused("a.conf", 1, "a.conf:2", "syntax error");
}

static void test_sizes(void **state)
{
	size_t len = 1024 * 1024;
	char *bytes = malloc(len + 1);

	(void)state;
	assert_non_null(bytes);
	memset(bytes, '#', len + 1);
	write_bytes("big.conf", bytes, len, 0644);
	settings_unref(expect_good("big.conf"));
	write_bytes("big.conf", bytes, len + 1, 0644);
	expect_refused("big.conf", 1, "big.conf", "is too large: at most 1048576 bytes, not 1048577");
	assert_int_equal(truncate(path_of("big.conf"), 10 * 1024 * 1024), 0);
	expect_refused("big.conf", 1, "big.conf", "is too large");
	write_bytes("b.conf", bytes, len, 0644);
	write_text("a.conf", "@include \"b.conf\"\n@include \"b.conf\"\n@include \"b.conf\"\n@include \"b.conf\"\n");
	expect_refused("a.conf", 1, "a.conf", "is too large: at most 4194304 bytes with all that it includes");
	free(bytes);
}

static void test_what_is_no_file(void **state)
{
	(void)state;
	expect_refused("a.conf", 1, "a.conf", "cannot open: No such file or directory");
	assert_int_equal(mkdir(path_of("sub"), 0755), 0);
	expect_refused("sub", 1, "sub", "is a directory");
	assert_int_equal(mkfifo(path_of("fifo"), 0644), 0);
	expect_refused("fifo", 1, "fifo", "is not a regular file");
	assert_int_equal(symlink("nowhere", path_of("link")), 0);
	expect_refused("link", 1, "link", "cannot open");
	write_bytes("a.conf", "", 0, 0);
	if (geteuid() == 0)
		assert_int_equal(seteuid(NOBODY), 0);
	expect_refused("a.conf", 1, "a.conf", "cannot open: Permission denied");
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
}

static void test_includes(void **state)
{
	struct settings *s;

	(void)state;
	assert_int_equal(mkdir(path_of("sub"), 0755), 0);
	write_text("a.conf", "lease = {\n  @include \"sub/b.conf\"\n  heartbeat = \"2s\";\n};\n");
	write_text("sub/b.conf", "length = \"61s\";\n@include \"c.conf\" # beside this one");
	write_text("sub/c.conf", "# nothing");
	s = expect_good("a.conf");
	assert_int_equal(s->lease.length_ms, 61000);
	assert_int_equal(s->lease.heartbeat_ms, 2000);
	settings_unref(s);

	/* Each error with the file and line it stands in, before, within and after the included ones. */
	write_text("a.conf", "leese = { };\nlease = {\n  @include \"sub/b.conf\" heartbeet = \"2s\";\n};\nlogg = { };\n");
	write_text("sub/b.conf", "length = 5;\n@include \"c.conf\"\nx = 1;\n");
	write_text("sub/c.conf", "\n\ny = 1;");
	expect_refused("a.conf", 6, "a.conf:1", "leese: unknown group");
	expect_refused("a.conf", 6, "sub/b.conf:1", "lease.length: must be a duration");
	expect_refused("a.conf", 6, "sub/c.conf:3", "lease.y: unknown option");
	expect_refused("a.conf", 6, "sub/b.conf:3", "lease.x: unknown option");
	expect_refused("a.conf", 6, "a.conf:3", "lease.heartbeet: unknown option; did you mean \"heartbeat\"?");
	expect_refused("a.conf", 6, "a.conf:5", "logg: unknown group");
}

static void test_includes_by_their_whole_name(void **state)
{
	char text[256];
	struct settings *s;

	(void)state;
	write_text("b.conf", "log = { level = \"debug\"; };\n");
	snprintf(text, sizeof(text), "\t@include \"%s/b.conf\"\n", directory);
	write_text("a.conf", text);
	s = expect_good("a.conf");
	assert_int_equal(s->log_level, LOG_LEVEL_DEBUG);
	settings_unref(s);
	/* Within a list, with strings in a row. */
	write_text("a.conf", "pools = ( { queues = [\n@include \"b.conf\"\n, \"c\" ]; } );\n");
	write_text("b.conf", "\"a\",\n\"b\" /* and */ \"b\"");
	s = expect_good("a.conf");
	assert_string_equal(s->pools[0].queues[0], "a");
	assert_string_equal(s->pools[0].queues[1], "bb");
	assert_string_equal(s->pools[0].queues[2], "c");
	settings_unref(s);
	/* Not directives: within a comment and within a string. */
	write_text("b.conf", "log = { };\n");
	write_text("a.conf", "/*\n@include \"nowhere\"\n*/\n# \n@include \"b.conf\"\n");
	settings_unref(expect_good("a.conf"));
	write_text("a.conf", "log = { level = \"\n@include \\\"nowhere\\\"\"; };\n");
	expect_refused("a.conf", 1, "a.conf:1", "log.level: must be error");
}

static void test_includes_that_fail(void **state)
{
	(void)state;
	write_text("a.conf", "\n@include \"nowhere.conf\"\nlog = { };\n@include \"sub\"\n");
	assert_int_equal(mkdir(path_of("sub"), 0755), 0);
	expect_refused("a.conf", 2, "a.conf:2", "nowhere.conf: cannot open: No such file or directory");
	expect_refused("a.conf", 2, "a.conf:4", "sub: is a directory");
	write_text("a.conf", "@include \"b.conf\"\n");
	write_text("b.conf", "log = { };\n\n@include \"nowhere.conf\"\n");
	expect_refused("a.conf", 1, "b.conf:3", "nowhere.conf: cannot open");
	write_text("b.conf", "log = { };\n\n  @include \"a.conf\"\n");
	expect_refused("a.conf", 1, "b.conf:3", "a.conf: includes itself");
	write_text("b.conf", "\nlog = ;\n");
	expect_refused("a.conf", 1, "b.conf:2", "syntax error");
	write_text("b.conf", "\xef\xbb\xbflog = { };\n");
	expect_refused("a.conf", 1, "b.conf:1", "byte order mark");
	write_text("b.conf", "log = { level = \"info\n");
	expect_refused("a.conf", 2, "b.conf:1", "this string is never closed");
	write_text("a.conf", "@include \"\"\n@include \"b\n@include b\n");
	expect_refused("a.conf", 2, "a.conf:1", "needs the name of a file");
	expect_refused("a.conf", 2, "a.conf:2", "needs the name of a file");
	write_text("a.conf", "@include b\n");
	expect_refused("a.conf", 1, "a.conf:1", "syntax error");
	write_text("b.conf", "");
	write_text("a.conf", "@include \"b.conf\" @include \"b.conf\"\n");
	expect_refused("a.conf", 1, "a.conf:1", "syntax error");
}

static void test_syntax(void **state)
{
	static const struct {
		const char *text;
		size_t count;
		const char *where, *what;
	} table[] = {
		{"log = { };\nlease = { };\nlog = { };\n", 1, "a.conf:3", "log: is set a second time; the first is at "},
		{"pools = ( {\n poll = \"5ms\";\n}, {\n poll = \"5ms\";\n poll = \"6ms\"; } );\n", 1, "a.conf:5",
		 "poll: is set a second time"},
		{"lease = { length = \"5s\"; /* x */ length /* y */ : \"6s\"; length = \"7s\"; };", 2, "a.conf:1",
		 "length: is set a second time"},
		{"\nlease = { length = \"60s\";\n", 1, "a.conf:2", "this \"{\" is never closed"},
		{"pools = ( {\n} ;\n", 1, "a.conf:1", "this \"(\" is never closed"},
		{"pools = (\n{ ) ;\n};", 2, "a.conf:2", "\")\" cannot close the \"{\" of "},
		{"log = { };\n};\n", 1, "a.conf:2", "there is no \"{\" for this \"}\""},
		{"log = { };\n/* and so\nlease = 5;\n", 1, "a.conf:2", "this comment is never closed"},
		{"log = { level = \"info; };\n", 2, "a.conf:1", "this string is never closed"},
		{"log = {\n level \"info\";\n};", 1, "a.conf:2", "syntax error: a string cannot stand here"},
		{"\"x\"", 1, "a.conf:1", "syntax error: a string cannot stand here"},
		{"log = { \"x\" };", 1, "a.conf:1", "syntax error: a string cannot stand here"},
		{"pools = ( 5 \"x\" );", 1, "a.conf:1", "syntax error: a string cannot stand here"},
		{"pools = (, \"x\" );", 1, "a.conf:1", "syntax error"},
		{"log = {\n level = info;\n};", 1, "a.conf:2", "syntax error"},
		{"pools = ( { queues = [ \"a\", 5 ]; } );", 1, "a.conf:1", "mismatched element type"},
		{"lease.length = \"60s\";", 1, "a.conf:1", "syntax error"},
		{"\n\n= 5;", 1, "a.conf:3", "syntax error"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		write_text("a.conf", table[i].text);
		expect_refused("a.conf", table[i].count, table[i].where, table[i].what);
	}
}

/* Brackets without end must not take the stack, and many names not for ever. */
static void test_syntax_without_end(void **state)
{
	size_t len = 1024 * 1024 - 2;
	char *bytes = malloc(len + 1);
	size_t used = 0;

	(void)state;
	assert_non_null(bytes);
	memset(bytes, '(', 65536);
	memcpy(bytes, "a=", 2);
	write_bytes("a.conf", bytes, 65536, 0644);
	expect_refused("a.conf", 1, "a.conf:1", "nested more than 31 deep");
	for (unsigned int i = 0; used + 16 < len && i < 20000; i++)
		used += (size_t)snprintf(bytes + used, len - used, "a%x=1\n", i);
	write_bytes("a.conf", bytes, used, 0644);
	expect_refused("a.conf", 1, "a.conf:10001", "too many settings: at most 10000");
	free(bytes);
}

/* ---- secrets ---- */

static void load_secret(const char *extra, struct settings **out, struct conf_errors *errors)
{
	char text[512];

	*out = NULL;
	snprintf(text, sizeof(text), "database = { %s };\n", extra);
	write_text("a.conf", text);
	if (conf_load(path_of("a.conf"), out, errors) == LH_OK)
		assert_int_equal(errors->count, 0);
	for (size_t i = 0; i < errors->count; i++)
		assert_null(strstr(errors->lines[i], "hunter2"));
}

static void expect_password(const char *extra, const char *password)
{
	struct conf_errors errors;
	struct settings *s;

	load_secret(extra, &s, &errors);
	conf_text_print(&errors);
	assert_non_null(s);
	assert_string_equal(s->database.password, password);
	settings_unref(s);
}

static void expect_no_password(const char *extra, const char *a, const char *b)
{
	struct conf_errors errors;
	struct settings *s;

	load_secret(extra, &s, &errors);
	assert_null(s);
	if (!conf_text_has(&errors, a, b, "a.conf:1: ")) {
		conf_text_print(&errors);
		fail_msg("%s %s", a, b);
	}
	conf_errors_free(&errors);
}

static void test_password_from_a_file(void **state)
{
	static const struct {
		const char *bytes;
		const char *password; /* NULL: refused */
	} table[] = {{"hunter2\n", "hunter2"},
		     {"hunter2", "hunter2"},
		     {"hunter2\r\n", "hunter2"},
		     {"hunter2\n\n", "hunter2\n"},
		     {" a b \n", " a b "},
		     {"hunter2\r", "hunter2\r"},
		     {"\n", NULL},
		     {"", NULL}};
	char option[192];

	(void)state;
	snprintf(option, sizeof(option), "password_file = \"%s\";", path_of("secret"));
	for (size_t i = 0; i < COUNT(table); i++) {
		write_bytes("secret", table[i].bytes, strlen(table[i].bytes), 0640);
		if (table[i].password != NULL)
			expect_password(option, table[i].password);
		else
			expect_no_password(option, "database.password_file: ", "is empty");
	}
	write_bytes("secret", "hunter2\n", 8, 0644);
	expect_no_password(option, "database.password_file: ", "can be read or written by everyone (mode 0644)");
	write_bytes("secret", "hunter2\n", 8, 0602);
	expect_no_password(option, "database.password_file: ", "can be read or written by everyone");
	write_bytes("secret", "hunter2\0\n", 9, 0600);
	expect_no_password(option, "database.password_file: ", "NUL byte");
	remove(path_of("secret"));
	expect_no_password(option, "database.password_file: ", "cannot open: No such file");
	expect_no_password("password_file = \"/\";", "database.password_file: ", "is a directory");
}

static void test_password_from_the_environment(void **state)
{
	(void)state;
	setenv("LH_TEST_SECRET", "hunter2", 1);
	expect_password("password_env = \"LH_TEST_SECRET\";", "hunter2");
	setenv("LH_TEST_SECRET", "", 1);
	expect_no_password("password_env = \"LH_TEST_SECRET\";", "database.password_env: ", "is empty");
	unsetenv("LH_TEST_SECRET");
	expect_no_password("password_env = \"LH_TEST_SECRET\";", "database.password_env: ", "no variable \"LH_TEST_SECRET\"");
}

static void test_password_in_one_place(void **state)
{
	(void)state;
	setenv("LH_TEST_SECRET", "hunter2", 1);
	expect_password("password = \"hunter2\";", "hunter2");
	expect_no_password("password = \"hunter2\"; password_env = \"LH_TEST_SECRET\";", "database.password_env: contradicts",
			   "database.password of");
	expect_no_password("password = \"hunter2\"; password_file = \"/nowhere\";", "database.password_file: contradicts",
			   "database.password of");
	expect_no_password("password_env = \"LH_TEST_SECRET\"; password_file = \"/nowhere\";", "database.password_env: contradicts",
			   "database.password_file of");
	/* Nor is a password printed that is wrong in itself. */
	expect_no_password("password = [ \"hunter2\" ];", "database.password: must be a string", NULL);
	expect_no_password("password = \"hunter2\"; password = \"hunter2\";", "password: is set a second time", NULL);
}

/* ---- users ---- */

static struct settings *load_user(const char *text, const char *error)
{
	struct conf_errors errors;
	struct settings *s = NULL;
	enum lh_err err = conf_load_text(text, "test.conf", &s, &errors);

	if ((err == LH_OK) != (error == NULL) ||
	    (error != NULL && (errors.count != 1 || !conf_text_has(&errors, error, NULL, NULL)))) {
		conf_text_print(&errors);
		fail_msg("%s: %s", text, error);
	}
	conf_errors_free(&errors);
	return s;
}

#define HANDLER(options) "handlers = ( { kind = \"a\"; command = [ \"/x\" ]; " options " } );"

static void test_users_that_are_not_there(void **state)
{
	(void)state;
	load_user("instance = { user = \"lh-nobody-has-this\"; };",
		  "test.conf:1: instance.user: there is no user \"lh-nobody-has-this\"");
	load_user("instance = { group = \"lh-nobody-has-this\"; };", "test.conf:1: instance.group: there is no group");
	load_user(HANDLER("user = \"lh-nobody-has-this\";"), "test.conf:1: handlers[0].user: there is no user");
	load_user(HANDLER("group = \"lh-nobody-has-this\";"), "test.conf:1: handlers[0].group: there is no group");
	/* Once, not again for the handler that goes by it. */
	load_user("instance = { user = \"lh-nobody-has-this\"; };\n" HANDLER(""), "test.conf:1: instance.user: there is no user");
}

static void test_users_without_root(void **state)
{
	struct passwd *own;
	struct settings *s;
	char text[256];

	(void)state;
	if (getuid() == 0)
		assert_int_equal(seteuid(NOBODY), 0);
	load_user(HANDLER("user = \"root\";"), "handlers[0].user: \"root\" is not the user of this process");
	load_user("instance = { user = \"root\"; };", "instance.user: \"root\" is not the user of this process");
	if (getgid() != 0)
		load_user(HANDLER("group = \"root\";"), "handlers[0].group: \"root\" is not the group of this process");
	own = getpwuid(geteuid());
	if (own != NULL) {
		snprintf(text, sizeof(text), HANDLER("user = \"%s\";"), own->pw_name);
		s = load_user(text, NULL);
		assert_false(s->handlers[0].switch_user);
		assert_int_equal(s->handlers[0].uid, geteuid());
		settings_unref(s);
	}
	conf_assume_root(true);
	s = load_user(HANDLER("user = \"root\";"), NULL);
	conf_assume_root(false);
	assert_true(s->handlers[0].switch_user);
	assert_int_equal(s->handlers[0].uid, 0);
	settings_unref(s);
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
}

static void test_users_with_root(void **state)
{
	struct settings *s;
	const struct handler_settings *h;

	(void)state;
	conf_assume_root(true);
	s = load_user(
		"instance = { user = \"daemon\"; };\n"
		"handlers = ( { kind = \"a\"; command = [ \"/x\" ]; }, { kind = \"b\"; command = [ \"/x\" ]; user = \"root\"; },\n"
		"{ kind = \"c\"; command = [ \"/x\" ]; group = \"sys\"; } );",
		NULL);
	conf_assume_root(false);
	h = s->handlers;
	assert_true(h[0].switch_user && h[1].switch_user && h[2].switch_user);
	assert_int_equal(h[0].uid, getpwnam("daemon")->pw_uid);
	assert_int_equal(h[0].gid, getpwnam("daemon")->pw_gid);
	assert_true(h[0].group_count >= 1);
	assert_int_equal(h[1].uid, 0);
	assert_int_equal(h[1].gid, 0);
	assert_int_equal(h[2].uid, h[0].uid);
	assert_int_not_equal(h[2].gid, h[0].gid);
	settings_unref(s);
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILE_TEST(test_line_ends),
		FILE_TEST(test_bytes_that_are_no_text),
		FILE_TEST(test_sizes),
		FILE_TEST(test_what_is_no_file),
		FILE_TEST(test_includes),
		FILE_TEST(test_includes_by_their_whole_name),
		FILE_TEST(test_includes_that_fail),
		FILE_TEST(test_syntax),
		FILE_TEST(test_syntax_without_end),
		FILE_TEST(test_password_from_a_file),
		FILE_TEST(test_password_from_the_environment),
		FILE_TEST(test_password_in_one_place),
		cmocka_unit_test(test_users_that_are_not_there),
		cmocka_unit_test(test_users_without_root),
		cmocka_unit_test(test_users_with_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
