"""What handlers leave behind: it ends with them, whatever it did to get away, and whoever dies first. Every process of a run carries the
site's mark in its environment; the end of each test looks for those too."""
import os
import signal
from pathlib import Path

import pytest

from harness import invariants
from harness.daemon import GRACE_S, LEASE_S
from harness.waiting import always, boot_ms, until

# Each writes its pid, so that a test knows that it got away before the handler ends.
PID = 'echo $$ >>"$LH_DIR/pids-$LEASEHOLD_JOB_ID"'
SETSID = f"setsid sh -c '{PID}; trap \"\" TERM HUP; while :; do sleep 60; done' &"
DOUBLE = f"( setsid sh -c '{PID}; exec </dev/null >/dev/null 2>&1 3>&-; trap \"\" TERM HUP; while :; do sleep 60; done' & ) &"
NESTED = f"export NEST='{PID}; exec sleep 60'; ( setsid sh -c '( setsid sh -c \"$NEST\" & ) & exec sleep 60' & ) &"
STUBBORN = f"( trap '' TERM INT HUP; {PID}; while :; do sleep 60; done ) &"
CHAIN = f"""exec 2>/dev/null; cat >"$LH_DIR/chain-$LEASEHOLD_JOB_ID" <<'END'
import os, signal, time
open(os.environ["LH_DIR"] + "/pids-" + os.environ["LEASEHOLD_JOB_ID"], "a").write(f"{{os.getpid()}}\\n")
end = time.monotonic() + 20
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
END
( setsid python3 "$LH_DIR/chain-$LEASEHOLD_JOB_ID" & ) &"""
WAYS = {"setsid": SETSID, "double": DOUBLE, "stubborn": STUBBORN, "chain": CHAIN}


def escaped(site, id, count=1):
    """Waits until so many of a job's processes got away."""
    file = site.directory / f"pids-{id}"
    return until(lambda: file.exists() and len(file.read_text().split()) >= count and [int(pid) for pid in file.read_text().split()], 10,
                 f"{count} processes of job {id} to get away")


def wait_for(way):
    """A script that goes on once the process got away."""
    return f'{way}\nuntil [ -s "$LH_DIR/pids-$LEASEHOLD_JOB_ID" ]; do sleep 0.05; done; '


def expect_nothing_left(site, seconds=1.0):
    until(lambda: not invariants.marked(site.mark), seconds, lambda: f"nothing to be left: {invariants.marked(site.mark)}")


@pytest.mark.parametrize("way", WAYS)
def test_nothing_outlives_its_handler(site, way):
    """BR-05: when the job has its outcome, no process of that attempt is left; the next attempt finds the field clear."""
    site.start()
    id = site.database.enqueue("sh", payload=wait_for(WAYS[way]) + 'rm -f "$LH_DIR/pids-$LEASEHOLD_JOB_ID"; [ $LEASEHOLD_ATTEMPT -ge 2 ]')
    job = site.database.wait(id, "succeeded", 20)
    assert job["attempt"] == 2 and job["reclaims"] == 0
    expect_nothing_left(site, 0.5)


@pytest.mark.parametrize("way", WAYS)
def test_a_timeout_ends_all_of_it(site, way):
    """BR-76: after a timeout nothing carries the mark any more: no grandchild, with or without a session of its own, none that ignores TERM."""
    site.start(handlers=[site.handler("sh", timeout="2s", max_attempts=1)])
    id = site.database.enqueue("sh", payload=f"trap '' TERM\n{wait_for(WAYS[way])} sleep 30; sleep 30; sleep 30")
    escaped(site, id)
    job = site.database.wait(id, "dead", 15)
    assert "timed out" in job["last_error"], job["last_error"]
    expect_nothing_left(site, 0.5)


def test_a_timeout_is_kept_to_the_moment(site):
    """BR-77: a handler that ignores TERM is killed at timeout + kill_grace, and is named a timeout; the next job on that slot has its full time."""
    site.start(handlers=[site.handler("sh", timeout="2s")], pools=[{"name": "p", "queues": ["default"], "threads": 1, "poll": "50ms"}])
    deaf = site.database.enqueue("sh", payload="trap '' TERM INT; while :; do sleep 0.05; mark alive; done", max_attempts=1)
    after = site.database.enqueue("sh", payload="sleep 1.9")
    site.database.wait(deaf, "dead", 15)
    lived_ms = site.runs.events(deaf, "alive")[-1].ms - site.runs.starts(deaf)[0].ms
    limit_ms = 2000 + GRACE_S * 1000
    assert limit_ms - 500 <= lived_ms <= limit_ms + 300, lived_ms
    row = site.database.ledger(deaf)[0]
    assert row["signal"] == signal.SIGKILL and "timed out" in row["cause"], row
    job = site.database.wait(after, "succeeded", 10)
    assert job["attempt"] == 1


def test_many_at_once_and_no_harm_to_others(site):
    """Forty jobs that leave something behind, beside ten that have processes of their own: none of the first survives, none of the second is hurt."""
    site.start(pools=[{"name": "p", "queues": ["default"], "threads": 24, "poll": "50ms"}])
    quiet = site.database.enqueue("sh", 10, payload="setsid sh -c 'sleep 3; echo unharmed' & wait $!")
    until(lambda: len(site.runs.starts()) == 10, 10)
    ways = [SETSID, DOUBLE, STUBBORN, NESTED]
    loud = [site.database.enqueue("sh", payload=wait_for(ways[number % len(ways)])) for number in range(40)]
    for job in site.database.wait(loud, "succeeded", 60):
        assert job["attempt"] == 1
    for job in site.database.wait(quiet, "succeeded", 20):
        assert job["attempt"] == 1 and job["result"] == "unharmed\n", job
    expect_nothing_left(site, 0.5)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_one_that_became_another_user(site):
    """A process that dropped its rights is ended too."""
    site.start()
    other = ("import os, sys, time; os.setsid(); pids = open(sys.argv[1], 'w'); os.setgid(65534); os.setuid(65534); "
             "print(os.getpid(), file=pids, flush=True); time.sleep(60)")
    pids = site.directory / "pids-other"
    id = site.database.enqueue("sh", payload=f"python3 -c \"{other}\" {pids} >/dev/null 2>&1 & until [ -s {pids} ]; do sleep 0.05; done")
    site.database.wait(id, "succeeded", 15)
    pid = int(pids.read_text())
    until(lambda: not Path(f"/proc/{pid}").exists(), 0.5, "the process of another user to be ended")


def test_runner_killed_while_something_got_away(site):
    """The runner dies: what left its handlers' groups is ended by the daemon before the jobs run again."""
    a = site.start()
    ids = [site.database.enqueue("sh", payload=f"[ $LEASEHOLD_ATTEMPT -ge 2 ] && exit 0\n{way}\nsleep 60") for way in (SETSID, DOUBLE, STUBBORN)]
    pids = [escaped(site, id)[0] for id in ids]
    os.kill(a.runner_pid, signal.SIGKILL)
    for job in site.database.wait(ids, "succeeded", 10):
        assert (job["attempt"], job["reclaims"]) == (2, 0)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/usr/bin/setpriv").exists(), reason="needs root and setpriv")
def test_a_handler_without_its_tie_to_the_runner(site):
    """The kernel forgets to kill it with the runner (as after executing a set-user-ID program): the daemon does not."""
    a = site.start(handlers=[site.handler("sh"), site.handler("loose", "/usr/bin/setpriv", "--pdeathsig", "clear", "/bin/sh", "-c",
                                                             f"[ $LEASEHOLD_ATTEMPT -ge 2 ] && exit 0; {PID}; trap '' TERM; sleep 60; sleep 60")])
    id = site.database.enqueue("loose")
    pid = escaped(site, id)[0]
    os.kill(a.runner_pid, signal.SIGKILL)
    job = site.database.wait(id, "succeeded", 10)
    assert (job["attempt"], job["reclaims"]) == (2, 0) and not Path(f"/proc/{pid}").exists()


def test_daemon_killed_while_something_got_away(site):
    """BR-05: with the daemon goes all that it started, at once, long before a lease lapses."""
    a = site.start()
    ids = [site.database.enqueue("sh", payload=f"{way}\nsleep 60") for way in WAYS.values()]
    for id in ids:
        escaped(site, id)
    a.kill()
    expect_nothing_left(site, 1)


def test_a_frozen_daemon_loses_what_got_away_in_time(site):
    """BR-05: a daemon that is frozen past the lease: its handlers, and what left them, are dead before it can lapse."""
    a = site.start()
    id = site.database.enqueue("sh", payload=f"[ $LEASEHOLD_ATTEMPT -ge 2 ] && exit 0\n{SETSID}\n{DOUBLE}\nsleep 60")
    escaped(site, id, 2)
    a.freeze()
    frozen_ms = boot_ms()
    until(lambda: not invariants.marked(site.mark), LEASE_S + 1, "all of it to be dead")
    assert boot_ms() - frozen_ms <= LEASE_S * 1000
    a.thaw()
    job = site.database.wait(id, "succeeded", 15)
    assert job["attempt"] == 2


def test_signals_to_the_daemons_group_do_not_reach_handlers(site):
    """BR-79: `kill -TERM -- -PGID` of the daemon drains it; handlers, in sessions of their own, finish."""
    a = site.start()
    id = site.database.enqueue("sh", payload="trap 'echo hit; exit 1' TERM INT HUP; sleep 2 & wait $!; ps -o sid=,pgid= -p $$")
    until(lambda: site.runs.starts(id), 5)
    handler = site.runs.starts(id)[0].pid
    for number in (signal.SIGHUP, signal.SIGTERM):
        os.killpg(os.getpgid(a.pid), number)
    always(lambda: Path(f"/proc/{handler}").exists(), 0.5, "the handler to go on")
    assert a.wait_exit(15) == 0
    job = site.database.wait(id, "succeeded", 5)
    session, group = map(int, job["result"].split())
    assert (job["attempt"], session, group) == (1, handler, handler)
