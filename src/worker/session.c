#include "worker/session.h"

#include "base/clock.h"
#include "base/random.h"
#include "worker/instance.h"

#define SESSION_TELL_MS 60000
#define SESSION_FIRST_WAIT_MS 50
#define SESSION_TELL_RETRIES 20

enum lh_err session_init(struct session *s, struct instance *in, const char *area, int64_t timeout_ms, unsigned int lock_wait_s,
			 int64_t most_wait_ms)
{
	const struct db_options options = {
		.database = &in->startup->database,
		.timeout_ms = timeout_ms,
		.lock_wait_s = lock_wait_s,
	};

	*s = (struct session){ .instance = in, .area = area, .most_wait_ms = most_wait_ms };
	atomic_init(&s->ok_ms, clock_mono_ms());
	s->db = db_new(&options);
	return s->db != NULL ? LH_OK : LH_ERR_MEMORY;
}

void session_end(struct session *s)
{
	db_free(s->db);
	s->db = NULL;
}

enum db_class session_connect(struct session *s, struct fault *f)
{
	unsigned int route = atomic_load(&s->instance->route);
	enum db_class c;

	if (s->route != route)
		db_close(s->db);
	if (db_is_open(s->db))
		return DB_OK;
	s->connected = false;
	c = db_open(s->db, f);
	if (c != DB_OK)
		return c;
	s->connected = true;
	s->route = route;
	if (s->was_open)
		atomic_fetch_add(&s->instance->count.reconnects, 1);
	s->was_open = true;
	log_debug(s->area, "connected to %s, session %llu", db_version_text(s->db),
		  (unsigned long long)db_identity(s->db)->session);
	return DB_OK;
}

enum db_class session_connect_after(struct session *s, const struct db_identity *lost, int64_t wait_ms, struct fault *f)
{
	enum db_class c = session_connect(s, f);

	if (c != DB_OK)
		return c;
	if (lost->session != 0 && db_end_session(s->db, lost, wait_ms, f) == DB_END_FAILED)
		return DB_GONE;
	return DB_OK;
}

static void session_tell(struct session *s, enum db_class c, const struct fault *f)
{
	int64_t now = clock_mono_ms();

	if (s->failing_since_ms == 0)
		s->failing_since_ms = now;
	if (!log_limit_pass(&s->limit, now, SESSION_TELL_MS))
		return;
	log_warn(s->area, "database: %s (%s); trying again until it works%s", f->text, db_class_name(c),
		 c == DB_SCHEMA || c == DB_DENIED ? ": an operator must act, see `leasehold check`" : "");
}

static void session_failed(struct session *s, enum db_class c, const struct fault *f)
{
	s->failures++;
	/* Deadlocks and lock waits are daily business, and told only when they do not end. */
	if (c != DB_RETRY || s->failures >= SESSION_TELL_RETRIES)
		session_tell(s, c, f);
	else
		log_debug(s->area, "database: %s (retry %u)", f->text, s->failures);
	/* The server turned read-only under us: every session goes to find the writer, once. */
	if (c == DB_READONLY && s->connected)
		atomic_fetch_add(&s->instance->route, 1);
	if (c == DB_RETRY || c == DB_DATA || c == DB_DUPLICATE)
		return;
	s->connected = false;
	db_close(s->db);
}

static int64_t session_pause_ms(const struct session *s, enum db_class c)
{
	int64_t ceiling = SESSION_FIRST_WAIT_MS;

	if (c == DB_RETRY)
		return 5 + (int64_t)random_below(45);
	for (unsigned int i = 1; i < s->failures && ceiling < s->most_wait_ms; i++)
		ceiling *= 2;
	if (ceiling > s->most_wait_ms)
		ceiling = s->most_wait_ms;
	return ceiling / 2 + (int64_t)random_below((uint64_t)ceiling / 2 + 1);
}

int64_t session_outcome(struct session *s, enum db_class c, const struct fault *f, int64_t ok_wait_ms)
{
	int64_t now = clock_mono_ms();

	if (c != DB_OK) {
		session_failed(s, c, f);
		return session_pause_ms(s, c);
	}
	if (s->failing_since_ms != 0)
		log_info(s->area, "database: works again after %lld ms", (long long)(now - s->failing_since_ms));
	s->failing_since_ms = 0;
	s->limit = (struct log_limit){ 0 };
	s->failures = 0;
	atomic_store(&s->ok_ms, now);
	return ok_wait_ms;
}

int64_t session_age_ms(const struct session *s, int64_t now_ms)
{
	return now_ms - atomic_load(&s->ok_ms);
}
