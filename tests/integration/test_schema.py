"""The tables as a DBA and a producer meet them, and the daemon on a schema that is not its own."""
import pymysql
import pytest

from harness.database import AUDIT, MIGRATIONS, NAME
from harness.waiting import until

FIRST, *LATER = (path.read_text() for path in sorted(MIGRATIONS.glob("[0-9]*.sql")))


@pytest.fixture
def hostile(site):
    """The server as somebody else has set it up: latin1, no strict mode, another time zone; the tables made under it."""
    site.server.client("SET GLOBAL sql_mode='', time_zone='+05:00', character_set_server=latin1, collation_server=latin1_swedish_ci")
    try:
        site.database.drop_connection()
        site.server.client(f"DROP DATABASE {NAME}; CREATE DATABASE {NAME} CHARACTER SET latin1")
        for migration in (FIRST, *LATER):
            site.server.client(migration, NAME)
        site.server.client(AUDIT, NAME)
        yield site
    finally:
        site.server.client("SET GLOBAL sql_mode=DEFAULT, time_zone='SYSTEM', character_set_server=utf8mb4, collation_server=utf8mb4_general_ci")
        site.database.drop_connection()


def test_tables_made_under_hostile_defaults(hostile):
    """BR-53: every string column names its charset, and text of four bytes makes the whole way."""
    columns = hostile.database.sql("SELECT column_name c, character_set_name s FROM information_schema.columns WHERE table_schema=%s AND table_name IN "
                                   "('jobs', 'job_attempts', 'job_queues', 'job_workers', 'job_slots')", NAME)
    assert {row["s"] for row in columns} == {None, "ascii", "utf8mb4"}
    hostile.start()
    text = "žluťoučký 👍"
    id = hostile.database.enqueue("sh", payload=f"printf '{text}'")
    job = hostile.database.wait(id, "succeeded")
    assert job["result"] == text and abs((hostile.database.now() - job["created_at"]).total_seconds()) < 10


def test_migrations_again_and_while_work_is_done(site):
    """BR-93: applying them twice changes nothing, also under load, and after a half was applied."""
    before = site.database.sql("SHOW CREATE TABLE jobs")
    site.start()
    ids = site.database.enqueue("sh", 60, payload="sleep 0.1")
    for _ in range(3):
        for migration in (FIRST, *LATER):
            site.server.client(migration, NAME)
        site.server.client((MIGRATIONS / "grants.sql").read_text(), NAME)
    site.database.wait(ids, "succeeded", 15)
    assert site.database.sql("SHOW CREATE TABLE jobs")[0]["Create Table"].split(" AUTO_INC")[0] == before[0]["Create Table"].split(" AUTO_INC")[0]
    assert site.database.value("SELECT SUM(attempt) FROM jobs") == 60
    assert site.database.value("SELECT COUNT(*) FROM leasehold_schema") == 1 + len(LATER)
    site.server.client("DROP TABLE job_slots; ALTER TABLE jobs DROP KEY unique_hold; DELETE FROM leasehold_schema", NAME)
    for migration in (FIRST, *LATER):
        site.server.client(migration, NAME)
    assert site.database.sql("SHOW CREATE TABLE jobs")[0]["Create Table"].split(" AUTO_INC")[0] == before[0]["Create Table"].split(" AUTO_INC")[0]
    assert site.database.value("SELECT COUNT(*) FROM job_slots") == 0


@pytest.mark.parametrize("change, works", [
    ("DELETE FROM leasehold_schema", False), ("DROP TABLE leasehold_schema", False),
    ("INSERT INTO leasehold_schema (version, compatible_from) VALUES (77, 77)", False),
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
        assert "0001" in a.log() or "7" in a.log(), a.log()
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
