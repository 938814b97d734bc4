/* settings.c - see settings.h. */
#include "model/settings.h"

#include <stdlib.h>
#include <string.h>

struct settings *settings_new(void)
{
	struct settings *s = calloc(1, sizeof(*s));

	if (s != NULL)
		atomic_init(&s->refs, 1);
	return s;
}

struct settings *settings_ref(struct settings *s)
{
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

static void settings_free_strings(char **strings)
{
	if (strings == NULL)
		return;
	for (char **p = strings; *p != NULL; p++)
		free(*p);
	free(strings);
}

static void settings_free_database(struct database_settings *d)
{
	if (d->password != NULL)
		explicit_bzero(d->password, strlen(d->password));
	free(d->password);
	free(d->host);
	free(d->socket);
	free(d->name);
	free(d->user);
	free(d->tls_ca);
	free(d->tls_cert);
	free(d->tls_key);
}

static void settings_free_handler(struct handler_settings *h)
{
	free(h->kind);
	settings_free_strings(h->command);
	free(h->user);
	free(h->group);
	free(h->cwd);
	settings_free_strings(h->env);
	free(h->groups);
}

void settings_unref(struct settings *s)
{
	if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	settings_free_database(&s->database);
	free(s->file);
	free(s->instance.name);
	free(s->instance.user);
	free(s->instance.group);
	free(s->instance.wake_socket);
	for (size_t i = 0; i < s->pool_count; i++) {
		free(s->pools[i].name);
		settings_free_strings(s->pools[i].queues);
	}
	free(s->pools);
	for (size_t i = 0; i < s->handler_count; i++)
		settings_free_handler(&s->handlers[i]);
	free(s->handlers);
	free(s);
}

/* The length of what a pattern has in common with each of its kinds ("mail." of "mail.*"), or -1 when it is a plain name. */
static ptrdiff_t settings_prefix(const char *pattern)
{
	size_t len = strlen(pattern);

	if (len == 0 || pattern[len - 1] != '*' || (len > 1 && pattern[len - 2] != '.'))
		return -1;
	return (ptrdiff_t)len - 1;
}

const struct handler_settings *settings_handler(const struct settings *s, const char *kind)
{
	const struct handler_settings *best = NULL;
	ptrdiff_t best_len = -1;

	for (size_t i = 0; i < s->handler_count; i++) {
		const struct handler_settings *h = &s->handlers[i];
		ptrdiff_t len = settings_prefix(h->kind);

		if (len < 0 && strcmp(h->kind, kind) == 0)
			return h;
		if (len > best_len && strncmp(h->kind, kind, (size_t)len) == 0) {
			best = h;
			best_len = len;
		}
	}
	return best;
}

unsigned int settings_group_needs(const struct settings *s, const struct handler_settings **who)
{
	unsigned int needs = s->instance.cgroup == CGROUP_ALWAYS ? SETTINGS_GROUPS : 0;

	*who = NULL;
	for (size_t i = 0; i < s->handler_count; i++) {
		const struct handler_settings *h = &s->handlers[i];
		unsigned int wants = (h->group_memory > 0 ? SETTINGS_GROUPS_MEMORY : 0u) |
				     (h->group_cpu > 0 ? SETTINGS_GROUPS_CPU : 0u);

		if (wants == 0)
			continue;
		needs |= wants | SETTINGS_GROUPS;
		if (*who == NULL)
			*who = h;
	}
	return needs;
}

bool settings_use_slots(const struct settings *s)
{
	for (size_t i = 0; i < s->handler_count; i++)
		if (s->handlers[i].concurrency > 0)
			return true;
	return false;
}
