/* check_store.c - see check_store.h. What concerns statements (plans and privileges) is in check_plan.c. */
#include "store/check_store.h"

#include "base/parse.h"
#include "store/check_plan.h"
#include "store/instance_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CHECK_MARIADB_MIN 100600u
#define CHECK_MYSQL_MIN 80013u
#define CHECK_PACKET_MIN (4u * 1024 * 1024)
#define CHECK_WAIT_MIN_S 60
#define CHECK_ROUTE_READS 4 /* a splitter may send one read in a few to the writer */

/* ---- Server and schema ------------------------------------------------------------------------------------------------------ */

static enum db_class check_server(struct check *c)
{
	unsigned int version = db_version(c->db), needed = db_is_mariadb(c->db) ? CHECK_MARIADB_MIN : CHECK_MYSQL_MIN;
	const char *flavour = db_is_mariadb(c->db) ? "MariaDB" : "MySQL";

	if (version < needed)
		check_fail(c, "server", "%s %s: version %u.%u.%u or later is needed", flavour, db_version_text(c->db),
			   needed / 10000, needed / 100 % 100, needed % 100);
	else
		check_ok(c, "server", "%s %s", flavour, db_version_text(c->db));
	return DB_OK;
}

static enum db_class check_schema(struct check *c)
{
	unsigned int version = 0;
	enum db_class class = instance_store_check_schema(c->db, &version, c->fault);

	if (class == DB_OK)
		check_ok(c, "schema", "version %u", version);
	else if (class == DB_SCHEMA || class == DB_DENIED)
		check_fail(c, "schema", "%s", c->fault->text);
	return class;
}

static const char *const check_tables[] = { "leasehold_schema", "jobs",      "job_attempts", "job_queues",
					    "job_slots",        "job_steps", "job_workers" };
#define CHECK_TABLES (sizeof(check_tables) / sizeof(check_tables[0]))

/* Only the tables that this account may touch are listed, so one that is missing here need not be missing there. */
static enum db_class check_engines(struct check *c)
{
	struct db_rows *rows = NULL;
	unsigned int innodb = 0, others = 0;
	enum db_class class = db_queryf(c->db, &rows, c->fault,
					"SELECT table_name, engine FROM information_schema.tables WHERE table_schema=DATABASE() "
					"AND table_type='BASE TABLE'");

	while (class == DB_OK && db_rows_next(rows)) {
		const char *table = db_text(rows, 0, NULL), *engine = db_text(rows, 1, NULL);
		bool ours = false;

		for (size_t i = 0; i < CHECK_TABLES; i++)
			ours = ours || strcmp(table, check_tables[i]) == 0;
		if (!ours)
			continue;
		if (engine != NULL && strcasecmp(engine, "InnoDB") == 0) {
			innodb++;
			continue;
		}
		others++;
		check_fail(c, "engine",
			   "table %s is stored by %s: leases need transactions and row locks; ALTER TABLE %s ENGINE=InnoDB", table,
			   engine == NULL ? "no engine" : engine, table);
	}
	if (class == DB_OK && others == 0)
		check_ok(c, "engine", "InnoDB, %u tables", innodb);
	db_rows_free(rows);
	return class;
}

struct check_index {
	const char *table, *name, *columns;
	bool unique;
};

static const struct check_index check_indexes[] = {
	{ "jobs", "PRIMARY", "id", true },
	{ "jobs", "claim", "state,queue,priority,run_at,id", false },
	{ "jobs", "promote", "promote_at", false },
	{ "jobs", "slot_wait", "slot_wait", false },
	{ "jobs", "unique_hold", "unique_hold_until", false },
	{ "jobs", "active_key", "kind,active_key", true },
	{ "job_attempts", "PRIMARY", "job_id,claim_no,outcome", true },
	{ "job_queues", "PRIMARY", "queue", true },
	{ "job_steps", "PRIMARY", "job_id,name", true },
	{ "job_workers", "PRIMARY", "worker", true },
};
#define CHECK_INDEXES (sizeof(check_indexes) / sizeof(check_indexes[0]))

static enum db_class check_one_index(struct check *c, const struct check_index *index, unsigned int *good)
{
	struct db_rows *rows = NULL;
	enum db_class class = db_queryf(
		c->db, &rows, c->fault,
		"SELECT GROUP_CONCAT(column_name ORDER BY seq_in_index), MIN(non_unique) FROM information_schema.statistics "
		"WHERE table_schema=DATABASE() AND table_name=%s AND index_name=%s",
		index->table, index->name);

	if (class == DB_OK && db_rows_next(rows)) {
		const char *columns = db_text(rows, 0, NULL);

		if (columns == NULL)
			check_fail(c, "index",
				   "%s has no index %s (%s): apply the files of migrations/ in their order, or create it",
				   index->table, index->name, index->columns);
		else if (strcasecmp(columns, index->columns) != 0 || (index->unique && db_u64(rows, 1) != 0))
			check_fail(c, "index", "%s.%s is %s(%s): it has to be %s(%s)", index->table, index->name,
				   db_u64(rows, 1) == 0 ? "unique " : "", columns, index->unique ? "unique " : "", index->columns);
		else
			(*good)++;
	}
	db_rows_free(rows);
	return class;
}

static enum db_class check_all_indexes(struct check *c)
{
	unsigned int good = 0;
	enum db_class class = DB_OK;

	for (size_t i = 0; i < CHECK_INDEXES && class == DB_OK; i++)
		class = check_one_index(c, &check_indexes[i], &good);
	if (class == DB_OK && good == CHECK_INDEXES)
		check_ok(c, "index", "all %u are there", good);
	return class;
}

/* Steps that outlive their job would be given to another one, should its number ever be used again. */
static enum db_class check_foreign_key(struct check *c)
{
	struct db_rows *rows = NULL;
	enum db_class class =
		db_queryf(c->db, &rows, c->fault,
			  "SELECT COUNT(*) FROM information_schema.referential_constraints WHERE "
			  "constraint_schema=DATABASE() AND table_name='job_steps' AND referenced_table_name='jobs' AND "
			  "delete_rule='CASCADE'");

	if (class == DB_OK && db_rows_next(rows) && db_u64(rows, 0) == 0)
		check_warn(c, "foreign key",
			   "saved steps do not go with their job: ALTER TABLE job_steps ADD CONSTRAINT job_steps_job FOREIGN KEY "
			   "(job_id) REFERENCES jobs (id) ON DELETE CASCADE");
	else if (class == DB_OK)
		check_ok(c, "foreign key", "saved steps go with their job");
	db_rows_free(rows);
	return class;
}

/* ---- Settings of session and server
 * ------------------------------------------------------------------------------------------- */

/* The variables that matter, by name; a server that lacks one is simply not listing it. */
struct check_variables {
	char isolation[32], autocommit[8], time_zone[64], sql_mode[512], charset[32], lock_wait[16], wait_timeout[16], packet[24];
	char log_bin[8], binlog_format[16], row_image[16], flush_log[8], sync_binlog[16], read_only[24], super_read_only[8],
		innodb_read_only[8];
	char wsrep_on[8];
};

static enum db_class check_read_variables(struct check *c, struct check_variables *v)
{
	const struct {
		const char *name;
		char *out;
		size_t size;
	} wanted[] = {
		{ "tx_isolation", v->isolation, sizeof(v->isolation) },
		{ "transaction_isolation", v->isolation, sizeof(v->isolation) },
		{ "autocommit", v->autocommit, sizeof(v->autocommit) },
		{ "time_zone", v->time_zone, sizeof(v->time_zone) },
		{ "sql_mode", v->sql_mode, sizeof(v->sql_mode) },
		{ "character_set_client", v->charset, sizeof(v->charset) },
		{ "innodb_lock_wait_timeout", v->lock_wait, sizeof(v->lock_wait) },
		{ "wait_timeout", v->wait_timeout, sizeof(v->wait_timeout) },
		{ "max_allowed_packet", v->packet, sizeof(v->packet) },
		{ "log_bin", v->log_bin, sizeof(v->log_bin) },
		{ "binlog_format", v->binlog_format, sizeof(v->binlog_format) },
		{ "binlog_row_image", v->row_image, sizeof(v->row_image) },
		{ "innodb_flush_log_at_trx_commit", v->flush_log, sizeof(v->flush_log) },
		{ "sync_binlog", v->sync_binlog, sizeof(v->sync_binlog) },
		{ "read_only", v->read_only, sizeof(v->read_only) },
		{ "super_read_only", v->super_read_only, sizeof(v->super_read_only) },
		{ "innodb_read_only", v->innodb_read_only, sizeof(v->innodb_read_only) },
		{ "wsrep_on", v->wsrep_on, sizeof(v->wsrep_on) },
	};
	struct db_rows *rows = NULL;
	enum db_class class = db_queryf(c->db, &rows, c->fault, "SHOW SESSION VARIABLES");

	memset(v, 0, sizeof(*v));
	while (class == DB_OK && db_rows_next(rows)) {
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			if (strcasecmp(db_text(rows, 0, NULL), wanted[i].name) == 0)
				db_copy(rows, 1, wanted[i].out, wanted[i].size);
		}
	}
	db_rows_free(rows);
	return class;
}

static bool check_is_on(const char *value)
{
	return value[0] != '\0' && strcasecmp(value, "OFF") != 0 && strcmp(value, "0") != 0;
}

static uint64_t check_number(const char *value)
{
	uint64_t number = 0;

	return parse_u64(value, 0, UINT64_MAX, &number, NULL) == LH_OK ? number : 0;
}

static void check_session(struct check *c, const struct check_variables *v)
{
	if (strcasecmp(v->isolation, "READ-COMMITTED") != 0)
		check_fail(c, "isolation",
			   "%s, though READ COMMITTED was set: something between here and the server changes sessions",
			   v->isolation);
	else if (!check_is_on(v->autocommit))
		check_fail(c, "isolation",
			   "autocommit is off, though it was set: something between here and the server changes sessions");
	else
		check_ok(c, "isolation", "READ COMMITTED, autocommit, locks waited for %s s", v->lock_wait);
	if (strcmp(v->time_zone, "+00:00") != 0)
		check_fail(c, "time zone",
			   "the session is in %s, though +00:00 was set: something between here and the server changes sessions",
			   v->time_zone);
	else
		check_ok(c, "time zone", "the session is in UTC");
	if (strstr(v->sql_mode, "STRICT_") == NULL || strncasecmp(v->charset, "utf8mb4", 7) != 0)
		check_fail(c, "session",
			   "sql_mode '%s', character set %s: strict mode and utf8mb4 were set, something changes sessions",
			   v->sql_mode, v->charset);
	else
		check_ok(c, "session", "strict mode, %s", v->charset);
}

static void check_limits(struct check *c, const struct check_variables *v)
{
	if (check_number(v->packet) < CHECK_PACKET_MIN)
		check_warn(c, "packet",
			   "max_allowed_packet is %s bytes: results and payloads near that size are refused; %u or more is advised",
			   v->packet, CHECK_PACKET_MIN);
	else
		check_ok(c, "packet", "max_allowed_packet is %s bytes", v->packet);
	if (check_number(v->wait_timeout) < CHECK_WAIT_MIN_S)
		check_warn(c, "wait_timeout",
			   "%s s: idle sessions are closed so soon that instances reconnect all the time; %d or more is advised",
			   v->wait_timeout, CHECK_WAIT_MIN_S);
	else
		check_ok(c, "wait_timeout", "%s s", v->wait_timeout);
	if (strcmp(v->flush_log, "1") != 0 || (check_is_on(v->log_bin) && strcmp(v->sync_binlog, "1") != 0))
		check_warn(c, "durability",
			   "innodb_flush_log_at_trx_commit=%s, sync_binlog=%s: a crash of the server may take back claims and "
			   "results that were "
			   "acknowledged, and their jobs run again; 1 and 1 keep them",
			   v->flush_log, v->sync_binlog);
	else
		check_ok(c, "durability", "commits reach the disk");
	if (check_is_on(v->wsrep_on))
		check_warn(c, "cluster",
			   "a Galera node: let all instances and producers write to one node, others may take back what they "
			   "acknowledged");
}

static void check_binlog(struct check *c, const struct check_variables *v)
{
	if (!check_is_on(v->log_bin)) {
		check_ok(c, "binlog", "off");
		return;
	}
	if (strcasecmp(v->binlog_format, "STATEMENT") == 0) {
		check_fail(
			c, "binlog",
			"binlog_format is STATEMENT, with which READ COMMITTED cannot write (error 1665): set it to ROW or MIXED");
		return;
	}
	if (strcasecmp(v->row_image, "FULL") == 0)
		check_warn(c, "binlog",
			   "format %s, row image FULL: every heartbeat writes the job's payload to the binary log; grant this "
			   "account %s, or set "
			   "binlog_row_image=NOBLOB",
			   v->binlog_format, db_is_mariadb(c->db) ? "BINLOG ADMIN" : "SESSION_VARIABLES_ADMIN");
	else
		check_ok(c, "binlog", "format %s, row image %s", v->binlog_format, v->row_image);
}

/* ---- The route -------------------------------------------------------------------------------------------------------------- */

/* Where one statement arrived. */
struct check_place {
	char hostname[128];
	uint64_t port, server_id, session;
};

/* COUNT makes it one row, also where no row fits. */
#define CHECK_PLACE "@@hostname, @@port, @@server_id, CONNECTION_ID(), COUNT(*)"

static enum db_class check_place_of(struct check *c, const char *rest, struct check_place *place)
{
	struct db_rows *rows = NULL;
	enum db_class class = db_queryf(c->db, &rows, c->fault, "SELECT " CHECK_PLACE "%r", rest);

	memset(place, 0, sizeof(*place));
	if (class == DB_OK && db_rows_next(rows)) {
		db_copy(rows, 0, place->hostname, sizeof(place->hostname));
		place->port = db_u64(rows, 1);
		place->server_id = db_u64(rows, 2);
		place->session = db_u64(rows, 3);
	}
	db_rows_free(rows);
	return class;
}

/* False, and told, when the statement did not arrive where the session was set up. */
static bool check_same_place(struct check *c, const char *statement, const struct check_place *place)
{
	const struct db_identity *home = db_identity(c->db);

	if (strcmp(place->hostname, home->hostname) == 0 && place->port == home->port && place->server_id == home->server_id &&
	    place->session == home->session)
		return true;
	check_fail(c, "route",
		   "%s went to session %" PRIu64 " of %s:%" PRIu64 " (server_id %" PRIu64
		   "), the connection was set up as session %" PRIu64 " of %s:%u (server_id %" PRIu64
		   "): a proxy spreads statements; have it send this account to the writer only, one session per "
		   "connection",
		   statement, place->session, place->hostname, place->port, place->server_id, home->session, home->hostname,
		   home->port, home->server_id);
	return false;
}

/* One of each way in which proxies tell reads from writes: a plain read, one that locks, and one inside a transaction. Locks
 * nothing: there is no job 0. */
static enum db_class check_route(struct check *c)
{
	struct check_place place;
	enum db_class class = DB_OK;
	bool same = true;

	for (int i = 0; i < CHECK_ROUTE_READS && class == DB_OK && same; i++) {
		class = check_place_of(c, "", &place);
		same = class != DB_OK || check_same_place(c, "a SELECT", &place);
	}
	if (class == DB_OK && same) {
		class = check_place_of(c, " FROM jobs FORCE INDEX (PRIMARY) WHERE id=0 FOR UPDATE", &place);
		same = class != DB_OK || check_same_place(c, "a SELECT ... FOR UPDATE", &place);
	}
	if (class == DB_OK && same)
		class = db_begin(c->db, c->fault);
	if (class == DB_OK && same) {
		class = check_place_of(c, " FROM jobs FORCE INDEX (PRIMARY) WHERE id=0", &place);
		same = class != DB_OK || check_same_place(c, "a SELECT in a transaction", &place);
		db_rollback(c->db);
	}
	if (class == DB_OK && same)
		check_ok(c, "route", "reads and writes reach one session: %" PRIu64 " of %s:%u (server_id %" PRIu64 ")%s",
			 db_identity(c->db)->session, db_identity(c->db)->hostname, db_identity(c->db)->port,
			 db_identity(c->db)->server_id,
			 db_identity(c->db)->session_is_direct ? "" : ", through a proxy that renumbers sessions");
	return class;
}

/* ---- Writes ------------------------------------------------------------------------------------------------------------- */

/* A row of our own in job_workers, and an UPDATE of it that changes nothing, in a transaction that is rolled back. *matched:
 * what the UPDATE reported. */
static enum db_class check_try_write(struct check *c, uint64_t *matched)
{
	char uuid[UUID_TEXT_LEN + 1], worker[64];
	enum db_class class;

	random_uuid(uuid);
	snprintf(worker, sizeof(worker), "check:%s", uuid);
	class = db_begin(c->db, c->fault);
	if (class != DB_OK)
		return class;
	class = db_execf(c->db, NULL, c->fault,
			 "INSERT INTO job_workers (worker, name, host, pid, version, lease_ms, threads, running, queues, status) "
			 "VALUES (%s, 'check', '', 0, '', 0, 0, 0, '', 'check')",
			 worker);
	if (class == DB_OK)
		class = db_execf(c->db, matched, c->fault, "UPDATE job_workers SET status=status WHERE worker=%s", worker);
	db_rollback(c->db);
	return class;
}

/* Must be 1, or every lost answer would look like a lost lease. */
static enum db_class check_found_rows(struct check *c)
{
	uint64_t matched = 0;
	enum db_class class = check_try_write(c, &matched);

	if (class == DB_OK && matched != 1)
		check_fail(c, "matched rows",
			   "an UPDATE that changes nothing reports %" PRIu64 " rows instead of 1: a proxy drops CLIENT_FOUND_ROWS",
			   matched);
	else if (class == DB_OK)
		check_ok(c, "matched rows", "UPDATE reports rows matched, not rows changed");
	return class;
}

/* Returns DB_READONLY when it is: nothing that writes can be probed then. Some accounts may write all the same. */
static enum db_class check_writer(struct check *c, const struct check_variables *v)
{
	const char *which = check_is_on(v->innodb_read_only)  ? "innodb_read_only"
			    : check_is_on(v->super_read_only) ? "super_read_only"
			    : check_is_on(v->read_only)       ? "read_only"
							      : NULL;
	uint64_t matched = 0;
	enum db_class class;

	if (which == NULL) {
		check_ok(c, "writer", "the server takes writes");
		return DB_OK;
	}
	class = check_try_write(c, &matched);
	if (class == DB_READONLY)
		check_fail(c, "writer",
			   "%s is set: this server is a replica, or closed for maintenance; connect to the one that takes writes",
			   which);
	else if (class == DB_OK)
		check_warn(c, "writer", "%s is set, though this account may write: is it the right server?", which);
	return class;
}

/* ---- Both lists of probes
 * ------------------------------------------------------------------------------------------------------ */

/* A probe that this account may not run has been told of; the others still say something. */
static enum db_class check_tolerate(struct check *c, const char *subject, enum db_class class)
{
	if (class != DB_DENIED)
		return class;
	check_fail(c, subject, "%s: grant this account the role leasehold_worker (migrations/grants.sql)", c->fault->text);
	return DB_OK;
}

static enum db_class check_variables_all(struct check *c)
{
	struct check_variables v;
	enum db_class class = check_read_variables(c, &v);

	if (class != DB_OK)
		return class;
	check_session(c, &v);
	check_limits(c, &v);
	check_binlog(c, &v);
	return check_writer(c, &v);
}

/* That the server takes writes is shown by one. */
static enum db_class check_variables_start(struct check *c)
{
	struct check_variables v;
	enum db_class class = check_read_variables(c, &v);

	if (class == DB_OK)
		check_binlog(c, &v);
	return class;
}

struct check_probe {
	const char *subject;
	enum db_class (*run)(struct check *c);
};

static enum db_class check_probes(struct check *c, const struct check_probe *probes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		enum db_class class = probes[i].run(c);

		if (class == DB_DENIED && probes[i].run == check_schema)
			return class;
		class = check_tolerate(c, probes[i].subject, class);
		if (class != DB_OK)
			return class;
	}
	return DB_OK;
}

enum db_class check_store_run(struct db *db, check_say say, void *arg, struct fault *f)
{
	static const struct check_probe probes[] = {
		{ "server", check_server },      { "schema", check_schema },           { "engine", check_engines },
		{ "index", check_all_indexes },  { "foreign key", check_foreign_key }, { "variables", check_variables_all },
		{ "route", check_route },        { "matched rows", check_found_rows }, { "plan", check_plan_statements },
		{ "grants", check_plan_excess },
	};
	struct fault own = { .code = LH_OK };
	struct check c = { .db = db, .say = say, .arg = arg, .fault = f == NULL ? &own : f, .least = CHECK_OK };

	return check_probes(&c, probes, sizeof(probes) / sizeof(probes[0]));
}

enum db_class check_store_start(struct db *db, check_say say, void *arg, struct fault *f)
{
	static const struct check_probe probes[] = {
		{ "variables", check_variables_start },
		{ "route", check_route },
		{ "matched rows", check_found_rows },
		{ "plan", check_plan_statements },
	};
	struct fault own = { .code = LH_OK };
	struct check c = { .db = db, .say = say, .arg = arg, .fault = f == NULL ? &own : f, .least = CHECK_WARN };

	return check_probes(&c, probes, sizeof(probes) / sizeof(probes[0]));
}
