"""What operators ask: cancel before, while and after; retry of what is spent, and of what has a living twin."""
import pytest

from harness import invariants
from harness.waiting import STRETCH, always, boot_ms, until

RARE = {"length": "60s", "heartbeat": "15s"}
DEAF = "trap 'mark term; exit 1' TERM; while :; do sleep 0.05; done"
LOOK = r"^SELECT id, lease_id, state, cancel_requested_at"


def test_cancel_before_while_and_after(site):
    """A waiting job is cancelled at once, a running one within a moment and a grace, a finished one is left as it is."""
    site.start()
    scheduled = site.database.enqueue("note", run_in=3600)
    foreign = site.database.enqueue("note", queue="nobody")
    polite = site.database.enqueue("sh", payload="sleep 60")
    deaf = site.database.enqueue("sh", payload="trap '' TERM; while :; do sleep 0.1; done")
    stubborn = site.database.enqueue("sh", payload="trap 'exit 1' TERM; while :; do sleep 0.1; done")
    done = site.database.enqueue("note")
    site.database.wait([polite, deaf, stubborn], "running")
    site.database.wait(done, "succeeded")
    until(lambda: len(site.runs.starts()) == 4, 5)
    site.cli("cancel", scheduled, foreign, polite, deaf, stubborn)
    assert site.database.state(scheduled) == site.database.state(foreign) == "cancelled"
    for id in (polite, deaf, stubborn):
        job = site.database.wait(id, "cancelled", 5)
        assert job["cancel_requested_at"] and job["finished_at"] and job["attempt"] == 1
        assert [row["outcome"] for row in site.database.ledger(id)] == ["cancelled"]
    assert site.cli("cancel", done, check=False).returncode == 1
    assert site.database.state(done) == "succeeded"


def test_a_success_in_spite_of_a_cancel_counts(site):
    """Work that was finished is not thrown away."""
    site.start()
    id = site.database.enqueue("sh", payload="trap 'exit 0' TERM; while :; do sleep 0.1; done")
    site.database.wait(id, "running")
    until(lambda: site.runs.starts(id), 5)
    site.cli("cancel", id)
    assert site.database.wait_finished(id)["state"] == "succeeded"


@pytest.mark.parametrize("ending", ["exit 1", """echo '{"snooze_ms": 10}' >&3"""], ids=["retry", "snooze"])
def test_no_way_back_to_the_queue_after_a_cancel(site, ending):
    """A cancel that comes too late for the handler still keeps the job from running again: decided in the closing statement itself."""
    site.start(lease={"length": "9s", "heartbeat": "3s"})  # rare heartbeats: it is the settlement that meets the request
    id = site.database.enqueue("sh", payload="until [ -e $LH_DIR/go ]; do sleep 0.02; done; " + ending)
    site.database.wait(id, "running")
    until(lambda: site.runs.starts(id), 5)
    site.cli("cancel", id)
    (site.directory / "go").touch()
    job = site.database.wait_finished(id)
    assert job["state"] == "cancelled" and len(site.runs.starts(id)) == 1


def test_retry_of_a_spent_job(site):
    """The counters go on, the limit is raised by one, and what the last life left is cleared."""
    site.start()
    id = site.database.enqueue("sh", payload="[ $LEASEHOLD_ATTEMPT -ge 3 ]", max_attempts=2)
    site.database.wait(id, "dead")
    assert site.retry(id).returncode == 0
    job = site.database.wait(id, "succeeded")
    assert (job["attempt"], job["claim_no"], job["max_attempts"]) == (3, 3, 3)
    assert site.cli("retry", id, check=False).returncode == 1  # nothing leaves succeeded
    assert site.database.state(id) == "succeeded"


def test_retry_with_a_living_twin(site):
    """The unique key belongs to the job that is not finished; the refusal names it, and the other ids are still done."""
    dead = site.database.enqueue("note", unique_key="k", queue="nobody")
    site.cli("cancel", dead)
    twin = site.database.enqueue("note", unique_key="k", queue="nobody")
    free = site.database.enqueue("note", queue="nobody")
    site.cli("cancel", free)
    site.retried |= {dead, free}
    done = site.cli("retry", dead, free, check=False)
    assert done.returncode == 1 and str(twin) in done.stdout + done.stderr
    assert (site.database.state(dead), site.database.state(free)) == ("cancelled", "ready")
    site.cli("cancel", twin)
    site.cli("retry", dead)
    assert site.database.state(dead) == "ready"


def test_a_cancel_is_acted_upon_whatever_the_heartbeat(site):
    """Fifteen seconds between renewals: TERM all the same within two seconds of the commit, for many jobs at once too; and renewals stay rare."""
    proxy = site.proxy()
    site.start(proxy=proxy, lease=RARE, pools=[{"name": "p", "queues": ["default"], "threads": 120, "poll": "50ms"}])
    ids = site.database.enqueue("sh", 105, payload=DEAF)
    until(lambda: len(site.runs.starts()) == 105, 20)
    for some in ([ids[0]], ids[1:]):
        site.database.sql("UPDATE jobs SET cancel_requested_at=UTC_TIMESTAMP(6) WHERE id IN %s", some)
        cancelled = boot_ms()
        site.database.wait(some, "cancelled", 10)
        late = [event.ms - cancelled for event in site.runs.events(what="term") if event.job in some]
        assert len(late) == len(some) and max(late) < 2000 * STRETCH, max(late)
    assert len(proxy.seen(r"^UPDATE jobs .* SET locked_at=")) <= 4


def test_nothing_is_looked_at_while_nothing_runs(site):
    """The look is for handlers that run: once a second for a hundred of them, and never when idle."""
    proxy = site.proxy()
    a = site.start(proxy=proxy, lease=RARE)
    always(lambda: a.running, 2.5)
    assert not proxy.seen(LOOK)
    ids = site.database.enqueue("sh", 5, payload="sleep 3.2")
    site.database.wait(ids, "succeeded")
    seen = proxy.seen(LOOK)
    assert 2 <= len(seen) <= 5 and any("(" + ",".join(map(str, ids)) + ")" in statement.sql for statement in seen), seen
    always(lambda: a.running, 1.5)
    assert len(proxy.seen(LOOK)) <= len(seen) + 1


def test_a_lease_that_is_lost_is_noticed_before_the_next_heartbeat(site):
    """The same look finds it: the handler is ended at once, its result counts for nothing."""
    a = site.start(lease=RARE)
    stolen, deleted = site.database.enqueue("sh", 2, payload=DEAF)
    until(lambda: len(site.runs.starts()) == 2, 10)
    site.database.sql("UPDATE jobs SET lease_id=UUID(), claim_no=claim_no+1 WHERE id=%s", stolen)
    site.database.sql("DELETE FROM jobs WHERE id=%s", deleted)
    a.wait_log("lease lost", 2 + 1, count=2)
    until(lambda: not invariants.marked(site.mark), 5, "both handlers to be ended")
    assert site.database.state(stolen) == "running"
    site.database.sql("UPDATE jobs SET state='cancelled', finished_at=UTC_TIMESTAMP(6) WHERE id=%s", stolen)


def test_a_cancel_while_the_database_stands_still(site):
    """Frozen before anybody could look: no lease is lost by that, and TERM comes within two seconds of the thaw."""
    site.start(lease=RARE)
    id, other = site.database.enqueue("sh", 2, payload=DEAF)
    until(lambda: len(site.runs.starts()) == 2, 10)
    try:
        site.cli("cancel", id)
        site.server.freeze()
        frozen = boot_ms()
        until(lambda: boot_ms() > frozen + 3500, 6)
        early = bool(site.runs.events(id, "term"))  # it looked between the commit and the freeze
    finally:
        site.server.thaw()
    thawed = boot_ms()
    site.database.wait(id, "cancelled", 10)
    (term,) = site.runs.events(id, "term")
    assert early or term.ms - thawed < 2000 * STRETCH
    assert site.database.job(other)["attempt"] == 1 and not site.runs.events(other, "term")
    site.cli("cancel", other)
    site.database.wait(other, "cancelled", 10)
