"""What operators ask: cancel before, while and after; retry of what is spent, and of what has a living twin."""
import pytest

from harness.waiting import until


def test_cancel_before_while_and_after(site):
    """A waiting job is cancelled at once, a running one within a heartbeat and a grace, a finished one is left as it is."""
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
