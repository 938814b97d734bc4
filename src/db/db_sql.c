/* db_sql.c - building statements with quoted values. */
#include "db/db_private.h"

#include <inttypes.h>
#include <string.h>

/* The connection's character set is utf8mb4, in which no byte of a longer character looks like a quote or a backslash; the
 * library knows from the server's status whether backslashes escape. */
static void db_sql_add_quoted(struct db *db, struct buf *sql, const char *bytes, size_t len)
{
	unsigned long written;
	char *room;

	if (db->mysql == NULL) {
		sql->bad = true;
		return;
	}
	buf_addc(sql, '\'');
	room = buf_room(sql, 2 * len + 1);
	if (room == NULL)
		return;
	written = mysql_real_escape_string(db->mysql, room, bytes, len);
	if (written > 2 * len) {
		sql->bad = true;
		return;
	}
	buf_grow(sql, written);
	buf_addc(sql, '\'');
}

void db_vsqlf(struct db *db, struct buf *sql, const char *fmt, va_list ap)
{
	const char *from = fmt, *percent, *text;

	while ((percent = strchr(from, '%')) != NULL) {
		buf_add(sql, from, (size_t)(percent - from));
		switch (percent[1]) {
		case 's':
			text = va_arg(ap, const char *);
			if (text == NULL)
				buf_adds(sql, "NULL");
			else
				db_sql_add_quoted(db, sql, text, strlen(text));
			break;
		case 'b':
			text = va_arg(ap, const char *);
			db_sql_add_quoted(db, sql, text, va_arg(ap, size_t));
			break;
		case 'u':
			buf_addf(sql, "%" PRIu64, va_arg(ap, uint64_t));
			break;
		case 'd':
			buf_addf(sql, "%" PRId64, va_arg(ap, int64_t));
			break;
		case 'r':
			buf_adds(sql, va_arg(ap, const char *));
			break;
		case '%':
			buf_addc(sql, '%');
			break;
		default:
			sql->bad = true;
			return;
		}
		from = percent + 2;
	}
	buf_adds(sql, from);
}

void db_sqlf(struct db *db, struct buf *sql, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	db_vsqlf(db, sql, fmt, ap);
	va_end(ap);
}
