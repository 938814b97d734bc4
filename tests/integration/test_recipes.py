"""The handlers of docs/recipes, as they stand there: each issues an invoice and settles its job in one transaction, whatever comes in between."""
import importlib.util
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from harness.daemon import LEASE_S
from harness.database import NAME, PASSWORD
from harness.waiting import STRETCH, until

RECIPES = Path(__file__).resolve().parents[2] / "docs" / "recipes"
SCRIPTS = {"python": "settle.py", "php": "settle.php", "perl": "settle.pl", "ruby": "settle.rb"}
ACCOUNTS = {"lh_shop": "leasehold_handler", "lh_desk": "leasehold_producer"}


def node_programs(directory):
    """The recipes for Node with the modules of their package-lock.json, or None and why not."""
    shutil.copytree(RECIPES / "node", directory, ignore=shutil.ignore_patterns("node_modules"))
    if not shutil.which("npm"):
        return None, "there is no npm"
    done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=directory, capture_output=True, text=True, timeout=300)
    return (None, f"npm ci failed: {done.stderr[-500:]}") if done.returncode else (directory, None)


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """What there is to run: {"settle": {language: command}, "enqueue": {...}}, and why a language is missing."""
    directory = tmp_path_factory.mktemp("recipes")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libmariadb", "jansson"], capture_output=True, text=True, check=True).stdout.split()
    node, missing = node_programs(directory / "node")
    found = {}
    for verb in ("settle", "enqueue"):
        built = directory / f"{verb}-c"
        subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", built, RECIPES / f"{verb}.c", *flags], check=True)
        found[verb] = {"c": [str(built)], **{language: [str(RECIPES / name.replace("settle", verb))] for language, name in SCRIPTS.items()}}
        if node:
            found[verb]["node"] = [shutil.which("node"), str(node / f"{verb}.mjs")]
    return found, missing


@pytest.fixture
def shop(site, programs):
    """The shop's database, its two accounts, one order for each language, and handlers of the kinds `settle.LANGUAGE`."""
    site.settle, site.desk = programs[0]["settle"], programs[0]["enqueue"]
    site.server.client("DROP DATABASE IF EXISTS shop;" + (RECIPES / "shop.sql").read_text())
    for user, role in ACCOUNTS.items():
        site.server.client(f"CREATE USER IF NOT EXISTS '{user}'@'%' IDENTIFIED BY '{PASSWORD}'; GRANT SELECT, INSERT ON shop.* TO '{user}'@'%';"
                           f"GRANT {role} TO '{user}'@'%'; SET DEFAULT ROLE {role} {'FOR' if site.server.is_mariadb else 'TO'} '{user}'@'%'")
    yield site
    site.server.client("DROP DATABASE IF EXISTS shop")


def variables(site, user):
    return [f"DB_SOCKET={site.server.socket}", f"DB_USER={user}", f"DB_PASSWORD={PASSWORD}"]


def start(site, name, **more):
    handlers = [site.handler(f"settle.{language}", *command, env=[*site.environment, *variables(site, "lh_shop")]) for language, command in
                site.settle.items()]
    return site.start(name, handlers=handlers, **more)


def order_each(site):
    """One order and one job a language: {language: (order, job)}."""
    jobs = {}
    for language in site.settle:
        site.database.sql("INSERT INTO shop.orders (amount) VALUES (12.50)")
        order = site.database.value("SELECT LAST_INSERT_ID()")
        jobs[language] = (order, site.database.enqueue(f"settle.{language}", payload=f'{{"order": {order}}}'))
    return jobs


def check_once(site, jobs, attempt=1):
    """One invoice for each order, and one end of each job: that of its handler, which the daemons took no part in."""
    for language, (order, id) in jobs.items():
        job = site.database.wait(id, "succeeded", 20)
        assert job["attempt"] == attempt, (language, job)
        invoices = site.database.sql("SELECT id, amount FROM shop.invoices WHERE order_id=%s", order)
        assert [f"{row['id']} {row['amount']}" for row in invoices] == [f"{job['result']} 12.50"], (language, invoices)
        ends = site.database.audit(id, "new_state='succeeded' AND old_state='running'")
        assert [end["account"].split("@")[0] for end in ends] == ["lh_shop"], (language, ends)


def test_every_language_is_there(programs):
    """A language that could not be installed is told of here, and left out of the other tests."""
    found, missing = programs
    assert set(found["settle"]) >= {"c", "python", "php", "perl", "ruby"}
    if missing:
        pytest.skip(f"the recipes for Node were not tested: {missing}")


def test_short_and_complete():
    for file in [*RECIPES.glob("settle.*"), RECIPES / "node" / "settle.mjs"]:
        assert len(file.read_text().splitlines()) <= 80, file


def test_an_invoice_is_issued_once(shop):
    a = start(shop, "A")
    jobs = order_each(shop)
    check_once(shop, jobs)
    assert not any(shop.database.ledger(id) for _, id in jobs.values()) and not a.grep("lease lost")


def test_what_cannot_succeed(shop):
    """Not for an order that does not exist, nor a payload that is none; nothing is left of the attempt."""
    start(shop, "A")
    ids = [shop.database.enqueue(f"settle.{language}", payload=payload) for language in shop.settle for payload in ('{"order": 999}', "{}", "[1", "", "7")]
    for job in shop.database.wait(ids, "dead", 20):
        assert job["attempt"] == 1 and ("order" in job["last_error"]), job
    assert shop.database.value("SELECT COUNT(*) FROM shop.invoices") == 0


def test_undone_transactions_are_run_again(shop):
    """1020, 1205 and 1213, at the fence, when the effect is there but not committed: 1205 leaves it so, and whoever forgets to roll back issues two."""
    shop.server.client("""DELIMITER //
        CREATE TRIGGER test_undone BEFORE UPDATE ON jobs FOR EACH ROW BEGIN
          IF NEW.state = 'succeeded' AND COALESCE(@tries, 0) < 3 THEN
            SET @tries = COALESCE(@tries, 0) + 1, @error = ELT(@tries, 1020, 1205, 1213);
            IF @error = 1020 THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1020, MESSAGE_TEXT = 'Record has changed since last read';
            ELSEIF @error = 1205 THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'Lock wait timeout exceeded';
            ELSE SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found when trying to get lock'; END IF;
          END IF;
        END //""", NAME)
    start(shop, "A")
    check_once(shop, order_each(shop))


def test_two_leases_inside_the_transaction(shop):
    """Before the fence the row is not locked: the lease is renewed all the while."""
    shop.database.sql(f"CREATE TRIGGER shop.slow BEFORE INSERT ON shop.invoices FOR EACH ROW DO SLEEP({2 * LEASE_S + 0.5})")
    a = start(shop, "A")
    start(shop, "B")
    check_once(shop, order_each(shop))
    assert not a.grep("could not be renewed|lease lost")


@pytest.fixture(params=["plain", "snapshot isolation"])
def isolation(request, server):
    """MariaDB from 11.6.2 on has innodb_snapshot_isolation by default."""
    if request.param == "plain":
        yield
        return
    if not server.is_mariadb:
        pytest.skip("MySQL has no innodb_snapshot_isolation")
    server.client("SET GLOBAL innodb_snapshot_isolation=ON")
    yield
    server.client("SET GLOBAL innodb_snapshot_isolation=DEFAULT")


def family(pid):
    """A process and everything below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += family(int(child))
    return found


def letter(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"


def waiting_inserts(site):
    return site.database.value("SELECT COUNT(*) FROM information_schema.processlist WHERE state='User lock'")


@pytest.mark.parametrize("long", [False, True], ids=["short", "two leases long"])
def test_frozen_between_the_effect_and_the_commit(shop, isolation, long):
    """Daemon, runner and handlers stand still with the invoice written and not committed; another instance wins; they go on: one invoice.

    The place is a trigger, inside the INSERT: it waits for a lock that the test holds. The test freezes everything, and lets go."""
    slow = f"DO SLEEP({2 * LEASE_S + 0.5});" if long else ""
    shop.server.client(f"DELIMITER //\nCREATE TRIGGER freeze BEFORE INSERT ON invoices FOR EACH ROW BEGIN DO GET_LOCK('freeze', 60); DO RELEASE_LOCK('freeze');"
                       f"{slow} END //", "shop")
    shop.database.sql("SELECT GET_LOCK('freeze', 0)")
    a = start(shop, "A")
    jobs = order_each(shop)
    until(lambda: waiting_inserts(shop) == len(jobs), 20, lambda: str(shop.database.sql("SHOW PROCESSLIST")))
    frozen = [pid for pid in family(a.runner_pid) if pid != a.runner_pid]
    handlers = [pid for pid in frozen if int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]) == a.runner_pid]
    try:
        for pid in [*frozen, a.runner_pid, a.pid]:
            os.kill(pid, signal.SIGSTOP)
        until(lambda: all(letter(pid) == "T" for pid in [*frozen, a.runner_pid, a.pid]), 5, "everything to stand still")
        shop.database.sql("SELECT RELEASE_LOCK('freeze')")
        until(lambda: not waiting_inserts(shop), 5, "the INSERTs to go on")
        b = start(shop, "B")
        for order, id in jobs.values():
            shop.database.wait(id, "succeeded", 4 * LEASE_S + 15)
        # The handlers wake up first, so that nobody ends them before they have tried to commit.
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        until(lambda: all(letter(pid) in "ZX" or letter(pid) == "gone" for pid in handlers), 4 * LEASE_S + 10,
              lambda: f"the old handlers to end: {[(pid, letter(pid)) for pid in handlers]}")
    finally:
        for pid in [*frozen, a.runner_pid, a.pid]:
            if letter(pid) == "T":
                os.kill(pid, signal.SIGCONT)
    a.wait_log("the lease is lost: rolled back", 10, count=len(jobs))
    check_once(shop, jobs, attempt=2)
    assert shop.database.value("SELECT COUNT(*) FROM shop.invoices") == len(jobs)
    for language, (_, id) in jobs.items():
        job = shop.database.job(id)
        assert (job["claim_no"], job["reclaims"]) == (2, 1) and job["locked_by"].split(":")[1] == str(b.pid), language
        ledger = [(row["claim_no"], row["outcome"]) for row in shop.database.ledger(id)]
        assert (1, "lease_lapsed") in ledger and set(ledger) <= {(1, "lease_lapsed"), (1, "stale_result")}, (language, ledger)


def test_enqueued_with_the_order_or_not_at_all(shop):
    """The producers: the order and its job in one transaction; where the job is refused, there is no order either."""
    environment = dict(item.split("=", 1) for item in variables(shop, "lh_desk"))

    def place(command):
        return subprocess.run([*command, "12.50"], env={**os.environ, **environment}, capture_output=True, text=True, timeout=30 * STRETCH)

    for language, command in shop.desk.items():
        done = place(command)
        assert done.returncode == 0, (language, done.stderr)
        order = int(done.stdout)
        (job,) = shop.database.sql("SELECT state, payload, kind FROM jobs ORDER BY id DESC LIMIT 1")
        assert (job["state"], job["kind"], job["payload"].replace(" ", "")) == ("ready", "invoice.issue", f'{{"order":{order}}}'), language
        assert shop.database.value("SELECT amount FROM shop.orders WHERE id=%s", order) == 12.5, language
    shop.database.sql("CREATE TRIGGER test_refuse BEFORE INSERT ON jobs FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'refused by the test'")
    orders = shop.database.value("SELECT COUNT(*) FROM shop.orders")
    for language, command in shop.desk.items():
        done = place(command)
        assert done.returncode and "refused by the test" in done.stderr + done.stdout, (language, done)
    assert shop.database.value("SELECT COUNT(*) FROM shop.orders") == orders == len(shop.desk)


@pytest.fixture
def desk(shop, monkeypatch):
    """The producer for Python as a module."""
    for item in variables(shop, "lh_desk"):
        monkeypatch.setenv(*item.split("=", 1))
    spec = importlib.util.spec_from_file_location("desk", RECIPES / "enqueue.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_fifty_producers_with_one_key(shop, desk):
    """BR-95, of the snippet in handlers.md: one row, everybody else is told None; a rolled back one leaves no key; the key is free when the job has ended."""
    with desk.connect() as first, first.cursor() as cursor:
        cursor.execute("INSERT INTO leasehold.jobs (kind, unique_key) VALUES ('report', 'monday')")
        answers, gate = [], threading.Barrier(51)

        def producer():
            with desk.connect() as db:
                gate.wait()
                answers.append(desk.enqueue_once(db, "report", "monday", {}))

        threads = [threading.Thread(target=producer) for _ in range(50)]
        for thread in threads:
            thread.start()
        gate.wait()
        until(lambda: shop.database.value("SELECT COUNT(*) FROM information_schema.processlist WHERE user='lh_desk' AND command='Query'") >= 45, 10)
        first.rollback()
    for thread in threads:
        thread.join()
    (row,) = shop.database.sql("SELECT id FROM jobs")
    assert len(answers) == 50 and [answer for answer in answers if answer] == [row["id"]]
    with desk.connect() as db:
        assert desk.enqueue_once(db, "report", "monday", {}) is None
        assert desk.enqueue_once(db, "other", "monday", {}) and desk.enqueue_once(db, "report", "tuesday", {})
        for state in ("succeeded", "dead", "cancelled"):
            shop.database.sql("UPDATE jobs SET state=%s WHERE kind='report' AND unique_key='monday' AND state='ready'", state)
            assert desk.enqueue_once(db, "report", "monday", {}) > row["id"]
