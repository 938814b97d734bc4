"""Fleet slots while daemons are killed, frozen and thawed: never more than n at a time, and no slot lost for longer than a lease."""
import time

import pytest

from harness.daemon import LEASE_S, SCAN_S
from harness.server import Server
from harness.waiting import always, boot_ms, until

PATIENT = {"recovery": {"interval": "500ms", "promote_interval": "100ms", "max_orphans": 50, "backoff": {"base": "100ms", "max": "200ms"}}}
FINISH_S = LEASE_S + 2 * SCAN_S + 1.5  # a lease, the scans, a backoff, and some air


def start(site, name, limit, **more):
    return site.start(name, handlers=[site.handler("sh", concurrency=limit)], **{**PATIENT, **more})


def held(site):
    return site.database.value("SELECT COUNT(*) FROM job_slots WHERE lease_id IS NOT NULL")


def all_free(site, seconds=LEASE_S + 3):
    until(lambda: held(site) == 0, seconds, lambda: site.database.sql("SELECT * FROM job_slots WHERE lease_id IS NOT NULL"))


def test_a_killed_daemons_slot_is_free_after_a_lease(site):
    """BR-35: the next job starts within a lease and the scans."""
    a = start(site, "A", 1)
    first = site.database.enqueue("sh", payload="mark_slot k 1; [ $LEASEHOLD_ATTEMPT -ge 2 ] || exec sleep 60")
    until(lambda: site.runs.starts(first), 5)
    second = site.database.enqueue("sh", payload="mark_slot k 1")
    start(site, "B", 1)
    until(lambda: site.database.job(second)["slot_wait"], 5)
    killed = boot_ms()
    a.kill()
    until(lambda: site.runs.starts(second), FINISH_S + 2)
    assert site.runs.starts(second)[0].ms - killed < 1000 * FINISH_S
    site.database.wait([first, second], "succeeded", 10)
    all_free(site)


@pytest.mark.parametrize("limit", [1, 3])
def test_kill_9_ten_times(site, limit):
    """BR-35, BR-36: one of three instances dies every half a second, at whatever it does, and another takes its place."""
    daemons = [start(site, f"A{number}", limit) for number in range(3)]
    ids = site.database.enqueue("sh", 60, payload=f"mark_slot k {limit}; sleep 0.15", max_attempts=100)
    for number in range(10):
        time.sleep(0.5)  # a moment in the middle of the work, which one does not matter
        daemons.pop(0).kill()
        daemons.append(start(site, f"B{number}", limit))
    jobs = site.database.wait(ids, "succeeded", 60)
    assert any(job["reclaims"] for job in jobs)
    for job in jobs:
        assert job["attempt"] == job["reclaims"] + 1, job
    all_free(site)


@pytest.mark.parametrize("limit", [1, 3])
def test_freeze_and_thaw_ten_times(site, limit):
    """BR-36: frozen past their leases in turn; their handlers are dead before anybody takes their slots, and their late words free nothing."""
    daemons = [start(site, f"A{number}", limit) for number in range(2)]
    ids = site.database.enqueue("sh", 400, payload=f"mark_slot k {limit}; sleep 0.2", max_attempts=100)
    cycles = 0
    for number in range(10):
        daemon = daemons[number % 2]
        until(lambda: site.database.sql("SELECT 1 FROM job_slots WHERE locked_by LIKE %s", f"%:{daemon.pid}:%"), 8)
        daemon.freeze()
        frozen = boot_ms()
        until(lambda: [event for event in site.runs.starts() if event.ms > frozen + 300], FINISH_S + 3, "the other one to go on")
        if number % 3 != 2:  # in most cycles past the lease
            always(lambda: daemon.stat_letter() == "T", max(0, LEASE_S + 0.7 - (boot_ms() - frozen) / 1000))
        daemon.thaw()
        cycles += 1
    site.database.sql("UPDATE jobs SET payload='mark_slot k 3' WHERE state IN ('ready', 'scheduled')")
    site.database.sql("DELETE FROM jobs WHERE slot_wait IS NOT NULL")
    left = [row["id"] for row in site.database.sql("SELECT id FROM jobs")]
    for job in site.database.wait(left, "succeeded", 40):
        assert job["reclaims"] <= cycles
    assert site.database.value("SELECT SUM(reclaims) FROM jobs") >= 5
    all_free(site)


def test_an_instance_dies_after_its_handler_settled(site):
    """No lease of a job lapses then: the slot itself does, and is found by whoever waits."""
    a = start(site, "A", 1)
    settle = (f"mariadb --no-defaults -S {site.server.socket} -u lh_handler -ponly-for-tests leasehold -e \"UPDATE jobs SET state='succeeded', "
              "finished_at=UTC_TIMESTAMP(6) WHERE id=$LEASEHOLD_JOB_ID AND lease_id='$LEASEHOLD_LEASE_ID' AND state='running'\"; ")
    first = site.database.enqueue("sh", payload=settle + "sleep 60")
    site.database.wait(first, "succeeded", 5)
    b = start(site, "B", 1)
    second = site.database.enqueue("sh", payload="exit 0")
    until(lambda: site.database.job(second)["slot_wait"], 5)
    killed = boot_ms()
    a.kill()
    site.database.wait(second, "succeeded", FINISH_S + 2)
    assert LEASE_S * 1000 - 600 < site.runs.starts(second)[0].ms - killed < 1000 * FINISH_S
    assert b.grep(r"slot=0 lapsed: job")
    # And one for which nobody waits comes free too, a little later.
    third = site.database.enqueue("sh", payload=settle + "sleep 60")
    site.database.wait(third, "succeeded", 5)
    c = start(site, "C", 1)
    b.kill()
    all_free(site, 4 * LEASE_S + 2)
    assert c.running


def test_the_database_is_away_for_longer_than_a_lease(site):
    """Nobody can renew: the handler is dead in time. Afterwards its slot and its job come back."""
    proxy = site.proxy()
    a = start(site, "A", 1, database={"connect_timeout": "1s", "timeout": "2s"})
    del a
    b = site.start("B", proxy=proxy, handlers=[site.handler("sh", concurrency=1)], pools=[{"name": "p", "queues": ["b"], "threads": 2}], **PATIENT)
    id = site.database.enqueue("sh", queue="b", payload="mark_slot k 1; [ $LEASEHOLD_ATTEMPT -ge 2 ] || while :; do mark beat; sleep 0.1; done")
    until(lambda: site.runs.starts(id), 5)
    second = site.database.enqueue("sh", payload="mark_slot k 1; mark second")
    until(lambda: site.database.job(second)["slot_wait"], 5)
    proxy.refuse = (1040, "away")
    proxy.drop_all()
    site.database.wait(second, "succeeded", FINISH_S + 3)
    assert site.runs.events(id, "beat")[-1].ms <= site.runs.starts(second)[0].ms
    proxy.refuse = None
    site.database.wait(id, "succeeded", 15)
    assert b.running
    all_free(site)


@pytest.fixture(scope="module")
def stepping():
    server = Server(faketime=True).create()
    if not server.is_mariadb:
        server.destroy()
        pytest.skip("mysqld under libfaketime is too slow beside other tests")
    yield server.start()
    server.destroy()


def test_no_held_slot_is_taken_when_the_servers_clock_steps(make_site, stepping):
    """Hours forward and back, while a slot is held for two leases, and another instance has a waiter for it and looks at it all the time."""
    site = make_site(stepping)
    start(site, "A", 1)
    start(site, "B", 1)
    now = 0
    for step in (7200, -7200, -90, 90):
        first, second = site.database.enqueue("sh", 2, payload=f"mark_slot k 1; sleep {LEASE_S + 1.5}")
        until(lambda: len(site.runs.starts(first)) + len(site.runs.starts(second)) == 1, 15)
        until(lambda: site.database.sql("SELECT 1 FROM jobs WHERE slot_wait IS NOT NULL"), 5)
        now += step
        stepping.step_clock(now)
        for job in site.database.wait([first, second], "succeeded", 25):
            assert (job["attempt"], job["reclaims"], len(site.runs.starts(job["id"]))) == (1, 0, 1), f"a step of {step} s"
    all_free(site)
