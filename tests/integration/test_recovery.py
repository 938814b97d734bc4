"""Leases that lapsed: who is taken back, when, to where, and who is never touched."""
import time

from harness import proxy as wire
from harness.daemon import LEASE_S, SCAN_S
from harness.waiting import always, until

RECOVERS = r"UPDATE\s+\S*jobs\b.*lease_id\s*<=>"


def running(site, kind="note", locked="UTC_TIMESTAMP(6) - INTERVAL 1 HOUR", lease="UUID()", lease_ms=3000, **columns):
    """A row that some worker claimed once; columns that hold SQL are given as text."""
    id = site.database.enqueue(kind, **{"queue": "nobody", **columns})
    site.database.sql("SET sql_mode=''")
    site.database.sql(f"UPDATE jobs SET state='running', attempt=GREATEST(attempt, 1), claim_no=GREATEST(claim_no, 1), locked_by='ghost:1:x', "
                      f"locked_at={locked}, lease_id={lease}, lease_ms=%s, claimed_at=UTC_TIMESTAMP(6) WHERE id=%s", lease_ms, id)
    return id


def test_lapsed_rows_of_every_kind_come_back(site):
    """BR-24, BR-27, BR-29, BR-85: also those of queues and kinds that nobody serves, with NULL, zero or future lease fields; what is spent is
    dead by its own word only."""
    expected = {
        running(site): "scheduled",
        running(site, lease="NULL"): "scheduled",
        running(site, locked="NULL"): "scheduled",
        running(site, lease_ms=None): "scheduled",
        running(site, locked="NULL", lease="NULL", lease_ms=None): "scheduled",
        running(site, locked="UTC_TIMESTAMP(6) + INTERVAL 1 DAY"): "scheduled",
        running(site, "no.such.kind", attempt=12): "scheduled",
        running(site, "no.such.kind", attempt=12, max_attempts=12): "dead",
        running(site, attempt=1, max_attempts=5): "scheduled",
        running(site, attempt=3, max_attempts=3): "dead",
        running(site, attempt=10): "dead",  # the handler is known here, and sets no maximum of its own: 10
        running(site, orphan_streak=4): "dead",
        running(site, cancel_requested_at="2020-01-01"): "cancelled",
        running(site, attempt=65535, max_attempts=65535, claim_no=4294967295): "dead",
    }
    if site.server.is_mariadb:
        expected[running(site, locked="'0000-00-00 00:00:00'")] = "scheduled"
    site.start()
    for id, state in expected.items():
        job = site.database.wait(id, {state, "ready"} if state == "scheduled" else state, 12)
        assert (job["lease_id"], job["reclaims"]) == (None, 1), job
        assert "ghost:1:x" in job["last_error"]
        assert [row["outcome"] for row in site.database.ledger(id)] == ["lease_lapsed"]
    assert not site.runs.events()


def test_what_is_not_lapsed_is_never_touched(site):
    """BR-23: waiting rows with a lock's leftovers, and rows inside their lease, whatever else lapses beside them."""
    site.start()
    garbage = {"queue": "nobody", "locked_by": "ghost", "lease_id": "x", "locked_at": "2001-01-01", "lease_ms": 1}
    kept = [site.database.enqueue("note", **garbage), site.database.enqueue("note", run_in=3600, **garbage),
            running(site, locked="UTC_TIMESTAMP(6)", lease_ms=3_600_000), running(site, locked="UTC_TIMESTAMP(6)", lease_ms=60_000)]
    before = [site.database.job(id) for id in kept]
    for _ in range(2):
        site.database.wait(running(site), ("scheduled", "ready"), 12)
    assert [site.database.job(id) for id in kept] == before
    site.database.sql("UPDATE jobs SET state='cancelled' WHERE state='running'")


def test_a_lapsed_row_comes_back_within_one_scan(site):
    """BR-37, BR-42: once the instance trusts the server's clock, on recovery's own clock, also when every worker is busy and polls are rare."""
    site.start(pools=[{"name": "p", "queues": ["default"], "threads": 1, "poll": "1s", "poll_max": "30s"}])
    site.database.wait(running(site), ("scheduled", "ready"), 12)  # trusted by now
    busy = site.database.enqueue("sh", payload="sleep 6")
    site.database.wait(busy, "running", 35)
    id = running(site, locked="UTC_TIMESTAMP(6)", queue="default")
    lapse = site.database.value("SELECT locked_at + INTERVAL lease_ms * 1000 MICROSECOND FROM jobs WHERE id=%s", id)
    job = site.database.wait(id, ("scheduled", "ready"), 10)
    assert 0 <= (job["requeued_at"] - lapse).total_seconds() < SCAN_S + 0.5
    assert 0 <= (job["run_at"] - job["requeued_at"]).total_seconds() <= 1
    assert site.database.wait(id, "succeeded", 35)["attempt"] == 2


def test_a_renewal_between_recoverys_read_and_its_write_wins(site):
    """BR-08: the row's holder was only slow. What recovery read is restated in its write."""
    proxy = site.proxy()
    site.start(proxy=proxy)
    id = running(site, locked="UTC_TIMESTAMP(6)", lease_ms=3000)
    renewed = {"n": 0}

    def renew(session, sql):
        with site.database.connect() as dba, dba.cursor() as cursor:  # another thread's connection is not to be used here
            renewed["n"] += cursor.execute("UPDATE jobs SET locked_at=UTC_TIMESTAMP(6), lease_ms=8000 WHERE id=%s", (id,))

    rule = proxy.on(RECOVERS, wire.call(renew))
    rule.wait(10)
    assert renewed["n"] == 1
    always(lambda: site.database.state(id) == "running", 2)
    assert site.database.job(id)["reclaims"] == 0 and not site.database.ledger(id)
    site.database.wait(id, ("scheduled", "ready"), 12)


def test_instances_with_different_leases(site):
    """Each row goes by what its own holder promised: the shorter one does not take the longer's, the longer one takes the shorter's in time."""
    short = site.start("short", pools=[{"name": "p", "queues": ["short"], "threads": 1, "poll": "50ms"}])
    site.start("long", lease={"length": "12s", "heartbeat": "4s"}, recovery={"interval": "500ms"},
               pools=[{"name": "p", "queues": ["long", "both"], "threads": 2, "poll": "50ms"}])
    patient = site.database.enqueue("sh", queue="long", payload="sleep 6")
    site.database.wait(patient, "running")
    lost = site.database.enqueue("sh", queue="short", payload="sleep 60")
    site.database.wait(lost, "running")
    time.sleep(LEASE_S)  # both instances have come to trust the clock meanwhile; what is timed starts here
    short.kill()
    began = time.monotonic()
    site.database.wait(lost, ("scheduled", "ready"), 15)
    assert time.monotonic() - began < LEASE_S + 2.5
    job = site.database.wait(patient, "succeeded", 15)
    assert (job["attempt"], job["reclaims"]) == (1, 0)


def test_a_lost_row_costs_one_line_and_its_slot_is_free(site):
    """BR-41: a row that was stolen or deleted before its end is let go, once, and its handler is ended."""
    daemon = site.start(pools=[{"name": "p", "queues": ["default"], "threads": 2, "poll": "50ms"}])
    stolen, deleted = site.database.enqueue("sh", 2, payload="sleep 30")
    site.database.wait([stolen, deleted], "running")
    until(lambda: len(site.runs.starts()) == 2, 5)
    site.overlap_allowed = True  # the lease is stolen by hand
    site.database.sql("UPDATE jobs SET lease_id=UUID(), locked_by='thief', locked_at=UTC_TIMESTAMP(6), lease_ms=600000 WHERE id=%s", stolen)
    site.database.sql("DELETE FROM jobs WHERE id=%s", deleted)
    site.database.wait(site.database.enqueue("note", 4), "succeeded", 5)
    assert site.database.job(stolen)["locked_by"] == "thief" and site.database.job(deleted) is None
    for id in (stolen, deleted):
        assert len(daemon.grep(rf"(WARN|warn|ERROR|error).*job={id}\b")) <= 1, daemon.grep(rf"job={id}\b")
    site.database.sql("UPDATE jobs SET state='cancelled' WHERE id=%s", stolen)


def test_an_idle_instance_watches_nothing_but_the_clock(site):
    """A job of one's own that dies with its instance comes back on restart, without any other instance, observed for one lease first."""
    a = site.start("A")
    id = site.database.enqueue("sh", payload="[ $LEASEHOLD_ATTEMPT -ge 2 ] || sleep 60")
    site.database.wait(id, "running")
    until(lambda: site.runs.starts(id), 5)
    a.kill()
    site.start("A2")
    job = site.database.wait(id, "succeeded", LEASE_S + 6)
    assert (job["attempt"], job["reclaims"]) == (2, 1) and job["orphan_streak"] == 0
