"""Unique keys: one unfinished job for each, who has it is told, and a hold that outlasts the job."""
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pymysql
import pytest

from harness.waiting import STRETCH, always, until

SCAN, CLEAR = r"^\(SELECT.*FORCE INDEX .promote.", r"^(SET STATEMENT .* FOR )?UPDATE.*SET unique_hold_until=NULL"
TICK_S = 0.1  # promote_interval of configuration F


def insert(database, key, hold_s=None, **columns):
    """As an application does it; the id, or None where the key is taken."""
    columns = {"kind": "sh", "payload": "exit 0", "unique_key": key, **columns}
    marks = ["%s"] * len(columns)
    if hold_s is not None:
        columns["unique_hold_until"] = int(1e6 * hold_s)
        marks.append("UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND")
    producer = database.connect("lh_producer")
    try:
        with producer.cursor() as cursor:
            cursor.execute(f"INSERT INTO jobs ({', '.join(columns)}) VALUES ({', '.join(marks)})", list(columns.values()))
            return cursor.lastrowid
    except pymysql.err.IntegrityError as error:
        assert error.args[0] == 1062
        return None
    finally:
        producer.close()


def test_a_hold_outlasts_the_job(site):
    """However the job ends, its key is taken until the time has passed, and free a tick of the promoter later; a key without a hold is free at once."""
    site.start()
    held = {"succeeded": insert(site.database, "succeeded", 3), "dead": insert(site.database, "dead", 3, payload="exit 65"),
            "cancelled": insert(site.database, "cancelled", 3, queue="nobody")}
    ends = {state: site.database.job(id)["unique_hold_until"] for state, id in held.items()}
    site.cli("cancel", held["cancelled"])
    site.database.wait(insert(site.database, "plain"), "succeeded")
    assert insert(site.database, "plain")
    for state, id in held.items():
        site.database.wait(id, state, 2)
    again = {state: insert(site.database, state) for state in held}
    assert set(again.values()) == {None} or site.database.now() > min(ends.values())
    for state, id in held.items():
        until(lambda key=state: insert(site.database, key), 5)
        late = (site.database.now() - ends[state]).total_seconds()
        assert 0 <= late < 5 * TICK_S + 0.5 * STRETCH, late
        assert site.database.job(id)["unique_hold_until"] is None


def test_a_hold_on_a_job_that_still_runs(site):
    """The hold ends, the job does not: the key is still its own, and free when it ends; the promoter's write does not disturb the lease."""
    site.start()
    id = insert(site.database, "k", 0.5, payload="until [ -e $LH_DIR/go ]; do sleep 0.05; done")
    until(lambda: site.database.job(id)["unique_hold_until"] is None, 5)
    assert site.database.wait(id, "running") and insert(site.database, "k") is None
    (site.directory / "go").touch()
    assert site.database.wait(id, "succeeded")["attempt"] == 1
    assert insert(site.database, "k")


def test_an_idle_promoter_asks_once_a_tick(site):
    """Holds cost no statement of their own while none ends: one scan a tick, woken by the next end."""
    proxy = site.proxy()
    a = site.start(proxy=proxy, recovery={"promote_interval": "1s"})
    insert(site.database, "k", 3600)
    until(lambda: proxy.seen(SCAN), 5)
    start = len(proxy.seen(SCAN))
    always(lambda: a.running, 3)
    asked = [statement.sql for statement in proxy.seen(SCAN)][start:]
    assert 1 <= len(asked) <= 4 and all("unique_hold" in sql for sql in asked), asked
    assert not proxy.seen(CLEAR)
    insert(site.database, "soon", 1.3)
    until(lambda: proxy.seen(CLEAR), 4)
    until(lambda: insert(site.database, "soon"), 1)


def test_one_locked_hold_keeps_neither_the_others_nor_due_jobs(site):
    """A transaction that wrote to the row and stays open: everything else goes on, and this key is free after it."""
    ids = [site.database.enqueue("note", unique_key=f"k{i}", state="succeeded", unique_hold_until="2026-01-01") for i in range(40)]
    stuck = site.database.connect("root", autocommit=False)
    with stuck.cursor() as cursor:
        cursor.execute("UPDATE jobs SET progress=1 WHERE id=%s", [ids[17]])
    site.start()
    due = site.database.enqueue("sh", payload="true", run_in=0.5)
    until(lambda: site.database.value("SELECT COUNT(*) FROM jobs WHERE unique_hold_until IS NULL AND unique_key IS NOT NULL") == 39, 60)
    site.database.wait(due, "succeeded", 5)
    later = site.database.enqueue("sh", payload="true", run_in=0.5)
    site.database.wait(later, "succeeded", 5)
    assert site.database.job(ids[17])["unique_hold_until"]
    stuck.rollback()
    stuck.close()
    until(lambda: site.database.job(ids[17])["unique_hold_until"] is None, 15)


def test_a_producer_that_ran_into_a_key_and_stays(site):
    """Its open transaction keeps the entry of the key locked: due jobs go on, no thread waits for it, and the key is free when it ends."""
    a = site.start()
    held = insert(site.database, "k", 3600, kind="note", payload="{}")
    site.database.wait(held, "succeeded")
    due = site.database.enqueue("sh", 20, payload="true", run_in=1.5)
    stuck = site.database.connect("root", autocommit=False)
    with stuck.cursor() as cursor, pytest.raises(pymysql.err.IntegrityError):
        cursor.execute("INSERT INTO jobs (kind, unique_key) VALUES ('note', 'k')")
    # Only by way of the row itself: the entry of the key stays as it is.
    site.database.sql("UPDATE jobs SET unique_hold_until=UTC_TIMESTAMP(6) WHERE id=%s", held)
    a.wait_log(f"holds on unique keys, from job={held} on, could not be cleared", 10)
    for job in site.database.wait(due, "succeeded", 8):
        assert (job["claimed_at"] - job["run_at"]).total_seconds() < (1 if site.server.is_mariadb else 2) * STRETCH
    assert site.database.job(held)["unique_hold_until"]
    stuck.rollback()
    stuck.close()
    until(lambda: insert(site.database, "k", kind="note", payload="{}"), 15)


def test_a_retry_that_meets_a_hold(site):
    """The successor has finished and holds the key: it is named with its state; a job that holds its own key may be retried."""
    own = site.database.enqueue("note", queue="nobody", unique_key="own", state="dead")
    old = site.database.enqueue("note", queue="nobody", unique_key="k", state="dead")
    new = site.database.enqueue("note", queue="nobody", unique_key="k", state="succeeded")
    site.database.sql("UPDATE jobs SET unique_hold_until=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id IN (%s, %s)", own, new)
    site.retried |= {own, old}
    done = site.cli("retry", own, old, check=False)
    assert done.returncode == 1 and f"job {new}, which is succeeded, holds its unique key for some time yet" in done.stderr
    assert (site.database.state(own), site.database.state(old)) == ("ready", "dead")
    done = json.loads(site.cli("retry", old, "--json", check=False).stdout)
    assert done["failed"] == [{"id": old, "reason": "twin", "twin": new, "twin_state": "succeeded"}]
    site.database.sql("UPDATE jobs SET unique_hold_until=NULL WHERE id=%s", new)
    site.cli("retry", old)
    assert site.database.state(old) == "ready"


def test_enqueue_tells_who_has_the_key(site):
    """With state, and until when; 1 is the exit status; --json has an object."""
    first = int(site.cli("enqueue", "note", "--unique-key", "k", "--unique-for", "1h").stdout)
    left = site.database.value("SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), unique_hold_until) FROM jobs WHERE id=%s", first)
    assert 3590 <= left <= 3600
    done = site.cli("enqueue", "note", "--unique-key", "k", check=False)
    assert done.returncode == 1 and done.stdout == "" and f"job {first} of kind note, which is ready, has the unique key 'k'" in done.stderr
    site.database.sql("UPDATE jobs SET state='succeeded'")
    done = site.cli("enqueue", "note", "--unique-key", "k", "--json", check=False)
    assert done.returncode == 1 and f"job {first} of kind note, which is succeeded, has the unique key 'k' until 20" in done.stderr
    answer = json.loads(done.stdout)
    assert (answer["error"], answer["kind"], answer["unique_key"]) == ("duplicate", "note", "k")
    assert (answer["held_by"]["id"], answer["held_by"]["state"]) == (first, "succeeded") and answer["held_by"]["unique_hold_until"].endswith("Z")
    site.database.sql("UPDATE jobs SET unique_hold_until=NULL")
    assert int(site.cli("enqueue", "note", "--unique-key", "k").stdout) > first


def test_fifty_at_once_with_one_key(site):
    """BR-95: one row, and everybody else is told its id; the key can be used again afterwards."""
    site.cli("version")  # writes the configuration file
    command = [site.daemon().binary, "-c", str(site.directory / "cli.conf"), "enqueue", "note", "--unique-key", "k"]
    with ThreadPoolExecutor(50) as pool:
        done = list(pool.map(lambda _: subprocess.run(command, capture_output=True, text=True, timeout=60), range(50)))
    (row,) = site.database.sql("SELECT id FROM jobs")
    assert [one.stdout.strip() for one in done if one.returncode == 0] == [str(row["id"])]
    refused = [one for one in done if one.returncode != 0]
    assert len(refused) == 49 and all(one.returncode == 1 and f"job {row['id']} of kind note" in one.stderr for one in refused), refused[0]
    site.database.sql("UPDATE jobs SET state='succeeded'")
    site.cli("enqueue", "note", "--unique-key", "k")
