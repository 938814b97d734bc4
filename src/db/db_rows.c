/* db_rows.c - reading a result that was fetched to its end. */
#include "base/parse.h"
#include "db/db_private.h"

#include <stdlib.h>
#include <string.h>

size_t db_rows_count(const struct db_rows *rows)
{
	return rows->result != NULL ? (size_t)mysql_num_rows(rows->result) : 0;
}

bool db_rows_next(struct db_rows *rows)
{
	if (rows->result == NULL)
		return false;
	rows->row = mysql_fetch_row(rows->result);
	rows->lengths = rows->row != NULL ? mysql_fetch_lengths(rows->result) : NULL;
	return rows->row != NULL;
}

void db_rows_free(struct db_rows *rows)
{
	if (rows == NULL)
		return;
	if (rows->result != NULL)
		mysql_free_result(rows->result);
	free(rows);
}

unsigned int db_rows_columns(const struct db_rows *rows)
{
	return rows->result != NULL ? mysql_num_fields(rows->result) : 0;
}

const char *db_column_name(const struct db_rows *rows, unsigned int column)
{
	return column < db_rows_columns(rows) ? mysql_fetch_field_direct(rows->result, column)->name : "";
}

const char *db_text(const struct db_rows *rows, unsigned int column, size_t *len)
{
	const char *text = rows->row != NULL && column < db_rows_columns(rows) ? rows->row[column] : NULL;

	if (len != NULL)
		*len = text != NULL ? rows->lengths[column] : 0;
	return text;
}

bool db_is_null(const struct db_rows *rows, unsigned int column)
{
	return db_text(rows, column, NULL) == NULL;
}

/* Checked as any other number: a text that is not the whole number asked for reads as 0, never as a part of it. */
uint64_t db_u64(const struct db_rows *rows, unsigned int column)
{
	const char *text = db_text(rows, column, NULL);
	uint64_t value = 0;

	if (text == NULL || parse_u64(text, 0, UINT64_MAX, &value, NULL) != LH_OK)
		return 0;
	return value;
}

int64_t db_i64(const struct db_rows *rows, unsigned int column)
{
	const char *text = db_text(rows, column, NULL);
	int64_t value = 0;

	if (text == NULL || parse_i64(text, INT64_MIN, INT64_MAX, &value, NULL) != LH_OK)
		return 0;
	return value;
}

void db_copy(const struct db_rows *rows, unsigned int column, char *out, size_t size)
{
	size_t len;
	const char *text = db_text(rows, column, &len);

	if (size == 0)
		return;
	if (len > size - 1)
		len = size - 1;
	if (len > 0)
		memcpy(out, text, len);
	out[len] = '\0';
}
