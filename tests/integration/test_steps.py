"""Steps that a handler saves: the next attempt gets them back, whatever happened to daemon, connection or server in between.

The handler `step` runs its payload as a script that can save: `save NAME DATA` waits for the answer, `saved NAME` asks what was there."""
import json
import threading

import pytest

from harness import proxy as wire
from harness.daemon import HANDLERS, LEASE_S
from harness.waiting import always, until

# Not those that the start explains.
SAVE = r"^INSERT\s+INTO\s+job_steps\b"
READ = r"^SELECT\b.*\bFROM\s+job_steps\b"
PAGES = "save page 1 && save page 2 && save page 3 && save last '[3]'"
WAYS = {
    "unsent": (wire.drop_before, False),
    "unheard": (wire.drop_reply, False),
    "unheard-hidden": (wire.drop_reply, True),
    "late": (wire.land_late(1.2), False),
    "late-hidden": (wire.land_late(1.2), True),
}


def start(site, name=None, proxy=None, **more):
    return site.start(name, handlers=[site.handler("step", str(HANDLERS / "steps.sh")), site.handler("note", str(HANDLERS / "note.sh"))],
                      proxy=proxy, **more)


def rows(site, id):
    """What is saved for a job, in order."""
    return [(row["name"], row["data"]) for row in site.database.sql("SELECT name, data FROM job_steps WHERE job_id=%s ORDER BY seq", id)]


def test_the_next_attempt_goes_on_where_the_last_one_was(site):
    """What was saved is done once; it comes back in the order of first saving, with the latest data, byte for byte."""
    start(site)
    id = site.database.enqueue("step", payload="""
        saved charged || { echo charge >>"$LH_DIR/effects"; save charged '{"id":"ch_1","\\u017elu\\u0165":[1,2.50]}'; }
        [ $LEASEHOLD_ATTEMPT -ge 2 ] || { save a-page 1; save a-page 2; exit 75; }
        saved shipped || { echo ship >>"$LH_DIR/effects"; save shipped; }
        [ $LEASEHOLD_ATTEMPT -ge 3 ] || exit 75
        printf '%s %s' $LEASEHOLD_STEPS "$steps" """)
    job = site.database.wait(id, "succeeded")
    count, steps = job["result"].split(" ", 1)
    assert (job["attempt"], count) == (3, "3")
    assert list(json.loads(steps)["steps"].items()) == [("charged", {"id": "ch_1", "žluť": [1, 2.5]}), ("a-page", 2), ("shipped", None)]
    assert (site.directory / "effects").read_text().split() == ["charge", "ship"]
    shown = json.loads(site.cli("show", id, "--json").stdout)["steps"]
    assert [(step["name"], step["claim_no"]) for step in shown] == [("charged", 1), ("a-page", 1), ("shipped", 2)]
    site.database.sql("DELETE FROM jobs WHERE id=%s", id)
    assert site.database.value("SELECT COUNT(*) FROM job_steps") == 0


def test_first_claims_cost_nothing(site):
    """No statement for steps where there cannot be any; one for a whole claim where there can."""
    proxy = site.proxy()
    start(site, proxy=proxy)
    site.database.wait(site.database.enqueue("note", 30), "succeeded")
    assert not proxy.seen(READ)
    site.database.wait(site.database.enqueue("note", 30, claim_no=1), "succeeded")
    assert 0 < len(proxy.seen(READ)) <= len(proxy.seen(wire.CLAIM))


def cases(site, pattern, ways, payload, n=3, **rule):
    """An instance behind its own proxy and with its own queue for each way of losing a statement; n jobs each."""
    made = []
    for way in ways:
        action, hidden = WAYS[way]
        proxy = site.proxy(renumber=hidden)
        start(site, way, proxy=proxy, pools=[{"name": "p", "queues": [way], "threads": 4, "poll": "50ms"}])
        made.append((way, proxy.on(pattern, action, **rule), [site.database.enqueue("step", queue=way, payload=payload) for _ in range(n)]))
    return made


@pytest.mark.parametrize("nth", [1, 2], ids=["first", "again"])
def test_a_step_whose_reply_is_lost(site, nth):
    """It is sent again until it is known to be saved; nothing is saved twice, and what lands late does not undo what was saved since."""
    # Alone, a step is a statement that commits itself; and the job is still running when the late one lands.
    made = cases(site, SAVE, WAYS, PAGES + " && sleep 2", n=1, nth=nth)
    for way, rule, ids in made:
        rule.wait(10, f" ({way})")
        for job in site.database.wait(ids, "succeeded", 20):
            assert (job["attempt"], job["reclaims"], len(site.runs.starts(job["id"]))) == (1, 0, 1), way
    always(lambda: all(rows(site, id) == [("page", "3"), ("last", "[3]")] for _, _, ids in made for id in ids), 1.5)


def test_several_steps_whose_commit_is_lost(site):
    """Steps of several jobs that come at once are committed together: none of them may be answered before that is known."""
    made = []
    for way, (action, hidden) in WAYS.items():
        proxy = site.proxy(renumber=hidden)
        start(site, way, proxy=proxy, pools=[{"name": "p", "queues": [way], "threads": 4, "poll": "50ms"}])
        proxy.on(SAVE, wire.delay(1))  # while the first is under way the others gather
        made.append((way, proxy.on(wire.COMMIT, action, after=SAVE), site.database.enqueue("step", 4, queue=way, payload=PAGES)))
    for way, rule, ids in made:
        rule.wait(10, f" ({way})")
        assert all(job["attempt"] == 1 for job in site.database.wait(ids, "succeeded", 20)), way
    always(lambda: all(rows(site, id) == [("page", "3"), ("last", "[3]")] for _, _, ids in made for id in ids), 1.5)


@pytest.mark.parametrize("pattern", [r"^START TRANSACTION", SAVE, wire.COMMIT], ids=["begin", "save", "commit"])
def test_a_session_killed_at_each_statement(site, pattern):
    proxy = site.proxy()
    start(site, proxy=proxy)
    proxy.on(SAVE, wire.delay(1))

    def kill(session, sql):
        for row in site.database.sql("SHOW PROCESSLIST"):
            if row["User"] == "lh_worker" and row["Id"] in sessions:
                site.database.sql(f"KILL {row['Id']}")

    sessions = set()
    ids = site.database.enqueue("step", 6, payload=PAGES)
    until(lambda: proxy.seen(SAVE), 10)
    sessions |= {row["Id"] for row in site.database.sql("SHOW PROCESSLIST") if row["User"] == "lh_worker"}
    rule = proxy.on(pattern, wire.call(kill), after=SAVE if pattern == wire.COMMIT else None)
    rule.wait(10)
    assert all(job["attempt"] == 1 for job in site.database.wait(ids, "succeeded", 20))
    assert all(rows(site, id) == [("page", "3"), ("last", "[3]")] for id in ids)


@pytest.mark.parametrize("ways", [["unsent", "unheard"]], ids=["lost"])
def test_steps_that_cannot_be_read(site, ways):
    """The job is not started without them: the claim is read back again."""
    payload = "[ $LEASEHOLD_ATTEMPT -ge 2 ] || { save charged 1; exit 75; }; saved charged || exit 65"
    for way, rule, ids in cases(site, READ, ways, payload):
        rule.wait(10, f" ({way})")
        for job in site.database.wait(ids, "succeeded", 20):
            assert (job["attempt"], job["reclaims"], len(site.runs.starts(job["id"]))) == (2, 0, 2), way


def test_a_locked_row_keeps_nobody_else_waiting(site):
    """A transaction that holds the job's row, as a handler's own may: its step waits, everything else goes on."""
    start(site)
    id = site.database.enqueue("step", payload='echo >"$LH_DIR/up"; until [ -e "$LH_DIR/go" ]; do sleep 0.05; done; save charged 1')
    until(lambda: (site.directory / "up").exists(), 10)
    other = site.database.connect(autocommit=False)
    with other.cursor() as cursor:
        cursor.execute("SELECT id FROM jobs WHERE id=%s FOR UPDATE", (id,))
        (site.directory / "go").touch()
        site.database.wait(site.database.enqueue("note", 20), "succeeded", 2)
        others = site.database.enqueue("step", 5, payload="save charged 2")
        site.database.wait(others, "succeeded", 2)
        assert site.database.state(id) == "running" and rows(site, id) == []
        other.rollback()
    other.close()
    assert site.database.wait(id, "succeeded")["attempt"] == 1 and rows(site, id) == [("charged", "1")]


def test_a_daemon_that_is_killed(site):
    """What was answered as saved is there for whoever takes the job over."""
    a = start(site, "A")
    id = site.database.enqueue("step", payload='saved charged && exit; save charged 1 && echo >"$LH_DIR/up"; sleep 60')
    until(lambda: (site.directory / "up").exists(), 10)
    a.may_fail = True
    a.kill()
    start(site, "B")
    job = site.database.wait(id, "succeeded", LEASE_S + 8)
    assert (job["attempt"], job["reclaims"]) == (2, 1) and rows(site, id) == [("charged", "1")]


def test_a_frozen_daemons_late_step_is_refused(site):
    """The step lies in the pipe when the daemon is frozen; when it thaws, another holder has been at work."""
    proxy = site.proxy()
    a = start(site, "A", proxy=proxy)
    id = site.database.enqueue("step", payload="""
        [ $LEASEHOLD_ATTEMPT = 1 ] || { save charged 2; save done 2; exit; }
        save early 1; echo >"$LH_DIR/up"; until [ -e "$LH_DIR/go" ]; do sleep 0.05; done
        echo '{"step":"charged","data":1}' >&3; echo >"$LH_DIR/said"; sleep 60""")
    until(lambda: (site.directory / "up").exists(), 10)
    a.freeze()
    (site.directory / "go").touch()
    until(lambda: (site.directory / "said").exists(), 2)
    start(site, "B")
    job = site.database.wait(id, "succeeded", LEASE_S + 8)
    before = site.database.sql("SELECT * FROM job_steps ORDER BY seq")
    a.thaw()
    a.wait_log(rf"job={id} step=charged was not saved: the lease is not held", 10)
    assert site.database.sql("SELECT * FROM job_steps ORDER BY seq") == before and site.database.job(id) == job
    assert rows(site, id) == [("early", "1"), ("charged", "2"), ("done", "2")]


def test_a_step_that_lands_after_the_next_holder_came(site):
    """Sent by a daemon that was killed right after, and held up on the way until another has the job."""
    proxy = site.proxy()
    a = start(site, "A", proxy=proxy)
    a.may_fail = True
    now = threading.Event()

    def land(session, packet):
        now.wait(60)
        wire.pass_on(session, packet)

    rule = proxy.on(SAVE, land)
    id = site.database.enqueue("step", payload="""
        [ $LEASEHOLD_ATTEMPT = 1 ] || { save charged 2; until [ -e "$LH_DIR/go" ]; do sleep 0.05; done; exit; }
        save charged 1; sleep 60""")
    until(lambda: proxy.seen(SAVE), 10)
    a.kill()
    start(site, "B")
    until(lambda: rows(site, id) == [("charged", "2")], LEASE_S + 8)
    now.set()
    rule.wait(5)
    always(lambda: rows(site, id) == [("charged", "2")], 0.5)
    (site.directory / "go").touch()
    assert site.database.wait(id, "succeeded")["attempt"] == 2 and rows(site, id) == [("charged", "2")]


def test_a_database_that_goes_away(site):
    """The step waits, and so does its handler; when the database is back it is saved, within the lease."""
    proxy = site.proxy()
    start(site, proxy=proxy)
    ids = site.database.enqueue("step", 3, payload='echo >"$LH_DIR/up.$LEASEHOLD_JOB_ID"; until [ -e "$LH_DIR/go" ]; do sleep 0.05; done; ' + PAGES)
    until(lambda: all((site.directory / f"up.{id}").exists() for id in ids), 10)
    proxy.refuse = (1040, "Too many connections")
    proxy.drop_all()
    (site.directory / "go").touch()
    always(lambda: not any(rows(site, id) for id in ids), 1)
    proxy.refuse = None
    assert all(job["attempt"] == 1 for job in site.database.wait(ids, "succeeded", 10))
    assert all(rows(site, id) == [("page", "3"), ("last", "[3]")] for id in ids)


def test_the_end_does_not_wait_for_a_database_that_is_away(site):
    """No step of a daemon that gives up is left without an answer, and none is answered as saved."""
    proxy = site.proxy()
    a = start(site, proxy=proxy, instance={"shutdown_timeout": "1s"})
    id = site.database.enqueue("step", payload="""
        saved charged && exit 0
        echo >"$LH_DIR/up"; until [ -e "$LH_DIR/go" ]; do sleep 0.05; done; save charged 1 && echo >"$LH_DIR/wrong"; sleep 60""")
    until(lambda: (site.directory / "up").exists(), 10)
    proxy.refuse = (1040, "Too many connections")
    proxy.drop_all()
    (site.directory / "go").touch()
    a.may_fail = True
    a.process.terminate()
    a.wait_exit(12)
    assert not (site.directory / "wrong").exists() and rows(site, id) == []
    proxy.refuse = None
    site.database.sql("UPDATE jobs SET payload='exit 0' WHERE id=%s", id)
    start(site, "B")
    site.database.wait(id, "succeeded", LEASE_S + 8)


def test_an_operators_retry_keeps_them(site):
    start(site)
    id = site.database.enqueue("step", payload="save charged 1; [ $LEASEHOLD_ATTEMPT -ge 2 ] || exit 65; saved charged")
    site.database.wait(id, "dead")
    site.retry(id)
    assert site.database.wait(id, "succeeded")["attempt"] == 2


def test_more_than_a_handler_may_save(site):
    """Rows that somebody else wrote: neither cut, so that work would be done again, nor in the way of others. Without them it runs."""
    start(site)
    payload = "[ $LEASEHOLD_ATTEMPT -ge 2 ] || { save charged 1; exit 75; }"
    ids = site.database.enqueue("step", 3, payload=payload, claim_no=1, attempt=1)
    bad = site.database.enqueue("step", payload=payload, claim_no=1, run_in=3600)
    site.database.sql("INSERT INTO job_steps (job_id, name, seq, save_no, claim_no, data) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                      "FROM n WHERE i < 500) SELECT %s, CONCAT('n', i), i, i, 1, '1' FROM n", bad)
    site.database.sql("UPDATE jobs SET run_at=UTC_TIMESTAMP(6) WHERE id=%s", bad)
    site.database.wait(ids, "succeeded")
    job = site.database.wait(bad, "dead")
    assert "job_steps" in job["last_error"] and not site.runs.starts(bad)
    site.database.sql("DELETE FROM job_steps WHERE job_id=%s", bad)
    site.retry(bad)
    site.database.wait(bad, "succeeded")
