#include "worker/startup.h"

#include "base/clock.h"
#include "base/log.h"
#include "handler/runner_link.h"
#include "store/store.h"
#include "store/check_store.h"
#include "store/instance_store.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#define STARTUP_MOST_WAIT_MS 5000

enum lh_err startup_take_groups(const struct settings *s, struct fault *f)
{
	const struct handler_settings *who;
	unsigned int needs = settings_group_needs(s, &who);
	struct fault why = { 0 };
	enum lh_err err = runner_link_take_groups(needs, s->instance.cgroup == CGROUP_ALWAYS, &why);

	if (err == LH_OK)
		return LH_OK;
	if (who == NULL)
		return fault_set(f, err, "instance.cgroup is \"always\", but %s", why.text);
	return fault_set(f, err, "%s of the handlers of %s cannot be had: %s",
			 who->group_memory > 0 ? "limits.cgroup_memory" : "limits.cgroup_cpu", who->kind, why.text);
}

enum lh_err startup_drop_privileges(const struct settings *s, struct fault *f)
{
	const struct passwd *user;
	const struct group *group;
	gid_t gid;

	if (s->instance.user == NULL || geteuid() != 0)
		return LH_OK;
	user = getpwnam(s->instance.user);
	if (user == NULL)
		return fault_set(f, LH_ERR_INPUT, "instance.user: no user \"%s\"", s->instance.user);
	gid = user->pw_gid;
	if (s->instance.group != NULL) {
		group = getgrnam(s->instance.group);
		if (group == NULL)
			return fault_set(f, LH_ERR_INPUT, "instance.group: no group \"%s\"", s->instance.group);
		gid = group->gr_gid;
	}
	if (initgroups(s->instance.user, gid) != 0 || setgid(gid) != 0 || setuid(user->pw_uid) != 0)
		return fault_set_errno(f, errno, "instance.user: cannot become %s", s->instance.user);
	return LH_OK;
}

static void startup_say(void *arg, enum check_level level, const char *subject, const char *text)
{
	int *failed = arg;

	log_write(level == CHECK_FAIL ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN, "check", "%s: %s", subject, text);
	*failed |= level == CHECK_FAIL;
}

/* One try. Returns an exit code, 0, or -1 for "try again". */
static int startup_try(struct db *db, const struct settings *s, struct fault *f, enum db_class *class)
{
	unsigned int version = 0;
	int unfit = 0;

	*class = db_open(db, f);
	if (*class == DB_OK)
		*class = instance_store_check_schema(db, &version, f);
	if (*class == DB_OK)
		*class = check_store_start(db, startup_say, &unfit, f);
	if (*class == DB_OK && settings_use_slots(s))
		*class = check_store_slots(db, false, startup_say, &unfit, f);
	if (*class == DB_OK)
		*f = (struct fault){ 0 }; /* what was said of a probe has been told */
	db_close(db);
	switch (*class) {
	case DB_OK:
		return unfit ? STARTUP_UNFIT : 0;
	case DB_SCHEMA:
		return STARTUP_UNFIT;
	case DB_DENIED:
		return STARTUP_REFUSED;
	default:
		return -1;
	}
}

int startup_check_database(const struct settings *s, const sigset_t *quit, int *stopped)
{
	const struct db_options options = { .database = &s->database, .timeout_ms = s->database.timeout_ms, .lock_wait_s = 1 };
	struct db *db = db_new(&options);
	struct log_limit limit = { 0 };
	int64_t wait_ms = 100;
	enum db_class class;
	int code = -1;

	*stopped = 0;
	while (db != NULL && code < 0 && *stopped == 0) {
		struct fault f = { 0 };
		struct timespec rest = { .tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000 };

		code = startup_try(db, s, &f, &class);
		if (code > 0 && f.text[0] != '\0')
			log_error("start", "%s (%s); see `leasehold check`", f.text, db_class_name(class));
		if (code >= 0)
			break;
		if (log_limit_pass(&limit, clock_mono_ms(), 60000))
			log_warn("start", "database: %s (%s); trying again until it works", f.text, db_class_name(class));
		wait_ms = wait_ms < STARTUP_MOST_WAIT_MS / 2 ? 2 * wait_ms : STARTUP_MOST_WAIT_MS;
		if (sigtimedwait(quit, NULL, &rest) > 0)
			*stopped = 1;
	}
	db_free(db);
	return code;
}
