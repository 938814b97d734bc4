"""The tables as a DBA and a producer meet them, and the daemon on a schema that is not its own."""
import json

import pymysql
import pytest

from harness.database import AUDIT, MIGRATIONS, NAME
from harness.waiting import until

TABLES = ("jobs", "job_attempts", "job_queues", "job_workers", "job_slots", "job_steps")


@pytest.fixture
def hostile(site):
    """The server as somebody else has set it up: latin1, no strict mode, another time zone; the tables made under it."""
    site.server.client("SET GLOBAL sql_mode='', time_zone='+05:00', character_set_server=latin1, collation_server=latin1_swedish_ci")
    try:
        site.database.drop_connection()
        site.server.client(f"DROP DATABASE {NAME}; CREATE DATABASE {NAME} CHARACTER SET latin1")
        site.database.apply_migrations()
        site.server.client(AUDIT, NAME)
        yield site
    finally:
        site.server.client("SET GLOBAL sql_mode=DEFAULT, time_zone='SYSTEM', character_set_server=utf8mb4, collation_server=utf8mb4_general_ci")
        site.database.drop_connection()


@pytest.fixture
def unmigrated(site):
    """An empty database; the accounts are there."""
    site.database.drop_connection()
    site.server.client(f"DROP DATABASE {NAME}; CREATE DATABASE {NAME} CHARACTER SET utf8mb4")
    return site


def test_tables_made_under_hostile_defaults(hostile):
    """BR-53: every string column names its charset, and text of four bytes makes the whole way."""
    columns = hostile.database.sql("SELECT column_name c, character_set_name s FROM information_schema.columns WHERE table_schema=%s AND table_name IN "
                                   f"{TABLES}", NAME)
    assert {row["s"] for row in columns} == {None, "ascii", "utf8mb4"}
    hostile.start()
    text = "žluťoučký 👍"
    id = hostile.database.enqueue("sh", payload=f"printf '{text}'")
    job = hostile.database.wait(id, "succeeded")
    assert job["result"] == text and abs((hostile.database.now() - job["created_at"]).total_seconds()) < 10


def test_migrations_again_and_while_work_is_done(site):
    """BR-93: applying them twice changes nothing, also under load, and after a half was applied."""
    def definitions():
        return [site.database.sql(f"SHOW CREATE TABLE {table}")[0]["Create Table"].split(" AUTO_INC")[0] for table in TABLES]

    before, versions = definitions(), site.database.sql("SELECT version, compatible_from FROM leasehold_schema ORDER BY version")
    site.start()
    ids = site.database.enqueue("sh", 60, payload="sleep 0.1")
    for _ in range(3):
        site.database.apply_migrations()
        site.server.client((MIGRATIONS / "grants.sql").read_text(), NAME)
    site.database.wait(ids, "succeeded", 15)
    assert definitions() == before and site.database.value("SELECT SUM(attempt) FROM jobs") == 60
    assert site.database.sql("SELECT version, compatible_from FROM leasehold_schema ORDER BY version") == versions
    for half in ("DROP TABLE job_slots, job_steps; ALTER TABLE jobs DROP KEY unique_hold; DELETE FROM leasehold_schema",
                 "DELETE FROM leasehold_schema WHERE version IN (3, 4)"):
        site.server.client(half, NAME)
        site.database.apply_migrations()
        assert definitions() == before and [row["version"] for row in site.database.sql("SELECT version FROM leasehold_schema ORDER BY version")] \
            == [row["version"] for row in versions]


def test_a_database_of_the_first_version(unmigrated):
    """BR-92, BR-93: the daemon says which files are missing and what to do; once they are applied every row that was there is taken care of."""
    site = unmigrated
    site.database.apply_migrations("0001*.sql")
    site.server.client(AUDIT, NAME)
    waiting = [site.database.enqueue("note"), site.database.enqueue("note", run_in=0.5), site.database.enqueue("note", state="running")]
    site.database.sql("UPDATE jobs SET lease_id=UUID(), locked_by='a former version', locked_at=UTC_TIMESTAMP(6), lease_ms=1000, attempt=1, claim_no=1, "
                      "claimed_at=UTC_TIMESTAMP(6) WHERE state='running'")
    at_rest = [site.database.enqueue("note", state=state) for state in ("succeeded", "dead", "cancelled")]
    a = site.daemon()
    a.may_fail = True
    a.spawn()
    assert a.wait_exit(10) == 78
    assert "migrations/0003_steps.sql" in a.log() and "0001" not in a.log() and "0002" not in a.log(), a.log()
    told = site.cli("check", check=False)
    assert told.returncode == 78 and "FAIL schema: " in told.stdout and "migrations/0003_steps.sql" in told.stdout
    told = site.cli("show", waiting[0], check=False)
    assert told.returncode == 78 and "migrations/0003_steps.sql" in told.stderr
    needed = json.loads(site.cli("version", "--json").stdout)
    assert needed["migrations"] == ["0001_jobs.sql", "0003_steps.sql", "0004_unique_hold.sql"]
    site.database.apply_migrations()
    a.may_fail = False
    a.start(site.database)
    site.database.wait(waiting, "succeeded", 10)
    assert [site.database.state(id) for id in at_rest] == ["succeeded", "dead", "cancelled"]
    assert all(not site.runs.starts(id) for id in at_rest)


@pytest.mark.parametrize("change, works", [
    ("DELETE FROM leasehold_schema", False), ("DROP TABLE leasehold_schema", False),
    ("INSERT INTO leasehold_schema (version, compatible_from) VALUES (77, 70)", False),
    ("INSERT INTO leasehold_schema (version, compatible_from) VALUES (77, 1)", True)],
    ids=["no version", "no table", "too new", "newer but compatible"])
def test_a_schema_that_is_not_the_daemons_own(site, change, works):
    """BR-93: a clear refusal that names the migration, or correct work."""
    site.database.sql(change)
    a = site.daemon()
    a.may_fail = not works
    a.spawn()
    if works:
        site.database.wait(site.database.enqueue("note"), "succeeded")
    else:
        assert a.wait_exit(10) == 78
        assert "0001" in a.log() or "77" in a.log(), a.log()
        assert "migration" in a.log() or "schema" in a.log()


def test_what_a_producer_may_write(site):
    """One INSERT with kind alone is enough; a lock, a lease, a state and an attempt are not the producer's to name, and nothing is its to read."""
    producer = site.database.connect("lh_producer")
    with producer.cursor() as cursor:
        cursor.execute("INSERT INTO jobs (kind) VALUES ('note')")
        cursor.execute("INSERT INTO jobs (kind, run_at) VALUES ('note', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR)")
        for column in ("state", "attempt", "lease_id", "locked_by", "locked_at", "lease_ms", "claim_no", "reclaims", "result"):
            with pytest.raises(pymysql.err.OperationalError):
                cursor.execute(f"INSERT INTO jobs (kind, {column}) VALUES ('note', DEFAULT)")
        for forbidden in ("SELECT id FROM jobs", "UPDATE jobs SET priority=1", "DELETE FROM jobs"):
            with pytest.raises(pymysql.err.OperationalError):
                cursor.execute(forbidden)
    producer.close()
    assert site.database.states() == {"ready": 1, "scheduled": 1}


def test_the_accounts_of_worker_and_handler(site):
    """The worker neither deletes a job nor changes what a producer asked for; a handler settles, and touches nothing else."""
    site.database.enqueue("note")
    refusals = {"lh_worker": ["DELETE FROM jobs", "UPDATE jobs SET payload=''", "UPDATE jobs SET kind='x'", "DELETE FROM job_attempts", "DROP TABLE jobs"],
                "lh_handler": ["SELECT payload FROM jobs", "UPDATE jobs SET lease_id=NULL", "INSERT INTO jobs (kind) VALUES ('x')", "DELETE FROM jobs"],
                "lh_reader": ["UPDATE jobs SET state='dead'", "INSERT INTO jobs (kind) VALUES ('x')", "DELETE FROM jobs"]}
    for account, statements in refusals.items():
        connection = site.database.connect(account)
        with connection.cursor() as cursor:
            for statement in statements:
                with pytest.raises(pymysql.err.OperationalError):
                    cursor.execute(statement)
        connection.close()


def test_a_job_and_the_producers_own_data_are_one_transaction(site):
    """What is rolled back never runs; a cross-database INSERT commits with its neighbour; the unique key is free again afterwards."""
    site.start()
    site.server.client("CREATE DATABASE IF NOT EXISTS test_shop; CREATE TABLE IF NOT EXISTS test_shop.orders (id INT PRIMARY KEY) ENGINE=InnoDB")
    try:
        shop = site.server.connect(database="test_shop", autocommit=False)
        with shop.cursor() as cursor:
            for end in (shop.rollback, shop.commit):
                cursor.execute("INSERT INTO orders VALUES (1)")
                cursor.execute("INSERT INTO leasehold.jobs (kind, unique_key) VALUES ('note', 'order-1')")
                end()
        shop.close()
        until(lambda: site.database.states() == {"succeeded": 1}, 5, lambda: site.database.states())
        site.database.wait(site.database.enqueue("note", unique_key="order-1"), "succeeded")
    finally:
        site.server.client("DROP DATABASE test_shop")
