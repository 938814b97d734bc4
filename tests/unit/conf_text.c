/* conf_text.c - see conf_text.h. */
#include "conf_text.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CONF_TEXT_PAIRS 32

static const struct conf_text_pair conf_text_base[] = {
	{"handlers.kind", "\"test\""},
	{"handlers.command", "[ \"/bin/true\" ]"},
	{"handlers.kill_grace", "\"100ms\""},
};

static const char *const conf_text_groups[] = {"database", "instance", "lease",     "pools",
					       "handlers", "recovery", "retention", "log"};

/* What of name is left behind "group." and "nested." (which may be ""); NULL when it stands elsewhere. */
static const char *conf_text_leaf(const char *name, const char *group, const char *nested)
{
	size_t group_len = strlen(group), nested_len = strlen(nested);

	if (strncmp(name, group, group_len) != 0 || name[group_len] != '.' ||
	    strncmp(name + group_len + 1, nested, nested_len) != 0)
		return NULL;
	name += group_len + 1 + nested_len;
	return strchr(name, '.') != NULL ? NULL : name;
}

static void conf_text_add(struct buf *out, const struct conf_text_pair *pairs, size_t count, const char *group, const char *nested)
{
	for (size_t i = 0; i < count; i++) {
		const char *leaf = conf_text_leaf(pairs[i].name, group, nested);

		if (leaf != NULL && pairs[i].value != NULL)
			buf_addf(out, "%s = %s;\n", leaf, pairs[i].value);
	}
}

static void conf_text_add_nested(struct buf *out, const struct conf_text_pair *pairs, size_t count, const char *group,
				 const char *nested)
{
	struct buf inner;

	buf_init(&inner, 1 << 16);
	conf_text_add(&inner, pairs, count, group, nested);
	if (inner.len > 0)
		buf_addf(out, "%.*s = {\n%s};\n", (int)strlen(nested) - 1, nested, inner.data);
	buf_free(&inner);
}

static void conf_text_put(struct conf_text_pair *all, size_t *count, const struct conf_text_pair *pair)
{
	for (size_t i = 0; i < *count; i++) {
		if (strcmp(all[i].name, pair->name) == 0) {
			all[i] = *pair;
			return;
		}
	}
	if (*count < CONF_TEXT_PAIRS)
		all[(*count)++] = *pair;
}

char *conf_text_make(const struct conf_text_pair *pairs, size_t count)
{
	struct conf_text_pair all[CONF_TEXT_PAIRS];
	size_t all_count = 0;
	struct buf out;

	buf_init(&out, 1 << 20);
	for (size_t i = 0; i < COUNT(conf_text_base); i++)
		conf_text_put(all, &all_count, &conf_text_base[i]);
	for (size_t i = 0; i < count; i++)
		conf_text_put(all, &all_count, &pairs[i]);
	for (size_t i = 0; i < COUNT(conf_text_groups); i++) {
		const char *group = conf_text_groups[i];
		bool list = strcmp(group, "pools") == 0 || strcmp(group, "handlers") == 0;

		buf_addf(&out, "%s = %s{\n", group, list ? "( " : "");
		conf_text_add(&out, all, all_count, group, "");
		conf_text_add_nested(&out, all, all_count, group, "backoff.");
		conf_text_add_nested(&out, all, all_count, group, "limits.");
		buf_addf(&out, "}%s;\n", list ? " )" : "");
	}
	return buf_take(&out);
}

enum lh_err conf_text_load(const struct conf_text_pair *pairs, size_t count, struct settings **out, struct conf_errors *errors)
{
	char *text = conf_text_make(pairs, count);
	enum lh_err err = LH_ERR_MEMORY;

	*out = NULL;
	if (text != NULL)
		err = conf_load_text(text, "test.conf", out, errors);
	free(text);
	return err;
}

bool conf_text_has(const struct conf_errors *errors, const char *a, const char *b, const char *c)
{
	for (size_t i = 0; i < errors->count; i++) {
		const char *line = errors->lines[i];

		if (strstr(line, a) != NULL && (b == NULL || strstr(line, b) != NULL) && (c == NULL || strstr(line, c) != NULL))
			return true;
	}
	return false;
}

void conf_text_print(const struct conf_errors *errors)
{
	for (size_t i = 0; i < errors->count; i++)
		fprintf(stderr, "%s\n", errors->lines[i]);
}
