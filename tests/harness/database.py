"""The database `leasehold` of one test: dropped, migrated as a DBA would, audited by a trigger, and spoken to in short words."""
import time
from pathlib import Path

import pymysql

from .waiting import until

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
NAME = "leasehold"
PASSWORD = "only-for-tests"
ACCOUNTS = {"lh_worker": "leasehold_worker", "lh_producer": "leasehold_producer", "lh_handler": "leasehold_handler",
            "lh_reader": "leasehold_reader"}
FINISHED = ("succeeded", "dead", "cancelled")

# Who changed what. USER() is the session's own account, so the checker can tell the daemon's changes from the test's.
AUDIT = """
CREATE TABLE test_audit (seq BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, id BIGINT UNSIGNED NOT NULL, old_state VARCHAR(16), new_state VARCHAR(16),
  old_lease CHAR(36), new_lease CHAR(36), old_attempt INT, new_attempt INT, old_claim_no BIGINT, new_claim_no BIGINT,
  old_locked_at VARCHAR(32), new_locked_at VARCHAR(32), at DATETIME(6) NOT NULL, session BIGINT UNSIGNED NOT NULL, account VARCHAR(128) NOT NULL,
  KEY (id)) ENGINE=InnoDB CHARACTER SET utf8mb4;
CREATE TRIGGER test_inserted AFTER INSERT ON jobs FOR EACH ROW INSERT INTO test_audit VALUES (NULL, NEW.id, NULL, NEW.state, NULL,
  NEW.lease_id, NULL, NEW.attempt, NULL, NEW.claim_no, NULL, NEW.locked_at, UTC_TIMESTAMP(6), CONNECTION_ID(), USER());
CREATE TRIGGER test_changed AFTER UPDATE ON jobs FOR EACH ROW INSERT INTO test_audit VALUES (NULL, NEW.id, OLD.state, NEW.state, OLD.lease_id,
  NEW.lease_id, OLD.attempt, NEW.attempt, OLD.claim_no, NEW.claim_no, OLD.locked_at, NEW.locked_at, UTC_TIMESTAMP(6), CONNECTION_ID(), USER());
CREATE TRIGGER test_deleted AFTER DELETE ON jobs FOR EACH ROW INSERT INTO test_audit VALUES (NULL, OLD.id, OLD.state, NULL, OLD.lease_id,
  NULL, OLD.attempt, NULL, OLD.claim_no, NULL, OLD.locked_at, NULL, UTC_TIMESTAMP(6), CONNECTION_ID(), USER());
"""


class Database:
    def __init__(self, server):
        self.server = server
        self._dba = None

    def create(self, migrate=True):
        """A fresh database, owned by nobody before. Accounts are kept from test to test: grants do not die with a database."""
        self.drop_connection()
        with self.server.connect(cursorclass=pymysql.cursors.DictCursor) as dba, dba.cursor() as cursor:
            self._end_sessions(cursor)
            cursor.execute(f"DROP DATABASE IF EXISTS {NAME}")
            cursor.execute(f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4")
        if migrate:
            self.migrate()
            self.server.client(AUDIT, NAME)
        return self

    @staticmethod
    def _end_sessions(cursor):
        """A test that failed may have left a transaction open, which would keep the database from being dropped."""
        cursor.execute("SHOW PROCESSLIST")
        for session in cursor.fetchall():
            if session["db"] == NAME:
                try:
                    cursor.execute(f"KILL {session['Id']}")
                except pymysql.err.OperationalError:
                    pass  # it has gone by itself

    def migrate(self):
        self.apply_migrations()
        if not getattr(self.server, "has_accounts", False):
            self.server.client((MIGRATIONS / "grants.sql").read_text(), NAME)
            self._make_accounts()
            self.server.has_accounts = True

    def apply_migrations(self, pattern="[0-9]*.sql"):
        """The numbered files, in their order, as often as one likes."""
        for script in sorted(MIGRATIONS.glob(pattern)):
            self.server.client(script.read_text(), NAME)

    def _make_accounts(self):
        default = "SET DEFAULT ROLE {role} FOR {user}" if self.server.is_mariadb else "SET DEFAULT ROLE {role} TO {user}"
        for user, role in ACCOUNTS.items():
            account = f"'{user}'@'%'"
            self.server.client(f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{PASSWORD}'; GRANT {role} TO {account};"
                               + default.format(role=role, user=account))

    def drop_connection(self):
        """For tests that stop the server: the next statement opens a new one."""
        if self._dba:
            try:
                self._dba.close()
            except pymysql.err.Error:
                pass
        self._dba = None

    def connect(self, user="root", **more):
        return self.server.connect(user, "" if user == "root" else PASSWORD, NAME, **more)

    def sql(self, statement, *values):
        """All rows of a statement, as dicts; run by the DBA in autocommit mode. For a write: how many rows changed."""
        if self._dba is None:
            self._dba = self.connect(cursorclass=pymysql.cursors.DictCursor)
        with self._dba.cursor() as cursor:
            count = cursor.execute(statement, values or None)
            return list(cursor.fetchall()) if cursor.description else count

    def value(self, statement, *values):
        """The one value of a one-row statement."""
        (row,) = self.sql(statement, *values)
        (value,) = row.values()
        return value

    def enqueue(self, kind, n=1, **columns):
        """Inserts n equal rows as a producer would and returns their ids (one id when n is 1). The column run_in is seconds from now."""
        run_in = columns.pop("run_in", None)
        names, marks, values = ["kind", *columns], ["%s"] * (1 + len(columns)), [kind, *columns.values()]
        if run_in is not None:
            names.append("run_at")
            marks.append("UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND")
            values.append(int(run_in * 1_000_000))
        row = f"({', '.join(marks)})"
        ids = []
        while len(ids) < n:
            count = min(1000, n - len(ids))
            if self._dba is None:
                self.sql("SELECT 1")
            with self._dba.cursor() as cursor:
                cursor.execute(f"INSERT INTO jobs ({', '.join(names)}) VALUES {', '.join([row] * count)}", values * count)
                ids += range(cursor.lastrowid, cursor.lastrowid + count)
        return ids[0] if n == 1 else ids

    def job(self, id):
        rows = self.sql("SELECT * FROM jobs WHERE id=%s", id)
        return rows[0] if rows else None

    def state(self, id):
        return self.value("SELECT state FROM jobs WHERE id=%s", id)

    def states(self):
        return {row["state"]: row["n"] for row in self.sql("SELECT state, COUNT(*) n FROM jobs GROUP BY state")}

    def ledger(self, id):
        return self.sql("SELECT * FROM job_attempts WHERE job_id=%s ORDER BY claim_no, outcome", id)

    def audit(self, id=None, where="TRUE"):
        """Changes of one job (or all) in order."""
        return self.sql(f"SELECT * FROM test_audit WHERE (%s IS NULL OR id=%s) AND {where} ORDER BY seq", id, id)

    def wait(self, id, state, seconds=10, where=None):
        """Waits until a job (or every one of a list) is in that state, or one of those states; returns its row (or all of them)."""
        states = (state,) if isinstance(state, str) else tuple(state)
        ids = [id] if isinstance(id, int) else list(id)
        marks = ", ".join(["%s"] * len(states))

        def reached():
            rows = []
            for start in range(0, len(ids), 1000):
                some = ids[start:start + 1000]
                rows += self.sql(f"SELECT * FROM jobs WHERE id IN ({', '.join(map(str, some))}) AND state IN ({marks})", *states)
                if len(rows) < start + len(some):
                    return None
            return rows

        rows = until(reached, seconds, lambda: f"job(s) {ids[:5]} to become {states}: {self.states()}, {self.brief(ids[:5])}")
        return rows[0] if isinstance(id, int) else rows

    def wait_finished(self, ids, seconds=10):
        return self.wait(ids, FINISHED, seconds)

    def brief(self, ids):
        """A few words on rows, for messages."""
        rows = self.sql(f"SELECT id, state, attempt, claim_no, last_error FROM jobs WHERE id IN ({', '.join(map(str, ids))})")
        return [" ".join(f"{k}={str(v)[:80]}" for k, v in row.items()) for row in rows]

    def now(self):
        """The server's clock, UTC, as a naive datetime."""
        return self.value("SELECT UTC_TIMESTAMP(6)")

    def reconnect(self, seconds=20):
        """After the server was away."""
        end = time.monotonic() + seconds
        while True:
            try:
                self.drop_connection()
                self.sql("SELECT 1")
                return
            except pymysql.err.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
