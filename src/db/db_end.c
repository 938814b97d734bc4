/* db_end.c - making sure that nothing of a lost session can land any more. */
#include "base/clock.h"
#include "db/db_private.h"

#include <string.h>

#define DB_END_UNKNOWN_THREAD 1094

/* KILL answers "unknown thread" only when the session's last statement has ended, committed or not; what was not committed is
 * being undone then, and may hold its locks a moment longer. The process list does not do for that: a server leaves a session
 * out of it as soon as its socket is closed, and KILL closes it first. */
static enum db_class db_end_kill(struct db *db, uint64_t session, bool *gone, struct fault *f)
{
	enum db_class c;

	memset(f, 0, sizeof(*f));
	c = db_execf(db, NULL, f, "KILL %u", session);
	*gone = f->number == DB_END_UNKNOWN_THREAD;
	return *gone ? DB_OK : c;
}

/* Waits a moment on the server. */
static enum db_class db_end_pause(struct db *db, struct fault *f)
{
	struct db_rows *rows;
	enum db_class c = db_queryf(db, &rows, f, "SELECT SLEEP(0.02)");

	db_rows_free(rows);
	return c;
}

/* What is known without asking. Returns true when that settles it. */
static bool db_end_by_identity(const struct db_identity *now, const struct db_identity *lost, enum db_end *end)
{
	bool same_place =
		strcmp(now->hostname, lost->hostname) == 0 && now->port == lost->port && now->server_id == lost->server_id;

	if (lost->session == 0) {
		*end = DB_END_GONE;
		return true;
	}
	if (same_place && !db_same_server(now, lost) && now->start_us > lost->start_us) {
		*end = DB_END_GONE;
		return true;
	}
	if (!db_same_server(now, lost) || !now->session_is_direct || !lost->session_is_direct) {
		*end = DB_END_UNKNOWN;
		return true;
	}
	return false;
}

enum db_end db_end_session(struct db *db, const struct db_identity *lost, int64_t wait_ms, struct fault *f)
{
	int64_t until = clock_mono_ms() + wait_ms;
	struct fault mine;
	enum db_class c;
	enum db_end end;
	bool gone;

	if (!db->open) {
		(void)db_refuse(f, DB_GONE, "not connected to the database");
		return DB_END_FAILED;
	}
	if (db_end_by_identity(&db->identity, lost, &end))
		return end;
	for (;;) {
		c = db_end_kill(db, lost->session, &gone, &mine);
		if (gone)
			return DB_END_GONE;
		/* It takes its time, or is not ours to end. */
		if (db->open && (c != DB_OK || clock_mono_ms() >= until))
			return DB_END_UNKNOWN;
		if (c == DB_OK)
			c = db_end_pause(db, &mine);
		if (c != DB_OK) {
			if (f != NULL)
				*f = mine;
			return DB_END_FAILED;
		}
	}
}
