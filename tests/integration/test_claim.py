"""Who gets a row, and which row is next."""
import time

import pytest

from harness import invariants
from harness.daemon import HANDLERS
from harness.waiting import until


def deadlocks(database):
    rows = database.sql("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")  # MariaDB only
    return int(rows[0]["Value"]) if rows else 0


def test_twenty_claimers_race_for_one_row(site):
    """Twenty instances, one job at a time: each has one winner and runs once."""
    for number in range(20):
        site.daemon(f"D{number}", pools=[{"name": "p", "threads": 1, "poll": "20ms", "poll_max": "20ms"}], log={"level": "info"}).spawn()
    until(lambda: site.database.value("SELECT COUNT(*) FROM job_workers") == 20, 20)
    for _ in range(10):
        job = site.database.wait(site.database.enqueue("note"), "succeeded")
        assert (job["attempt"], job["claim_no"], len(site.runs.starts(job["id"]))) == (1, 1, 1)


def test_five_thousand_rows_and_each_runs_once(site):
    """BR-12, BR-56: four instances of sixteen threads, the server's own default being REPEATABLE READ: no row twice, no deadlock."""
    site.server.client("SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    for _ in range(4):
        site.start(pools=[{"name": "p", "threads": 16, "poll": "50ms", "poll_max": "50ms"}], log={"level": "info"})
    before = deadlocks(site.database)
    ids = site.database.enqueue("note", 5000)
    until(lambda: site.database.states() == {"succeeded": 5000}, 90, lambda: site.database.states(), every=0.2)
    starts = site.runs.starts()
    assert len(starts) == 5000 and {event.job for event in starts} == set(ids)
    assert site.database.value("SELECT COUNT(*) FROM jobs WHERE attempt<>1 OR claim_no<>1") == 0
    assert deadlocks(site.database) == before


def test_an_early_ready_row_does_not_run_early(site):
    """An ORM that names every column sends ready with a future run_at: it is put back and runs when it is due."""
    site.start()
    early = site.database.enqueue("note", state="ready", run_in=1.5)
    site.database.wait(early, "scheduled", 5)
    normal = site.database.enqueue("note", run_in=1.5)
    site.database.wait([early, normal], "succeeded", 5)
    for id in (early, normal):
        job = site.database.job(id)
        assert 0 <= (job["claimed_at"] - job["run_at"]).total_seconds() < 1 and job["attempt"] == 1


def test_order_within_a_queue(site):
    """BR-89: lower priorities first, then run_at, then id; whatever the order of insertion."""
    keys = [(priority, late) for priority in (10, 0, -10) for late in (0, -60)]
    rows = [(key, site.database.enqueue("note", priority=key[0], run_in=key[1])) for key in keys for _ in range(3)]
    site.start(pools=[{"name": "one", "queues": ["default"], "threads": 1, "batch": 4, "poll": "50ms"}])
    site.database.wait([id for _, id in rows], "succeeded")
    assert [event.job for event in site.runs.starts()] == [id for _, id in sorted(rows)]


def test_queues_of_a_pool_and_of_nobody(site):
    """Each pool takes its own queues, nobody else's; a paused queue rests."""
    site.start(pools=[{"name": name, "queues": [name], "threads": 1, "poll": "50ms", "poll_max": "50ms"} for name in ("a", "b")])
    site.cli("pause", "b")
    a, b, c = (site.database.enqueue("note", queue=queue) for queue in "abc")
    site.database.wait(a, "succeeded")
    site.database.wait(site.database.enqueue("note", queue="a"), "succeeded")
    assert site.database.state(b) == site.database.state(c) == "ready"
    site.cli("resume", "b")
    site.database.wait(b, "succeeded")
    assert site.database.state(c) == "ready"


def test_no_more_is_claimed_than_can_run(site):
    """BR-34: with four threads there are never more than four running rows, and each has a handler."""
    site.start(pools=[{"name": "four", "queues": ["default"], "threads": 4, "poll": "50ms"}])
    ids = site.database.enqueue("sh", 32, payload="sleep 0.2")
    while set(site.database.states()) - {"succeeded"}:
        assert site.database.states().get("running", 0) <= 4
        time.sleep(0.02)
    site.database.wait(ids, "succeeded")
    waits = site.database.sql("SELECT id, attempt FROM jobs WHERE attempt<>1")
    assert not waits


def test_prefetched_jobs_wait_under_a_lease(site):
    """They are renewed like running ones, so a second instance leaves them alone, and a drain gives them back uncounted."""
    pool = {"name": "p", "queues": ["default"], "threads": 1, "prefetch": 4, "poll": "50ms"}
    a = site.start(pools=[pool])
    ids = site.database.enqueue("sh", 5, payload="sleep 1.5")
    until(lambda: site.database.states().get("running") == 5, 5, lambda: site.database.states())
    site.start("B", pools=[{**pool, "queues": ["elsewhere"]}])
    site.database.wait(ids[:3], "succeeded", 15)
    assert a.terminate() == 0
    assert site.database.value("SELECT SUM(reclaims) FROM jobs") == 0
    invariants.attempts_equal_starts(site, ids)
    assert {"running"}.isdisjoint(site.database.states())


def test_the_plans_of_the_hot_statements(site):
    """BR-57: what the daemon really sends never sorts and never scans the table, with no rows, few and many."""
    proxy = site.proxy()
    a = site.start(proxy=proxy, pools=[{"name": "p", "queues": ["default", "other"], "threads": 4, "poll": "50ms", "poll_max": "50ms"}])
    site.database.wait(site.database.enqueue("sh", 20, payload="sleep 0.6; [ $LEASEHOLD_ATTEMPT -ge 2 ]"), "succeeded", 20)
    assert a.terminate() == 0
    hot = {}
    for statement in proxy.seen(r"^\s*(SELECT|UPDATE)\b.*\bjobs\b"):
        hot.setdefault(" ".join(statement.sql.split())[:60], statement.sql)
    assert len(hot) >= 6, hot.keys()
    for rows in (0, 10, 6000):
        for queue in ("default", "other"):
            for priority in (0, 5):
                site.database.enqueue("later", rows // 2, queue=queue, priority=priority)
        site.database.sql("ANALYZE TABLE jobs")
        for sql in hot.values():
            for step in site.database.sql("EXPLAIN FORMAT=TRADITIONAL " + sql.replace("%", "%%")):
                assert "filesort" not in (step["Extra"] or ""), (sql, step)
                assert step["type"] != "ALL" or step["table"] != "jobs", (sql, step)


def test_times_are_utc_whatever_the_zones(site):
    """BR-86: the server's zone, the daemon's zone and the local summer do not move a job."""
    site.server.client("SET GLOBAL time_zone='+05:00'")
    try:
        site.start(environment={"TZ": "America/New_York"})
        producer = site.database.connect("lh_producer", init_command="SET time_zone='-03:00'")
        with producer.cursor() as cursor:
            cursor.execute("INSERT INTO jobs (kind) VALUES ('note')")
            cursor.execute("INSERT INTO jobs (kind, run_at) VALUES ('note', UTC_TIMESTAMP(6) + INTERVAL 2 SECOND)")
        producer.close()
        now, later = (site.database.wait(row["id"], "succeeded", 6) for row in site.database.sql("SELECT id FROM jobs ORDER BY run_at"))
        assert (now["claimed_at"] - now["created_at"]).total_seconds() < 1
        assert 0 <= (later["claimed_at"] - later["created_at"]).total_seconds() - 2 < 0.7
        for job in (now, later):
            assert abs((site.database.now() - job["finished_at"]).total_seconds()) < 10
    finally:
        site.server.client("SET GLOBAL time_zone='SYSTEM'")


@pytest.mark.parametrize("hostile", ["SET autocommit=0", "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
                                     "SET time_zone='+05:00', sql_mode='', innodb_lock_wait_timeout=50", "SET NAMES latin1"])
def test_a_hostile_init_connect_is_overridden(site, hostile):
    """BR-73: the session's settings are the daemon's own, whatever the server starts it with."""
    site.server.client(f'SET GLOBAL init_connect="{hostile}"')
    try:
        site.start()
        ids = [site.database.enqueue("note"), site.database.enqueue("sh", payload="printf žluťoučký; [ $LEASEHOLD_ATTEMPT -ge 2 ]")]
        site.database.wait(ids, "succeeded")
        job = site.database.job(ids[1])
        assert job["result"] == "žluťoučký" and abs((site.database.now() - job["finished_at"]).total_seconds()) < 10
    finally:
        site.server.client("SET GLOBAL init_connect=''")


def test_an_exec_of_another_language(site):
    """Any program with a shebang will do; its arguments come as they are written, and no shell looks at them."""
    program = site.directory / "prog"
    program.write_text("#!/usr/bin/python3 -S\nimport sys\nprint(sys.argv[1:], end='')\n")
    program.chmod(0o755)
    site.start(handlers=[site.handler("py.*", str(program), "$(rm -rf /) *", "a b"), site.handler("note", str(HANDLERS / "note.sh"))])
    job = site.database.wait(site.database.enqueue("py.any"), "succeeded")
    assert job["result"] == str(["$(rm -rf /) *", "a b"])


def test_what_waits_here_runs_in_the_order_of_the_queue(site):
    """BR-89, with prefetch: one claim brings them all, and what waits in the daemon must not overtake the more urgent."""
    ids = {priority: site.database.enqueue("note", priority=priority) for priority in (50, -20, 30, 0, -50, 10)}
    site.start(pools=[{"name": "p", "threads": 1, "prefetch": 20, "poll": "50ms"}])
    site.database.wait(list(ids.values()), "succeeded")
    assert [event.job for event in site.runs.starts()] == [ids[priority] for priority in sorted(ids)]
