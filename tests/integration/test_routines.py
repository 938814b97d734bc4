"""The stored routines, as handlers and producers call them: under accounts that may do nothing else."""
import threading

import pymysql
import pytest

from harness.database import MIGRATIONS, NAME, PASSWORD
from harness.waiting import until

ROUTINES = MIGRATIONS / "0002_routines.sql"
NAMES = ("job_complete", "job_assert_lease", "job_fail", "job_enqueue")
STALE = 31001
LEASE = "6f1c2a52-9d0e-4d6b-8f53-0d3a6c1b7e10"
OTHER = "6f1c2a52-9d0e-4d6b-8f53-0d3a6c1b7e11"


@pytest.fixture
def call(site):
    """Calls a routine under an account of its own: EXECUTE on the database is all it has."""
    account = "'lh_caller'@'%'"
    site.server.client(f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{PASSWORD}'; GRANT EXECUTE ON {NAME}.* TO {account}")
    connection = site.database.connect("lh_caller")

    def call(routine, *arguments, on=None):
        marks = ", ".join(["%s"] * len(arguments))
        with (on or connection).cursor() as cursor:
            if routine != "job_enqueue":
                return cursor.execute(f"CALL {routine}({marks})", arguments)
            cursor.execute(f"CALL job_enqueue({marks}, @id, @created)", arguments)
            cursor.execute("SELECT @id, @created")
            return cursor.fetchone()

    call.connection = connection
    yield call
    connection.close()


def error(call, *arguments, **more):
    with pytest.raises(pymysql.err.Error) as caught:
        call(*arguments, **more)
    return caught.value.args


def running(site, lease=LEASE):
    """A job as a claim leaves it, made by the DBA."""
    id = site.database.enqueue("x", payload="{}")
    site.database.sql("UPDATE jobs SET state='running', lease_id=%s, claim_no=3, attempt=2, locked_by='w', locked_at=UTC_TIMESTAMP(6), lease_ms=60000, "
                      "claimed_at=UTC_TIMESTAMP(6) WHERE id=%s", lease, id)
    return id


def definitions(site, database=NAME):
    rows = site.database.sql("SELECT routine_name AS n, routine_definition AS d, sql_mode AS m, character_set_client AS c, collation_connection AS o, "
                             "security_type AS s FROM information_schema.routines WHERE routine_schema=%s ORDER BY 1", database)
    assert [row["n"] for row in rows] == sorted(NAMES)
    return rows


def test_complete_settles_under_the_lease_alone(site, call):
    id = running(site)
    for arguments in ((id, OTHER, "r"), (id, None, "r"), (id + 1, LEASE, "r"), (None, LEASE, "r")):
        number, text = error(call, "job_complete", *arguments)
        assert number == STALE and f"job {arguments[0] if arguments[0] is not None else 'NULL'} is not running under this lease" in text
    assert site.database.state(id) == "running"
    call("job_complete", id, LEASE, "žluťoučký 👍")
    job = site.database.job(id)
    assert (job["state"], job["result"], job["lease_id"]) == ("succeeded", "žluťoučký 👍", LEASE)
    assert abs((site.database.now() - job["finished_at"]).total_seconds()) < 5
    # A second time, as after a COMMIT whose answer was lost: the effects of this transaction must not be committed.
    assert error(call, "job_complete", id, LEASE, "r")[0] == STALE
    assert site.database.job(id) == job and not site.database.ledger(id)
    id = running(site)
    call("job_complete", id, LEASE, None)
    assert site.database.job(id)["result"] is None


def test_assert_lease_locks_what_it_found(site, call):
    id = running(site)
    assert error(call, "job_assert_lease", id, OTHER)[0] == STALE
    call("job_assert_lease", id, LEASE)  # autocommit: the lock is gone with the statement
    site.database.sql("SET innodb_lock_wait_timeout=1")
    assert site.database.sql("UPDATE jobs SET locked_at=UTC_TIMESTAMP(6) WHERE id=%s", id) == 1
    call.connection.begin()
    call("job_assert_lease", id, LEASE)
    with pytest.raises(pymysql.err.OperationalError, match="1205"):
        site.database.sql("UPDATE jobs SET locked_at=UTC_TIMESTAMP(6) WHERE id=%s", id)
    call.connection.commit()
    assert site.database.sql("UPDATE jobs SET state='ready', lease_id=NULL WHERE id=%s", id) == 1
    assert error(call, "job_assert_lease", id, LEASE)[0] == STALE


def test_fail_is_final_and_in_the_ledger(site, call):
    id = running(site)
    assert error(call, "job_fail", id, OTHER, "no")[0] == STALE and site.database.state(id) == "running"
    call("job_fail", id, LEASE, "a wrong order: " + "ž" * 600)
    job = site.database.job(id)
    assert (job["state"], job["last_error"]) == ("dead", "a wrong order: " + "ž" * 600) and job["finished_at"]
    (row,) = site.database.ledger(id)
    assert (row["claim_no"], row["outcome"], row["attempt"], row["lease_id"], row["worker"]) == (3, "dead", 2, LEASE, "w")
    assert row["cause"] == ("a wrong order: " + "ž" * 600)[:512] and row["started_at"] == job["claimed_at"]
    assert error(call, "job_fail", id, LEASE, "no")[0] == STALE
    id = running(site)
    call("job_fail", id, LEASE, None)
    assert site.database.job(id)["last_error"] and site.database.ledger(id)[0]["cause"]


def test_a_stale_lease_leaves_the_transaction_to_its_owner(site, call):
    """Neither committed nor rolled back: that is the caller's to do."""
    id = running(site)
    call.connection.begin()
    call("job_complete", id, LEASE, None)
    assert error(call, "job_complete", id, LEASE, None)[0] == STALE
    call.connection.rollback()
    assert site.database.state(id) == "running"


def test_the_callers_isolation_and_flags_do_not_matter(site, call):
    """REPEATABLE READ with a snapshot of before the claim, and rows counted as found: the fence looks at what is there now."""
    id = site.database.enqueue("x")
    for flag in (0, pymysql.constants.CLIENT.FOUND_ROWS):
        with site.database.connect("lh_caller", client_flag=flag) as old, old.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            if site.server.is_mariadb:
                cursor.execute("SET SESSION innodb_snapshot_isolation=OFF")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            site.database.sql("UPDATE jobs SET state='running', lease_id=%s WHERE id=%s", LEASE, id)
            call("job_assert_lease", id, LEASE, on=old)
            assert error(call, "job_complete", id, OTHER, None, on=old)[0] == STALE
            call("job_complete", id, LEASE, None, on=old)
            old.rollback()
        site.database.sql("UPDATE jobs SET state='ready', lease_id=NULL WHERE id=%s", id)


def test_enqueue_takes_defaults_and_what_is_given(site, call):
    id, created = call("job_enqueue", None, "mail.send", None, None, None, None)
    job = site.database.job(id)
    assert created == 1 and (job["queue"], job["kind"], job["payload"], job["state"], job["priority"]) == ("default", "mail.send", "{}", "ready", 0)
    assert job["unique_key"] is None and abs((site.database.now() - job["run_at"]).total_seconds()) < 5
    later = site.database.value("SELECT UTC_TIMESTAMP(6) + INTERVAL 1 HOUR")
    id, created = call("job_enqueue", "slow", "mail.send", '{"to": "žluťoučký 👍"}', later, -7, "k")
    job = site.database.job(id)
    assert (job["queue"], job["payload"], job["state"], job["priority"], job["unique_key"]) == ("slow", '{"to": "žluťoučký 👍"}', "scheduled", -7, b"k")
    assert job["run_at"] == later
    assert error(call, "job_enqueue", None, None, None, None, None, None)[0] == 1048
    assert error(call, "job_enqueue", "q" * 65, "x", None, None, None, None)[0] == 1406
    assert error(call, "job_enqueue", None, "x", None, None, 40000, None)[0] == 1264


def test_enqueue_finds_the_job_that_has_the_key(site, call):
    id, created = call("job_enqueue", None, "x", None, None, None, "k")
    assert created == 1
    for state in ("scheduled", "running", "ready"):
        site.database.sql("UPDATE jobs SET state=%s WHERE id=%s", state, id)
        assert call("job_enqueue", None, "x", "other", None, None, "k") == (id, 0)
    assert call("job_enqueue", None, "y", None, None, None, "k")[1] == 1
    site.database.sql("UPDATE jobs SET state='succeeded' WHERE id=%s", id)
    again, created = call("job_enqueue", None, "x", None, None, None, "k")
    assert created == 1 and again != id
    site.database.sql("UPDATE jobs SET state='dead', unique_hold_until=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id=%s", again)
    assert call("job_enqueue", None, "x", None, None, None, "k") == (again, 0)


def test_enqueue_in_a_transaction(site, call):
    """With the transaction's own fate; and a duplicate is found that the transaction's snapshot does not show, without keeping its lease from being renewed."""
    producer = call.connection
    producer.begin()
    id, created = call("job_enqueue", None, "x", None, None, None, "k")
    assert created == 1 and call("job_enqueue", None, "x", None, None, None, "k") == (id, 0)
    producer.rollback()
    assert not site.database.job(id)
    with producer.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if site.server.is_mariadb:
            cursor.execute("SET SESSION innodb_snapshot_isolation=OFF")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    holder = site.database.enqueue("x", unique_key="k")
    site.database.sql("UPDATE jobs SET state='running', lease_id=%s WHERE id=%s", LEASE, holder)
    for _ in range(3):  # what the first call of a session locks may be less than what later ones do
        assert call("job_enqueue", None, "x", None, None, None, "k") == (holder, 0)
    site.database.sql("SET innodb_lock_wait_timeout=1")
    assert site.database.sql("UPDATE jobs SET locked_at=UTC_TIMESTAMP(6), progress=5 WHERE id=%s", holder) == 1
    producer.commit()


RETRY = {1205, 1213, 1020}


def test_fifty_at_once_with_one_key(site, call):
    """BR-95: one row; all others are told which; the first ones roll back, and leave no key behind; the key is free when the job has ended."""
    count, answers, retries = 50, [], []
    gate = threading.Barrier(count)

    def producer(number):
        connection = site.database.connect("lh_producer")
        gate.wait()
        for attempt in range(100):
            try:
                connection.begin()
                id, created = call("job_enqueue", None, "x", str(number), None, None, "k", on=connection)
                if number < 10 and attempt == 0:
                    connection.rollback()
                    continue
                connection.commit()
                answers.append((id, created))
                break
            except pymysql.err.OperationalError as problem:
                assert problem.args[0] in RETRY, problem
                connection.rollback()
                retries.append(problem.args[0])
        connection.close()

    for _ in range(3):
        answers.clear()
        threads = [threading.Thread(target=producer, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (row,) = site.database.sql("SELECT id FROM jobs WHERE state='ready'")
        assert len(answers) == count and {id for id, _ in answers} == {row["id"]} and sum(created for _, created in answers) == 1
        site.database.sql("UPDATE jobs SET state='succeeded' WHERE id=%s", row["id"])
    assert site.database.value("SELECT COUNT(*) FROM jobs") == 3


def test_applied_again_while_they_are_called(site):
    """Handlers go on, and what they see is either the old or the new routine; on MySQL a moment without one is allowed, and told."""
    before, stop, failed, done = definitions(site), threading.Event(), [], []

    def caller():
        connection = site.database.connect("lh_handler")
        while not stop.is_set():
            try:
                with connection.cursor() as cursor:
                    cursor.execute("CALL job_complete(1, %s, NULL)", (OTHER,))
            except pymysql.err.Error as problem:
                (done if problem.args[0] == STALE else failed).append(problem.args)
        connection.close()

    threads = [threading.Thread(target=caller) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        seen = len(done)
        site.server.client(ROUTINES.read_text(), NAME)
        until(lambda: len(done) > seen, 5, "calls to go on")
    stop.set()
    for thread in threads:
        thread.join()
    assert {problem[0] for problem in failed} <= (set() if site.server.is_mariadb else {1305}), failed[:5]
    assert definitions(site) == before
    assert site.database.value("SELECT CONCAT(COUNT(*), '|', MIN(compatible_from)) FROM leasehold_schema WHERE version=2") == "1|1"


def test_made_under_hostile_defaults(site):
    """BR-53: latin1 and no strict mode, of the server and of the session, change nothing; the session gets its settings back."""
    before = definitions(site)
    site.database.sql("CREATE DATABASE lh_hostile CHARACTER SET latin1")
    try:
        hostile = "SET NAMES latin1; SET SESSION sql_mode='';\n"
        after = "\nCREATE TABLE after SELECT @@sql_mode AS a, @@character_set_client AS b, @@character_set_results AS c, @@collation_connection AS d;"
        site.server.client((MIGRATIONS / "0001_jobs.sql").read_text(), "lh_hostile")
        site.server.client(hostile + ROUTINES.read_text() + after, "lh_hostile")
        assert definitions(site, "lh_hostile") == before
        (settings,) = site.database.sql("SELECT * FROM lh_hostile.after")
        assert list(settings.values()) == ["", "latin1", "latin1", "latin1_swedish_ci"]
    finally:
        site.database.sql("DROP DATABASE lh_hostile")


def test_refused_where_the_tables_are_not(site):
    site.database.sql("CREATE DATABASE lh_empty")
    try:
        done = site.server.client(ROUTINES.read_text(), "lh_empty", check=False)
        assert done.returncode and "Apply 0001_jobs.sql to this database before" in done.stderr
        assert not site.database.sql("SELECT 1 FROM information_schema.routines WHERE routine_schema='lh_empty'")
    finally:
        site.database.sql("DROP DATABASE lh_empty")


def test_the_roles_may_call_them(site):
    """Also after the routines were made anew."""
    site.server.client(ROUTINES.read_text(), NAME)
    id = running(site)
    with site.database.connect("lh_handler") as handler, handler.cursor() as cursor:
        cursor.execute("CALL job_complete(%s, %s, 'r')", (id, LEASE))
        with pytest.raises(pymysql.err.OperationalError, match="1142|1143"):
            cursor.execute("UPDATE jobs SET lease_id='x'")
    with site.database.connect("lh_producer") as producer, producer.cursor() as cursor:
        cursor.execute("CALL job_enqueue(NULL, 'x', NULL, NULL, NULL, NULL, @id, @created)")
        with pytest.raises(pymysql.err.OperationalError, match="1142|1143"):
            cursor.execute("SELECT lease_id FROM jobs")
    with site.database.connect("lh_reader") as reader, reader.cursor() as cursor, pytest.raises(pymysql.err.OperationalError, match="1370"):
        cursor.execute("CALL job_complete(1, 'x', NULL)")
    assert site.database.job(id)["result"] == "r"


def test_without_definers(site):
    """The way out of migrations/README.md: with the caller's rights, which the handler's role has for two of them."""
    site.server.client(ROUTINES.read_text().replace("SQL SECURITY DEFINER", "SQL SECURITY INVOKER"), NAME)
    assert {row["s"] for row in definitions(site)} == {"INVOKER"}
    id = running(site)
    with site.database.connect("lh_handler") as handler, handler.cursor() as cursor:
        cursor.execute("CALL job_assert_lease(%s, %s)", (id, LEASE))
        cursor.execute("CALL job_complete(%s, %s, 'r')", (id, LEASE))
        id = running(site)
        with pytest.raises(pymysql.err.OperationalError, match="1142|1143"):
            cursor.execute("CALL job_fail(%s, %s, 'r')", (id, LEASE))
    assert site.database.state(id) == "running"


def test_a_definer_that_may_do_little(site):
    """The rights that migrations/README.md lists are enough to apply the file, and for every routine."""
    definer = "'lh_definer'@'%'"
    site.server.client(f"CREATE USER IF NOT EXISTS {definer} IDENTIFIED BY '{PASSWORD}'; GRANT CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON {NAME}.* TO {definer};"
                       f"GRANT INSERT, SELECT, UPDATE ON {NAME}.jobs TO {definer}; GRANT INSERT ON {NAME}.job_attempts TO {definer};"
                       f"GRANT INSERT, SELECT, UPDATE ON {NAME}.leasehold_schema TO {definer}")
    for routine in NAMES:
        site.database.sql(f"DROP PROCEDURE {routine}")
    site.database.sql("DELETE FROM leasehold_schema WHERE version=2")
    for _ in range(2):
        site.server.client(ROUTINES.read_text(), NAME, user="lh_definer", password=PASSWORD)
    with site.database.connect("lh_handler") as handler, handler.cursor() as cursor:
        for routine, result in (("job_complete", "succeeded"), ("job_fail", "dead")):
            id = running(site)
            cursor.execute("CALL job_assert_lease(%s, %s)", (id, LEASE))
            cursor.execute(f"CALL {routine}(%s, %s, 'r')", (id, LEASE))
            assert site.database.state(id) == result
        cursor.execute("CALL job_enqueue(NULL, 'x', NULL, NULL, NULL, 'k', @id, @created)")
        cursor.execute("CALL job_enqueue(NULL, 'x', NULL, NULL, NULL, 'k', @id, @created)")
        cursor.execute("SELECT @created")
        assert cursor.fetchone() == (0,)


def test_a_daemon_works_beside_them_and_without(site):
    """Optional: with version 2 on record, and in a database that never had it."""
    site.start()
    site.database.wait(site.database.enqueue("note"), "succeeded")
    for daemon in site.daemons:
        daemon.end()
    for routine in NAMES:
        site.database.sql(f"DROP PROCEDURE {routine}")
    site.database.sql("DELETE FROM leasehold_schema WHERE version=2")
    site.start()
    site.database.wait(site.database.enqueue("note"), "succeeded")
