"""SIGSTOP: a daemon that stands still past its lease, and wakes up to a world in which others have taken over."""
import pytest

from harness import proxy as wire
from harness.daemon import GRACE_S, LEASE_S, MARGIN_S
from harness.waiting import always, boot_ms, until

BEAT = "while :; do mark beat; sleep 0.1; done"


def two(site, how, **more):
    """A holds the jobs; B is there to take them. A's statements are watched through a proxy."""
    proxy = site.proxy()
    a = site.start("A", proxy=proxy, handlers=site.handlers(how), **more)
    return a, proxy


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["polite", "deaf"])
def test_a_frozen_daemons_handler_is_dead_before_the_next_start(site, how, trap):
    """BR-04, BR-05: the runner ends the whole group in time, without the daemon. B's lease stands, and A's awakening changes nothing."""
    a, proxy = two(site, how)
    id = site.database.enqueue("sh", payload=f"[ $LEASEHOLD_ATTEMPT -ge 2 ] && sleep 3 && exit 0; {trap}(while :; do mark beat; sleep 0.1; done) & {BEAT}")
    until(lambda: site.runs.starts(id), 10)
    frozen = boot_ms()
    a.freeze()
    b = site.start("B", handlers=site.handlers(how))
    until(lambda: len(site.runs.starts(id)) == 2, LEASE_S + 8)
    beats = site.runs.events(id, "beat")
    second = site.runs.starts(id)[1]
    assert beats[-1].ms <= second.ms and beats[-1].ms <= frozen + LEASE_S * 1000
    assert beats[-1].attempt == 1
    job = site.database.job(id)
    assert job["locked_by"].split(":")[1] == str(b.pid)
    sent = len(proxy.seen(r"UPDATE\s+\S*jobs\b"))
    a.thaw()
    a.wait_log(rf"job={id}\b.*lease lost|lease lost.*job={id}\b", 5)
    always(lambda: site.database.job(id)["lease_id"] == job["lease_id"], 1)
    job = site.database.wait(id, "succeeded", 10)
    assert (job["attempt"], job["claim_no"], job["reclaims"]) == (2, 2, 1) and job["locked_by"].split(":")[1] == str(b.pid)
    assert len(a.grep(rf"lease lost.*job={id}\b|job={id}\b.*lease lost")) == 1
    leases = [change["old_lease"] for change in site.database.audit(id, "new_state='succeeded'")]
    assert leases == [job["lease_id"]] and sent


def test_a_handler_that_ended_while_its_daemon_was_frozen(site, how):
    """BR-01: the late result is refused and kept: one terminal transition, under B's lease; the ledger holds A's; A says so once."""
    a, _ = two(site, how)
    id = site.database.enqueue("sh", payload="[ $LEASEHOLD_ATTEMPT -ge 2 ] || sleep 1; printf $LEASEHOLD_ATTEMPT")
    until(lambda: site.runs.starts(id), 10)
    a.freeze()
    site.start("B", handlers=site.handlers(how))
    job = site.database.wait(id, "succeeded", LEASE_S + 8)
    a.thaw()
    until(lambda: {row["outcome"] for row in site.database.ledger(id)} >= {"lease_lapsed", "stale_result"}, 5, lambda: site.database.ledger(id))
    assert site.database.job(id) == job and (job["result"], job["attempt"]) == ("2", 2)
    assert len(site.database.audit(id, "new_state='succeeded' AND old_state='running'")) == 1
    assert len(a.grep(rf"job={id}\b.*lease lost")) == 1
    (stale,) = [row for row in site.database.ledger(id) if row["outcome"] == "stale_result"]
    assert (stale["claim_no"], stale["attempt"]) == (1, 1)


def test_a_timeout_that_meets_a_freeze(site, how):
    """BR-06: the path for timeouts is fenced like every other: A's late word takes nothing from B."""
    a, _ = two(site, how)
    id = site.database.enqueue("sh", payload="trap '' TERM; [ $LEASEHOLD_ATTEMPT -ge 2 ] && sleep 2.5 && exit 0; while :; do sleep 0.1; done", timeout_ms=2900)
    until(lambda: site.runs.starts(id), 10)
    always(lambda: a.running, 2)
    a.freeze()
    site.start("B", handlers=site.handlers(how))
    until(lambda: len(site.runs.starts(id)) == 2, LEASE_S + 8)
    a.thaw()
    job = site.database.wait(id, "succeeded", 10)
    assert (job["attempt"], job["reclaims"], len(site.runs.starts(id))) == (2, 1, 2)


def test_a_short_freeze_costs_nothing(site, how):
    """Less than a lease: no handler is ended, no attempt is lost, and the daemon goes on as if nothing had been."""
    a, _ = two(site, how)
    site.start("B", handlers=site.handlers(how))
    ids = site.database.enqueue("sh", 6, payload="sleep 4")
    until(lambda: len(site.runs.starts()) == 6, 5)
    for _ in range(2):
        a.freeze()
        always(lambda: a.stat_letter() == "T", LEASE_S - MARGIN_S - GRACE_S - 0.5 - 0.5)  # TERM, a heartbeat, and some air
        a.thaw()
        until(lambda: site.database.value("SELECT MIN(locked_at) > UTC_TIMESTAMP(6) - INTERVAL 400000 MICROSECOND FROM jobs"), 3)
        always(lambda: a.running, 0.1)  # the answer to that renewal has to arrive, too, for the trust to move
    for job in site.database.wait(ids, "succeeded", 10):
        assert (job["attempt"], job["reclaims"]) == (1, 0)


def test_a_daemon_frozen_while_it_claims(site, how):
    """Frozen between the claim and its read-back: nothing of the claim ever starts there, and nothing is lost."""
    a, proxy = two(site, how)
    rule = proxy.on(wire.CLAIM, wire.call(lambda session, sql: a.freeze()))
    ids = site.database.enqueue("sh", 4, payload="mark by:$PPID")
    rule.wait(10)
    site.start("B", handlers=site.handlers(how))
    jobs = site.database.wait(ids, "succeeded", LEASE_S + 8)
    a.thaw()
    site.database.wait(site.database.enqueue("note", 4), "succeeded")
    assert all(job["attempt"] == 2 and len(site.runs.starts(job["id"])) == 1 for job in jobs)
