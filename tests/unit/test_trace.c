/* test_trace.c - which traceparents are well-formed, and their trace-id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/trace.h"

#include <string.h>

#define ID "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static void test_well_formed(void **state)
{
	static const char *const good[] = {"00-" ID "-" PARENT "-01", "00-" ID "-" PARENT "-ff", "cc-" ID "-" PARENT "-00",
					   "01-" ID "-" PARENT "-01-more", "01-" ID "-" PARENT "-01-"};
	char id[TRACE_ID_LEN + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		memset(id, 'x', sizeof(id));
		assert_true(trace_parse(good[i], id));
		assert_string_equal(id, ID);
	}
}

static void test_malformed(void **state)
{
	static const char *const bad[] = {
		"", "0", "00", "00-", "nonsense", "00-" ID, "00-" ID "-", "00-" ID "-" PARENT, "00-" ID "-" PARENT "-",
		"00-" ID "-" PARENT "-0", "00-" ID "-" PARENT "-001", "00-" ID "-" PARENT "-01-", "00-" ID "-" PARENT "-01-more",
		"01-" ID "-" PARENT "-01more", "01-" ID "-" PARENT "-01.", "ff-" ID "-" PARENT "-01", "0-" ID "-" PARENT "-01",
		"00-00000000000000000000000000000000-" PARENT "-01", "00-" ID "-0000000000000000-01", "0g-" ID "-" PARENT "-01",
		"00_" ID "-" PARENT "-01", "00-" ID "_" PARENT "-01", "00-" ID "-" PARENT "_01",
		"00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01", "00-" ID "-B7AD6B7169203331-01", "00-" ID "0-" PARENT "-01",
		"00-" ID "-" PARENT "-01\n", " 00-" ID "-" PARENT "-01", "00-0af7651916cd43dd8448eb211c80319-c" PARENT "-01",
	};
	char id[TRACE_ID_LEN + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(id, 'x', sizeof(id));
		if (trace_parse(bad[i], id))
			fail_msg("taken for well-formed: %s", bad[i]);
		assert_string_equal(id, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_well_formed),
		cmocka_unit_test(test_malformed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
