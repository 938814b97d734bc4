"""Fleet slots: never more than n jobs of a key at a time, over all instances; the others wait, and cost nothing while they do."""
import pytest

from harness import proxy as wire
from harness.waiting import always, until

ONE = "mark_slot one 1; sleep 0.05"
THREE = "mark_slot three 3; sleep 0.05"


def limited(site, n, kind="sh", **options):
    return site.handler(kind, concurrency=n, **options)


def fleet(site, n, limit, **more):
    return [site.start(handlers=[limited(site, limit), site.handler("free")], **more) for _ in range(n)]


def held(site):
    return site.database.value("SELECT COUNT(*) FROM job_slots WHERE lease_id IS NOT NULL")


def waiting(site):
    return site.database.value("SELECT COUNT(*) FROM jobs WHERE slot_wait IS NOT NULL")


def most_at_once(site, ids=None):
    """By the runs log, whose clock ticks in 10 ms: an end and a start in one tick count as end first."""
    events = [(event.ms, event.what == "start") for event in site.runs.events() if event.what in ("start", "end") and (ids is None or event.job in ids)]
    count = most = 0
    for _, start in sorted(events):
        count += 1 if start else -1
        most = max(most, count)
    return most


@pytest.mark.parametrize("limit, payload", [(1, ONE), (3, THREE)], ids=["one", "three"])
def test_never_more_than_so_many_in_the_whole_fleet(site, limit, payload):
    """Three instances with eight threads each, and every job runs once: the limit holds, and is used."""
    fleet(site, 3, limit)
    ids = site.database.enqueue("sh", 60, payload=payload)
    for job in site.database.wait(ids, "succeeded", 40):
        assert (job["attempt"], job["slot_wait"]) == (1, None)
    assert most_at_once(site) == limit
    until(lambda: held(site) == 0, 5, "every slot to be free")
    assert site.database.sql("SELECT * FROM job_attempts") == []


def test_each_concurrency_key_by_itself(site):
    """The job's own key counts, else its kind; what has no limit is not counted at all."""
    fleet(site, 2, 2)
    ids = {key: site.database.enqueue("sh", 12, concurrency_key=key, payload=f"mark_slot {key} 2; sleep 0.1") for key in ("x", "y")}
    ids["sh"] = site.database.enqueue("sh", 12, payload="mark_slot sh 2; sleep 0.1")
    free = site.database.enqueue("free", 12, payload="sleep 0.3", concurrency_key="x")
    everything = [id for some in ids.values() for id in some] + free
    for job in site.database.wait(everything, "succeeded", 30):
        assert job["attempt"] == 1
    assert all(most_at_once(site, set(some)) == 2 for some in ids.values())
    assert most_at_once(site, set(free)) > 2
    until(lambda: held(site) == 0, 5, "every slot to be free")
    assert {row["concurrency_key"] for row in site.database.sql("SELECT DISTINCT concurrency_key FROM job_slots")} == {"x", "y", "sh"}


def test_waiters_go_in_the_order_of_their_ids(site):
    """The oldest first, before what came later, whoever freed the slot."""
    ids = site.database.enqueue("sh", 8, payload="exit 0")
    fleet(site, 2, 1)
    site.database.wait(ids, "succeeded", 20)
    first = site.runs.starts()[0].job  # two instances choose at random which one is not parked
    assert [event.job for event in site.runs.starts()] == [first] + [id for id in ids if id != first]


BLOCK = "until [ -e $LH_DIR/go ] || [ -e $LH_DIR/go.$LEASEHOLD_JOB_ID ]; do sleep 0.02; done"


def go(site, id=None):
    (site.directory / ("go" if id is None else f"go.{id}")).touch()


def test_a_reload_raises_and_lowers_the_limit(site):
    """Waiters that the old limit kept back are woken at once; under a lower one nothing starts until enough have ended."""
    a, b = fleet(site, 2, 1)
    ids = site.database.enqueue("sh", 6, payload=BLOCK)
    until(lambda: len(site.runs.starts()) == 1 and waiting(site) == 5, 10)
    for n in (3, 1):
        for daemon in (a, b):
            daemon.write_config({**daemon.groups, "handlers": [limited(site, n), site.handler("free")]})
            daemon.signal(1)
            daemon.wait_log("new settings are in force", count=1 if n == 3 else 2)
        until(lambda: len(site.runs.starts()) == 3 and waiting(site) == 3, 10, lambda: f"{len(site.runs.starts())} starts, {waiting(site)} wait")
    running = [event.job for event in site.runs.starts()]
    for id in running[:2]:
        go(site, id)
        site.database.wait(id, "succeeded")
    always(lambda: len(site.runs.starts()) == 3, 1.5)  # several sweeps
    go(site, running[2])
    until(lambda: len(site.runs.starts()) == 4, 5)
    always(lambda: len(site.runs.starts()) == 4, 0.7)
    # A limit that is taken away lets all of them go.
    for daemon in (a, b):
        daemon.write_config({**daemon.groups, "handlers": [site.handler("sh")]})
        daemon.signal(1)
    until(lambda: len(site.runs.starts()) == 6, 10)
    go(site)
    assert all(job["attempt"] == 1 for job in site.database.wait(ids, "succeeded"))


def test_an_operator_cancels_retries_and_deletes_waiters(site):
    fleet(site, 2, 1)
    holder = site.database.enqueue("sh", payload=BLOCK)
    until(lambda: site.runs.starts(holder), 5)
    cancelled, deleted, last = site.database.enqueue("sh", 3, payload="exit 0")
    until(lambda: waiting(site) == 3, 5)
    shown = site.cli("list", "--state", "scheduled", "--json").stdout
    assert shown.count('"slot_wait": "sh"') + shown.count('"slot_wait":"sh"') == 3
    assert "SLOT OF" in site.cli("list").stdout and "sh" in site.cli("show", last).stdout
    stats = site.cli("stats").stdout
    assert "CONCURRENCY KEY" in stats and [line.split() for line in stats.splitlines() if line.startswith("sh")][-1] == ["sh", "1", "3"]
    site.cli("cancel", cancelled)
    site.database.sql("DELETE FROM jobs WHERE id=%s", deleted)
    assert (site.database.job(cancelled)["state"], site.database.job(cancelled)["slot_wait"]) == ("cancelled", None)
    site.retry(cancelled)
    until(lambda: site.database.job(cancelled)["slot_wait"] == "sh", 5)  # it waits again, at its old place
    go(site)
    site.database.wait([holder, cancelled, last], "succeeded", 10)
    assert [event.job for event in site.runs.starts()] == [holder, cancelled, last]


def test_a_job_that_fails_or_snoozes_gives_its_slot_away(site):
    """Whatever becomes of a run, its slot is free for the next: retry, dead, snooze, a handler that cannot be executed, a cancel."""
    site.start(handlers=[limited(site, 1), limited(site, 1, "nowhere", cwd="/no/such/directory")])
    payloads = ["[ $LEASEHOLD_ATTEMPT -ge 2 ]", "exit 65", "[ -e $LH_DIR/snoozed ] || { touch $LH_DIR/snoozed; echo '{\"snooze_ms\":300}' >&3; }"]
    retry, dead, snooze = [site.database.enqueue("sh", concurrency_key="k", payload=payload) for payload in payloads]
    nowhere = site.database.enqueue("nowhere", concurrency_key="k", max_attempts=2)
    site.database.wait([retry, snooze], "succeeded", 15)
    site.database.wait([dead, nowhere], "dead", 15)
    last = site.database.enqueue("sh", concurrency_key="k", payload="sleep 60")
    until(lambda: site.runs.starts(last), 10)
    site.cli("cancel", last)
    site.database.wait(last, "cancelled", 5)
    until(lambda: held(site) == 0, 5, "the slot to be free")


def settle_itself(site):
    return (f"mariadb --no-defaults -S {site.server.socket} -u lh_handler -ponly-for-tests leasehold -e \"UPDATE jobs SET state='succeeded', "
            "finished_at=UTC_TIMESTAMP(6) WHERE id=$LEASEHOLD_JOB_ID AND lease_id='$LEASEHOLD_LEASE_ID' AND state='running'\"; ")


def test_a_handler_that_settled_its_job_keeps_the_slot(site):
    """Until it exits, for longer than a lease; then the slot is free at once."""
    fleet(site, 2, 1)
    first = site.database.enqueue("sh", payload=settle_itself(site) + BLOCK)
    site.database.wait(first, "succeeded", 10)
    second = site.database.enqueue("sh", payload="exit 0")
    until(lambda: waiting(site) == 1, 5)
    always(lambda: not site.runs.starts(second) and held(site) == 1, 4.5)
    assert not site.runs.ends(first)
    go(site)
    site.database.wait(second, "succeeded", 2)
    assert site.runs.starts(second)[0].ms >= site.runs.ends(first)[0].ms
    until(lambda: held(site) == 0, 5, "every slot to be free")


def test_a_run_that_loses_its_slot_is_ended(site):
    """As if the lease were lost: nothing is written, the lease lapses, the attempt counts; the job runs again when there is a slot."""
    a = site.start(handlers=[limited(site, 1)])
    id = site.database.enqueue("sh", payload="trap '' TERM; [ $LEASEHOLD_ATTEMPT -ge 2 ] && exit 0; while :; do sleep 0.1; done")
    until(lambda: site.runs.starts(id), 5)
    site.database.sql("UPDATE job_slots SET lease_id='aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa', job_id=4711")
    a.wait_log(rf"job={id}\b.*its slot 0 is held by somebody else", 3)
    until(lambda: not [pid for pid, command in marked(site) if "script.sh" in command], 3, "its handler to be dead")
    assert site.database.job(id)["state"] == "running" and site.database.ledger(id) == []
    job = site.database.wait(id, "scheduled", 6)
    assert [row["outcome"] for row in site.database.ledger(id)] == ["lease_lapsed"] and job["reclaims"] == 1
    # Nobody renews the stranger's: it is freed after its own lease.
    job = site.database.wait(id, "succeeded", 10)
    assert (job["attempt"], len(site.runs.starts(id))) == (2, 2)


def marked(site):
    from harness import invariants
    return invariants.marked(site.mark)


def test_a_waiter_that_nobody_woke(site):
    """An instance died between freeing a slot and waking its waiter: the sweep of another finds that."""
    site.database.sql("INSERT INTO jobs (kind, payload, state, run_at, slot_wait) VALUES ('sh', 'exit 0', 'scheduled', '9999-01-01', 'sh'), "
                      "('sh', 'exit 0', 'scheduled', '9999-01-01', 'sh')")
    site.start(handlers=[limited(site, 1)])
    site.database.wait([1, 2], "succeeded", 5)
    # Also when one appears much later, while nothing waits here: within a lease.
    site.database.sql("INSERT INTO jobs (kind, payload, state, run_at, slot_wait) VALUES ('sh', 'exit 0', 'scheduled', '9999-01-01', 'sh')")
    site.database.wait(3, "succeeded", 3 + 2)


def test_prefetched_jobs_hold_no_slots(site):
    """A slot is for a job that runs: of a limited kind one thread claims one at a time, whatever the prefetch; and nothing overtakes it for ever."""
    site.start(handlers=[limited(site, 3), site.handler("free")], pools=[{"name": "p", "threads": 1, "prefetch": 5, "poll": "50ms"}])
    before = site.database.enqueue("free", 3, payload=BLOCK)
    until(lambda: site.database.states().get("running") == 3 and len(site.runs.starts()) == 1, 5)  # those without a limit are fetched ahead
    ids = site.database.enqueue("sh", 3, payload="sleep 0.1")
    after = site.database.enqueue("free", 3, payload="exit 0")
    always(lambda: held(site) == 0 and site.database.states().get("running") == 3, 1)
    go(site)
    until(lambda: held(site) <= 1 and site.database.states() == {"succeeded": 9}, 10, lambda: site.database.states())
    assert [event.job for event in site.runs.starts()] == [*before, *ids, *after]
    assert all(job["attempt"] == job["claim_no"] == 1 for job in site.database.wait([*before, *ids, *after], "succeeded"))


@pytest.mark.parametrize("way", ["no privilege", "no table"])
def test_run_refuses_to_start_without_slots(site, way):
    """Status 78, naming the option, the file and the grant; without a limit the same database is fit."""
    if way == "no table":
        site.database.sql("DROP TABLE job_slots")
    else:
        site.database.sql("REVOKE UPDATE ON leasehold.job_slots FROM leasehold_worker")
    try:
        a = site.daemon("A", handlers=[limited(site, 1)])
        a.may_fail = True
        a.spawn()
        assert a.wait_exit(10) == 78
        wanted = "migrations/0001_jobs.sql" if way == "no table" else "GRANT SELECT, INSERT, UPDATE ON job_slots"
        assert a.grep("handlers.concurrency is set") and wanted in a.log()
        checked = site.cli("check", config=site.config(handlers=[limited(site, 1)]), check=False)
        assert checked.returncode != 0 and wanted in checked.stdout
        assert "slots" not in site.cli("check", check=False).stdout or way == "no table"
        site.start("B")
        site.database.wait(site.database.enqueue("note"), "succeeded")
        # A reload cannot bring it in by the back door: such jobs stay, others go on.
        b = site.daemons[-1]
        b.write_config({**b.groups, "handlers": [limited(site, 1), site.handler("free")]})
        b.signal(1)
        b.wait_log("new settings are in force")
        id = site.database.enqueue("sh", payload="exit 0")
        site.database.wait(site.database.enqueue("free", payload="exit 0"), "succeeded")
        b.wait_log("handlers.concurrency", 5)
        always(lambda: not site.runs.starts(id), 1)
    finally:
        if way == "no privilege":
            site.database.sql("GRANT UPDATE ON leasehold.job_slots TO leasehold_worker")
    if way == "no privilege":
        site.database.wait(id, "succeeded", 10)


def test_check_is_content_with_slots(site):
    found = site.cli("check", config=site.config(handlers=[limited(site, 1)])).stdout
    assert "job_slots is there, may be used, and all 13 statements" in found, found
    assert "job_slots is there" not in site.cli("check").stdout
