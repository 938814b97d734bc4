"""The server: stopped for less and for more than a lease, frozen, restarted again and again."""
import pytest

from harness.daemon import LEASE_S, MARGIN_S
from harness.waiting import boot_ms, until

TRAP = "trap 'mark term; exit 1' TERM; "


@pytest.fixture
def mortal(site):
    """The shared server for a test that stops it: it is alive again afterwards, whatever happened."""
    yield site
    if site.server.process is None:
        site.server.start()
    site.server.thaw()
    site.database.reconnect()


def test_the_server_is_away_for_less_than_a_lease(mortal):
    """BR-15: a restart in the middle of a run: the same run goes on, and what ended meanwhile is written afterwards. Again in other phases."""
    site = mortal
    lease_s = LEASE_S if site.server.is_mariadb else 3 * LEASE_S  # a MySQL server takes seconds to start
    a = site.start(lease={"length": f"{lease_s:g}s", "heartbeat": "500ms"}, log={"level": "info"})
    for _ in range(3):
        long = site.database.enqueue("sh", payload=f"sleep {lease_s + 0.5}")
        short = site.database.enqueue("sh", 2, payload="sleep 0.3; printf done")
        until(lambda: {long, *short} <= {event.job for event in site.runs.starts()}, 10)
        site.server.stop()
        site.server.start()
        site.database.reconnect()
        for job in site.database.wait([long, *short], "succeeded", 12):
            assert (job["attempt"], job["reclaims"], len(site.runs.starts(job["id"]))) == (1, 0, 1)
    assert a.running


def test_the_server_is_away_for_more_than_a_lease(mortal):
    """BR-15: every handler is ended by its local deadline, nothing is written afterwards under the old lease, and the jobs are run again."""
    site = mortal
    site.start()
    ids = site.database.enqueue("sh", 3, payload="[ $LEASEHOLD_ATTEMPT -ge 2 ] && exit 0; " + TRAP + "while :; do sleep 0.1; done")
    until(lambda: len(site.runs.starts()) == 3, 5)
    stopped = boot_ms()
    site.server.stop()
    until(lambda: len(site.runs.events(what="term")) == 3, LEASE_S + 0.5)
    assert all(event.ms - stopped <= (LEASE_S - MARGIN_S) * 1000 for event in site.runs.events(what="term"))
    until(lambda: boot_ms() > stopped + 1000 * (LEASE_S + 1), 5)
    site.server.start()
    site.database.reconnect()
    for job in site.database.wait(ids, "succeeded", 15):
        assert (job["attempt"], job["reclaims"]) == (2, 1)
        assert [row["outcome"] for row in site.database.ledger(job["id"])] == ["lease_lapsed"]


def test_a_frozen_server(mortal):
    """BR-16: a renewal that hangs is noticed in time: TERM comes within the lease of the last renewal, not when the server answers again."""
    site = mortal
    a = site.start()
    site.start("B")
    ids = site.database.enqueue("sh", 3, payload="[ $LEASEHOLD_ATTEMPT -ge 2 ] && exit 0; " + TRAP + "while :; do sleep 0.1; done")
    until(lambda: len(site.runs.starts()) == 3, 5)
    frozen = boot_ms()
    site.server.freeze()
    until(lambda: len(site.runs.events(what="term")) == 3, LEASE_S + 0.5)
    assert all(event.ms - frozen <= (LEASE_S - MARGIN_S) * 1000 for event in site.runs.events(what="term"))
    until(lambda: boot_ms() > frozen + 1000 * (LEASE_S + 2), 5)
    site.server.thaw()
    for job in site.database.wait(ids, "succeeded", 15):
        assert job["attempt"] == 2
    assert a.running


def test_a_server_frozen_for_a_moment(mortal):
    """Less than a lease: no run is lost."""
    site = mortal
    site.start()
    ids = site.database.enqueue("sh", 4, payload="sleep 3")
    until(lambda: len(site.runs.starts()) == 4, 5)
    frozen = boot_ms()
    site.server.freeze()
    until(lambda: boot_ms() > frozen + 1200, 3)
    site.server.thaw()
    for job in site.database.wait(ids, "succeeded", 12):
        assert (job["attempt"], job["reclaims"]) == (1, 0)


def test_a_daemon_starts_before_its_server(mortal):
    """It waits for as long as it takes, says so, and works when the server is there."""
    site = mortal
    id = site.database.enqueue("note")
    site.server.stop()
    a = site.daemon().spawn()
    a.wait_log(r"(?i)connect", 5)
    until(lambda: len(a.log()) and a.running, 1)
    site.server.start()
    site.database.reconnect()
    site.database.wait(id, "succeeded", 10)
