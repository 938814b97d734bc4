"""Jobs of kinds that nobody here has a handler for: put back, counted, told once, and awake when a handler comes."""
import signal

from harness.daemon import HANDLERS
from harness.waiting import until

SECONDS = "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), run_at)/1e6 s FROM jobs WHERE kind='nobody.knows'"


def test_an_unknown_kind_is_parked_and_told_once(site):
    """BR-92: no attempt counts, no ledger row, 30 s with jitter at first; one line in the log for the kind however many jobs it has."""
    daemon = site.start(log={"level": "info"})
    ids = site.database.enqueue("nobody.knows", 5)
    for job in site.database.wait(ids, "scheduled"):
        assert (job["attempt"], job["claim_no"], job["lease_id"]) == (0, 1, None)
    waits = site.database.sql(SECONDS)
    assert all(25 < row["s"] <= 40 for row in waits) and len({row["s"] for row in waits}) > 1, waits
    assert not site.database.sql("SELECT * FROM job_attempts") and not site.runs.events()
    good = site.database.enqueue("note")
    site.database.wait(good, "succeeded")
    assert len(daemon.grep(r"nobody\.knows")) == 1
    daemon.signal(signal.SIGUSR1)
    daemon.wait_log(r"status: .* parked 5,")


def test_rows_of_the_schema_before_run_and_others_are_seen(site):
    """BR-92: what was enqueued before an upgrade of the schema is run; of an unknown kind, told and counted, and never touched by the migration."""
    site.database.sql("ALTER TABLE jobs DROP KEY unique_hold")
    site.database.sql("DELETE FROM leasehold_schema WHERE version > 1")
    old = site.database.enqueue("note", 20) + [site.database.enqueue("note", run_in=0.2)]
    unknown = site.database.enqueue("nobody.knows", 3)
    before = site.database.sql("SELECT * FROM jobs ORDER BY id")
    site.database.migrate()
    assert site.database.sql("SELECT * FROM jobs ORDER BY id") == before
    a = site.start(log={"level": "info"})
    site.database.wait(old, "succeeded")
    site.database.wait(unknown, "scheduled")
    a.signal(signal.SIGUSR1)
    a.wait_log(r"status: .* parked 3,")
    assert len(a.grep(r"warn .*nobody\.knows")) == 1


def test_a_reload_that_brings_the_handler_wakes_them(site):
    """Parked jobs of that kind run at once; those of other kinds, those that a producer scheduled, and those that went elsewhere do not."""
    a = site.start(log={"level": "info"})
    parked = site.database.enqueue("nobody.knows", 30)
    other, gone = site.database.enqueue("stranger"), site.database.enqueue("nobody.knows")
    scheduled = site.database.enqueue("nobody.knows", run_in=3600)
    site.database.wait([*parked, other, gone], "scheduled")
    until(lambda: site.database.value("SELECT COUNT(*) FROM jobs WHERE claim_no=1") == 32, 5)
    site.cli("cancel", gone)
    groups = {**a.groups, "handlers": [*a.groups["handlers"], site.handler("nobody.*", str(HANDLERS / "note.sh"))]}
    a.write_config(groups)
    a.signal(signal.SIGHUP)
    for job in site.database.wait(parked, "succeeded", 5):
        assert (job["attempt"], job["claim_no"]) == (1, 2)
    assert a.wait_log("30 jobs that waited for a handler of their kind are ready now")
    assert (site.database.state(other), site.database.state(scheduled), site.database.state(gone)) == ("scheduled", "scheduled", "cancelled")
    assert site.database.job(other)["claim_no"] == 1
    later = site.database.enqueue("nobody.knows")
    site.database.wait(later, "succeeded", 5)
    # What nobody serves still is told once more after a reload, at its next turn.
    site.database.sql("UPDATE jobs SET run_at=UTC_TIMESTAMP(6) WHERE id=%s", other)
    a.wait_log("kind=stranger no handler here", 5, count=2)


def test_a_handler_elsewhere_takes_them_in_time(site):
    """Two instances, one of which knows the kind: the other one's parking never keeps a job from it for longer than its delay, nor counts an attempt."""
    site.start(log={"level": "info"})
    ids = site.database.enqueue("nobody.knows", 5)
    site.database.wait(ids, "scheduled")
    site.start(handlers=[site.handler("nobody.*", str(HANDLERS / "note.sh"))])
    site.database.sql("UPDATE jobs SET run_at=UTC_TIMESTAMP(6)")  # the thirty seconds are over
    until(lambda: site.database.states().get("succeeded") or site.database.value("SELECT MAX(claim_no) FROM jobs") >= 2, 5)
    done = until(lambda: [job for job in site.database.sql("SELECT * FROM jobs") if job["claim_no"] == 2 and job["state"] != "running"], 5)
    assert all(job["attempt"] == (job["state"] == "succeeded") for job in done), done
