"""Signals: drain, quiet, now, reload, status."""
import os
import signal
import time

from harness import invariants
from harness.daemon import GRACE_S
from harness.waiting import always, until

ONE = [{"name": "p", "queues": ["default"], "threads": 1, "poll": "50ms"}]


def started(site, id):
    until(lambda: site.runs.starts(id), 10, f"job {id} to start")


def test_a_drain_keeps_its_leases_to_the_end(site):
    """BR-02, BR-03: a job of several leases is finished under them while another instance watches; waiting jobs stay, exit 0. By TERM and by INT."""
    drained = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        queue = number.name
        daemon = site.start(queue, instance={"shutdown_timeout": "20s"}, pools=[{**ONE[0], "queues": [queue]}])
        id = site.database.enqueue("sh", queue=queue, payload="sleep 7")
        started(site, id)
        daemon.signal(number)
        drained[id] = daemon
    site.start("B", pools=[{**ONE[0], "queues": ["elsewhere"]}])
    waiting = [site.database.enqueue("note", queue=daemon.name) for daemon in drained.values()]
    beats = {id: set() for id in drained}
    while any(daemon.running for daemon in drained.values()):
        for id in drained:
            beats[id].add(site.database.job(id)["locked_at"])
        time.sleep(0.1)
    for id, daemon in drained.items():
        job = site.database.job(id)
        assert daemon.process.returncode == 0 and len(beats[id]) > 8
        assert (job["state"], job["attempt"], job["reclaims"]) == ("succeeded", 1, 0)
    assert [site.database.state(id) for id in waiting] == ["ready", "ready"] and len(site.runs.starts()) == 2


def test_a_drain_that_runs_out_of_time_gives_jobs_back(site):
    """BR-28: handlers that go on are ended by TERM, then KILL; their rows are ready at once, uncounted and without a lease."""
    a = site.start(instance={"shutdown_timeout": "1s"})
    deaf = site.database.enqueue("sh", payload="trap '' TERM; while :; do sleep 0.1; done")
    polite = site.database.enqueue("sh", payload="sleep 60")
    started(site, deaf)
    started(site, polite)
    pids = [site.runs.starts(id)[0].pid for id in (deaf, polite)]
    began = time.monotonic()
    a.terminate()
    assert time.monotonic() - began < 1 + GRACE_S + 2
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    for id in (deaf, polite):
        job = site.database.job(id)
        assert (job["state"], job["attempt"], job["lease_id"], job["claim_no"]) == ("ready", 0, None, 1)
        assert not site.database.ledger(id)


def test_now_means_now_with_leases_released(site):
    """Whoever asks twice, or by QUIT, does not wait for handlers; no job is counted or left to lapse."""
    asked = {"QUIT": [signal.SIGQUIT], "twice": [signal.SIGTERM] * 2, "both": [signal.SIGINT, signal.SIGTERM]}
    for name, numbers in asked.items():
        daemon = site.start(name, instance={"shutdown_timeout": "60s"}, pools=[{**ONE[0], "queues": [name], "threads": 3}])
        ids = site.database.enqueue("sh", 3, queue=name, payload="sleep 60")
        for id in ids:
            started(site, id)
        daemon.signal(numbers[0])
        if len(numbers) > 1:
            daemon.wait_log("signal: ", 5)  # taken, so that two of a kind arrive as two
            daemon.signal(numbers[1])
        daemon.wait_exit(4)
        for id in ids:
            job = site.database.job(id)
            assert (job["state"], job["attempt"], job["lease_id"]) == ("ready", 0, None), name


def test_released_jobs_run_elsewhere_at_once(site):
    a = site.start("A")
    ids = site.database.enqueue("sh", 4, payload="[ -e $LH_DIR/go ] || sleep 60")
    until(lambda: len(site.runs.starts()) == 4, 5)
    a.signal(signal.SIGQUIT)
    a.wait_exit(5)
    (site.directory / "go").touch()
    site.start("B")
    for job in site.database.wait(ids, "succeeded", 3):
        assert (job["attempt"], job["claim_no"], job["reclaims"]) == (1, 2, 0)


def test_quiet_claims_nothing_and_goes_on(site):
    a = site.start()
    running = site.database.enqueue("sh", payload="sleep 4")
    started(site, running)
    a.signal(signal.SIGUSR2)
    a.wait_log("quiet", 5)
    waiting = site.database.enqueue("note")
    job = site.database.wait(running, "succeeded", 10)
    assert job["reclaims"] == 0 and site.database.state(waiting) == "ready"
    assert site.database.value("SELECT status FROM job_workers") == "quiet"
    assert a.terminate() == 0


def test_a_valid_reload_takes_effect_and_an_invalid_one_changes_nothing(site):
    a = site.start(handlers=[site.handler("sh")])
    note = site.handler("later", "/bin/true")
    a.write_config({**a.groups, "handlers": [*a.groups["handlers"], note], "log": {"level": "info"}})
    a.signal(signal.SIGHUP)
    a.wait_log("(?i)reload", 5)
    site.database.wait(site.database.enqueue("later"), "succeeded")
    broken = {**a.groups, "handlers": [site.handler("later", "/bin/false", kill_grace="5m")], "lease": {"length": "3s", "heartbeat": "2s"}}
    a.write_config(broken)
    a.signal(signal.SIGHUP)
    a.wait_log("heartbeat", 5)
    site.database.wait(site.database.enqueue("later"), "succeeded")
    a.config.write_text("database = {")
    a.signal(signal.SIGHUP)
    a.wait_log(r"A\.conf:1", 5)
    site.database.wait(site.database.enqueue("later"), "succeeded")
    assert a.running


def test_a_running_job_keeps_the_settings_it_started_with(site):
    a = site.start(handlers=[site.handler("sh", timeout="20s")])
    id = site.database.enqueue("sh", payload="sleep 3")
    started(site, id)
    a.write_config({**a.groups, "handlers": [site.handler("sh", timeout="1s", max_attempts=1)]})
    a.signal(signal.SIGHUP)
    a.wait_log("(?i)reload", 5)
    assert site.database.wait(id, "succeeded")["attempt"] == 1
    late = site.database.enqueue("sh", payload="sleep 30")
    assert "timed out" in site.database.wait(late, "dead")["last_error"]


def test_status_goes_to_the_log(site):
    a = site.start()
    id = site.database.enqueue("sh", payload="sleep 2")
    started(site, id)
    before = len(a.log().splitlines())
    a.signal(signal.SIGUSR1)
    until(lambda: len(a.log().splitlines()) >= before + 3, 5)
    assert a.grep(r"running[ =:]+1\b"), a.tail()
    site.database.wait(id, "succeeded")


def test_signals_to_the_daemons_group_do_not_reach_handlers(site):
    """BR-79: what a terminal or a service manager sends to the whole group drains the daemon; its handlers end by themselves."""
    a = site.start(instance={"shutdown_timeout": "20s"})
    id = site.database.enqueue("sh", payload="trap 'mark term' TERM INT HUP; sleep 2; sleep 1")
    started(site, id)
    os.killpg(a.pid, signal.SIGTERM)
    assert a.wait_exit(10) == 0
    job = site.database.job(id)
    assert (job["state"], job["attempt"]) == ("succeeded", 1) and not site.runs.events(id, "term")


def test_a_drain_without_work_is_quick_and_leaves_no_trace(site):
    a = site.start()
    began = time.monotonic()
    assert a.terminate() == 0
    assert time.monotonic() - began < 2
    assert not site.database.sql("SELECT * FROM job_workers")


def test_a_drain_while_the_database_is_away_ends_in_time(site):
    """What could not be written is left to its lease, and the exit status says so."""
    proxy = site.proxy()
    a = site.start(proxy=proxy, instance={"shutdown_timeout": "1s"})
    id = site.database.enqueue("sh", payload="sleep 60")
    started(site, id)
    proxy.refuse = (1040, "Too many connections")
    proxy.drop_all()
    a.may_fail = True
    a.signal(signal.SIGTERM)
    assert a.wait_exit(15) == 1
    assert site.database.state(id) == "running" and not invariants.marked(site.mark)
    b = site.start("B")
    site.database.sql("UPDATE jobs SET payload='exit 0'")
    assert site.database.wait(id, "succeeded", 15)["attempt"] == 2
    always(lambda: b.running, 0.2)
