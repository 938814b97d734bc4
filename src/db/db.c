/* db.c - the client library, opening and closing a connection, and who is at its other end. */
#include "db/db_private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library takes passwords, addresses, option files and plug-ins from these, and one of them switches certificate checks off.
 * What we connect to comes from the configuration file alone, and handlers must not inherit a password. */
static const char *const db_environment[] = {
	"MYSQL_PWD", "MARIADB_PWD", "MYSQL_HOST", "MYSQL_TCP_PORT", "MARIADB_TCP_PORT", "MYSQL_UNIX_PORT", "MARIADB_UNIX_PORT",
	"MYSQL_HOME", "MARIADB_HOME", "MYSQL_GROUP_SUFFIX", "MARIADB_GROUP_SUFFIX", "MYSQL_TEST_LOGIN_FILE", "MARIADB_PLUGIN_DIR",
	"LIBMYSQL_PLUGIN_DIR", "LIBMYSQL_PLUGINS", "LIBMARIADB_PLUGINS", "LIBMYSQL_ENABLE_CLEARTEXT_PLUGIN",
	"MARIADB_TLS_DISABLE_PEER_VERIFICATION", "MYSQL_DEBUG", "MARIADB_DEBUG",
};

enum lh_err db_library_init(struct fault *f)
{
	struct sigaction before;
	size_t i;
	int rc;

	for (i = 0; i < sizeof(db_environment) / sizeof(db_environment[0]); i++)
		(void)unsetenv(db_environment[i]);
	/* The library sets SIGPIPE to be ignored, and that would survive exec into every handler. */
	if (sigaction(SIGPIPE, NULL, &before) != 0)
		return fault_set_errno(f, errno, "cannot read the disposition of SIGPIPE");
	rc = mysql_library_init(0, NULL, NULL);
	if (sigaction(SIGPIPE, &before, NULL) != 0)
		return fault_set_errno(f, errno, "cannot restore the disposition of SIGPIPE");
	if (rc != 0)
		return fault_set(f, LH_ERR_SYSTEM, "the database client library (libmariadb) could not be initialised (code %d)",
				 rc);
	return LH_OK;
}

void db_library_end(void)
{
	mysql_library_end();
}

struct db *db_new(const struct db_options *options)
{
	struct db *db = calloc(1, sizeof(*db));

	if (db == NULL)
		return NULL;
	db->options = *options;
	db->mysql = mysql_init(NULL);
	if (db->mysql == NULL) {
		free(db);
		return NULL;
	}
	return db;
}

void db_free(struct db *db)
{
	if (db == NULL)
		return;
	if (db->mysql != NULL)
		mysql_close(db->mysql);
	mysql_thread_end();
	free(db);
}

/* A fresh handle takes the place of the old one, so that statements can be built, though not sent, while there is no connection. */
void db_close(struct db *db)
{
	if (!db->open)
		return;
	db->open = false;
	db->in_transaction = false;
	mysql_close(db->mysql);
	db->mysql = mysql_init(NULL);
}

char *db_where(const struct db *db, char *out, size_t size)
{
	const struct database_settings *to = db->options.database;

	if (to->host != NULL)
		snprintf(out, size, "%s:%d", to->host, (int)to->port);
	else
		snprintf(out, size, "socket %s", to->socket != NULL ? to->socket : MYSQL_UNIX_ADDR);
	return out;
}

static unsigned int db_seconds(int64_t ms)
{
	int64_t s = ms / 1000 + (ms % 1000 > 0);

	return s < 1 ? 1u : s > 86400 ? 86400u : (unsigned int)s;
}

/* Everything that a default of the library's next version, or of the distribution, could decide otherwise is said outright. */
static void db_set_options(struct db *db)
{
	const struct database_settings *to = db->options.database;
	unsigned int connect_s = db_seconds(to->connect_timeout_ms),
		     protocol = to->host != NULL ? MYSQL_PROTOCOL_TCP : MYSQL_PROTOCOL_SOCKET;
	unsigned int none = 0, least_s = db->options.lock_wait_s + 1;
	my_bool no = 0, encrypt = to->tls != TLS_OFF, verify = to->tls == TLS_VERIFY;

	/* A lock wait has to be answered as one before we stop listening: else it looks like a lost connection. Only MariaDB
	 * knows a wait of no time. */
	if (least_s == 1 && !db->mariadb)
		least_s = 2;
	db->timeout_s = db_seconds(db->options.timeout_ms);
	if (db->timeout_s < least_s)
		db->timeout_s = least_s;
	mysql_options(db->mysql, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
	mysql_options(db->mysql, MYSQL_OPT_READ_TIMEOUT, &db->timeout_s);
	mysql_options(db->mysql, MYSQL_OPT_WRITE_TIMEOUT, &db->timeout_s);
	mysql_options(db->mysql, MYSQL_OPT_RECONNECT, &no);
	mysql_options(db->mysql, MYSQL_OPT_LOCAL_INFILE, &none);
	mysql_options(db->mysql, MYSQL_OPT_PROTOCOL, &protocol);
	mysql_options(db->mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
	mysql_options4(db->mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "leasehold");
	if (encrypt) {
		if (to->tls_ca != NULL)
			mysql_options(db->mysql, MYSQL_OPT_SSL_CA, to->tls_ca);
		if (to->tls_cert != NULL)
			mysql_options(db->mysql, MYSQL_OPT_SSL_CERT, to->tls_cert);
		if (to->tls_key != NULL)
			mysql_options(db->mysql, MYSQL_OPT_SSL_KEY, to->tls_key);
	}
	mysql_options(db->mysql, MYSQL_OPT_SSL_ENFORCE, &encrypt);
	mysql_options(db->mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
}

/* The library's sockets survive exec: a handler that inherited one would keep a dead daemon's session, and its locks, alive. */
static enum db_class db_mark_socket(struct db *db, struct fault *f)
{
	int fd = (int)mysql_get_socket(db->mysql);
	int flags = fcntl(fd, F_GETFD);

	if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) != 0)
		return db_refuse(f, DB_OTHER, "cannot set close-on-exec on the database socket: %s", strerror(errno));
	return DB_OK;
}

static enum db_class db_connect(struct db *db, struct fault *f)
{
	const struct database_settings *to = db->options.database;
	char where[256];
	enum db_class c;

	if (mysql_real_connect(db->mysql, to->host, to->user != NULL ? to->user : "", to->password != NULL ? to->password : "",
			       to->name, to->host != NULL ? (unsigned int)to->port : 0, to->host != NULL ? NULL : to->socket,
			       CLIENT_FOUND_ROWS) == NULL) {
		c = db_fail(db, DB_FLIGHT_NONE, f);
		fault_prefix(f, "cannot connect as \"%s\" to database \"%s\"", to->user != NULL ? to->user : "", to->name);
		return c;
	}
	c = db_mark_socket(db, f);
	if (c != DB_OK)
		return c;
	if (to->tls != TLS_OFF && mysql_get_ssl_cipher(db->mysql) == NULL)
		return db_refuse(f, DB_DENIED, "the connection to %s is not encrypted, but database.tls asks for it",
				 db_where(db, where, sizeof(where)));
	return DB_OK;
}

enum db_class db_open(struct db *db, struct fault *f)
{
	enum db_class c;

	db_close(db);
	if (db->mysql == NULL)
		db->mysql = mysql_init(NULL);
	if (db->mysql == NULL)
		return db_refuse(f, DB_OTHER, "no memory for a connection");
	db_set_options(db);
	db->open = true; /* from here db_close puts a fresh handle in place: options would pile up otherwise */
	c = db_connect(db, f);
	if (c == DB_OK)
		c = db_session_setup(db, f);
	if (c != DB_OK)
		db_close(db);
	return c;
}

bool db_is_open(const struct db *db)
{
	return db->open;
}

const struct db_identity *db_identity(const struct db *db)
{
	return &db->identity;
}

/* Uptime comes in whole seconds and is asked for in a statement of its own. */
#define DB_START_TOLERANCE_US 5000000

bool db_same_server(const struct db_identity *a, const struct db_identity *b)
{
	int64_t apart = a->start_us - b->start_us;

	return strcmp(a->hostname, b->hostname) == 0 && a->port == b->port && a->server_id == b->server_id
	       && apart <= DB_START_TOLERANCE_US && apart >= -DB_START_TOLERANCE_US;
}

/* FNV-1a. */
uint64_t db_identity_hash(const struct db_identity *id)
{
	char text[sizeof(id->hostname) + 96];
	uint64_t hash = 14695981039346656037u;
	const char *p;

	snprintf(text, sizeof(text), "%s:%u:%llu:%lld", id->hostname, id->port, (unsigned long long)id->server_id,
		 (long long)id->start_us);
	for (p = text; *p != '\0'; p++)
		hash = (hash ^ (unsigned char)*p) * 1099511628211u;
	return hash;
}

bool db_is_mariadb(const struct db *db)
{
	return db->mariadb;
}

unsigned int db_version(const struct db *db)
{
	return db->version;
}

const char *db_version_text(const struct db *db)
{
	return db->version_text;
}

size_t db_packet_max(const struct db *db)
{
	return db->packet_max;
}
