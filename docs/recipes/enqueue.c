/* Takes an order (its amount is the argument), and asks for its invoice in the same transaction: both are committed, or neither is.
 * cc -O2 -o enqueue enqueue.c $(pkg-config --cflags --libs libmariadb) */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>

/* The order's id; 0 if nothing was committed. */
static unsigned long long place_order(MYSQL *db, double amount)
{
	unsigned long long order;
	char sql[200];

	snprintf(sql, sizeof(sql), "INSERT INTO orders (amount) VALUES (%.2f)", amount);
	if (mysql_query(db, "START TRANSACTION") != 0 || mysql_query(db, sql) != 0)
		return 0;
	order = mysql_insert_id(db);
	snprintf(sql, sizeof(sql), "INSERT INTO leasehold.jobs (kind, payload) VALUES ('invoice.issue', '{\"order\":%llu}')", order);
	if (mysql_query(db, sql) != 0 || mysql_query(db, "COMMIT") != 0)
		return 0;
	return order;
}

int main(int argc, char **argv)
{
	MYSQL *db = mysql_init(NULL);
	unsigned long long order = 0;

	if (argc == 2 && mysql_real_connect(db, NULL, getenv("DB_USER"), getenv("DB_PASSWORD"), "shop", 0, getenv("DB_SOCKET"), 0))
		order = place_order(db, atof(argv[1]));
	if (order == 0) {
		fprintf(stderr, "%s\n", mysql_error(db));
		return 1;
	}
	printf("%llu\n", order);
	return 0;
}
