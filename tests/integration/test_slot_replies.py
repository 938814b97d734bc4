"""Slot statements whose fate the daemon cannot know; and a hundred thousand jobs that wait for one slot."""
import time

import pytest

from harness import proxy as wire
from harness.waiting import until

LOOK = r"^SELECT id, kind, COALESCE\(concurrency_key, kind\) FROM jobs"
SLOTS = r"^SELECT concurrency_key, slot.*FROM job_slots .*WHERE concurrency_key IN"
MAKE = r"^INSERT INTO job_slots"
PARK = r"^UPDATE jobs .*slot_wait=COALESCE"
TAKE = r"^UPDATE job_slots .*SET job_id=CASE"
RENEW = r"^UPDATE job_slots .*SET locked_at=UTC_TIMESTAMP"
FREE = r"^UPDATE job_slots .*SET job_id=NULL"
OLDEST = r"^SELECT id, kind FROM jobs FORCE INDEX \(slot_wait\)"
WAITING = r"^SELECT slot_wait, MIN\(id\)"
PROMOTE = r"^UPDATE jobs .*slot_wait=NULL, run_at="

WAYS = {
    "unsent": (wire.drop_before, False),
    "unheard": (wire.drop_reply, False),
    "unheard-hidden": (wire.drop_reply, True),
    "late": (wire.land_late(1.2), False),
    "late-hidden": (wire.land_late(1.2), True),
}
WRITES = {"make": MAKE, "take": TAKE, "park": PARK, "promote": PROMOTE, "free": FREE, "commit": None}
READS = {"look": LOOK, "slots": SLOTS, "oldest": OLDEST, "waiting": WAITING}


def held(site):
    return site.database.value("SELECT COUNT(*) FROM job_slots WHERE lease_id IS NOT NULL")


def case(site, way, name, pattern, payload):
    """An instance of its own, behind a proxy of its own, on a queue and a key of its own."""
    action, hidden = WAYS[way]
    proxy = site.proxy(renumber=hidden)
    site.start(way, proxy=proxy, handlers=[site.handler("sh", concurrency=1)], pools=[{"name": "p", "queues": [way], "threads": 4, "poll": "50ms"}])
    rule = proxy.on(wire.COMMIT, action, after=FREE) if name == "commit" else proxy.on(pattern, action)
    ids = site.database.enqueue("sh", 4, queue=way, concurrency_key=f"{name}.{way}", payload=f"mark_slot {name}.{way} 1; {payload}")
    return way, rule, ids


@pytest.mark.parametrize("name", WRITES)
def test_a_lost_write(site, name):
    """Each job runs exactly once, one at a time, on its first attempt; no slot is lost for longer than a lease."""
    cases = [case(site, way, name, WRITES[name], "sleep 0.05") for way in WAYS]
    for way, rule, ids in cases:
        rule.wait(10, f" ({way})")
    for way, rule, ids in cases:
        for job in site.database.wait(ids, "succeeded", 30):
            assert (job["attempt"], job["reclaims"], len(site.runs.starts(job["id"]))) == (1, 0, 1), f"{way}: {job}"
            assert len(site.database.audit(job["id"], "new_state='succeeded' AND old_state='running'")) == 1
    assert site.database.sql("SELECT * FROM job_attempts") == []
    until(lambda: held(site) == 0, 3 + 3 + 2, lambda: site.database.sql("SELECT * FROM job_slots WHERE lease_id IS NOT NULL"))


@pytest.mark.parametrize("name", READS)
def test_a_lost_read(site, name):
    cases = [case(site, way, name, READS[name], "sleep 0.05") for way in ("unsent", "unheard")]
    for way, rule, ids in cases:
        rule.wait(10, f" ({way})")
        for job in site.database.wait(ids, "succeeded", 20):
            assert (job["attempt"], job["reclaims"], len(site.runs.starts(job["id"]))) == (1, 0, 1), f"{way}: {job}"
    until(lambda: held(site) == 0, 5)


def test_lost_renewals(site):
    """One is nothing; when all of them are lost for a lease the run is ended in time, and what it does afterwards counts for nothing."""
    cases = [case(site, way, "renew", RENEW, "sleep 4") for way in ("unsent", "unheard", "late")]
    proxy = site.proxy()
    a = site.start("Z", proxy=proxy, handlers=[site.handler("sh", concurrency=1)], pools=[{"name": "p", "queues": ["z"], "threads": 4, "poll": "50ms"}])
    proxy.on(RENEW, wire.answer_error(1205), times=None)
    last = site.database.enqueue("sh", queue="z", payload="mark_slot z 1; [ $LEASEHOLD_ATTEMPT -ge 2 ] || exec sleep 60")
    until(lambda: site.runs.starts(last), 5)
    a.wait_log(rf"job={last}\b.*lease lost", 5)
    assert site.database.job(last)["state"] == "running"  # its lease was kept all the time, and lapses only now
    job = site.database.wait(last, "succeeded", 12)
    assert (job["attempt"], job["reclaims"]) == (2, 1) and [row["outcome"] for row in site.database.ledger(last)] == ["lease_lapsed"]
    for way, rule, ids in cases:
        rule.wait(1, f" ({way})")
        for job in site.database.wait(ids[:2], "succeeded", 15):
            assert (job["attempt"], job["reclaims"]) == (1, 0), way


def test_a_crash_at_every_slot_statement(site):
    """Killed at the very moment at which it sends one; another instance finishes the work, and no slot stays behind."""
    points = {"make": MAKE, "take": TAKE, "park": PARK, "promote": PROMOTE, "free": FREE, "renew": RENEW, "oldest": OLDEST}
    jobs = []
    for name, pattern in points.items():
        proxy = site.proxy()
        daemon = site.start(name, proxy=proxy, handlers=[site.handler("sh", concurrency=1)],
                            pools=[{"name": "p", "queues": [name], "threads": 4, "poll": "50ms"}])
        daemon.may_fail = True
        rule = proxy.on(pattern, wire.call(lambda session, sql, daemon=daemon: daemon.kill()))
        lasting = f"[ {name} != renew ] || [ -e $LH_DIR/slept ] || {{ touch $LH_DIR/slept; sleep 60; }}"
        ids = site.database.enqueue("sh", 3, queue=name, concurrency_key=name, payload=f"mark_slot {name} 1; {lasting}; sleep 0.3")
        rule.wait(10, f" ({name})")
        jobs += ids
    began = time.monotonic()
    site.start("Z", handlers=[site.handler("sh", concurrency=1)], pools=[{"name": "p", "queues": list(points), "threads": 8, "poll": "50ms"}])
    site.database.wait(jobs, "succeeded", 25)
    print(f"all done {time.monotonic() - began:.1f} s after the last crash")
    until(lambda: held(site) == 0, 8, lambda: site.database.sql("SELECT * FROM job_slots WHERE lease_id IS NOT NULL"))


CROWD = 100_000
FILL = ("INSERT INTO jobs (kind, payload) WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999), m (j) AS "
        "(SELECT 0 UNION ALL SELECT j + 1 FROM m WHERE j < {}) SELECT 'slow', 'until [ -e $LH_DIR/go ]; do sleep 0.05; done' FROM n, m")


def latencies(site, n):
    """How long each of n jobs takes from its INSERT to its success, one after the other."""
    found = []
    for _ in range(n):
        began = time.monotonic()
        site.database.wait(site.database.enqueue("free", payload="exit 0"), "succeeded")
        found.append(time.monotonic() - began)
    return sorted(found)


def rows_written(site):
    (row,) = site.database.sql("SHOW GLOBAL STATUS LIKE 'Handler_update'")
    return int(row["Value"])


def test_a_crowd_of_waiters_costs_nothing(site):
    """100,000 jobs of a kind with one slot, before a fast kind in the same queue: a five-hundredth of six statements each, and then none."""
    proxy = site.proxy()
    handlers = [site.handler("slow", concurrency=1), site.handler("free")]
    pools = [{"name": "p", "threads": 4, "poll": "20ms", "poll_max": "50ms"}]
    a = site.start(handlers=handlers, proxy=proxy, pools=pools, log={"level": "info", "format": "text"})
    alone = latencies(site, 30)
    site.database.sql("DROP TRIGGER test_inserted")
    site.database.sql("DROP TRIGGER test_changed")
    site.database.sql(FILL.format(CROWD // 1000 - 1))
    before, began = len(proxy.seen("")), time.monotonic()
    fast = site.database.enqueue("free", 4, payload="exit 0")  # behind all of them
    site.database.wait(fast, "succeeded", 60)
    passed = time.monotonic() - began
    until(lambda: site.database.value("SELECT COUNT(*) FROM jobs WHERE slot_wait='slow'") == CROWD - 1, 60)
    print(f"\nthe first fast job came through after {passed:.1f} s, all parked after {time.monotonic() - began:.1f} s")
    parks = len(proxy.seen(PARK))
    statements = len(proxy.seen("")) - before
    print(f"{parks} statements parked {CROWD - 1} jobs; {statements} statements in all that time")
    assert parks <= CROWD / 500 * 1.1 + 20
    assert statements < CROWD / 50
    # Now they wait, and nothing that happens touches them.
    updates = rows_written(site)
    counted = {name: len(proxy.seen(pattern)) for name, pattern in (("park", PARK), ("promote", PROMOTE), ("waiting", WAITING))}
    began = time.monotonic()
    crowded = latencies(site, 30)
    spent = time.monotonic() - began
    print("latency alone / in the crowd, ms: " + ", ".join(f"{name} {1000 * alone[at]:.0f} / {1000 * crowded[at]:.0f}"
                                                            for name, at in (("median", 15), ("worst", 29))))
    assert len(proxy.seen(PARK)) == counted["park"] and len(proxy.seen(PROMOTE)) == counted["promote"]
    assert len(proxy.seen(WAITING)) - counted["waiting"] <= spent / 0.5 + 2
    written = rows_written(site) - updates
    print(f"{written} rows were written in {spent:.1f} s, for 30 jobs")
    assert written < 30 * 6 + 20 * spent
    # One that ends wakes one.
    (site.directory / "go").touch()
    until(lambda: site.database.states().get("succeeded", 0) >= 34 + 30 + 5, 10)
    done = site.database.value("SELECT COUNT(*) FROM jobs WHERE kind='slow' AND state='succeeded'")
    promoted = len(proxy.seen(PROMOTE)) - counted["promote"]
    assert promoted <= done + 12, (promoted, done)
    a.terminate()
    for table in ("jobs", "test_audit"):  # of which the checker could make nothing, without the triggers
        site.database.sql(f"SET STATEMENT foreign_key_checks=0 FOR TRUNCATE TABLE {table}" if site.server.is_mariadb else f"DELETE FROM {table}")
