/* conf_names.c - finding options by name, and what people may have meant. */
#include "config/conf_names.h"

#include <ctype.h>
#include <string.h>

#define CONF_NAMES_MAX 48 /* longer names are not compared: no option is that long */

const struct conf_option *conf_names_find(const char *group, const char *name)
{
	for (size_t i = 0; i < conf_option_count; i++)
		if (!strcmp(conf_options[i].group, group) && !strcmp(conf_options[i].name, name))
			return &conf_options[i];
	return NULL;
}

bool conf_names_is_nested(const char *group, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < conf_option_count; i++)
		if (!strcmp(conf_options[i].group, group) && !strncmp(conf_options[i].name, name, len) &&
		    conf_options[i].name[len] == '.')
			return true;
	return false;
}

static unsigned int conf_names_min(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* How many characters must be put in, left out, replaced, or exchanged with their neighbour, whatever their case. */
static unsigned int conf_names_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	unsigned int d[CONF_NAMES_MAX + 1][CONF_NAMES_MAX + 1];

	for (size_t i = 0; i <= a_len; i++)
		d[i][0] = (unsigned int)i;
	for (size_t j = 0; j <= b_len; j++)
		d[0][j] = (unsigned int)j;
	for (size_t i = 1; i <= a_len; i++) {
		for (size_t j = 1; j <= b_len; j++) {
			int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);

			d[i][j] = conf_names_min(d[i - 1][j - 1] + (x != y), conf_names_min(d[i - 1][j], d[i][j - 1]) + 1);
			if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && tolower((unsigned char)a[i - 2]) == y)
				d[i][j] = conf_names_min(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[a_len][b_len];
}

/* The part of an option that a file has at this place: a group, or the next piece of a dotted name. Returns its length,
 * 0 for an option of elsewhere. */
static size_t conf_names_piece(const struct conf_option *option, const char *group, const char *nested, const char **piece)
{
	size_t len = strlen(nested);

	if (!group) {
		*piece = option->group;
		return strlen(option->group);
	}
	if (strcmp(option->group, group) != 0 || strncmp(option->name, nested, len) != 0)
		return 0;
	*piece = option->name + len;
	return strcspn(*piece, ".");
}

static bool conf_names_nearest(const char *group, const char *nested, const char *name, struct buf *out)
{
	size_t name_len = strlen(name), best_len = 0;
	unsigned int best = name_len < 6 ? 2 : (unsigned int)name_len / 3 + 1; /* must be less than this */
	const char *nearest = NULL;

	if (name_len > CONF_NAMES_MAX)
		return false;
	for (size_t i = 0; i < conf_option_count; i++) {
		const char *piece = NULL;
		size_t len = conf_names_piece(&conf_options[i], group, nested, &piece);
		unsigned int distance;

		if (!len || len > CONF_NAMES_MAX)
			continue;
		distance = conf_names_distance(name, name_len, piece, len);
		if (distance >= best)
			continue;
		best = distance;
		nearest = piece;
		best_len = len;
	}
	if (nearest)
		buf_addf(out, "; did you mean \"%.*s\"?", (int)best_len, nearest);
	return nearest;
}

/* A known option in the wrong place. */
static bool conf_names_elsewhere(const char *name, struct buf *out)
{
	for (size_t i = 0; i < conf_option_count; i++) {
		const char *dot = strrchr(conf_options[i].name, '.');

		if (strcmp(dot ? dot + 1 : conf_options[i].name, name) != 0)
			continue;
		buf_addf(out, "; there is %s.%s", conf_options[i].group, conf_options[i].name);
		return true;
	}
	return false;
}

static void conf_names_list(const char *group, const char *nested, struct buf *out)
{
	const char *last = NULL;
	size_t last_len = 0;

	buf_adds(out, "; known here:");
	for (size_t i = 0; i < conf_option_count; i++) {
		const char *piece = NULL;
		size_t len = conf_names_piece(&conf_options[i], group, nested, &piece);

		if (!len || (last && len == last_len && !memcmp(piece, last, len)))
			continue;
		buf_addf(out, " %.*s", (int)len, piece);
		last = piece;
		last_len = len;
	}
}

void conf_names_suggest(const char *group, const char *nested, const char *name, struct buf *out)
{
	if (!conf_names_nearest(group, nested, name, out) && !conf_names_elsewhere(name, out))
		conf_names_list(group, nested, out);
}
