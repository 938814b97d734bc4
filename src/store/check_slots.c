/* check_slots.c - whether this database and this account are fit for fleet slots: see check_store.h. */
#include "store/check_plan.h"
#include "store/slot_store.h"

#include <string.h>

#define CHECK_LEASE "00000000-0000-4000-8000-000000000000"

/* Examples; nothing is executed. Two rows, because one alone is planned like no batch is. */
static const uint64_t check_ids[] = {1, 2};
static const char check_keys[][JOB_KIND_MAX + 1] = {"check", "check.too"};
static const struct slot_held check_held[] = {
	{.id = 1, .lease = CHECK_LEASE, .slot = {.key = "check"}},
	{.id = 2, .lease = CHECK_LEASE, .slot = {.key = "check.too", .number = 1}},
};
#define CHECK_ROWS 2

static void check_add_jobs(struct db *db, struct buf *sql)
{
	(void)db;
	slot_store_add_jobs(sql, check_ids, CHECK_ROWS);
}

static void check_add_read(struct db *db, struct buf *sql)
{
	slot_store_add_read(db, sql, check_keys, CHECK_ROWS);
}

static void check_add_page(struct db *db, struct buf *sql)
{
	static const struct slot_row after = {.key = "check", .number = 1};

	slot_store_add_page(db, sql, &after);
}

static void check_add_make(struct db *db, struct buf *sql)
{
	slot_store_add_make(db, sql, &check_held[0].slot);
}

static void check_add_park(struct db *db, struct buf *sql)
{
	(void)db;
	slot_store_add_park(sql, check_ids, CHECK_ROWS);
}

static void check_add_take(struct db *db, struct buf *sql)
{
	slot_store_add_take(db, sql, check_held, CHECK_ROWS, 60000, "check");
}

static void check_add_held(struct db *db, struct buf *sql)
{
	slot_store_add_check(db, sql, check_held, CHECK_ROWS);
}

static void check_add_renew(struct db *db, struct buf *sql)
{
	slot_store_add_renew(db, sql, check_held, CHECK_ROWS);
}

static void check_add_free(struct db *db, struct buf *sql)
{
	slot_store_add_free(db, sql, check_held, CHECK_ROWS);
}

static void check_add_find(struct db *db, struct buf *sql)
{
	slot_store_add_find(db, sql, 1, CHECK_LEASE);
}

static void check_add_waiting(struct db *db, struct buf *sql)
{
	slot_store_add_waiting(db, sql, "check");
}

static void check_add_oldest(struct db *db, struct buf *sql)
{
	slot_store_add_oldest(db, sql, "check", 2);
}

static void check_add_promote(struct db *db, struct buf *sql)
{
	slot_store_add_promote(db, sql, "check", check_ids, CHECK_ROWS);
}

#define CHECK_SLOTS "job_slots"
static const struct check_statement check_statements[] = {
	{"the look at what needs a slot", check_add_jobs, "PRIMARY", false, NULL},
	{"the look at slots", check_add_read, "PRIMARY", false, CHECK_SLOTS},
	{"the look at all slots", check_add_page, "PRIMARY", false, CHECK_SLOTS},
	{"the making of a slot", check_add_make, "", false, ""},
	{"the parking for a slot", check_add_park, "PRIMARY", false, NULL},
	{"the taking of slots", check_add_take, "PRIMARY", false, CHECK_SLOTS},
	{"the look at slots that are held", check_add_held, "PRIMARY", false, CHECK_SLOTS},
	{"the renewal of slots", check_add_renew, "PRIMARY", false, CHECK_SLOTS},
	{"the freeing of slots", check_add_free, "PRIMARY", false, CHECK_SLOTS},
	{"the look for a job's slot", check_add_find, "PRIMARY", false, CHECK_SLOTS},
	{"the scan for keys that are waited for", check_add_waiting, "slot_wait", true, NULL},
	{"the scan for waiters", check_add_oldest, "slot_wait", false, NULL},
	{"the promotion of waiters", check_add_promote, "PRIMARY", false, NULL},
};
#define CHECK_STATEMENTS (sizeof(check_statements) / sizeof(check_statements[0]))

/* The first refusal says it all. */
static enum db_class check_slots(struct check *c)
{
	enum db_class class = DB_OK, answer = DB_OK;
	unsigned int good = 0;

	for (size_t i = 0; i < CHECK_STATEMENTS && class == DB_OK && answer == DB_OK; i++) {
		class = check_plan_of(c, &check_statements[i], &good, &answer);
		if (answer == DB_DENIED)
			check_fail(c, "slots",
				   "handlers.concurrency is set, but %s is not permitted: %s; apply migrations/grants.sql again, "
				   "or GRANT SELECT, INSERT, UPDATE ON job_slots to the role leasehold_worker",
				   check_statements[i].name, c->fault->text);
		else if (answer == DB_SCHEMA)
			check_fail(c, "slots",
				   "handlers.concurrency is set, but this database has no fit table job_slots: %s; apply "
				   "migrations/0001_jobs.sql",
				   c->fault->text);
	}
	if (class == DB_OK && good == CHECK_STATEMENTS)
		check_ok(c, "slots", "job_slots is there, may be used, and all %u statements use the index that they are made for",
			 good);
	return class;
}

enum db_class check_store_slots(struct db *db, bool all, check_say say, void *arg, struct fault *f)
{
	struct fault own = {.code = LH_OK};
	struct check c = {.db = db, .say = say, .arg = arg, .fault = f == NULL ? &own : f};

	c.least = all ? CHECK_OK : CHECK_WARN;
	return check_slots(&c);
}
