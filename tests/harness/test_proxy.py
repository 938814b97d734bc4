"""The harness itself: what the proxy loses is lost as it says."""
import threading

import pymysql
import pytest

from harness import proxy as wire
from harness.database import NAME, PASSWORD, Database
from harness.proxy import Proxy
from harness.waiting import until


@pytest.fixture
def database(server):
    database = Database(server).create()
    database.enqueue("x")
    yield database
    database.drop_connection()


@pytest.fixture
def proxy(server, tmp_path):
    proxy = Proxy(server, tmp_path).start()
    yield proxy
    proxy.stop()


def connect(proxy, **more):
    return pymysql.connect(unix_socket=proxy.path, user="lh_worker", password=PASSWORD, database=NAME, autocommit=True, **more)


def run(connection, sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


UPDATE = "UPDATE jobs SET attempt=attempt+1"


def test_a_session_passes_through_and_is_seen(database, proxy):
    session = connect(proxy)
    run(session, UPDATE)
    assert run(session, "SELECT CONNECTION_ID()")[0][0] == session.thread_id()
    assert run(session, "SELECT REPEAT('x', 3000000)")[0][0] == "x" * 3000000
    assert len(proxy.seen("^UPDATE jobs")) == 1


def test_a_statement_dropped_before_it_is_sent_does_nothing(database, proxy):
    proxy.on("^UPDATE", wire.drop_before, nth=2)
    session = connect(proxy)
    run(session, UPDATE)
    with pytest.raises(pymysql.err.OperationalError):
        run(session, UPDATE)
    assert database.value("SELECT attempt FROM jobs") == 1


def test_a_dropped_reply_leaves_the_statement_done(database, proxy):
    rule = proxy.on("^UPDATE", wire.drop_reply)
    with pytest.raises(pymysql.err.OperationalError):
        run(connect(proxy), UPDATE)
    rule.wait(1)
    assert database.value("SELECT attempt FROM jobs") == 1
    run(connect(proxy), UPDATE)


def test_a_late_statement_lands_after_its_client_has_gone(database, proxy):
    proxy.on("^UPDATE", wire.land_late(0.5))
    with pytest.raises(pymysql.err.OperationalError):
        run(connect(proxy), UPDATE)
    assert database.value("SELECT attempt FROM jobs") == 0
    until(lambda: database.value("SELECT attempt FROM jobs") == 1, 3)


def test_a_killed_session_lands_nothing(database, proxy):
    rule = proxy.on("^UPDATE", wire.land_late(0.5))
    session = connect(proxy)
    with pytest.raises(pymysql.err.OperationalError):
        run(session, UPDATE)
    database.sql(f"KILL {session.thread_id()}")
    rule.wait(3)
    assert database.value("SELECT attempt FROM jobs") == 0


def test_errors_callbacks_and_renumbering(database, proxy):
    proxy.on("^UPDATE", wire.answer_error(1213, "Deadlock found", "40001"))
    called = threading.Event()
    proxy.on("^SELECT 1", wire.call(lambda session, sql: called.set()))
    session = connect(proxy)
    with pytest.raises(pymysql.err.OperationalError, match="1213"):
        run(session, UPDATE)
    run(session, "SELECT 1")
    assert called.is_set()
    proxy.renumber = True
    session = connect(proxy)
    assert run(session, "SELECT CONNECTION_ID()")[0][0] == session.thread_id() - 1_000_000


def test_new_connections_are_refused_while_others_live(database, proxy):
    session = connect(proxy)
    proxy.limit = 1
    with pytest.raises(pymysql.err.OperationalError, match="1203"):
        connect(proxy)
    proxy.limit, proxy.refuse = None, (1040, "Too many connections")
    with pytest.raises(pymysql.err.OperationalError, match="1040"):
        connect(proxy)
    run(session, "SELECT 1")
    assert proxy.refused == 2
