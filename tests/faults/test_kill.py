"""kill -9: of the daemon under load, of the runner, of the daemon by its own job."""
import os
import signal
import time

from harness import invariants
from harness.daemon import LEASE_S, SCAN_S
from harness.waiting import until

# The handler comes from the runner, whose parent is the daemon.
KILL_DAEMON = ("up=$$; until [ $(cat /proc/$up/comm) = lh-runner ]; do up=$(cut -d' ' -f4 /proc/$up/stat); done; "
               "kill -9 $(cut -d' ' -f4 /proc/$up/stat); sleep 60")


def test_kill_9_in_a_loop_under_load(site, how):
    """Two instances, one killed every second and started again: every job ends well, none is run twice at a time, no start is uncounted."""
    patient = {"recovery": {"interval": "500ms", "promote_interval": "100ms", "max_orphans": 50, "backoff": {"base": "100ms", "max": "200ms"}}}
    site.start("B", handlers=site.handlers(how), **patient)
    ids = site.database.enqueue("sh", 250, payload="sleep 0.3", max_attempts=100)
    for number in range(5):
        a = site.start(f"A{number}", handlers=site.handlers(how), **patient)
        time.sleep(1)  # a moment in the middle of the work, which one does not matter
        a.kill()
    jobs = site.database.wait(ids, "succeeded", 40)
    assert any(job["reclaims"] for job in jobs)
    starts = site.runs.starts()
    for job in jobs:
        assert job["attempt"] == job["claim_no"] == job["reclaims"] + 1
        assert sum(event.job == job["id"] for event in starts) <= job["attempt"]


def test_fifty_running_jobs_of_a_dead_instance(site, how):
    """BR-25, BR-71: with the daemon its handlers die at once, its sessions are gone from the server, and all its jobs are run again in time."""
    a = site.start("A", handlers=site.handlers(how), pools=[{"name": "p", "threads": 50, "poll": "50ms"}])
    ids = site.database.enqueue("sh", 50, payload="[ $LEASEHOLD_ATTEMPT -ge 2 ] || exec sleep 60")
    until(lambda: len(site.runs.starts()) == 50, 10)
    a.kill()
    until(lambda: not site.database.sql("SELECT 1 FROM information_schema.processlist WHERE user='lh_worker'"), 1)
    until(lambda: not invariants.marked(site.mark), 1, "every handler of the dead daemon to be dead within a second")
    site.start("B", handlers=site.handlers(how), pools=[{"name": "p", "threads": 50, "poll": "50ms"}])
    began = time.monotonic()
    for job in site.database.wait(ids, "succeeded", 20):
        assert (job["attempt"], job["reclaims"], job["orphan_streak"]) == (2, 1, 0)
    assert time.monotonic() - began < LEASE_S + 2 * SCAN_S + 1 + 4  # and a backoff of at most a second, and the runs themselves


def test_a_death_is_an_attempt_with_a_backoff_and_an_end(site, how):
    """BR-26, BR-43: a job that kills its daemon each time is started max_attempts times and is dead, while healthy jobs are done."""
    poison = site.database.enqueue("sh", payload=KILL_DAEMON, max_attempts=3)
    healthy = []
    for number in range(5):
        a = site.daemon(f"A{number}", handlers=site.handlers(how))
        a.may_fail = True
        a.spawn()
        healthy.append(site.database.enqueue("note"))
        until(lambda: not a.running or site.database.state(poison) == "dead", 15)
        if a.running:
            break
    job = site.database.job(poison)
    assert (job["state"], job["attempt"], job["reclaims"]) == ("dead", 3, 3) and len(site.runs.starts(poison)) == 3
    assert "lapsed" in job["last_error"] or "expired" in job["last_error"], job["last_error"]
    assert [row["outcome"] for row in site.database.ledger(poison)] == ["lease_lapsed"] * 3
    site.database.wait(healthy, "succeeded", 15)


def test_orphans_in_a_row_are_capped(site, how):
    """BR-43: a job without a near maximum that takes its worker down each time is dead by recovery.max_orphans."""
    poison = site.database.enqueue("sh", payload=KILL_DAEMON, max_attempts=100)
    for number in range(4):
        a = site.daemon(f"A{number}", handlers=site.handlers(how), recovery={"max_orphans": 2})
        a.may_fail = True
        a.spawn()
        until(lambda: not a.running or site.database.state(poison) == "dead", 15)
        if a.running:
            break
    job = site.database.job(poison)
    assert (job["state"], job["attempt"], job["orphan_streak"]) == ("dead", 2, 2)


def test_a_dead_runner_is_replaced(site, how):
    """Its handlers died with it and are known to have; the daemon stays, the jobs run again without waiting for a lease to lapse."""
    a = site.start(handlers=site.handlers(how))
    ids = site.database.enqueue("sh", 4, payload="[ $LEASEHOLD_ATTEMPT -ge 2 ] || sleep 60")
    until(lambda: len(site.runs.starts()) == 4, 5)
    pid, runner = a.pid, a.runner_pid
    for _ in range(3):
        os.kill(a.runner_pid, signal.SIGKILL)
        until(lambda: a.runner_pid != runner, 5)
        runner = a.runner_pid
    site.database.wait(ids, "succeeded", 6)
    assert site.database.value("SELECT SUM(reclaims) FROM jobs") == 0 and a.pid == pid and a.running
    assert all(a.stat_letter(child) != "Z" for child in a.children())


def test_a_stopped_runner_does_not_stop_the_leases(site, how):
    """A runner that hangs cannot end handlers; when it goes on, it reads all that was sent before it acts on a deadline."""
    a = site.start(handlers=site.handlers(how))
    id = site.database.enqueue("sh", payload="sleep 5")
    until(lambda: site.runs.starts(id), 5)
    os.kill(a.runner_pid, signal.SIGSTOP)
    time.sleep(LEASE_S + 0.5)  # longer than the deadline that it knew when it was stopped
    os.kill(a.runner_pid, signal.SIGCONT)
    job = site.database.wait(id, "succeeded", 10)
    assert (job["attempt"], job["reclaims"]) == (1, 0)
