/* test_instance.c - the schema's version, and the table of live instances. */
#include "store_test.h"

#include "store/instance_store.h"

#include <stdlib.h>
#include <string.h>

static struct instance_row row = {.worker = "host:1:a",
				  .name = "büro",
				  .host = "host",
				  .pid = 4242,
				  .version = "1.0",
				  .lease_ms = 60000,
				  .threads = 4,
				  .running = 2,
				  .queues = "default,mail",
				  .status = "running"};

static void test_beat_inserts_then_refreshes(void **state)
{
	(void)state;
	run("INSERT INTO job_workers (worker, name, host, pid, version, lease_ms, threads, running, queues, status, seen_at) VALUES"
	    " ('old', '', '', 1, '', 1, 1, 1, '', '', UTC_TIMESTAMP(6) - INTERVAL 25 HOUR), ('recent', '', '', 1, '', 1, 1, 1, '', "
	    "'', UTC_TIMESTAMP(6) - INTERVAL 23 HOUR)");
	ok(instance_store_beat(t.db, &row, &t.fault));
	assert_string_equal(ask("SELECT CONCAT_WS('|', name, host, pid, version, lease_ms, threads, running, queues, status) FROM "
				"job_workers WHERE worker='host:1:a'"),
			    "büro|host|4242|1.0|60000|4|2|default,mail|running");
	assert_string_equal(ask("SELECT GROUP_CONCAT(worker ORDER BY worker) FROM job_workers"), "host:1:a,recent");
	run("UPDATE job_workers SET started_at='2020-01-01', seen_at='2020-01-01' WHERE worker='host:1:a'");
	row.status = "draining";
	ok(instance_store_beat(t.db, &row, &t.fault));
	assert_string_equal(
		ask("SELECT CONCAT_WS('|', status, started_at, seen_at > '2026-01-01') FROM job_workers WHERE worker='host:1:a'"),
		"draining|2020-01-01 00:00:00.000000|1");
	ok(instance_store_leave(t.db, "host:1:a", &t.fault));
	assert_string_equal(ask("SELECT GROUP_CONCAT(worker) FROM job_workers"), "recent");
}

/* As many queues as a configuration may have: the list is cut where a character ends. */
static void test_a_long_list_of_queues_is_cut(void **state)
{
	char queues[3000];
	struct instance_row wide = row;

	(void)state;
	memset(queues, 'q', sizeof(queues) - 1);
	queues[sizeof(queues) - 1] = '\0';
	memcpy(&queues[1023], "ü", 2);
	wide.queues = queues;
	ok(instance_store_beat(t.db, &wide, &t.fault));
	assert_string_equal(ask("SELECT CHAR_LENGTH(queues) FROM job_workers"), "1023");
}

static void test_peers(void **state)
{
	uint32_t min_lease_ms;
	uint64_t instances;

	(void)state;
	ok(instance_store_peers(t.db, &min_lease_ms, &instances, &t.fault));
	assert_int_equal(min_lease_ms, 0);
	assert_int_equal(instances, 0);
	ok(instance_store_beat(t.db, &row, &t.fault));
	run("INSERT INTO job_workers (worker, name, host, pid, version, lease_ms, threads, running, queues, status, seen_at) VALUES"
	    " ('gone', '', '', 1, '', 3000, 1, 1, '', '', UTC_TIMESTAMP(6) - INTERVAL 4 SECOND), ('here', '', '', 1, '', 30000, 1, "
	    "1, '', '', UTC_TIMESTAMP(6) - INTERVAL 4 SECOND)");
	ok(instance_store_peers(t.db, &min_lease_ms, &instances, &t.fault));
	assert_int_equal(min_lease_ms, 30000);
	assert_int_equal(instances, 2);
}

static void assert_schema(enum db_class expected, const char *in_text)
{
	unsigned int version = 99;
	enum db_class c = instance_store_check_schema(t.db, &version, &t.fault);

	assert_int_equal(c, expected);
	if (in_text != NULL)
		assert_non_null(strstr(t.fault.text, in_text));
	else
		assert_true(version >= instance_store_schema_version());
}

static void test_schema_versions(void **state)
{
	(void)state;
	assert_schema(DB_OK, NULL);
	run("INSERT INTO leasehold_schema (version, compatible_from) VALUES (7, 1)");
	assert_schema(DB_OK, NULL);
	run("UPDATE leasehold_schema SET compatible_from=%u WHERE version=7", (uint64_t)instance_store_schema_version());
	assert_schema(DB_OK, NULL);
	run("UPDATE leasehold_schema SET compatible_from=compatible_from + 1 WHERE version=7");
	assert_schema(DB_SCHEMA, "install a newer leasehold");
	/* That it is too new is said first: what is missing besides may be part of the newer one. */
	run("DELETE FROM leasehold_schema WHERE version <> 7");
	assert_schema(DB_SCHEMA, "install a newer leasehold");
	run("DELETE FROM leasehold_schema");
	assert_schema(DB_SCHEMA, "0001_jobs.sql");
	/* Each that is needed is missed by its name, all at once, and no other is. */
	run("INSERT INTO leasehold_schema (version, compatible_from) VALUES (2, 1), (7, 1)");
	assert_schema(DB_SCHEMA, instance_store_needed[0].file);
	for (size_t i = 0; i < instance_store_needed_count; i++)
		assert_non_null(strstr(t.fault.text, instance_store_needed[i].file));
	assert_null(strstr(t.fault.text, "0002"));
	for (size_t i = 0; i < instance_store_needed_count; i++) {
		run("INSERT INTO leasehold_schema (version, compatible_from) VALUES (%u, 1)",
		    (uint64_t)instance_store_needed[i].version);
		if (i + 1 == instance_store_needed_count)
			break;
		assert_schema(DB_SCHEMA, instance_store_needed[i + 1].file);
		assert_null(strstr(t.fault.text, instance_store_needed[i].file));
	}
	/* Optional ones may be missing. */
	run("DELETE FROM leasehold_schema WHERE version IN (2, 7)");
	assert_schema(DB_OK, NULL);
	run("RENAME TABLE leasehold_schema TO elsewhere");
	assert_schema(DB_SCHEMA, "0001_jobs.sql");
	assert_int_equal(t.fault.number, 1146);
	run("RENAME TABLE elsewhere TO leasehold_schema");
	assert_schema(DB_OK, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_beat_inserts_then_refreshes, store_test_empty),
		cmocka_unit_test_setup(test_a_long_list_of_queues_is_cut, store_test_empty),
		cmocka_unit_test_setup(test_peers, store_test_empty),
		cmocka_unit_test_setup(test_schema_versions, store_test_empty),
	};

	if (!store_test_has_server())
		return 77;
	return cmocka_run_group_tests(tests, store_test_start, store_test_end);
}
