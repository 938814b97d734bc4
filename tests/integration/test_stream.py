"""Stream handlers in the real daemon: warm processes through the life of their jobs, and what becomes of them when something goes wrong."""
import os
import re
import signal
import time

import pytest

from harness import invariants
from harness.daemon import LEASE_S
from harness.waiting import always, until

# What the code does, columns of the row; then: state, attempts, claims, a pattern in last_error, rows in the ledger.
CASES = {
    "succeeds": ("pass", {}, "succeeded", 1, 1, None, 0),
    "retries": ("answer('retry', error='SMTP 451')", {"max_attempts": 2}, "dead", 2, 2, "SMTP 451", 2),
    "retries, then succeeds": ("answer('retry' if job['attempt'] == 1 else 'succeeded')", {}, "succeeded", 2, 2, None, 1),
    "retries after": ("answer('retry', retry_after_ms=50)", {"max_attempts": 2}, "dead", 2, 2, "another attempt", 2),
    "snoozes": ("answer(*(['snooze'] if job['claim_no'] == 1 else []), snooze_ms=50)", {}, "succeeded", 1, 2, None, 0),
    "is dead": ("answer('dead', error='no such customer')", {}, "dead", 1, 1, "no such customer", 1),
    "times out": ("hear(); answer('cancelled')", {"max_attempts": 1, "timeout_ms": 400}, "dead", 1, 1, "timed out", 1),
    "does not stop": ("time.sleep(30)", {"max_attempts": 1, "timeout_ms": 400}, "dead", 1, 1, "timed out", 1),
    "is stopped": ("os.kill(os.getpid(), signal.SIGSTOP)", {"max_attempts": 1, "timeout_ms": 400}, "dead", 1, 1, "timed out", 1),
    "crashes": ("os.kill(os.getpid(), signal.SIGKILL)", {"max_attempts": 1}, "dead", 1, 1, "died: killed by SIGKILL", 1),
    "exits": ("os._exit(0)", {"max_attempts": 1}, "dead", 1, 1, "died: exit status 0", 1),
    "raises": ("print('look here', file=sys.stderr, flush=True); 1/0", {"max_attempts": 1}, "dead", 1, 1, "ZeroDivision(.|\n)*look here", 1),
    "says nonsense": ("say(b'oops\\n')", {"max_attempts": 1}, "dead", 1, 1, "protocol error", 1),
    "answers for another": ("say({**me, 'id': 99, 'outcome': 'succeeded'})", {"max_attempts": 1}, "dead", 1, 1, "speaks of job 99", 1),
    "answers twice": ("answer(); answer()", {}, "succeeded", 1, 1, None, 0),
}

UNTIL_GO = "while not os.path.exists(os.environ['LH_DIR'] + '/go'): time.sleep(0.02)\n"


def pid_of(site, kind="st", **columns):
    return int(site.database.wait(site.database.enqueue(kind, payload="answer(result=os.getpid())", **columns), "succeeded")["result"])


def alive(pid):
    return os.path.exists(f"/proc/{pid}")


def streams(site):
    """The processes of stream handlers that are there."""
    return [pid for pid, command in invariants.marked(site.mark) if "stream.py" in command]


def test_every_outcome(site):
    """BR-40 and its like, for warm processes: each way to end has its documented state, count, cause and ledger."""
    site.start(handlers=[site.stream(name.replace(" ", "-")) for name in CASES])
    jobs = {name: site.database.enqueue(name.replace(" ", "-"), payload=code, **columns) for name, (code, columns, *_) in CASES.items()}
    site.database.wait_finished(jobs.values(), 30)
    wrong = []
    for name, (_, _, state, attempt, claims, error, ledger) in CASES.items():
        job, rows = site.database.job(jobs[name]), site.database.ledger(jobs[name])
        seen = (job["state"], job["attempt"], job["claim_no"], len(rows))
        if seen != (state, attempt, claims, ledger) or (error and not re.search(error, job["last_error"] or "")) or not job["finished_at"]:
            wrong.append(f"{name}: {seen}, {job['last_error']!r}, ledger {[row['outcome'] for row in rows]}")
    assert not wrong, "\n".join(wrong)
    invariants.attempts_equal_starts(site, [id for name, id in jobs.items() if name != "snoozes"])


def test_one_process_for_many_jobs(site):
    """Job after job, with its own environment, result, progress and log lines; nothing of one reaches the next."""
    a = site.start(handlers=[site.stream("st", processes=1)])
    first = pid_of(site)
    assert [pid_of(site) for _ in range(5)] == [first] * 5
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    id = site.database.enqueue("st", traceparent=trace, timeout_ms=20_000, max_attempts=4,
                               payload="print('hello', file=sys.stderr, flush=True); answer(result=job)")
    job = site.database.wait(id, "succeeded")
    for told in (f'"id":{id}', '"claim_no":1', '"attempt":1', '"max_attempts":4', '"timeout_ms":20000', '"lease_ms":3000', '"steps":{}',
                 f'"lease_id":"{job["lease_id"]}"', f'"traceparent":"{trace}"', '"queue":"default"', '"kind":"st"'):
        assert told in job["result"], job["result"]
    a.wait_log(rf"job={id} kind=st attempt=1 .*stderr: hello", 5)
    id = site.database.enqueue("st", payload="say({**me, 'progress': 40, 'note': 'half'})\n" + UNTIL_GO)
    until(lambda: (site.database.job(id)["progress"], site.database.job(id)["progress_note"]) == (40, "half"), 5)
    (site.directory / "go").touch()
    job = site.database.wait(id, "succeeded")
    assert job["result"] is None
    assert streams(site) == [first]


def test_steps_of_an_earlier_attempt(site):
    """What was answered as saved is there for the next attempt, whatever became of the process; what was not saved is not."""
    site.start(handlers=[site.stream("st")])
    id = site.database.enqueue("st", payload="""
if job['attempt'] == 1:
    said = [step('charged', {'n': [1, 2.5, 'x']})['step'], step('not good')['step'], step('mailed')['step']]
    assert [answer['saved'] for answer in said] == [True, False, True], said
    os.kill(os.getpid(), signal.SIGKILL)
say({**me, 'step': 'late', 'data': job['attempt']})
answer(result=[list(job['steps']), job['steps']['charged']])
""")
    job = site.database.wait(id, "succeeded", 10)
    assert (job["attempt"], job["result"]) == (2, '[["charged","mailed"],{"n":[1,2.5,"x"]}]')
    assert site.database.sql("SELECT data FROM job_steps WHERE job_id=%s AND name='late'", id) == [{"data": "2"}]


def test_cancel_with_its_reason(site):
    """A running job is told; one that gives in keeps its process, one that does not is ended."""
    site.start(handlers=[site.stream("st")])
    polite = site.database.enqueue("st", payload="mark('up'); c = hear()['cancel']; mark(c['reason']); answer('cancelled')")
    deaf = site.database.enqueue("st", payload="signal.signal(signal.SIGTERM, signal.SIG_IGN); mark('up'); time.sleep(60)")
    until(lambda: len(site.runs.events(None, "up")) == 2, 10)
    site.cli("cancel", polite, deaf)
    for id in (polite, deaf):
        assert site.database.wait(id, "cancelled", 5)["attempt"] == 1
    assert [event.pid for event in site.runs.events(polite, "cancel")] == streams(site)


def test_a_drain_leaves_nothing(site):
    """Warm processes end with their input; a job that is under way is finished first; one that waits for a process is given back."""
    a = site.start(handlers=[site.stream("st", processes=1), site.stream("idle")])
    idle = pid_of(site, "idle")
    busy = site.database.enqueue("st", payload="time.sleep(1)")
    until(lambda: site.runs.starts(busy), 10)
    waiting = site.database.enqueue("st")
    site.database.wait(waiting, "running")
    assert a.terminate() == 0
    assert site.database.state(busy) == "succeeded"
    job = site.database.job(waiting)
    assert (job["state"], job["attempt"]) == ("ready", 0)
    assert not alive(idle) and not streams(site)


def test_a_drain_ends_those_who_do_not_listen(site):
    """Neither the end of its input nor SIGTERM: SIGKILL after kill_grace, and no sooner than that is the daemon gone."""
    a = site.start(handlers=[site.stream("st")])
    deaf = int(site.database.wait(site.database.enqueue(
        "st", payload="answer(result=os.getpid()); signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"), "succeeded")["result"])
    began = time.monotonic()
    assert a.terminate() == 0
    assert not alive(deaf) and time.monotonic() - began > 0.8


def test_jobs_are_released_by_a_hasty_end(site):
    """After shutdown_timeout a job is told so, and not counted."""
    a = site.start(handlers=[site.stream("st")], instance={"shutdown_timeout": "300ms"})
    id = site.database.enqueue("st", payload="c = hear()['cancel']; mark(c['reason']); answer('cancelled')")
    until(lambda: site.runs.starts(id), 10)
    assert a.terminate() == 0
    job = site.database.job(id)
    assert (job["state"], job["attempt"]) == ("ready", 0) and site.runs.events(id, "shutdown")


def test_kill_9_of_the_process(site):
    """During a job: one attempt. Between two jobs: nothing."""
    site.start(handlers=[site.stream("st")])
    id = site.database.enqueue("st", payload="job['attempt'] > 1 or time.sleep(60)")
    until(lambda: site.runs.starts(id), 10)
    os.kill(site.runs.starts(id)[0].pid, signal.SIGKILL)
    assert site.database.wait(id, "succeeded", 10)["attempt"] == 2
    assert "died: killed by SIGKILL" in site.database.ledger(id)[0]["cause"]
    for _ in range(3):
        os.kill(pid_of(site), signal.SIGKILL)
        assert site.database.job(site.database.wait(site.database.enqueue("st"), "succeeded", 10)["id"])["attempt"] == 1


def test_kill_9_of_the_daemon(site):
    """With it go its processes, those with a job and those without, at once; another instance runs the job again."""
    a = site.start("A", handlers=[site.stream("st")])
    ids = site.database.enqueue("st", 3, payload="job['attempt'] > 1 or time.sleep(60)")
    until(lambda: len(site.runs.starts()) == 3, 10)
    pid_of(site)
    assert len(streams(site)) == 4
    a.kill()
    until(lambda: not streams(site), 1)
    site.start("B", handlers=[site.stream("st")])
    for job in site.database.wait(ids, "succeeded", 15):
        assert (job["attempt"], job["reclaims"]) == (2, 1)


def test_a_dead_runner_is_replaced(site):
    """Its processes died with it, and all the jobs run again without waiting for a lease."""
    a = site.start(handlers=[site.stream("st")])
    idle = pid_of(site)
    ids = site.database.enqueue("st", 2, payload="job['attempt'] > 1 or time.sleep(60)")
    until(lambda: len(site.runs.starts()) == 3, 10)
    runner = a.runner_pid
    os.kill(runner, signal.SIGKILL)
    until(lambda: a.runner_pid != runner, 5)
    for job in site.database.wait(ids, "succeeded", 10):
        assert (job["attempt"], job["reclaims"]) == (2, 0)
    assert not alive(idle) and a.running
    assert all(a.stat_letter(child) != "Z" for child in a.children())


def test_reload_replaces_the_processes(site):
    """Idle ones at once, busy ones after their job; the next job has the new settings."""
    handlers = [site.stream("st", env=[*site.environment, "VERSION=1"])]
    a = site.start(handlers=handlers)
    idle = pid_of(site)
    busy = site.database.enqueue("st", payload=UNTIL_GO + "answer(result=os.environ['VERSION'])")
    until(lambda: site.runs.starts(busy), 10)
    pid_of(site)
    handlers[0]["env"][-1] = "VERSION=2"
    a.write_config({**a.groups, "handlers": handlers})
    a.signal(signal.SIGHUP)
    a.wait_log("the new settings are in force")
    id = site.database.enqueue("st", payload="answer(result=os.environ['VERSION'])")
    assert site.database.wait(id, "succeeded")["result"] == "2"
    (site.directory / "go").touch()
    assert site.database.wait(busy, "succeeded")["result"] == "1"
    until(lambda: len(streams(site)) == 1 and not alive(idle), 5)


def test_processes_are_replaced_in_time(site):
    """After max_jobs, and after idle_timeout."""
    site.start(handlers=[site.stream("few", max_jobs=2, processes=1), site.stream("brief", idle_timeout="1s", processes=1)])
    pids = [pid_of(site, "few") for _ in range(6)]
    assert pids[0::2] == pids[1::2] and len(set(pids)) == 3
    brief = pid_of(site, "brief")
    assert pid_of(site, "brief") == brief
    until(lambda: not alive(brief), 5)
    assert pid_of(site, "brief") != brief
    assert len(site.runs.starts()) == 9


def test_a_crash_loop_backs_off(site):
    """BR-80 for warm processes: no attempt is counted, the log says why now and then, and the other kinds go on."""
    born = site.directory / "born"
    broken = site.stream("broken", "unborn", env=[*site.environment, f"LH_BORN={born}"])
    missing = site.handler("missing", "/no/such/program", type="stream")
    a = site.start(handlers=[broken, site.stream("garbage", "garbage"), missing, site.handler("note", "/bin/true")])
    ids = [site.database.enqueue(kind, n) for kind, n in (("broken", 1), ("garbage", 1), ("missing", 1))]
    ids += site.database.enqueue("broken", 20)
    until(lambda: all(a.grep(rf"kind={kind} its process failed") for kind in ("broken", "garbage", "missing")), 10, a.tail)
    for _ in range(3):
        site.database.wait(site.database.enqueue("note", 10), "succeeded", 10)
    for job in (site.database.job(id) for id in ids):
        assert job["attempt"] <= 1 and job["state"] in ("scheduled", "ready", "running"), job
    assert len(a.grep("kind=broken its process failed")) == 1 and a.grep("missing.*No such file")
    assert not site.database.sql("SELECT 1 FROM job_attempts")
    born.touch()
    for job in site.database.wait([ids[0], *ids[3:]], "succeeded", 40):
        assert job["attempt"] == 1
    site.cli("cancel", *ids[1:3])


def test_a_slow_start_holds_nothing_up(site):
    """A process that takes its time to be ready keeps its job waiting under a lease that is renewed; a cancel is heeded meanwhile."""
    slow = ["/bin/sh", "-c", "sleep 4; exec /usr/bin/python3 \"$@\"", "slow"]
    handler = site.stream("st", start_timeout="20s")
    handler["command"] = [*slow, *handler["command"][1:]]
    site.start(handlers=[handler])
    ids = site.database.enqueue("st", 2)
    site.database.wait(ids, "running")
    site.cli("cancel", ids[0])
    assert site.database.wait(ids[0], "cancelled", 3)["result"] is None
    always(lambda: not site.database.sql("SELECT 1 FROM jobs WHERE locked_at < UTC_TIMESTAMP(6) - INTERVAL 2 SECOND AND state='running'"), 2)
    job = site.database.wait(ids[1], "succeeded", 10)
    assert (job["attempt"], job["reclaims"]) == (1, 0)


def test_a_large_payload_and_a_large_result(site):
    site.start(handlers=[site.stream("st", max_result="4MiB")])
    payload = "answer(result=job['payload'][-3000000:])\n#" + "\u00e9\"\\\t" * 600_000
    job = site.database.wait(site.database.enqueue("st", payload=payload), "succeeded", 20)
    assert job["result"] == payload[-3_000_000:].replace("\x00", "")


def test_more_jobs_than_processes(site):
    """Two processes for all: they share the work, there are never more, and each job is run once."""
    site.start(handlers=[site.stream("st", processes=2)])
    ids = site.database.enqueue("st", 200)
    site.database.wait(ids, "succeeded", 30)
    starts = site.runs.starts()
    assert len(starts) == 200 and len({event.pid for event in starts}) <= 2


@pytest.mark.parametrize("option", [{"processes": 4}, {"max_jobs": 10}, {"idle_timeout": "5s"}, {"start_timeout": "5s"}], ids=lambda option: next(iter(option)))
def test_options_of_streams_are_refused_elsewhere(site, option):
    done = site.cli("check", config=site.config(handlers=[site.handler("sh", **option)]), check=False)
    assert done.returncode == 78 and "only stream handlers" in done.stdout + done.stderr, done


def test_leases_are_kept_while_a_process_has_its_job(site):
    """Longer than a lease: it is renewed, and the process is not ended."""
    site.start(handlers=[site.stream("st")])
    id = site.database.enqueue("st", payload=f"time.sleep({LEASE_S + 1})")
    job = site.database.wait(id, "succeeded", 12)
    assert (job["attempt"], job["reclaims"]) == (1, 0)
