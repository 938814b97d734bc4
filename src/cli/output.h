/* output.h - how values get to standard output, for people and for programs (layer: cli; one thread).
 *
 * Columns are known by their names: those of numbers, of times (all UTC) and of flags; the rest is text. As text, a time reads
 * 2026-01-31T23:59:59.123456Z (without the fraction in tables on a terminal), progress reads 40%, NULL and "" read "-", and
 * control characters are escaped, so that what a handler printed cannot steer a terminal. As JSON, a number is a number, a time
 * the same string, NULL is null. */
#ifndef LEASEHOLD_CLI_OUTPUT_H
#define LEASEHOLD_CLI_OUTPUT_H

#include "base/buf.h"
#include "db/db.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define OUTPUT_TIME_MAX 40

bool output_is_terminal(void); /* standard output is */
bool output_has_colour(void);  /* ... and neither NO_COLOR nor TERM=dumb speaks against it */
size_t output_width(void);     /* columns of the terminal; 0: not known, or no terminal */

/* Appends text with control characters as \n, \t or \xNN. keep_newlines: newlines and tabs stay. */
void output_escape(struct buf *out, const char *text, size_t len, bool keep_newlines);

/* DATETIME text as the server prints it, in the form above. seconds: without the fraction. Other text is copied. Returns out. */
char *output_time(const char *text, bool seconds, char out[OUTPUT_TIME_MAX]);

/* "37s", "5m", "2h", "3d": for people. Returns out. */
char *output_age(int64_t seconds, char *out, size_t size);

/* The current row's column by name (-1: there is none such). */
int output_column(const struct db_rows *rows, const char *name);
/* The value as text for a table, appended to out. */
void output_cell(struct buf *out, const struct db_rows *rows, int column);

/* JSON. All return NULL without memory; json_t is the caller's. */
json_t *output_json_text(const char *text, size_t len); /* ill-formed UTF-8 is replaced; text NULL: null */
json_t *output_json_id(uint64_t id);                    /* a string beyond what JSON libraries hold as an integer */
json_t *output_json_value(const struct db_rows *rows, unsigned int column);
json_t *output_json_row(const struct db_rows *rows);
json_t *output_json_rows(struct db_rows *rows); /* all rows that are left */
/* Takes value and prints it. Returns an exit code; NULL is "out of memory". */
int output_json(json_t *value);

/* The current row, a line for each column that is not NULL, named and aligned. Text of several lines is indented below its
 * name, and on a terminal cut where it is very long. */
void output_fields(const struct db_rows *rows);

#endif
