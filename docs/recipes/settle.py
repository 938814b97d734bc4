#!/usr/bin/python3
"""Issues the invoice of an order once: the invoice and the end of the job are committed together, or neither is."""
import json
import os
import random
import sys
import time

import pymysql

JOB, LEASE = os.environ["LEASEHOLD_JOB_ID"], os.environ["LEASEHOLD_LEASE_ID"]
DEAD, LATER = 65, 75            # exit status: never try again; try again later
UNDONE = (1020, 1205, 1213)     # record changed, lock wait timeout, deadlock: run the whole transaction again


class LeaseLost(Exception):
    """Somebody else has the job, or has finished it: nothing of ours may be committed."""


def connect():
    db = pymysql.connect(unix_socket=os.environ["DB_SOCKET"], user=os.environ["DB_USER"], password=os.environ["DB_PASSWORD"],
                         database="shop", charset="utf8mb4", autocommit=False)
    with db.cursor() as cursor:
        # A snapshot would see the job's row as it was before its last heartbeat.
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return db


def issue_invoice(db, order):
    db.begin()
    with db.cursor() as cursor:
        # The effects. However long they take, the lease is renewed meanwhile: the job's row is not locked yet.
        if not cursor.execute("SELECT amount FROM orders WHERE id = %s", (order,)):
            raise LookupError(f"there is no order {order}")
        (amount,) = cursor.fetchone()
        cursor.execute("INSERT INTO invoices (order_id, amount) VALUES (%s, %s)", (order, amount))
        invoice = cursor.lastrowid
        # The fence. It locks the job's row, so it comes last.
        cursor.execute("UPDATE leasehold.jobs SET state = 'succeeded', finished_at = UTC_TIMESTAMP(6), result = %s"
                       " WHERE id = %s AND lease_id = %s AND state = 'running'", (str(invoice), JOB, LEASE))
        if cursor.rowcount != 1:
            raise LeaseLost
    db.commit()


def main():
    try:
        order = int(json.load(sys.stdin)["order"])
    except (ValueError, KeyError, TypeError) as error:
        print(f'the payload is not {{"order": NUMBER}}: {error!r}', file=sys.stderr)
        return DEAD
    db = connect()
    for attempt in range(10):
        try:
            issue_invoice(db, order)
            return 0
        except LookupError as error:
            print(error, file=sys.stderr)
            return DEAD
        except LeaseLost:
            print("the lease is lost: rolled back", file=sys.stderr)
            return LATER
        except pymysql.err.MySQLError as error:
            if error.args[0] not in UNDONE:
                raise  # status 1: tried again. If the connection broke in COMMIT and it was done, the daemon sees that.
            db.rollback()
            time.sleep(random.uniform(0, 0.05 * 2 ** attempt))
    return LATER


if __name__ == "__main__":
    sys.exit(main())  # an open transaction ends with the connection: rolled back
