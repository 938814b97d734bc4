/* conf_user.c - the users and groups that handlers run as, looked up once, so that a start needs no look-up. */
#include "config/conf_check.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONF_USER_BUFFER_MAX ((size_t)1024 * 1024)
#define CONF_USER_GROUPS_MAX 65536

static bool conf_user_assumed_root;

void conf_assume_root(bool assume)
{
	conf_user_assumed_root = assume;
}

/* What a user and a group come to. */
struct conf_user {
	uid_t uid;
	gid_t gid;
};

/* One look-up with a buffer of the size given: 0 and *found, or an errno. */
typedef int conf_user_lookup(const char *name, char *buffer, size_t size, struct conf_user *ids, bool *found);

static int conf_user_lookup_user(const char *name, char *buffer, size_t size, struct conf_user *ids, bool *found)
{
	struct passwd entry, *result = NULL;
	int error = getpwnam_r(name, &entry, buffer, size, &result);

	*found = result;
	if (result)
		*ids = (struct conf_user){.uid = entry.pw_uid, .gid = entry.pw_gid};
	return error;
}

static int conf_user_lookup_group(const char *name, char *buffer, size_t size, struct conf_user *ids, bool *found)
{
	struct group entry, *result = NULL;
	int error = getgrnam_r(name, &entry, buffer, size, &result);

	*found = result;
	if (result)
		ids->gid = entry.gr_gid;
	return error;
}

/* The C libraries do not agree on the errno of a name that is not there: only these mean that the answer is not known. */
static bool conf_user_is_failure(int error)
{
	return error == EIO || error == EMFILE || error == ENFILE || error == ENOMEM || error == ERANGE;
}

/* Repeats the look-up with a larger buffer until it fits; refuses a name that is not there. Returns success. */
static bool conf_user_find(struct conf_state *state, struct conf_key key, conf_user_lookup *lookup, const char *name,
			   struct conf_user *ids)
{
	char quoted[CONF_QUOTE_SIZE];
	bool found = false;
	int error = ERANGE;
	struct fault f;

	for (size_t size = 4096; error == ERANGE && size <= CONF_USER_BUFFER_MAX; size *= 4) {
		char *buffer = malloc(size);

		if (!buffer) {
			state->report.no_memory = true;
			return false;
		}
		error = lookup(name, buffer, size, ids, &found);
		free(buffer);
	}
	if (found)
		return true;
	conf_report_quote(name, quoted);
	if (conf_user_is_failure(error))
		fault_set_errno(&f, error, "cannot look up %s", quoted);
	else
		fault_set(&f, LH_ERR_INPUT, "there is no %s %s on this machine", key.name, quoted);
	conf_state_refuse(state, key, "%s", f.text);
	return false;
}

/* The supplementary groups; without a user, the group alone. Returns false without memory. */
static bool conf_user_list_groups(const char *user, gid_t gid, gid_t **groups, size_t *group_count)
{
	int count = 1;
	gid_t *list = NULL, *grown;

	for (int room = 32; room <= CONF_USER_GROUPS_MAX; room *= 2) {
		grown = realloc(list, (size_t)room * sizeof(*list));
		if (!grown)
			break;
		list = grown;
		list[0] = gid;
		count = room;
		if (!user || getgrouplist(user, gid, list, &count) >= 0) {
			*groups = list;
			*group_count = user ? (size_t)count : 1;
			return true;
		}
	}
	free(list);
	return false;
}

static bool conf_user_is_root(void)
{
	return conf_user_assumed_root || !geteuid();
}

/* May this process become that? */
static bool conf_user_may(struct conf_state *state, struct conf_key key, bool same, const char *name)
{
	char quoted[CONF_QUOTE_SIZE];

	if (same || conf_user_is_root())
		return true;
	conf_state_refuse(state, key,
			  "%s is not the %s of this process (uid %u, gid %u), and only one that was started as root can change it",
			  conf_report_quote(name, quoted), key.name, (unsigned int)geteuid(), (unsigned int)getegid());
	return false;
}

/* Turns the names (NULL: the process's own, or the user's group) into ids. Returns false when something was refused. */
static bool conf_user_identify(struct conf_state *state, struct conf_key place, const char *user, const char *group,
			       struct conf_user *ids)
{
	struct conf_key user_key = place, group_key = place;

	user_key.name = "user";
	group_key.name = "group";
	*ids = (struct conf_user){.uid = geteuid(), .gid = getegid()};
	if (user && (!conf_user_find(state, user_key, conf_user_lookup_user, user, ids) ||
		     !conf_user_may(state, user_key, ids->uid == geteuid(), user)))
		return false;
	return !group || (conf_user_find(state, group_key, conf_user_lookup_group, group, ids) &&
			  conf_user_may(state, group_key, ids->gid == getegid(), group));
}

/* instance_ok: what instance.user and instance.group say can be used. A handler that goes by them would only repeat what
 * is wrong with them. */
static void conf_user_resolve_handler(struct conf_state *state, int index, bool instance_ok)
{
	const struct instance_settings *instance = &state->settings->instance;
	struct handler_settings *handler = &state->settings->handlers[index];
	const char *user = handler->user ? handler->user : instance->user;
	const char *group = handler->group || handler->user ? handler->group : instance->group;
	struct conf_user ids;

	if ((!user && !group) || (!instance_ok && !handler->user))
		return;
	if (!conf_user_identify(state, (struct conf_key){"handlers", index, NULL}, user, group, &ids))
		return;
	handler->uid = ids.uid;
	handler->gid = ids.gid;
	/* Without root there is nothing to change, and setgroups(2) would fail. */
	handler->switch_user = conf_user_is_root();
	if (!conf_user_list_groups(user, ids.gid, &handler->groups, &handler->group_count))
		state->report.no_memory = true;
}

void conf_user_resolve(struct conf_state *state)
{
	const struct instance_settings *instance = &state->settings->instance;
	struct conf_user ids;
	bool instance_ok = conf_user_identify(state, (struct conf_key){"instance", CONF_NO_INDEX, NULL}, instance->user,
					      instance->group, &ids);

	for (size_t i = 0; i < state->settings->handler_count; i++)
		conf_user_resolve_handler(state, (int)i, instance_ok);
}
