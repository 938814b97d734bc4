"""docs/handlers.md: every block of code in it is part of a program that is tested, or is run here."""
import http.server
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.daemon import config_text
from harness.database import PASSWORD

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "handlers.md").read_text()
BLOCKS = re.findall(r"^```(\w+) (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
RECIPES = ROOT / "docs" / "recipes"


def to_run(language):
    return [text for found, what, text in BLOCKS if found == language and what == "run"]


def test_every_block_is_what_is_tested():
    """A fence names the file that the block is taken from, line by line, or says that it is run."""
    assert PAGE.count("\n```") == 2 * len(BLOCKS), "a block without a language, or without its file"
    for language, what, text in BLOCKS:
        if what == "run":
            assert language in ("sql", "conf"), language
        else:
            assert text in (ROOT / what).read_text(), f"not as in {what}:\n{text}"
    shown = {what for _, what, _ in BLOCKS}
    names = [f"{verb}.{suffix}" for verb in ("enqueue", "settle") for suffix in ("py", "php", "pl", "rb", "c")]
    assert shown >= {f"docs/recipes/{name}" for name in [*names, "node/enqueue.mjs", "node/settle.mjs", "elsewhere.py"]}


@pytest.fixture
def shop(site):
    site.server.client("DROP DATABASE IF EXISTS shop;" + (RECIPES / "shop.sql").read_text())
    site.server.client(f"CREATE USER IF NOT EXISTS 'shop_handler'@'%' IDENTIFIED BY '{PASSWORD}'; GRANT leasehold_handler TO 'shop_handler'@'%';"
                       "GRANT SELECT, INSERT ON shop.* TO 'shop_handler'@'%'; SET DEFAULT ROLE leasehold_handler "
                       f"{'FOR' if site.server.is_mariadb else 'TO'} 'shop_handler'@'%'")
    yield site
    site.server.client("DROP DATABASE IF EXISTS shop")


def test_the_statements(shop):
    """As a producer, who may do nothing else."""
    with shop.database.connect("lh_producer") as producer, producer.cursor() as cursor:
        for created in (1, 0):
            for script in to_run("sql"):
                for statement in filter(str.strip, script.split(";\n")):
                    cursor.execute(statement.strip().rstrip(";"))
            assert cursor.fetchone()[1] == created
    later, report = shop.database.sql("SELECT * FROM jobs ORDER BY id LIMIT 2")
    assert (later["kind"], later["state"], later["priority"]) == ("invoice.remind", "scheduled", -5)
    assert (report["kind"], report["unique_key"], report["state"]) == ("report.build", b"monday", "ready")
    assert shop.database.value("SELECT COUNT(*) FROM jobs WHERE kind='report.build'") == 1


def test_the_configuration(shop):
    """The handler of the page, with nothing changed but where things are: it passes `check`, and issues an invoice."""
    (block,) = to_run("conf")
    for written, here in (("/srv/shop/", f"{RECIPES}/"), ("/run/mysqld/mysqld.sock", shop.server.socket), ("DB_PASSWORD=secret", f"DB_PASSWORD={PASSWORD}"),
                          ("env = [", f'env = [ "{shop.mark}",')):
        assert written in block
        block = block.replace(written, here)
    a = shop.daemon("A", lease={"length": "30s", "heartbeat": "5s"})
    a.config.write_text(config_text({name: group for name, group in a.groups.items() if name != "handlers"}) + block)
    done = subprocess.run([a.binary, "-c", str(a.config), "check"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stdout + done.stderr
    a.start(shop.database)
    shop.database.sql("INSERT INTO shop.orders (amount) VALUES (7)")
    id = shop.database.enqueue("invoice.issue", payload='{"order": 1}')
    shop.database.wait(id, "succeeded", 20)
    assert shop.database.value("SELECT CONCAT(COUNT(*), ' ', MAX(amount)) FROM shop.invoices") == "1 7.00"


class Payments(http.server.BaseHTTPRequestHandler):
    """Another company's service, which remembers keys."""
    charges = {}

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        charge = self.charges.setdefault(self.headers["Idempotency-Key"], {"id": len(self.charges) + 1, **body})
        answer = json.dumps(charge).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def payments():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Payments)
    Payments.charges.clear()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def attempt(site, program):
    """A handler of kind `elsewhere` that runs a line of Python with the module at hand."""
    return site.handler("elsewhere", sys.executable, "-c", f"import sys; sys.path.insert(0, '{RECIPES}'); sys.dont_write_bytecode = True\n"
                        f"import elsewhere, os, signal, sqlite3\nattempt = int(os.environ['LEASEHOLD_ATTEMPT'])\n{program}")


def test_an_idempotency_key(site, payments):
    """Killed after the call and before it was recorded: the second attempt makes the call again, and there is one charge."""
    site.start(handlers=[attempt(site, f"print(elsewhere.charge('{payments}', 'c1', 1250)['id'])\nif attempt == 1: os.kill(os.getpid(), signal.SIGKILL)")])
    ids = site.database.enqueue("elsewhere", 2)
    jobs = site.database.wait(ids, "succeeded", 20)
    assert [job["attempt"] for job in jobs] == [2, 2] and sorted(job["result"].strip() for job in jobs) == ["1", "2"]
    assert len(Payments.charges) == 2


def test_compare_and_set(site):
    """An attempt that comes late finds that a later claim was there, and changes nothing; the same attempt may write again."""
    path = site.directory / "reports.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE reports (job INTEGER PRIMARY KEY, claim_no INTEGER NOT NULL, value TEXT)")
    site.start(handlers=[attempt(site, f"for n in range(2): elsewhere.store(sqlite3.connect('{path}'), f'attempt {{attempt}}')\nif attempt == 1: sys.exit(1)")])
    id = site.database.enqueue("elsewhere")
    site.database.wait(id, "succeeded", 20)

    def row():
        return sqlite3.connect(path).execute("SELECT job, claim_no, value FROM reports").fetchall()

    assert row() == [(id, 2, "attempt 2")]
    late = subprocess.run([sys.executable, "-B", "-c", f"import sqlite3, elsewhere; elsewhere.store(sqlite3.connect('{path}'), 'late')"], cwd=RECIPES,
                          env={**os.environ, "LEASEHOLD_JOB_ID": str(id), "LEASEHOLD_CLAIM_NO": "1"}, capture_output=True, text=True)
    assert late.returncode and "Stale" in late.stderr and row() == [(id, 2, "attempt 2")]
