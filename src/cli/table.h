/* table.h - a table on standard output (layer: cli; one thread).
 *
 * On a terminal: columns as wide as their contents, a bold head, states in colour, some columns cut where the line would not fit.
 * Elsewhere: one TAB between cells, the same head, nothing cut, no colour: a form that programs may rely on. */
#ifndef LEASEHOLD_CLI_TABLE_H
#define LEASEHOLD_CLI_TABLE_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_COLUMNS_MAX 16

struct table_column {
	const char *title;  /* of the head */
	const char *source; /* name of the result's column, for table_add_rows; NULL: the caller adds the cells */
	bool right;         /* aligned to the right: numbers */
	bool cut;           /* gives way when the terminal is too narrow: the last such column first */
	bool state;         /* coloured by its value */
	bool optional;      /* a terminal does not show it when all of its cells are empty; not the first or last column */
};

struct table {
	const struct table_column *columns; /* borrowed */
	size_t count, cells;
	struct buf text; /* the cells, each with its NUL */
	size_t width[TABLE_COLUMNS_MAX];
	bool filled[TABLE_COLUMNS_MAX]; /* a cell of it is not empty */
};

void table_init(struct table *t, const struct table_column *columns, size_t count);
void table_free(struct table *t);
/* The next cell, row by row. text is copied and control characters are escaped; NULL and "" show as "-". */
void table_add(struct table *t, const char *text);
void table_addf(struct table *t, const char *fmt, ...) LH_PRINTF(2, 3);
/* A count that stopped at max: "100000+" then. */
void table_add_count(struct table *t, uint64_t count, uint64_t max);
/* All rows of a result that are left, each column from its source. */
struct db_rows;
void table_add_rows(struct table *t, struct db_rows *rows);
/* Prints it and returns an exit code. Without rows it prints nothing but, elsewhere than on a terminal, the head. */
int table_print(struct table *t);

#endif
