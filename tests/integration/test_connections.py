"""Lost, refused and hostile connections; errors of the server that are nobody's fault."""
import random
import threading
import time

import pymysql

from harness import invariants
from harness import proxy as wire
from harness.waiting import always, until


def sessions(database):
    return [row["Id"] for row in database.sql("SHOW PROCESSLIST") if row["User"] == "lh_worker"]


def test_every_connection_is_killed_in_a_loop(site):
    """BR-33: whatever was in flight is found out; every job ends, every one was run as often as it was counted, and nothing is left behind."""
    a = site.start(log={"level": "info"})
    site.database.wait(site.database.enqueue("note", 20), "succeeded")
    threads, descriptors = a.threads(), a.fds()
    ids = site.database.enqueue("note", 600) + site.database.enqueue("sh", 20, payload="sleep 0.4; [ $LEASEHOLD_ATTEMPT -ge 2 ]")
    kills = 0
    while kills < 100 and set(site.database.states()) - {"succeeded"} or kills < 40:
        alive = sessions(site.database)
        for session in random.sample(alive, min(1, len(alive))):
            try:
                site.database.sql(f"KILL {session}")
                kills += 1
            except pymysql.err.OperationalError:
                pass  # it has gone by itself
        time.sleep(0.05)
    site.database.wait(ids, "succeeded", 30)
    invariants.attempts_equal_starts(site, ids)
    assert site.database.value("SELECT SUM(reclaims) FROM jobs") == 0
    assert a.threads() == threads and a.running
    until(lambda: a.fds() <= descriptors + 1, 5, lambda: f"{a.fds()} descriptors after {descriptors}")


def test_a_heartbeat_without_a_connection_gets_the_claimers(site):
    """1203 for the heartbeat while all other connections live: the claimer gives up its own, and no lease is lost."""
    proxy = site.proxy()
    a = site.start(proxy=proxy)
    site.database.wait(site.database.enqueue("note"), "succeeded")  # every role has its connection now
    ids = site.database.enqueue("sh", 4, payload="sleep 6")
    site.database.wait(ids, "running")
    until(lambda: len(site.runs.starts()) == 5, 5)
    until(lambda: proxy.seen(wire.RENEW), 3)

    def take_its_place(session, sql):
        proxy.limit = len(proxy.sessions) - 1
        raise wire.Lost

    proxy.on(wire.RENEW, wire.call(take_its_place)).wait(3)
    until(lambda: proxy.refused >= 1, 3)
    renewals = len(proxy.seen(wire.RENEW))
    until(lambda: len(proxy.seen(wire.RENEW)) > renewals, 2, "the heartbeat to be back within two seconds")
    for job in site.database.wait(ids, "succeeded", 10):
        assert (job["attempt"], job["reclaims"]) == (1, 0)
    proxy.limit = None
    site.database.wait(site.database.enqueue("note"), "succeeded", 10)
    assert a.running


def test_a_server_that_is_full_is_waited_for(site):
    """1040 for everything: one warning, not one for each try, and work goes on as soon as there is room."""
    proxy = site.proxy()
    a = site.start(proxy=proxy, log={"level": "info"})
    proxy.refuse = (1040, "Too many connections")
    proxy.drop_all()
    id = site.database.enqueue("note")
    until(lambda: proxy.refused > 15, 10)
    assert site.database.state(id) == "ready"
    assert len(a.grep("1040|Too many")) <= 8, a.tail()
    proxy.refuse = None
    site.database.wait(id, "succeeded", 8)


def test_sessions_that_the_server_times_out(site):
    """BR-67: a global wait_timeout shorter than every pause of ours does not matter."""
    site.server.client("SET GLOBAL wait_timeout=1")
    try:
        a = site.start(log={"level": "info"}, recovery={"interval": "3s", "promote_interval": "3s"})
        time.sleep(3.5)  # the idle time is what is tested
        began = time.monotonic()
        site.database.drop_connection()
        site.database.wait(site.database.enqueue("note"), "succeeded", 3)
        assert time.monotonic() - began < 1.2
        assert not a.grep("gone away|Lost connection"), a.tail()
    finally:
        site.server.client("SET GLOBAL wait_timeout=28800")


def test_no_thread_dies_of_what_an_operator_does(site):
    """BR-70: the table renamed away, privileges revoked, every connection killed: after each a probe job runs at once, with the same threads."""
    a = site.start(log={"level": "info"})
    site.database.wait(site.database.enqueue("note"), "succeeded")
    threads = a.threads()

    def probe():
        site.database.wait([site.database.enqueue("note"), site.database.enqueue("note", run_in=0.2)], "succeeded", 6)
        assert a.threads() == threads

    # Triggers keep a table from moving to another schema, not from another name.
    site.database.sql("RENAME TABLE jobs TO jobs_away")
    a.wait_log("jobs", 5)
    time.sleep(1)
    site.database.sql("RENAME TABLE jobs_away TO jobs")
    probe()
    site.database.sql("REVOKE UPDATE (state) ON leasehold.jobs FROM leasehold_worker")
    denied = site.database.enqueue("note")
    a.wait_log("(?i)denied", 5)
    assert site.database.state(denied) == "ready"
    site.database.sql("GRANT UPDATE (state) ON leasehold.jobs TO leasehold_worker")
    probe()
    for _ in range(5):
        for session in sessions(site.database):
            site.server.client(f"KILL {session}", check=False)
        time.sleep(0.1)
    probe()
    site.database.sql("RENAME TABLE job_attempts TO away1, job_workers TO away2")
    time.sleep(1)
    site.database.sql("RENAME TABLE away1 TO job_attempts, away2 TO job_workers")
    probe()


def test_a_read_only_server_is_left_and_found_again(site):
    """1290: claiming stops, leases that cannot be renewed end in time, and work goes on when writes do."""
    a = site.start(log={"level": "info"})
    short = site.database.enqueue("sh", payload="sleep 3")
    site.database.wait(short, "running")
    site.server.client("SET GLOBAL read_only=1")
    try:
        waiting = site.database.enqueue("note")
        a.wait_log("(?i)read.only", 5)
        always(lambda: site.database.state(waiting) == "ready", 0.5)
    finally:
        site.server.client("SET GLOBAL read_only=0")
    site.database.wait([waiting, short], "succeeded", 15)
    assert a.running and site.database.value("SELECT SUM(attempt) FROM jobs") <= 3


def test_errors_that_only_ask_for_another_try(site):
    """BR-47, BR-48, BR-50: deadlocks, lock waits and snapshot conflicts at every third statement are never an attempt, a failure or a lost thread."""
    proxy = site.proxy()
    a = site.start(proxy=proxy, log={"level": "info"})
    threads = a.threads()
    errors = [(1213, "Deadlock found when trying to get lock", "40001"), (1205, "Lock wait timeout exceeded", "HY000"),
              (1020, "Record has changed since last read", "HY000")]
    dice = random.Random(1)

    def sometimes(session, packet):
        if dice.random() < 0.33:
            wire.answer_error(*dice.choice(errors))(session, packet)
        else:
            wire.pass_on(session, packet)

    proxy.on(r"^\s*UPDATE\s+\S*jobs\b", sometimes, times=None)
    ids = site.database.enqueue("note", 150) + site.database.enqueue("sh", 10, payload="sleep 2")
    site.database.wait(ids, "succeeded", 30)
    invariants.attempts_equal_starts(site, ids)
    assert site.database.value("SELECT COUNT(*) FROM jobs WHERE attempt<>1") == 0 and a.threads() == threads


def test_a_storm_of_real_deadlocks(site):
    """BR-47, BR-48, BR-56: others update the same rows in the opposite order, without manners, for some seconds."""
    a = site.start(pools=[{"name": "p", "threads": 16, "poll": "50ms"}], log={"level": "info"})
    threads, stop = a.threads(), threading.Event()

    def storm():
        connection = site.database.connect(autocommit=False)
        with connection.cursor() as cursor:
            while not stop.is_set():
                try:
                    cursor.execute("SELECT id FROM jobs WHERE state IN ('ready','running') ORDER BY id DESC LIMIT 10")
                    for (id,) in cursor.fetchall():
                        cursor.execute("UPDATE jobs SET progress_note='storm' WHERE id=%s", (id,))
                    connection.commit()
                except pymysql.err.OperationalError:
                    connection.rollback()
        connection.close()

    storms = [threading.Thread(target=storm) for _ in range(2)]
    for thread in storms:
        thread.start()
    try:
        ids = site.database.enqueue("note", 300) + site.database.enqueue("sh", 8, payload="sleep 4")
        site.database.wait(ids, "succeeded", 40)
    finally:
        stop.set()
        for thread in storms:
            thread.join()
    invariants.attempts_equal_starts(site, ids)
    assert site.database.value("SELECT COUNT(*) FROM jobs WHERE attempt<>1 OR reclaims<>0") == 0 and a.threads() == threads
    began = time.monotonic()
    site.database.wait(site.database.enqueue("note", 10), "succeeded", 5)
    assert time.monotonic() - began < 2
