/* table.c - see table.h. */
#include "cli/table.h"

#include "cli/cli.h"
#include "cli/output.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TABLE_TEXT_MAX (256u * 1024 * 1024)
#define TABLE_GAP 2
#define TABLE_CUT_MIN 12 /* a column that gives way keeps so much */

#define TABLE_BOLD "\033[1m"
#define TABLE_PLAIN "\033[0m"

/* Characters, not bytes: close enough to columns for what is shown here. */
static size_t table_characters(const char *text)
{
	size_t n = 0;

	for (; *text != '\0'; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

void table_init(struct table *t, const struct table_column *columns, size_t count)
{
	memset(t, 0, sizeof(*t));
	t->columns = columns;
	t->count = count > TABLE_COLUMNS_MAX ? TABLE_COLUMNS_MAX : count;
	buf_init(&t->text, TABLE_TEXT_MAX);
	for (size_t i = 0; i < t->count; i++)
		t->width[i] = table_characters(columns[i].title);
}

void table_free(struct table *t)
{
	buf_free(&t->text);
}

/* The cell's text stands at the end of the buffer, from start on: closes it. */
static void table_close(struct table *t, size_t start)
{
	size_t column = t->cells % t->count, width;

	buf_addc(&t->text, '\0');
	if (!buf_ok(&t->text))
		return;
	width = table_characters(t->text.data + start);
	if (width > t->width[column])
		t->width[column] = width;
	t->filled[column] = t->filled[column] || strcmp(t->text.data + start, "-") != 0;
	t->cells++;
}

void table_add(struct table *t, const char *text)
{
	size_t start = t->text.len;

	if (text == NULL || text[0] == '\0')
		buf_addc(&t->text, '-');
	else
		output_escape(&t->text, text, strlen(text), false);
	table_close(t, start);
}

void table_addf(struct table *t, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	if (vsnprintf(text, sizeof(text), fmt, args) < 0)
		text[0] = '\0';
	va_end(args);
	table_add(t, text);
}

void table_add_count(struct table *t, uint64_t count, uint64_t max)
{
	table_addf(t, "%" PRIu64 "%s", count, count >= max ? "+" : "");
}

void table_add_rows(struct table *t, struct db_rows *rows)
{
	int source[TABLE_COLUMNS_MAX] = {0};

	for (size_t i = 0; i < t->count; i++)
		source[i] = t->columns[i].source == NULL ? -1 : output_column(rows, t->columns[i].source);
	while (db_rows_next(rows)) {
		for (size_t i = 0; i < t->count; i++) {
			size_t start = t->text.len;

			output_cell(&t->text, rows, source[i]);
			table_close(t, start);
		}
	}
}

static const char *table_colour(const char *value)
{
	static const struct {
		const char *value, *colour;
	} colours[] = {
		{"running", "\033[36m"}, {"succeeded", "\033[32m"}, {"dead", "\033[31m"},   {"cancelled", "\033[33m"},
		{"live", "\033[32m"},    {"stale", "\033[31m"},     {"paused", "\033[33m"},
	};

	for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++) {
		if (strcmp(value, colours[i].value) == 0)
			return colours[i].colour;
	}
	return NULL;
}

/* Whether a person has no use for the column. Programs find the same columns always. */
static bool table_hides(const struct table *t, size_t column)
{
	return t->columns[column].optional && !t->filled[column] && output_is_terminal();
}

/* Makes columns that may be cut so narrow that a line fits the terminal, where they can. */
static void table_narrow(struct table *t)
{
	size_t total = 0, room = output_width();

	for (size_t i = 0; i < t->count; i++)
		total += table_hides(t, i) ? 0 : t->width[i] + (i > 0 ? TABLE_GAP : 0);
	for (size_t i = t->count; i-- > 0 && room > 0 && total > room;) {
		bool gives = t->columns[i].cut && !table_hides(t, i) && t->width[i] > TABLE_CUT_MIN;
		size_t spare = gives ? t->width[i] - TABLE_CUT_MIN : 0, give = spare < total - room ? spare : total - room;

		t->width[i] -= give;
		total -= give;
	}
}

/* The bytes of the first n characters. */
static size_t table_bytes(const char *text, size_t n)
{
	size_t i = 0;

	while (text[i] != '\0' && (n > 0 || ((unsigned char)text[i] & 0xc0) == 0x80)) {
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			n--;
		i++;
	}
	return i;
}

static void table_print_padded(const struct table *t, size_t column, const char *text, const char *colour)
{
	bool last = column + 1 == t->count, cut = table_characters(text) > t->width[column];
	size_t bytes = cut ? table_bytes(text, t->width[column] - 1) : strlen(text);
	size_t pad = cut ? 0 : t->width[column] - table_characters(text);

	if (column > 0)
		printf("%*s", TABLE_GAP, "");
	if (t->columns[column].right)
		printf("%*s", (int)pad, "");
	printf("%s%.*s%s%s", colour == NULL ? "" : colour, (int)bytes, text, cut ? "…" : "", colour == NULL ? "" : TABLE_PLAIN);
	if (!t->columns[column].right && !last)
		printf("%*s", (int)pad, "");
	if (last)
		putchar('\n');
}

static void table_print_cell(const struct table *t, size_t column, const char *text, const char *colour)
{
	if (table_hides(t, column))
		return;
	if (output_is_terminal())
		table_print_padded(t, column, text, colour);
	else
		printf("%s%s%s", column > 0 ? "\t" : "", text, column + 1 == t->count ? "\n" : "");
}

int table_print(struct table *t)
{
	bool colour = output_has_colour();
	const char *cell = t->text.data;

	if (!buf_ok(&t->text)) {
		fprintf(stderr, "leasehold: out of memory\n");
		return CLI_FAILED;
	}
	if (t->cells == 0 && output_is_terminal())
		return CLI_OK;
	table_narrow(t);
	for (size_t i = 0; i < t->count; i++)
		table_print_cell(t, i, t->columns[i].title, colour ? TABLE_BOLD : NULL);
	for (size_t i = 0, column = 0; i < t->cells; i++) {
		table_print_cell(t, column, cell, colour && t->columns[column].state ? table_colour(cell) : NULL);
		cell += strlen(cell) + 1;
		column = column + 1 == t->count ? 0 : column + 1;
	}
	return CLI_OK;
}
