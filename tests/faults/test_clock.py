"""Clocks: the server's steps while sessions are open; a daemon's own is wrong."""
import os

import pytest

from harness import proxy as wire
from harness.daemon import LEASE_S
from harness.server import FAKETIME, Server
from harness.waiting import until

STEPS = (90, -90, 7200, -7200)


@pytest.fixture(scope="module")
def stepping():
    server = Server(faketime=True).create()
    if not server.is_mariadb and "PYTEST_XDIST_WORKER" in os.environ:
        server.destroy()
        pytest.skip("mysqld under libfaketime is too slow beside other tests: run faults/test_clock.py by itself, without -n")
    yield server.start()
    server.destroy()


def test_no_live_job_is_recovered_when_the_servers_clock_steps(make_site, stepping):
    """Two instances that trust the clock already; each step, forward and back, meets jobs that run for two leases."""
    site = make_site(stepping)
    site.start("A")
    site.start("B")
    settled = site.database.enqueue("sh", 2, payload=f"sleep {LEASE_S + 1}")
    site.database.wait(settled, "succeeded", 12)  # by now the clock has been steady for a lease
    now = 0
    for step in STEPS:
        now += step
        ids = site.database.enqueue("sh", 4, payload=f"sleep {LEASE_S + 1.5}")
        until(lambda: set(ids) <= {event.job for event in site.runs.starts()}, 10)
        stepping.step_clock(now)
        for job in site.database.wait(ids, "succeeded", 15):
            assert (job["attempt"], job["reclaims"], len(site.runs.starts(job["id"]))) == (1, 0, 1), f"a step of {step} s"
    assert not site.database.sql("SELECT * FROM job_attempts")


CLOCK_READ = r"^SELECT\b.*'1970-01-01'"
RECOVERY_SCAN = r"^SELECT\b.*FORCE INDEX \(claim\) WHERE state='running'.*LIMIT"


@pytest.mark.parametrize("moment", [CLOCK_READ, RECOVERY_SCAN], ids=["before the clock is read", "between the clock and the rows"])
def test_a_step_at_the_worst_moment(make_site, stepping, moment):
    """B trusts the clock; it jumps just before B looks at rows whose last renewal is then, by the server's word, long ago."""
    stepping.step_clock(0)
    site = make_site(stepping)
    site.start("A")
    proxy = site.proxy()
    b = site.start("B", proxy=proxy, pools=[{"name": "p", "queues": ["elsewhere"]}])
    b.wait_log("trusted", LEASE_S + 3)
    ids = site.database.enqueue("sh", 4, payload=f"sleep {LEASE_S + 1}")
    until(lambda: len(site.runs.starts()) == 4, 10)
    proxy.on(moment, wire.call(lambda session, sql: stepping.step_clock(90))).wait(LEASE_S + 1)
    for job in site.database.wait(ids, "succeeded", 15):
        assert (job["attempt"], job["reclaims"], len(site.runs.starts(job["id"]))) == (1, 0, 1)


@pytest.mark.parametrize("step", [7200, -7200])
def test_what_is_lost_is_still_found_after_a_step(make_site, stepping, step):
    """Distrust ends: a job whose instance died around the step is taken back within two leases, whatever its heartbeat says now."""
    stepping.step_clock(0)
    site = make_site(stepping)
    a = site.start("A")
    id = site.database.enqueue("sh", payload="[ $LEASEHOLD_ATTEMPT -ge 2 ] || sleep 60")
    until(lambda: site.runs.starts(id), 10)
    site.start("B")
    a.kill()
    stepping.step_clock(step)
    job = site.database.wait(id, ("scheduled", "ready", "running", "succeeded"), 1)
    until(lambda: site.database.job(id)["reclaims"] == 1, 2 * LEASE_S + 3)
    if step > 0:
        job = site.database.wait(id, "succeeded", 10)
        assert job["attempt"] == 2


def test_daemons_whose_clocks_differ(site):
    """BR-85: one ten minutes ahead, one ten minutes behind: run_at goes by the database, and no live job is recovered."""
    if site.daemon("X").sanitized:
        pytest.skip("libfaketime and a sanitizer both want to be the first library")
    for name, offset in (("A", "+10m"), ("B", "-10m")):
        site.start(name, environment={"LD_PRELOAD": FAKETIME, "FAKETIME": offset, "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1"})
    long = site.database.enqueue("sh", 6, payload=f"sleep {LEASE_S + 2}")
    later = site.database.enqueue("note", run_in=2)
    for job in site.database.wait([*long, later], "succeeded", 15):
        assert (job["attempt"], job["reclaims"]) == (1, 0)
        assert 0 <= (job["claimed_at"] - job["run_at"]).total_seconds() < 2
