"""A handler that settles its own job, in its own transaction: the daemon sees it, writes nothing, ends nobody, and keeps the slot until it exits."""
import signal

import pytest

from harness.daemon import LEASE_S
from harness.database import PASSWORD
from harness.waiting import always, until

# Nothing of this may be told of a job that its handler settled.
TROUBLE = r"lease lost|WARN|ERROR|is ended"
FENCE = ("UPDATE jobs SET state='succeeded', finished_at=UTC_TIMESTAMP(6), result='own' "
         "WHERE id=$LEASEHOLD_JOB_ID AND lease_id='$LEASEHOLD_LEASE_ID' AND state='running'")
COMPLETE = "CALL job_complete($LEASEHOLD_JOB_ID, '$LEASEHOLD_LEASE_ID', 'own')"
FAIL = "CALL job_fail($LEASEHOLD_JOB_ID, '$LEASEHOLD_LEASE_ID', 'refused')"


@pytest.fixture
def shop(site):
    """A business table in which an effect can be seen twice; and the client, for scripts: `db STATEMENTS`."""
    site.database.sql("CREATE TABLE effects (job BIGINT, claim_no INT) ENGINE=InnoDB")
    site.database.sql("GRANT INSERT, SELECT ON leasehold.effects TO lh_handler@'%'")
    client = site.directory / "db"
    client.write_text(f"#!/bin/sh\nexec mariadb --no-defaults --socket={site.server.socket} --user=lh_handler --password={PASSWORD} "
                      '--batch -N leasehold -e "$1"\n')
    client.chmod(0o755)
    return site


def effect(settle, before="", after=""):
    """The transaction of a handler, as one call of the client."""
    return (f'$LH_DIR/db "START TRANSACTION; INSERT INTO effects VALUES ($LEASEHOLD_JOB_ID, $LEASEHOLD_CLAIM_NO); {before} {settle}; {after} COMMIT"; '
            f'echo $? >$LH_DIR/settled.$LEASEHOLD_JOB_ID; ')


def settled(site, ids):
    """They have committed, whatever the daemon knows by now."""
    paths = [site.directory / f"settled.{id}" for id in ids]
    until(lambda: all(path.exists() and path.read_text() for path in paths), 10, "the handlers to settle")  # made first, then written
    assert all(path.read_text() == "0\n" for path in paths)


def check_once(site, id, state="succeeded", daemons=None):
    """One effect, one end, by the handler's own account, and no word or write of a daemon about it."""
    job = site.database.job(id)
    assert (job["state"], job["attempt"], job["reclaims"]) == (state, 1, 0)
    assert site.database.value("SELECT COUNT(*) FROM effects WHERE job=%s", id) == 1
    ends = site.database.audit(id, "old_state='running' AND new_state<>'running'")
    assert len(ends) == 1 and ends[0]["account"].startswith("lh_handler@")
    assert not site.database.audit(id, f"seq > {ends[0]['seq']}"), "the row was written after its handler had settled it"
    for daemon in daemons or site.daemons:
        assert not daemon.grep(rf"(?=.*job={id}\b)({TROUBLE})|({TROUBLE}).*job={id}\b"), daemon.tail()
    return job


ENDINGS = ["exit 0", "exit 1", "exit 65", "exit 75", "kill -9 $$", "echo printed; exit 0", "echo no >&2; exit 3", "echo '{\"snooze_ms\":1}' >&3",
           "echo '{\"retry_after_ms\":1}' >&3", "echo '{\"dead\":\"so\",\"result\":\"other\"}' >&3", "echo '{\"result\":\"other\",\"progress\":50}' >&3"]


@pytest.mark.parametrize("when", ["at once", "after the daemon has seen it"])
@pytest.mark.parametrize("settle", [FENCE, COMPLETE], ids=["update", "routine"])
def test_whatever_the_handler_says_afterwards(shop, how, when, settle):
    """The commit is what counts: the exit status, the output and descriptor 3 change nothing, and the ledger is as for any success."""
    a = shop.start(handlers=shop.handlers(how), pools=[{"name": "default", "queues": ["default"], "threads": 16}])
    endings = [ending for ending in ENDINGS if how == "exec" or ">&3" not in ending]
    pause = "" if when == "at once" else "sleep 1.5; "
    ids = [shop.database.enqueue("sh", payload=effect(settle) + pause + ending) for ending in endings]
    settled(shop, ids)
    if pause:
        a.wait_log(r"was settled by its handler", 5, count=len(ids))
    until(lambda: len(shop.runs.ends()) >= len(ids) - 1, 10)  # the one that is killed does not say so
    shop.database.wait(shop.database.enqueue("note"), "succeeded")
    a.terminate()
    for id in ids:
        assert check_once(shop, id)["result"] == "own"
        assert not shop.database.ledger(id) and len(shop.runs.starts(id)) == 1
    assert not a.grep("lease lost")
    assert a.grep(rf"by handler {len(ids)},.*lost 0, lapsed 0, stale results 0")


def test_a_ledger_of_everything_has_them_too(shop):
    """retention.ledger = "all": one row a job, as a success, whoever noticed first and however the process ended."""
    shop.start(retention={"ledger": "all"})
    ids = [shop.database.enqueue("sh", payload=effect(FENCE) + pause + ending) for pause in ("", "sleep 1.2; ") for ending in ("exit 0", "exit 3")]
    rows = until(lambda: len(found := [row for id in ids for row in shop.database.ledger(id)]) == len(ids) and found, 10)
    assert [(row["outcome"], row["exit_code"], row["claim_no"]) for row in rows] == [("succeeded", 0, 1), ("succeeded", 3, 1)] * 2
    assert not shop.daemons[0].grep("lease lost")


def test_a_long_end_keeps_the_slot_and_is_not_cut_short(shop, how):
    """Settled, then three leases of something else: no kill, no other job in its place, and no write."""
    a = shop.start(handlers=shop.handlers(how), pools=[{"name": "default", "queues": ["default"], "threads": 1}])
    id = shop.database.enqueue("sh", payload=effect(COMPLETE) + f"sleep {3 * LEASE_S + 0.5}; mark rested")
    settled(shop, [id])
    next = shop.database.enqueue("note")
    a.wait_log(rf"job={id}\b.*settled by its handler", 5)
    shop.database.wait(next, "succeeded", 3 * LEASE_S + 5)
    rested, end = shop.runs.events(id, "rested"), shop.runs.ends(id)
    assert rested and end[0].ms <= shop.runs.starts(next)[0].ms + 10
    check_once(shop, id)


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_the_daemon_is_killed_around_the_commit(shop, how, moment):
    """After it: done, and nobody runs it again. Before it: the transaction went with the handler, and the next attempt makes the one effect."""
    a = shop.daemon("A", handlers=shop.handlers(how)).start(shop.database)
    before = "DO SLEEP(IF($LEASEHOLD_ATTEMPT = 1, 30, 0));" if moment == "before the commit" else ""
    id = shop.database.enqueue("sh", payload=effect(FENCE, before) + "sleep 30")
    if before:
        until(lambda: shop.database.sql("SELECT 1 FROM information_schema.processlist WHERE state LIKE 'User sleep%%'"), 10)
    else:
        settled(shop, [id])
    a.kill()
    b = shop.start("B", handlers=shop.handlers(how))
    if before:
        job = shop.database.wait(id, "succeeded", LEASE_S + 8)
        assert (job["attempt"], job["reclaims"]) == (2, 1)
        assert shop.database.sql("SELECT claim_no FROM effects") == [{"claim_no": 2}]
        assert [row["outcome"] for row in shop.database.ledger(id)] == ["lease_lapsed"]
    else:
        always(lambda: len(shop.runs.starts(id)) == 1, LEASE_S + 1.5)
        check_once(shop, id, daemons=[b])
        assert not shop.database.ledger(id)


def test_the_heartbeat_waits_for_the_handlers_lock(shop, how):
    """The fence statement locks the row; renewals wait, one after the other in vain, until the commit shows that there is nothing left to renew."""
    a = shop.start(handlers=shop.handlers(how))
    other = shop.database.enqueue("sh", payload="sleep 4")  # its renewals go on
    id = shop.database.enqueue("sh", payload=effect(FENCE, after="DO SLEEP(1.7);") + "sleep 1.2; exit 1")
    if shop.server.is_mariadb:  # MySQL's shortest wait is one second, of which two would be more than this lock
        a.wait_log(rf"job={id}\b could not be renewed", 5)
    settled(shop, [id])
    a.wait_log(rf"job={id}\b.*settled by its handler", 5)
    shop.database.wait(other, "succeeded", 8)
    check_once(shop, id)
    assert shop.database.job(other)["attempt"] == 1 and not a.grep("lease lost")


def test_a_lock_that_is_held_for_too_long_loses_the_lease(shop):
    """What the manual warns of: nothing slow after the fence. The handler is ended with its lease, its transaction undone, and another attempt is made."""
    a = shop.start()
    id = shop.database.enqueue("sh", payload=effect(FENCE, after="DO SLEEP(IF($LEASEHOLD_ATTEMPT = 1, 30, 0));"))
    job = shop.database.wait(id, "succeeded", 2 * LEASE_S + 40)
    assert job["attempt"] == 2 and shop.database.sql("SELECT claim_no FROM effects") == [{"claim_no": 2}]
    a.wait_log(rf"job={id}\b.*lease lost", 1)


@pytest.mark.parametrize("pause", ["", "sleep 1.2; "], ids=["at once", "after the daemon has seen it"])
def test_a_job_that_its_handler_failed(shop, pause):
    """job_fail: dead, with one row in the ledger, whatever the exit status; and the daemon does not call it lost."""
    a = shop.start()
    ids = [shop.database.enqueue("sh", payload=effect(FAIL) + pause + ending) for ending in ("exit 0", "exit 1", "echo x; exit 65")]
    settled(shop, ids)
    until(lambda: len(shop.runs.ends()) == len(ids), 5)
    shop.database.wait(shop.database.enqueue("note"), "succeeded")
    a.terminate()
    for id in ids:
        assert check_once(shop, id, "dead")["last_error"] == "refused"
        assert [(row["outcome"], row["cause"]) for row in shop.database.ledger(id)] == [("dead", "refused")]


def test_a_cancel_that_comes_too_late(shop):
    """Asked for while the transaction is open: it commits all the same, and succeeded is final."""
    a = shop.start()
    shop.database.sql("SELECT GET_LOCK('go', 0)")
    id = shop.database.enqueue("sh", payload="trap '' TERM; " + effect(FENCE, before="DO GET_LOCK('go', 20);"))
    until(lambda: shop.database.sql("SELECT 1 FROM information_schema.processlist WHERE state='User lock'"), 5)
    shop.cli("cancel", id)
    a.wait_log(rf"job={id}\b.*cancel was requested", 5)
    shop.database.sql("SELECT RELEASE_LOCK('go')")
    settled(shop, [id])
    assert shop.database.wait(id, ("succeeded", "cancelled"))["state"] == "succeeded"
    until(lambda: shop.runs.ends(id), 5)
    a.terminate()
    assert shop.database.state(id) == "succeeded" and not shop.database.ledger(id) and not a.grep("lease lost")


def test_a_drain_and_a_timeout_after_the_commit(shop):
    """Both end the process, as they would any other, and leave the job alone."""
    a = shop.start(instance={"shutdown_timeout": "1s"})
    late = shop.database.enqueue("sh", payload=effect(FENCE) + "sleep 60", timeout_ms=2000)
    settled(shop, [late])
    a.wait_log(rf"job={late}\b.*settled by its handler", 5)
    drained = shop.database.enqueue("sh", payload=effect(COMPLETE) + "sleep 60")
    settled(shop, [drained])
    pids = [shop.runs.starts(id)[0].pid for id in (late, drained)]
    until(lambda: not alive(pids[0]), 8, "the timeout to end the first one")
    a.signal(signal.SIGTERM)
    assert a.wait_exit(10) == 0 and not alive(pids[1])
    for id in (late, drained):
        check_once(shop, id)
        assert not shop.database.ledger(id)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
