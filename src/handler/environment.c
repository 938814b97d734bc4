/* environment.c - see environment.h. */
#include "handler/environment.h"

#include "base/fault.h"

#include <inttypes.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRONMENT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define ENVIRONMENT_FIRST_ROOM 32
#define ENVIRONMENT_PASSWD_SIZE 4096

/* Home directories that were looked up. A look-up may read files or ask a directory server: once a user is enough. */
struct environment_home {
	struct environment_home *next;
	uid_t uid;
	char text[]; /* "HOME=..." */
};

static pthread_mutex_t environment_homes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct environment_home *environment_homes;

static struct environment_home *environment_look_up(uid_t uid)
{
	char buffer[ENVIRONMENT_PASSWD_SIZE];
	struct environment_home *home;
	struct passwd entry, *found = NULL;
	const char *dir = "/";
	size_t size;

	if (getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) == 0 && found != NULL && found->pw_dir[0] == '/')
		dir = found->pw_dir;
	size = strlen(dir) + sizeof("HOME=");
	home = malloc(sizeof(*home) + size);
	if (home == NULL)
		return NULL;
	home->uid = uid;
	snprintf(home->text, size, "HOME=%s", dir);
	return home;
}

static struct environment_home *environment_known_home(uid_t uid)
{
	struct environment_home *home = environment_homes;

	while (home != NULL && home->uid != uid)
		home = home->next;
	return home;
}

/* Never freed: one for each user that a handler runs as. NULL without memory. */
static const char *environment_home_of(uid_t uid)
{
	struct environment_home *home, *known;

	pthread_mutex_lock(&environment_homes_lock);
	home = environment_known_home(uid);
	pthread_mutex_unlock(&environment_homes_lock);
	if (home != NULL)
		return home->text;
	home = environment_look_up(uid);
	if (home == NULL)
		return NULL;
	pthread_mutex_lock(&environment_homes_lock);
	known = environment_known_home(uid);
	if (known == NULL) {
		home->next = environment_homes;
		environment_homes = home;
	}
	pthread_mutex_unlock(&environment_homes_lock);
	if (known == NULL)
		return home->text;
	free(home);
	return known->text;
}

/* Takes var, "NAME=value"; NULL stands for memory that ran out. One place is kept for the NULL at the end. */
static bool environment_put(struct environment *e, char *var)
{
	size_t name_len, i;

	if (var == NULL)
		return false;
	name_len = strcspn(var, "=");
	for (i = 0; i < e->count; i++) {
		if (strncmp(e->vars[i], var, name_len) == 0 && e->vars[i][name_len] == '=') {
			free(e->vars[i]);
			e->vars[i] = var;
			return true;
		}
	}
	if (e->count + 1 >= e->room) {
		size_t room = e->room == 0 ? ENVIRONMENT_FIRST_ROOM : e->room * 2;
		char **vars = reallocarray(e->vars, room, sizeof(*vars));

		if (vars == NULL) {
			free(var);
			return false;
		}
		e->vars = vars;
		e->room = room;
	}
	e->vars[e->count++] = var;
	e->vars[e->count] = NULL;
	return true;
}

static bool environment_copy(struct environment *e, const char *var)
{
	return environment_put(e, var == NULL ? NULL : strdup(var));
}

static bool environment_set(struct environment *e, const char *fmt, ...) LH_PRINTF(2, 3);

static bool environment_set(struct environment *e, const char *fmt, ...)
{
	char *var = NULL;
	va_list args;
	int len;

	va_start(args, fmt);
	len = vasprintf(&var, fmt, args);
	va_end(args);
	return environment_put(e, len < 0 ? NULL : var);
}

/* Ours, when we have one. */
static bool environment_pass(struct environment *e, const char *name)
{
	const char *value = getenv(name);

	return value == NULL || environment_set(e, "%s=%s", name, value);
}

static bool environment_add_configured(struct environment *e, char *const *vars)
{
	for (; vars != NULL && *vars != NULL; vars++) {
		if (!environment_copy(e, *vars))
			return false;
	}
	return true;
}

/* The names that are ours. Not even the configuration can change them. */
static bool environment_add_job(struct environment *e, const struct job *job, unsigned int max_attempts, int64_t timeout_ms)
{
	return environment_set(e, "LEASEHOLD_JOB_ID=%" PRIu64, job->id) && environment_set(e, "LEASEHOLD_KIND=%s", job->kind) &&
	       environment_set(e, "LEASEHOLD_QUEUE=%s", job->queue) && environment_set(e, "LEASEHOLD_ATTEMPT=%u", job->attempt) &&
	       environment_set(e, "LEASEHOLD_MAX_ATTEMPTS=%u", max_attempts) &&
	       environment_set(e, "LEASEHOLD_CLAIM_NO=%" PRIu32, job->claim_no) &&
	       environment_set(e, "LEASEHOLD_LEASE_ID=%s", job->lease) &&
	       environment_set(e, "LEASEHOLD_LEASE_MS=%" PRIu32, job->lease_ms) &&
	       environment_set(e, "LEASEHOLD_TIMEOUT_MS=%" PRId64, timeout_ms) && environment_copy(e, "LEASEHOLD_CONTROL_FD=3") &&
	       environment_set(e, "LEASEHOLD_STEPS=%zu", job->step_count) &&
	       (job->traceparent[0] == '\0' || environment_set(e, "TRACEPARENT=%s", job->traceparent));
}

bool environment_build(struct environment *e, const struct job *job, const struct handler_settings *handler,
		       unsigned int max_attempts, int64_t timeout_ms)
{
	uid_t user = handler->switch_user ? handler->uid : geteuid();

	*e = (struct environment){.count = 0};
	return environment_copy(e, ENVIRONMENT_PATH) && environment_copy(e, environment_home_of(user)) &&
	       environment_pass(e, "LANG") && environment_pass(e, "TZ") && environment_add_configured(e, handler->env) &&
	       (job == NULL || environment_add_job(e, job, max_attempts, timeout_ms));
}

void environment_free(struct environment *e)
{
	for (size_t i = 0; i < e->count; i++)
		free(e->vars[i]);
	free(e->vars);
	*e = (struct environment){.count = 0};
}
