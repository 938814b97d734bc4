/* db_class.c - one table from error numbers to classes. */
#include "db/db_private.h"

#include <string.h>

enum db_class_flags {
	DB_LOST = 1,  /* the connection is gone or useless: the class depends on what was in flight */
	DB_CLOSE = 2, /* the class is certain, but the connection is of no use afterwards */
};

struct db_class_rule {
	unsigned short number;
	unsigned char class;
	unsigned char flags;
};

/* MariaDB and MySQL share numbers up to 1880; above that a number is listed for the server that uses it and means nothing on the
 * other. 2000 to 2999 are the client library's own. */
static const struct db_class_rule db_class_rules[] = {
	/* Rolled back, or never begun: run it again. */
	{1020, DB_RETRY, 0}, /* record has changed since last read (snapshot isolation) */
	{1205, DB_RETRY, 0}, /* lock wait timeout: only the statement was rolled back, db_fail rolls back the rest */
	{1206, DB_RETRY, 0}, /* the lock table is full */
	{1213, DB_RETRY, 0}, /* deadlock; Galera: certification failed or aborted by another node */
	{1412, DB_RETRY, 0}, /* table definition has changed, please retry transaction */
	{1614, DB_RETRY, 0}, /* XA: deadlock */
	{1615, DB_RETRY, 0}, /* prepared statement needs to be re-prepared */
	{1637, DB_RETRY, 0}, /* too many active concurrent transactions */
	{1684, DB_RETRY, 0}, /* skipped: concurrent DDL */
	{3100, DB_RETRY, 0}, /* group replication: observer failed before commit */
	{3101, DB_RETRY, 0}, /* group replication: rolled back */
	{3572, DB_RETRY, 0}, /* MySQL: lock not available (NOWAIT) */

	/* The connection is gone, or about to be, or the statement was ended from outside. */
	{1047, DB_GONE, DB_CLOSE}, /* Galera: the node is not ready; nothing was executed */
	{1053, DB_GONE, DB_LOST},  /* server shutdown in progress */
	{1077, DB_GONE, DB_LOST},  /* normal shutdown */
	{1079, DB_GONE, DB_LOST},  /* shutdown complete */
	{1080, DB_GONE, DB_LOST},  /* forcing close of thread */
	{1152, DB_GONE, DB_LOST},  /* aborted connection */
	{1154, DB_GONE, DB_LOST},  /* read error from connection pipe */
	{1155, DB_GONE, DB_LOST},  /* fcntl error */
	{1156, DB_GONE, DB_LOST},  /* packets out of order */
	{1157, DB_GONE, DB_LOST},  /* cannot uncompress packet */
	{1158, DB_GONE, DB_LOST},  /* error reading packets */
	{1159, DB_GONE, DB_LOST},  /* timeout reading packets */
	{1160, DB_GONE, DB_LOST},  /* error writing packets */
	{1161, DB_GONE, DB_LOST},  /* timeout writing packets */
	{1180, DB_GONE, DB_LOST},  /* error during COMMIT */
	{1184, DB_GONE, DB_LOST},  /* aborted connection, also by a failing init_connect */
	{1243, DB_GONE, DB_CLOSE}, /* unknown statement handle */
	{1317, DB_GONE, DB_LOST},  /* query execution was interrupted */
	{1927, DB_GONE, DB_LOST},  /* MariaDB: connection was killed */
	{1969, DB_GONE, DB_LOST},  /* MariaDB: max_statement_time exceeded */
	{2000, DB_GONE, DB_LOST},  /* unknown client error */
	{2001, DB_GONE, DB_LOST},  /* cannot create socket */
	{2002, DB_GONE, DB_LOST},  /* cannot connect through socket */
	{2003, DB_GONE, DB_LOST},  /* cannot connect to host */
	{2004, DB_GONE, DB_LOST},  /* cannot create IP socket */
	{2005, DB_GONE, DB_LOST},  /* unknown host */
	{2006, DB_GONE, DB_LOST},  /* server has gone away */
	{2007, DB_GONE, DB_LOST},  /* protocol mismatch */
	{2008, DB_GONE, DB_LOST},  /* out of memory while reading a result, which is then unread */
	{2009, DB_GONE, DB_LOST},  /* wrong host info */
	{2012, DB_GONE, DB_LOST},  /* error in server handshake */
	{2013, DB_GONE, DB_LOST},  /* lost connection, also a timeout */
	{2014, DB_GONE, DB_LOST},  /* commands out of sync */
	{2026, DB_GONE, DB_LOST},  /* TLS error */
	{2027, DB_GONE, DB_LOST},  /* malformed packet */
	{2048, DB_GONE, DB_LOST},  /* invalid connection handle */
	{2055, DB_GONE, DB_LOST},  /* lost connection, with errno */
	{2057, DB_GONE, DB_LOST},  /* number of columns changed */
	{3024, DB_GONE, DB_LOST},  /* MySQL: max_execution_time exceeded */
	{3169, DB_GONE, DB_LOST},  /* MySQL: session was killed */
	{4031, DB_GONE, DB_LOST},  /* MySQL: disconnected because of inactivity */

	{1062, DB_DUPLICATE, 0},
	{1169, DB_DUPLICATE, 0}, /* cannot write because of unique constraint */
	{1586, DB_DUPLICATE, 0},

	/* This one row's values. */
	{1048, DB_DATA, 0},        /* column cannot be null */
	{1094, DB_DATA, 0},        /* KILL: no such session */
	{1118, DB_DATA, 0},        /* row size too large */
	{1153, DB_DATA, DB_CLOSE}, /* packet larger than max_allowed_packet: the server hangs up after it */
	{1162, DB_DATA, 0},        /* result string longer than max_allowed_packet */
	{1264, DB_DATA, 0},        /* out of range */
	{1265, DB_DATA, 0},        /* data truncated */
	{1292, DB_DATA, 0},        /* incorrect date or time */
	{1300, DB_DATA, 0},        /* invalid character string */
	{1301, DB_DATA, 0},        /* function result larger than max_allowed_packet */
	{1365, DB_DATA, 0},        /* division by zero */
	{1366, DB_DATA, 0},        /* incorrect string value */
	{1367, DB_DATA, 0},        /* illegal value found during parsing */
	{1406, DB_DATA, 0},        /* data too long */
	{1411, DB_DATA, 0},        /* incorrect value for function */
	{1441, DB_DATA, 0},        /* datetime function overflow */
	{1451, DB_DATA, 0},        /* foreign key: a table of the operator's */
	{1452, DB_DATA, 0},
	{1644, DB_DATA, 0},        /* SIGNAL: a trigger of the operator's refuses the row */
	{1690, DB_DATA, 0},        /* numeric value out of range */
	{1977, DB_DATA, 0},        /* MariaDB: cannot convert string */
	{2020, DB_DATA, DB_CLOSE}, /* the library's own bound on packets */
	{3140, DB_DATA, 0},        /* MySQL: invalid JSON text */
	{3819, DB_DATA, 0},        /* MySQL: check constraint */
	{3854, DB_DATA, 0},        /* MySQL: cannot convert string */
	{4025, DB_DATA, 0},        /* MariaDB: check constraint */

	/* An operator must act: schema, statement, server configuration. */
	{1046, DB_SCHEMA, 0}, /* no database selected */
	{1049, DB_SCHEMA, 0}, /* unknown database */
	{1051, DB_SCHEMA, 0}, /* unknown table */
	{1054, DB_SCHEMA, 0}, /* unknown column */
	{1064, DB_SCHEMA, 0}, /* syntax */
	{1072, DB_SCHEMA, 0}, /* key column does not exist */
	{1109, DB_SCHEMA, 0}, /* unknown table */
	{1115, DB_SCHEMA, 0}, /* unknown character set */
	{1136, DB_SCHEMA, 0}, /* column count does not match */
	{1146, DB_SCHEMA, 0}, /* no such table */
	{1176, DB_SCHEMA, 0}, /* key does not exist: an index that a statement forces */
	{1193, DB_SCHEMA, 0}, /* unknown system variable */
	{1231, DB_SCHEMA, 0}, /* variable cannot be set to that value */
	{1267, DB_SCHEMA, 0}, /* illegal mix of collations */
	{1271, DB_SCHEMA, 0},
	{1273, DB_SCHEMA, 0}, /* unknown collation */
	{1305, DB_SCHEMA, 0}, /* no such function or procedure */
	{1347, DB_SCHEMA, 0}, /* not a table */
	{1356, DB_SCHEMA, 0}, /* a view that is invalid */
	{1364, DB_SCHEMA, 0}, /* column has no default */
	{1665, DB_SCHEMA, 0}, /* binlog_format = STATEMENT does not permit READ COMMITTED */
	{1906, DB_SCHEMA, 0}, /* MariaDB: a generated column was named */
	{1932, DB_SCHEMA, 0}, /* table does not exist in engine */
	{3105, DB_SCHEMA, 0}, /* MySQL: a generated column was named */

	/* An operator must act: accounts. */
	{1044, DB_DENIED, 0}, /* database */
	{1045, DB_DENIED, DB_CLOSE},
	{1095, DB_DENIED, 0}, /* KILL: somebody else's session */
	{1129, DB_DENIED, DB_CLOSE}, /* host is blocked because of many connection errors */
	{1130, DB_DENIED, DB_CLOSE}, /* host is not allowed */
	{1131, DB_DENIED, DB_CLOSE}, /* anonymous user */
	{1141, DB_DENIED, 0},
	{1142, DB_DENIED, 0}, /* table */
	{1143, DB_DENIED, 0}, /* column */
	{1227, DB_DENIED, 0}, /* a global privilege */
	{1251, DB_DENIED, DB_CLOSE}, /* authentication protocol not supported */
	{1275, DB_DENIED, DB_CLOSE},
	{1370, DB_DENIED, 0}, /* routine */
	{1524, DB_DENIED, DB_CLOSE}, /* authentication plugin is not loaded */
	{1698, DB_DENIED, DB_CLOSE},
	{1820, DB_DENIED, DB_CLOSE}, /* the password must be changed first */
	{1862, DB_DENIED, DB_CLOSE}, /* the password has expired */
	{2058, DB_DENIED, DB_CLOSE}, /* authentication plugins of the library ... */
	{2059, DB_DENIED, DB_CLOSE}, /* ... cannot be loaded */
	{2061, DB_DENIED, DB_CLOSE},
	{3118, DB_DENIED, DB_CLOSE}, /* MySQL: account is locked */
	{3159, DB_DENIED, DB_CLOSE}, /* MySQL: only secure transport */
	{3530, DB_DENIED, 0},        /* MySQL: role is not granted */
	{4151, DB_DENIED, DB_CLOSE}, /* MariaDB: account is locked */

	{1290, DB_READONLY, DB_CLOSE}, /* the server runs with --read-only */
	{1792, DB_READONLY, DB_CLOSE}, /* a read-only transaction */
	{1836, DB_READONLY, DB_CLOSE}, /* read-only mode */
	{1874, DB_READONLY, DB_CLOSE}, /* InnoDB is in read-only mode */

	{1040, DB_CROWDED, DB_CLOSE}, /* too many connections */
	{1135, DB_CROWDED, DB_CLOSE}, /* cannot create a thread */
	{1203, DB_CROWDED, DB_CLOSE}, /* the account has max_user_connections already */
	{1226, DB_CROWDED, DB_CLOSE}, /* the account has exceeded a resource */
	{1461, DB_CROWDED, DB_CLOSE}, /* too many prepared statements */
};

const char *db_class_name(enum db_class c)
{
	static const char *const names[] = {
		[DB_OK] = "ok",         [DB_RETRY] = "retry",     [DB_GONE] = "gone",     [DB_UNCERTAIN] = "uncertain",
		[DB_DUPLICATE] = "duplicate", [DB_DATA] = "data", [DB_SCHEMA] = "schema", [DB_DENIED] = "denied",
		[DB_READONLY] = "read-only",  [DB_CROWDED] = "crowded", [DB_OTHER] = "other",
	};

	return (unsigned int)c < sizeof(names) / sizeof(names[0]) ? names[c] : "unknown";
}

/* Numbers that are not listed (a newer server, a proxy) are judged by the SQLSTATE class where that leaves no doubt. */
static struct db_class_rule db_class_by_sqlstate(const char *sqlstate)
{
	if (strncmp(sqlstate, "08", 2) == 0)
		return (struct db_class_rule){0, DB_GONE, DB_LOST};
	if (strncmp(sqlstate, "40", 2) == 0)
		return (struct db_class_rule){0, DB_RETRY, 0};
	if (strncmp(sqlstate, "22", 2) == 0)
		return (struct db_class_rule){0, DB_DATA, 0};
	return (struct db_class_rule){0, DB_OTHER, DB_CLOSE};
}

enum db_class db_classify(unsigned int number, const char *sqlstate, enum db_flight flight, bool *closes)
{
	struct db_class_rule rule = db_class_by_sqlstate(sqlstate);
	size_t i;

	for (i = 0; i < sizeof(db_class_rules) / sizeof(db_class_rules[0]); i++)
		if (db_class_rules[i].number == number)
			rule = db_class_rules[i];
	*closes = rule.flags != 0;
	if ((rule.flags & DB_LOST) && flight != DB_FLIGHT_NONE)
		return DB_UNCERTAIN;
	/* A COMMIT that fails otherwise than by a rollback that the server itself reports may or may not have happened. */
	if (flight == DB_FLIGHT_COMMIT && rule.class != DB_RETRY && rule.class != DB_READONLY) {
		*closes = true;
		return DB_UNCERTAIN;
	}
	return (enum db_class)rule.class;
}
