/* store_test.h - what the tests of src/db and src/store stand on: a database of their own on a real server, two connections, and
 * short words for looking at rows. The server comes from LEASEHOLD_TEST_SOCKET, _USER (default root) and _PASSWORD; without it
 * the program is skipped. */
#ifndef LEASEHOLD_TESTS_STORE_STORE_TEST_H
#define LEASEHOLD_TESTS_STORE_STORE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "db/db.h"
#include "model/settlement.h"
#include "store/store.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define LEASE_A "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
#define LEASE_B "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"

struct store_test {
	struct db *db;    /* the one under test */
	struct db *other; /* somebody else */
	struct database_settings settings;
	struct fault fault;
};

/* One per program, for cmocka's group and test fixtures. The tables are empty before each test. */
extern struct store_test t;
int store_test_start(void **state);
int store_test_end(void **state);
int store_test_empty(void **state);

bool store_test_has_server(void); /* false: main returns 77, which the test driver reports as skipped */

/* A connection as the given account (NULL: the DBA) with a lock wait of a second; not open. */
struct db *store_test_new_db(struct database_settings *settings, const char *user, int64_t timeout_ms);

/* Runs a script with the stock client. name: the database, or NULL. Returns its exit status. */
int store_test_client(const char *name, const char *file);
void store_test_migrate(const char *name);         /* all numbered files, in their order */
const char *store_test_path(const char *relative); /* below the source tree; static */

/* A statement by somebody else, which must succeed; and the first value that one answers ("NULL" for NULL or no row): valid
 * until the next call. */
void run(const char *fmt, ...);
const char *ask(const char *fmt, ...);
uint64_t ask_number(const char *fmt, ...);

/* A row of jobs; more: "column=value, ..." in SQL, or NULL. */
uint64_t add_job(const char *more);
/* The same, running under the lease, claimed just now for a minute, attempt and claim_no 1. */
uint64_t add_running(const char *lease, const char *more);

/* Asserts that a call of the store succeeded, and says why not. */
#define ok(call)                                                                                                            \
	do {                                                                                                                \
		enum db_class ok_class = (call);                                                                            \
		assert_string_equal(ok_class == DB_OK ? "ok" : t.fault.text, "ok");                                         \
	} while (0)

#define assert_row(id, columns, expected)                                                                                          \
	assert_string_equal(ask("SELECT CONCAT_WS('|', " columns ") FROM jobs WHERE id=%u", (uint64_t)(id)), expected)

/* A settlement of a running row, as a worker makes it. */
struct settlement *new_settlement(uint64_t id, const char *lease, enum settle_action action, enum outcome_kind outcome,
				  const char *cause);

#endif
