"""Leases that are kept: long runs, slow neighbours, renewals that meet locks, the end of trust."""
import os
import threading
import time

from harness import invariants
from harness import proxy as wire
from harness.daemon import GRACE_S, LEASE_S, MARGIN_S
from harness.waiting import boot_ms, until

TRAP = "trap 'mark term; exit 1' TERM; "
SPIN = "while :; do sleep 0.1; done"


def test_long_silent_jobs_run_once(site):
    """BR-09, BR-11, BR-31: many leases long, without a word, without a limit of time or with none set, beside instances that would take them."""
    for _ in range(3):
        site.start()
    ids = [site.database.enqueue("sh", payload="sleep 10"), site.database.enqueue("sh", payload="sleep 10", timeout_ms=0)]
    for job in site.database.wait(ids, "succeeded", 15):
        assert (job["attempt"], job["claim_no"], job["reclaims"]) == (1, 1, 0)
    assert len(site.runs.starts()) == 2


def test_jobs_as_long_as_a_heartbeat_make_no_noise(site):
    """BR-19: heartbeats and completions cross all the time; that is no lost lease. By hand with LEASEHOLD_TEST_JOBS=5000."""
    jobs = int(os.environ.get("LEASEHOLD_TEST_JOBS", "500"))
    daemon = site.start(pools=[{"name": "p", "queues": ["default"], "threads": 64, "poll": "50ms"}], handlers=[site.handler("nap", "/bin/sleep", "0.5")])
    site.database.wait(site.database.enqueue("nap", jobs), "succeeded", 20 + jobs / 25)
    assert not daemon.grep(r"(?i)\bwarn\b|\berror\b|lost|stale"), daemon.grep(r"(?i)\bwarn\b|\berror\b|lost|stale")[:3]


def test_a_row_locked_for_longer_than_a_lease_harms_nobody_else(site):
    """One handler's open transaction holds its own row. The others are renewed; the locked one is ended in time and comes back."""
    lease_s = LEASE_S if site.server.is_mariadb else 3 * LEASE_S  # MySQL waits at least a second for each lock that it does not get
    site.start(lease={"length": f"{lease_s:g}s", "heartbeat": "500ms"})
    ids = site.database.enqueue("sh", 6, payload=TRAP + f"i=0; while [ $i -lt {lease_s * 10 + 40:g} ]; do sleep 0.1; i=$((i+1)); done")
    site.database.wait(ids, "running")
    until(lambda: len(site.runs.starts()) == 6, 5)
    locked, others = ids[2], ids[:2] + ids[3:]
    holder = site.database.connect(autocommit=False)
    with holder.cursor() as cursor:
        cursor.execute("SELECT id FROM jobs WHERE id=%s FOR UPDATE", (locked,))
        began = boot_ms()
        until(lambda: site.runs.events(locked, "term"), lease_s, "the locked job to be ended within its lease")
        assert site.runs.events(locked, "term")[0].ms - began <= (lease_s - MARGIN_S) * 1000
        for job in site.database.wait(others, "succeeded", lease_s + 12):
            assert (job["attempt"], job["reclaims"]) == (1, 0), "a neighbour lost its lease"
    holder.rollback()
    holder.close()
    site.database.wait(locked, "succeeded", 2 * lease_s + 15)
    assert site.database.job(locked)["reclaims"] == 1


def test_renewals_reach_every_running_row(site):
    """BR-17: with as few connections as it can do with, and handlers that burn all the CPU there is, no heartbeat is ever two late."""
    site.start(pools=[{"name": "p", "queues": ["default"], "threads": 16, "poll": "50ms"}]).terminate()
    site.database.sql("ALTER USER lh_worker WITH MAX_USER_CONNECTIONS 6")
    try:
        site.start(pools=[{"name": "p", "queues": ["default"], "threads": 16, "poll": "50ms"}])
        ids = site.database.enqueue("sh", 16, payload="timeout 5 sh -c 'while :; do :; done'; exit 0")
        site.database.wait(ids, "running")
        worst = 0
        while site.database.states().get("running") == 16:
            worst = max(worst, site.database.value("SELECT MAX(TIMESTAMPDIFF(MICROSECOND, locked_at, UTC_TIMESTAMP(6)))/1e6 FROM jobs WHERE state='running'"))
            time.sleep(0.1)
        assert 0 < worst < 1.5, f"a heartbeat of 0.5 s was {worst} s old"
        site.database.wait(ids, "succeeded", 15)
        invariants.attempts_equal_starts(site, ids)
    finally:
        site.database.sql("ALTER USER lh_worker WITH MAX_USER_CONNECTIONS 0")


def test_the_end_of_trust_comes_before_the_lapse(site):
    """BR-06, BR-16: no renewal answers any more: TERM, then KILL, both before anybody could reclaim; a handler that ignores TERM is dead too."""
    proxy = site.proxy()
    daemon = site.start(proxy=proxy)
    ids = [site.database.enqueue("sh", payload=TRAP + SPIN, timeout_ms=2900), site.database.enqueue("sh", payload="trap '' TERM; " + SPIN, timeout_ms=60000)]
    site.database.wait(ids, "running")
    until(lambda: len(site.runs.starts()) == 2, 5)
    stop = threading.Event()
    proxy.on(".", wire.swallow(stop), times=None)
    cut = boot_ms()
    pids = [site.runs.starts(id)[0].pid for id in ids]
    until(lambda: not any(alive(pid) for pid in pids), LEASE_S + 0.5, "both handlers to be dead")
    assert boot_ms() - cut <= LEASE_S * 1000 + 50
    (term,) = site.runs.events(ids[0], "term")
    assert term.ms - cut <= (LEASE_S - MARGIN_S) * 1000
    proxy.clear()
    stop.set()
    assert daemon.running
    site.database.sql("UPDATE jobs SET payload='exit 0' WHERE id IN (%s, %s)", *ids)
    for job in site.database.wait(ids, "succeeded", 20):
        assert job["attempt"] == 2


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_timeouts_are_kept_to_the_instant(site):
    """BR-77: TERM at the limit, KILL after the grace; the next job on the same slot has its own full time."""
    site.start(pools=[{"name": "one", "queues": ["default"], "threads": 1, "poll": "50ms"}])
    deaf = site.database.enqueue("sh", payload="trap '' TERM INT; " + SPIN, timeout_ms=1000, max_attempts=1)
    polite = site.database.enqueue("sh", payload=TRAP + SPIN, timeout_ms=1000, max_attempts=1)
    after = site.database.enqueue("sh", payload="sleep 1.3", timeout_ms=2600, max_attempts=1)
    site.database.wait(after, "succeeded", 15)
    for id in (deaf, polite):
        assert "timed out" in site.database.job(id)["last_error"] and site.database.state(id) == "dead"
    deaf_ran = site.runs.starts(polite)[0].ms - site.runs.starts(deaf)[0].ms
    assert 1000 + GRACE_S * 1000 - 50 <= deaf_ran <= 1000 + GRACE_S * 1000 + 600, deaf_ran
    (term,) = site.runs.events(polite, "term")
    assert 990 <= term.ms - site.runs.starts(polite)[0].ms <= 1300


def test_a_timeout_ends_the_whole_group(site):
    """BR-76: grandchildren and those that ignore TERM are ended; one that left the group for a session of its own keeps no slot."""
    site.start()
    tree = "(sleep 60; sleep 60) & (trap '' TERM; sleep 60; sleep 60) & sh -c 'sleep 60 & wait' & wait"
    id = site.database.enqueue("sh", payload=tree, timeout_ms=500, max_attempts=1)
    escaped = site.database.enqueue("sh", payload="setsid sleep 4 & sleep 60", timeout_ms=500, max_attempts=1)
    ended = site.database.wait([id, escaped], "dead", 0.5 + GRACE_S + 2)
    assert all("timed out" in job["last_error"] for job in ended)
    until(lambda: all("setsid" in command or "sleep 4" in command for _, command in invariants.marked(site.mark)), 2,
          lambda: invariants.marked(site.mark))
