/* Issues the invoice of an order once: the invoice and the end of the job are committed together, or neither is.
 * cc -O2 -o settle settle.c $(pkg-config --cflags --libs libmariadb jansson) */
#include <jansson.h>
#include <mysql.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { DONE = 0, DEAD = 65, LATER = 75, UNDONE = -1 }; /* exit status; UNDONE: run the whole transaction again */

/* Runs a statement. After 1020 (record changed), 1205 (lock wait timeout) and 1213 (deadlock) the whole transaction is run again, after
 * any other error the job; if the connection broke in COMMIT and it was done, the daemon sees that. */
static int run(MYSQL *db, const char *format, ...)
{
	char sql[1024];
	va_list values;

	va_start(values, format);
	vsnprintf(sql, sizeof(sql), format, values);
	va_end(values);
	if (mysql_query(db, sql) == 0)
		return DONE;
	fprintf(stderr, "%s\n", mysql_error(db));
	return mysql_errno(db) == 1020 || mysql_errno(db) == 1205 || mysql_errno(db) == 1213 ? UNDONE : LATER;
}

static int issue_invoice(MYSQL *db, long long order)
{
	char lease[2 * 36 + 1];
	int status = run(db, "START TRANSACTION");
	mysql_real_escape_string(db, lease, getenv("LEASEHOLD_LEASE_ID"), 36);
	/* The effects. However long they take, the lease is renewed meanwhile: the job's row is not locked yet. */
	if (status == DONE)
		status = run(db, "SELECT amount INTO @amount FROM orders WHERE id = %lld", order);
	if (status == DONE && mysql_affected_rows(db) == 0) {
		fprintf(stderr, "there is no order %lld\n", order);
		return DEAD;
	}
	if (status == DONE)
		status = run(db, "INSERT INTO invoices (order_id, amount) VALUES (%lld, @amount)", order);
	/* The fence. It locks the job's row, so it comes last. */
	if (status == DONE)
		status = run(db, "UPDATE leasehold.jobs SET state = 'succeeded', finished_at = UTC_TIMESTAMP(6), result = %llu"
				 " WHERE id = %llu AND lease_id = '%s' AND state = 'running'",
			     (unsigned long long)mysql_insert_id(db), strtoull(getenv("LEASEHOLD_JOB_ID"), NULL, 10), lease);
	if (status != DONE)
		return status;
	if (mysql_affected_rows(db) == 1)
		return run(db, "COMMIT");
	/* Somebody else has the job, or has finished it: nothing of ours may be committed. */
	fprintf(stderr, "the lease is lost: rolled back\n");
	return LATER;
}

int main(void)
{
	json_t *payload = json_loadf(stdin, 0, NULL), *order = json_object_get(payload, "order");
	MYSQL *db = mysql_init(NULL);
	int status = UNDONE;
	if (!json_is_integer(order)) {
		fprintf(stderr, "the payload is not {\"order\": NUMBER}\n");
		return DEAD;
	}
	if (!mysql_real_connect(db, NULL, getenv("DB_USER"), getenv("DB_PASSWORD"), "shop", 0, getenv("DB_SOCKET"), 0)) {
		fprintf(stderr, "%s\n", mysql_error(db));
		return LATER;
	}
	/* A snapshot would see the job's row as it was before its last heartbeat. */
	if (run(db, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED") != DONE)
		return LATER;
	srand((unsigned int)getpid());
	for (int attempt = 0; attempt < 10 && status == UNDONE; attempt++) {
		status = issue_invoice(db, json_integer_value(order));
		if (status == UNDONE && run(db, "ROLLBACK") == DONE)
			nanosleep(&(struct timespec){.tv_nsec = rand() % (500000L << attempt)}, NULL); /* up to 0.25 s */
	}
	return status == UNDONE ? LATER : status; /* an open transaction ends with the connection: rolled back */
}
