"""The life of one job, for every way in which it can end."""
import re

import pytest

from harness import invariants
from harness.daemon import HANDLERS
from harness.waiting import until

FAIL_ONCE = "[ $LEASEHOLD_ATTEMPT -ge 2 ]"
SNOOZE_ONCE = """[ $LEASEHOLD_CLAIM_NO -ge 2 ] || echo '{"snooze_ms": 50}' >&3"""
SAY = "echo '%s' >&3; exit %d"

# What the handler does, columns of the row; then: state, attempts, claims, a pattern in last_error, rows in the ledger.
CASES = {
    "exit 0": ("exit 0", {}, "succeeded", 1, 1, None, 0),
    "exit 65 is final": ("exit 65", {}, "dead", 1, 1, r"\b65\b", 1),
    "exit 75 until spent": ("exit 75", {"max_attempts": 2}, "dead", 2, 2, r"\b75\b", 2),
    "exit 1, then 0": (FAIL_ONCE, {}, "succeeded", 2, 2, None, 1),
    "exit 127": ("exit 127", {"max_attempts": 1}, "dead", 1, 1, r"\b127\b", 1),
    "exit 255": ("exit 255", {"max_attempts": 1}, "dead", 1, 1, r"\b255\b", 1),
    "SIGSEGV": ("ulimit -c 0; kill -SEGV $$", {"max_attempts": 1}, "dead", 1, 1, "SIGSEGV", 1),
    "SIGKILL": ("kill -KILL $$", {"max_attempts": 1}, "dead", 1, 1, "SIGKILL", 1),
    "SIGPIPE": ("kill -PIPE $$", {"max_attempts": 1}, "dead", 1, 1, "SIGPIPE", 1),
    "stopped by SIGSTOP": ("kill -STOP $$", {"max_attempts": 1, "timeout_ms": 400}, "dead", 1, 1, "timed out", 1),
    "timed out": ("sleep 30", {"max_attempts": 1, "timeout_ms": 400}, "dead", 1, 1, "timed out", 1),
    "says dead": (SAY % ('{"dead": "no such customer"}', 0), {}, "dead", 1, 1, "no such customer", 1),
    "says retry after": (SAY % ('{"retry_after_ms": 50}', 1), {"max_attempts": 2}, "dead", 2, 2, "exit status 1", 2),
    "snoozes": (SNOOZE_ONCE, {}, "succeeded", 1, 2, None, 0),
    "says nonsense": (SAY % ("}{", 0), {}, "succeeded", 1, 1, None, 0),
    "spent before it ran": ("exit 0", {"attempt": 3, "max_attempts": 3}, "dead", None, 1, "attempt", None),
}


def test_every_outcome(site):
    """BR-40, BR-80: each way to end has its documented state, count, cause and ledger; no zombie is left."""
    daemon = site.start()
    jobs = {name: site.database.enqueue("sh", payload=script, **columns) for name, (script, columns, *_) in CASES.items()}
    site.database.wait_finished(jobs.values(), 20)
    wrong = []
    for name, (_, _, state, attempt, claims, error, ledger) in CASES.items():
        job, rows = site.database.job(jobs[name]), site.database.ledger(jobs[name])
        seen = (job["state"], job["attempt"] if attempt is not None else None, job["claim_no"], len(rows) if ledger is not None else None)
        if seen != (state, attempt, claims, ledger) or (error and not re.search(error, job["last_error"] or "")) or not job["finished_at"]:
            wrong.append(f"{name}: {seen}, {job['last_error']!r}, ledger {[row['outcome'] for row in rows]}")
    assert not wrong, "\n".join(wrong)
    invariants.attempts_equal_starts(site, [id for name, id in jobs.items() if name not in ("spent before it ran", "snoozes")])
    assert len(site.runs.starts(jobs["snoozes"])) == 2
    assert not site.runs.starts(jobs["spent before it ran"])
    zombies = [pid for pid in daemon.children() if daemon.stat_letter(pid) == "Z"]
    assert not zombies


def test_programs_that_cannot_be_executed(site):
    """BR-80: exec failure is the job's failure, named, and nothing of the daemon's."""
    (site.directory / "plain").write_text("#!/bin/sh\n")
    (site.directory / "orphan").write_text("#!/no/such/interpreter\n")
    (site.directory / "orphan").chmod(0o755)
    programs = {"missing": ("/no/such/program", "No such file"), "plain": (site.directory / "plain", "Permission denied"),
                "orphan": (site.directory / "orphan", "No such file"), "folder": (site.directory, "Permission denied")}
    handlers = [site.handler(name, str(path)) for name, (path, _) in programs.items()]
    handlers.append(site.handler("nowhere", "/bin/true", cwd="/no/such/directory"))
    handlers.append(site.handler("note", str(HANDLERS / "note.sh")))
    daemon = site.start(handlers=handlers)
    jobs = {name: site.database.enqueue(name, max_attempts=2) for name in [*programs, "nowhere"]}
    good = site.database.enqueue("note")
    site.database.wait(good, "succeeded")
    for name, id in jobs.items():
        job = site.database.wait(id, "dead", 15)
        expected = programs.get(name, (None, "No such file"))[1]
        assert job["attempt"] == 2 and re.search(expected, job["last_error"]), (name, job["last_error"])
    assert daemon.running


def test_an_attempt_leaves_its_figures_in_the_ledger(site):
    """Exit status or signal, peak memory, CPU time, the worker, the lease and the fence."""
    site.start(retention={"ledger": "all"})
    burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit "
    jobs = {code: site.database.enqueue("sh", payload=burn + str(code), max_attempts=1) for code in (0, 9)}
    site.database.wait_finished(jobs.values())
    for code, id in jobs.items():
        (row,), job = site.database.ledger(id), site.database.job(id)
        assert (row["exit_code"], row["signal"] or 0, row["attempt"], row["claim_no"]) == (code, 0, 1, 1)
        assert row["lease_id"] == job["lease_id"] and row["worker"] == job["locked_by"]
        assert 500 < row["max_rss_kb"] < 100_000 and 10 < row["cpu_ms"] < 20_000
        assert job["claimed_at"] <= row["started_at"] <= row["finished_at"] <= site.database.now()
    killed = site.database.enqueue("sh", payload="kill -9 $$", max_attempts=1)
    site.database.wait(killed, "dead")
    assert site.database.ledger(killed)[0]["signal"] == 9


def test_a_handler_learns_what_the_contract_promises(site):
    """The environment is built from nothing, and holds no secret of the daemon."""
    site.start(environment={"SECRET_OF_THE_DAEMON": "x", "MYSQL_PWD": "y", "TZ": "Europe/Prague", "LANG": "C.UTF-8"})
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    id = site.database.enqueue("sh", payload="env", traceparent=trace, timeout_ms=20_000, max_attempts=4)
    job = site.database.wait(id, "succeeded")
    seen = dict(line.split("=", 1) for line in job["result"].splitlines() if "=" in line)
    promised = {"LEASEHOLD_JOB_ID": str(id), "LEASEHOLD_KIND": "sh", "LEASEHOLD_QUEUE": "default", "LEASEHOLD_ATTEMPT": "1",
                "LEASEHOLD_MAX_ATTEMPTS": "4", "LEASEHOLD_CLAIM_NO": "1", "LEASEHOLD_LEASE_ID": job["lease_id"], "LEASEHOLD_LEASE_MS": "3000",
                "LEASEHOLD_TIMEOUT_MS": "20000", "LEASEHOLD_CONTROL_FD": "3", "TRACEPARENT": trace}
    assert promised.items() <= seen.items()
    assert {"PATH", "HOME"} <= seen.keys() and (seen["TZ"], seen["LANG"]) == ("Europe/Prague", "C.UTF-8")
    own = {name for name in seen if not name.startswith(("LEASEHOLD_", "LH_"))}
    assert own <= {"PATH", "HOME", "LANG", "TZ", "TRACEPARENT", "PWD", "SHLVL", "_", "OLDPWD"}, own


def test_progress_and_result_of_the_control_channel(site):
    site.start()
    script = """echo '{"progress": 40, "note": "half"}' >&3; echo '{"result": {"n": 1}}' >&3; printf ignored; until [ -e $LH_DIR/go ]; do sleep 0.05; done"""
    id = site.database.enqueue("sh", payload=script)
    until(lambda: (site.database.job(id)["progress"], site.database.job(id)["progress_note"]) == (40, "half"), 5)
    (site.directory / "go").touch()
    job = site.database.wait(id, "succeeded")
    assert job["result"].replace(" ", "") == '{"n":1}' and job["progress"] == 40


def test_a_handler_settles_its_job_in_its_own_transaction(site):
    """The row is the handler's word: whatever it exits with afterwards, nothing is written a second time."""
    site.start()
    settle = (f"mariadb --no-defaults -S {site.server.socket} -u lh_handler -ponly-for-tests leasehold -e \"UPDATE jobs SET state='succeeded', "
              "finished_at=UTC_TIMESTAMP(6), result='mine' WHERE id=$LEASEHOLD_JOB_ID AND lease_id='$LEASEHOLD_LEASE_ID' AND state='running'\"; ")
    quick = site.database.enqueue("sh", payload=settle + "printf other; exit 1")
    lasting = site.database.enqueue("sh", payload=settle + "sleep 4; exit 65")
    for id in (quick, lasting):
        site.database.wait(id, "succeeded")
    until(lambda: len(site.runs.ends()) == 2, 8)
    (change,) = site.database.audit(quick, "new_state = 'succeeded'")
    assert change["account"].startswith("lh_handler")
    for id in (quick, lasting):
        job = site.database.job(id)
        assert (job["state"], job["result"], len(site.runs.ends(id))) == ("succeeded", "mine", 1)
        assert [row["outcome"] for row in site.database.ledger(id)] in ([], ["succeeded"])


def test_retries_wait_their_backoff(site):
    """BR-46: from the first attempt to the last that the column can count, run_at lies between now and the cap; no overflow, no error."""
    site.start(handlers=[site.handler("fail", "/bin/false", max_attempts=65535, backoff={"base": "1s", "max": "1h"})])
    ids = [site.database.enqueue("fail", attempt=attempt, max_attempts=65535) for attempt in [*range(0, 200, 7), 1000, 65533]]
    site.database.wait(ids, "scheduled", 15)
    rows = site.database.sql("SELECT attempt, TIMESTAMPDIFF(MICROSECOND, requeued_at, run_at)/1e6 s FROM jobs WHERE state='scheduled' AND claim_no=1")
    assert len(rows) >= len(ids) - 3 and all(0 <= row["s"] <= 3600.1 for row in rows), rows
    assert all(row["s"] <= 2 ** (row["attempt"] - 1) + 0.1 for row in rows if row["attempt"] < 12)


@pytest.mark.parametrize("attempt, claim_no, state, last", [(65533, 4294967294, "succeeded", 65534), (65534, 4294967294, "dead", 65535),
                                                             (0, 4294967295, "dead", 2)])
def test_counters_at_their_maximum(site, attempt, claim_no, state, last):
    """The last attempt that can be told from the one after it is run, none beyond; a claim number that cannot grow stays; the other rows go on."""
    site.start()
    edge = site.database.enqueue("sh", attempt=attempt, max_attempts=2 if last == 2 else 65535, claim_no=claim_no, payload=f"exit {last == 2:d}")
    others = site.database.enqueue("note", 20)
    site.database.wait(others, "succeeded")
    job = site.database.wait(edge, state)
    assert (job["attempt"], job["claim_no"]) == (last, 4294967295)
    assert len(site.runs.starts(edge)) == {"succeeded": 1, "dead": last % 65535}[state]
