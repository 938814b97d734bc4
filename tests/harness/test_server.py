"""The harness itself: server and database."""
import time

from harness.database import Database
from harness.server import Server
from harness.waiting import until


def test_a_fresh_database_is_migrated_audited_and_open_to_the_accounts(server):
    database = Database(server).create()
    producer = database.connect("lh_producer")
    with producer.cursor() as cursor:
        cursor.execute("INSERT INTO jobs (kind) VALUES ('x')")
    id = database.value("SELECT id FROM jobs")
    database.sql("UPDATE jobs SET state='cancelled' WHERE id=%s", id)
    accounts = [(change["old_state"], change["new_state"], change["account"].split("@")[0]) for change in database.audit(id)]
    assert accounts == [(None, "ready", "lh_producer"), ("ready", "cancelled", "root")]
    producer.close()
    database.create()
    assert database.value("SELECT COUNT(*) FROM jobs") == 0
    database.drop_connection()


def test_the_servers_clock_steps_while_sessions_stay_open():
    server = Server(faketime=True).create().start()
    try:
        session = server.connect()

        def ahead():
            with session.cursor() as cursor:
                cursor.execute("SELECT UNIX_TIMESTAMP(UTC_TIMESTAMP(6)), CONNECTION_ID()")
                return float(cursor.fetchone()[0]) - time.time()

        assert abs(ahead()) < 1
        for step in (90, -90, 7200, -7200, 0):
            server.step_clock(step)
            until(lambda: abs(ahead() - step) < 1, 2, lambda: f"a step of {step} s: {ahead()}")
        began = time.monotonic()
        with session.cursor() as cursor:
            cursor.execute("SELECT SLEEP(0.3)")
        assert 0.25 < time.monotonic() - began < 1.5
    finally:
        server.destroy()
