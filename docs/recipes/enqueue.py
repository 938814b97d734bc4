#!/usr/bin/python3
"""Takes an order (its amount is the argument), and asks for its invoice in the same transaction: both are committed, or none."""
import json
import os
import random
import sys
import time

import pymysql


def place_order(db, amount):
    db.begin()
    with db.cursor() as cursor:
        cursor.execute("INSERT INTO orders (amount) VALUES (%s)", (amount,))
        order = cursor.lastrowid
        cursor.execute("INSERT INTO leasehold.jobs (kind, payload) VALUES ('invoice.issue', %s)", (json.dumps({"order": order}),))
    db.commit()
    return order


def enqueue_once(db, kind, key, payload):
    """Returns the new job's id; None while an unfinished job of this kind has the key."""
    for attempt in range(20):
        try:
            db.begin()
            with db.cursor() as cursor:
                cursor.execute("INSERT INTO leasehold.jobs (kind, unique_key, payload) VALUES (%s, %s, %s)",
                               (kind, key, json.dumps(payload)))
                id = cursor.lastrowid
            db.commit()
            return id
        except pymysql.err.MySQLError as error:
            db.rollback()
            if error.args[0] == 1062:  # duplicate key: it has been asked for already
                return None
            if error.args[0] not in (1205, 1213):  # lock wait timeout, deadlock: others are inserting the same key just now
                raise
            time.sleep(random.uniform(0, 0.01 * 2 ** min(attempt, 6)))
    raise TimeoutError("too many deadlocks")


def connect():
    return pymysql.connect(unix_socket=os.environ["DB_SOCKET"], user=os.environ["DB_USER"], password=os.environ["DB_PASSWORD"],
                           database="shop", charset="utf8mb4", autocommit=False)


if __name__ == "__main__":
    print(place_order(connect(), sys.argv[1]))
