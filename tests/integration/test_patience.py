"""What takes long: a delay of ten leases, neighbours that come and go, memory over many jobs and connections."""
import os
import statistics

import pytest

from harness.daemon import LEASE_S
from harness.waiting import boot_ms, until

ROUNDS = int(os.environ.get("LEASEHOLD_TEST_SOAK", "10"))  # by hand: 1000 and more
NOISE = "head -c 65536 /dev/zero | tr '\\0' x >&2; exit 1"


def test_a_delay_of_ten_leases_and_neighbours_that_come_and_go(site):
    """BR-20, BR-21: a job for later is started once and not early; while another instance is started and stopped five times, nobody but its
    holder touches a row that runs."""
    a = site.start()
    delay_s = 10 * LEASE_S
    held = site.database.enqueue("sh", payload="until [ -e $LH_DIR/go ]; do sleep 0.1; done")
    until(lambda: site.runs.starts(held), 5)
    enqueued = boot_ms()
    later = site.database.enqueue("note", run_in=delay_s)
    before = site.database.job(held)
    b = site.daemon()
    for _ in range(5):
        b.start(site.database)
        site.database.wait(site.database.enqueue("note", 3), "succeeded", 5)
        b.wait_log("it is trusted", 8)  # from now on it would take what has lapsed
        assert b.terminate() == 0
    after = site.database.job(held)
    assert after["locked_at"] > before["locked_at"] and {**after, "locked_at": None} == {**before, "locked_at": None}
    changes = site.database.audit(held, "old_state = 'running'")
    sessions = {row["session"] for row in changes}
    assert len(changes) >= 20 and len(sessions) == 1, "renewed by its holder's heartbeat alone"
    b.start(site.database)
    assert boot_ms() - enqueued < 1000 * delay_s, "the delay was to outlast all that"
    job = site.database.wait(later, "succeeded", delay_s + 5)
    (start,) = site.runs.starts(later)
    assert start.ms - enqueued >= 1000 * delay_s - 10  # the log's clock ticks in 10 ms
    assert job["claimed_at"] >= job["run_at"] and (job["attempt"], job["claim_no"]) == (1, 1)
    (site.directory / "go").touch()
    assert site.database.wait(held, "succeeded")["attempt"] == 1
    assert not a.grep("lease lost|lapsed") and not b.grep("lease lost|lapsed")


def test_memory_stays_where_it_is(site):
    """BR-98: jobs without number, failures with 64 KiB on standard error, all connections lost in between: no growth, of memory or descriptors."""
    threads = 16
    a = site.start(log={"level": "error"}, pools=[{"name": "p", "queues": ["default"], "threads": threads, "poll": "50ms"}],
                   handlers=[site.handler("true", "/bin/true"), site.handler("noisy", "/bin/sh", "-c", NOISE, log_stderr=False)])
    if a.sanitized:
        pytest.skip("a sanitizer keeps what was freed")
    seen = []
    for _ in range(ROUNDS + 3):  # the first three warm it up
        ids = site.database.enqueue("true", 300) + site.database.enqueue("noisy", 60, max_attempts=1)
        until(lambda: site.database.value("SELECT COUNT(*) FROM jobs WHERE state='running'") > 0, 5)
        for session in site.database.sql("SELECT id FROM information_schema.processlist WHERE user='lh_worker'"):
            try:
                site.database.sql(f"KILL {session['id']}")
            except Exception as error:  # it ended by itself
                assert "1094" in str(error), error
        site.database.wait_finished(ids, 30)
        until(lambda: site.database.value("SELECT COUNT(*) FROM information_schema.processlist WHERE user='lh_worker'") >= 4, 5)  # recovery sleeps longer
        seen.append((a.rss_kb(), a.fds()))
    rss = [kb for kb, _ in seen[3:]]
    slope = statistics.linear_regression([360 * i for i in range(ROUNDS)], rss).slope * 1000
    print(f"{360 * ROUNDS} jobs: RSS {rss[0]} to {rss[-1]} KiB, {slope:.1f} KiB per 1000 jobs")
    middle = ROUNDS // 2
    assert statistics.median(rss[middle:]) - statistics.median(rss[:middle]) < 512 + 0.05 * 360 * ROUNDS / 1000, rss
    assert max(fds for _, fds in seen) - min(fds for _, fds in seen) <= 2 * threads * 5, seen
