/* check_store.h - what `leasehold check` proves about a database (layer: store; changes nothing). */
#ifndef LEASEHOLD_STORE_CHECK_STORE_H
#define LEASEHOLD_STORE_CHECK_STORE_H

#include "store/store.h"

enum check_level { CHECK_OK, CHECK_WARN, CHECK_FAIL };

/* Each probe reports through say(arg, level, subject, text): one line for a person, naming the value found, where, and what to
 * do. */
typedef void (*check_say)(void *arg, enum check_level level, const char *subject, const char *text);

/* All probes on an open connection: server version and flavour, schema version, engine of each table, indexes by name, grants
 * that the daemon needs (and none that it should not have, as a warning), isolation and session settings as read back, time
 * zone, binlog format and row image, max_allowed_packet, wait_timeout, read_only, a route that splits reads from writes,
 * CLIENT_FOUND_ROWS honoured, EXPLAIN of every hot statement (key used, no filesort, no full scan). Returns the class of the
 * first database failure that stopped the probing, DB_OK when all were run. */
enum db_class check_store_run(struct db *db, check_say say, void *arg, struct fault *f) LH_MUST_CHECK;

/* The part `run` insists on at start: that it takes our writes and reports them right, a route that is not split, a binlog
 * format that permits READ COMMITTED writes, the hot statements' plans and privileges. Says only what is wrong. DB_READONLY
 * when it takes no writes. */
enum db_class check_store_start(struct db *db, check_say say, void *arg, struct fault *f) LH_MUST_CHECK;

/* That fleet slots can be used. To be asked only where a handler has a limit. all: what is fine is told too. */
enum db_class check_store_slots(struct db *db, bool all, check_say say, void *arg, struct fault *f) LH_MUST_CHECK;

#endif
