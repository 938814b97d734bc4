"""The command line: what each command takes, prints and returns, through the real binary on a real server."""
import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from harness.daemon import BINARY, merge
from harness.database import PASSWORD
from harness.proxy import drop_reply
from harness.waiting import STRETCH, until

COMMANDS = "run check enqueue list show retry cancel queues pause resume workers stats version".split()
DATABASE_COMMANDS = [line.split() for line in
                     "check/enqueue k/list/show 1/retry 1/retry --dead/cancel 1/queues/pause q/resume q/workers/stats".split("/")]

# Arguments that are wrong, and what the message has to hold.
WRONG_USAGE = {
    "lits": "did you mean 'list'?", "zzzzzzzz": "there is no command 'zzzzzzzz'", "-x list": "-x", "-c": "needs a value",
    "list --limt 3": "--limt", "list -z": "-z", "list --limit": "needs a value", "list --limit 0": "1 to 10000",
    "list --limit 10x": "10x", "list --state done": "done", "list 17": "17", "list --json=yes": "takes no value",
    "show": "id", "show 1 2": "one", "show -- -1": "-1", "show 0": "'0'", "show 99999999999999999999": "999",
    "retry": "--dead", "retry 1 --dead": "not both", "retry 1 --queue q": "--dead", "retry --dead --attempts 1001": "1000",
    "cancel": "--queue", "cancel --running": "which jobs", "cancel 1 --running": "--running", "cancel --state dead": "dead",
    "cancel --state running": "--running", "cancel 1 --queue q": "not both", "pause": "which queue", "pause \u00e9": "ASCII",
    "queues q": "'q'", "enqueue": "which kind", "enqueue a {}": "--payload", "enqueue " + "k" * 129: "129",
    "enqueue k --queue " + "q" * 65: "65", "enqueue k --delay 5": "5", "enqueue k --delay 1s --at 2030-01-01T00:00Z": "not both",
    "enqueue k --delay 3651d": "3650d", "enqueue k --at soon": "soon", "enqueue k --priority 32768": "32767",
    "enqueue k --count 0": "1 to", "enqueue k --count 2 --unique-key u": "--count", "enqueue k --unique-key " + "u" * 129: "129",
    "enqueue k --max-attempts 65536": "65535", "enqueue k --timeout 31d": "30d", "run now": "now", "version x": "x",
    "check now": "now", "stats x": "x", "workers x": "x",
}


def leasehold(*arguments, **more):
    """Without a site: no configuration is given."""
    environment = {key: value for key, value in os.environ.items() if key != "LEASEHOLD_CONFIG"}
    return subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=20 * STRETCH,
                          env=environment | more.pop("environment", {}), **more)


def on_terminal(site, *arguments, columns=100, **environment):
    """What a person would see: standard output and error are a terminal."""
    site.cli("version")  # writes the configuration file
    try:
        master, slave = pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminal is to be had here (is /dev/pts mounted?): {error}")
    os.set_inheritable(slave, True)
    subprocess.run(["stty", "-F", os.ttyname(slave), "cols", str(columns)], check=True)
    command = [str(BINARY), "-c", str(site.directory / "cli.conf"), *map(str, arguments)]
    environment = {**os.environ, "TERM": "xterm", **environment}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    text = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux: the other side has closed
            break
        if not piece:
            break
        text += piece
    os.close(master)
    process.wait(20 * STRETCH)
    return text.decode()


# ---- Usage ----

def test_overview_and_help(binary):
    """Every command tells what it takes and what its exit status means; the overview has them all."""
    overview = leasehold("--help")
    assert overview.returncode == 0
    assert re.findall(r"^  (\w+) ", overview.stdout, re.M) == COMMANDS
    for command in COMMANDS:
        done = leasehold(command, "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"usage: leasehold [-c FILE] {command}")
        assert all(re.search(rf"\b{status}\b", done.stdout.split("Exit status:")[1]) for status in (0, 1, 64, 69, 78))
    assert leasehold().returncode == 64
    assert re.fullmatch(r"leasehold \S+ \(schema [3-9]\)\n", leasehold("--version").stdout)
    assert set(json.loads(leasehold("version", "--json").stdout)) == {"version", "schema", "migrations"}


def test_manual_has_every_command_and_option(binary):
    """And no other: leasehold(8) and the help are held against each other."""
    page = (Path(__file__).resolve().parents[2] / "man" / "leasehold.8").read_text().replace(r"\&", "")
    commands = re.findall(r"^\.It Cm (\w+)", page, re.M)
    assert sorted(set(commands)) == sorted(COMMANDS)
    helped = set()
    for command in COMMANDS:
        helped |= {(command, option) for option in re.findall(r"^  (?:-\w, |    )--([a-z-]+)", leasehold(command, "--help").stdout, re.M)}
    documented = set()
    for section in re.split(r"^(?=\.It Cm \w)", page.split(".Sh RUNNING")[0], flags=re.M):
        command = re.match(r"\.It Cm (\w+)", section)
        options = re.findall(r"Fl (?:\w , )?-([a-z][a-z-]+)", section)
        documented |= {(name, option) for option in options for name in ([command[1]] if command else COMMANDS)}
    common = {(command, "json") for command in COMMANDS} | {("leasehold", "help")}
    assert helped <= documented, helped - documented
    assert documented - common <= helped, documented - common - helped


@pytest.mark.parametrize("arguments, says", WRONG_USAGE.items(), ids=lambda text: text[:30])
def test_wrong_usage(binary, arguments, says):
    """64, the value in question, and where to look; before any file or server is touched."""
    done = leasehold(*arguments.split())
    assert done.returncode == 64 and done.stdout == ""
    assert done.stderr.startswith("leasehold: ") and says in done.stderr and "--help" in done.stderr.splitlines()[-1]


# ---- Where the configuration and the database are ----

def test_bad_configuration(binary, tmp_path):
    """78, with every error and its line."""
    file = tmp_path / "bad.conf"
    file.write_text('lease = {\n  lenght = "60s";\n};\npools = ( { threads = 0; } );\n')
    for arguments in [*DATABASE_COMMANDS, ["run"]]:
        for done in (leasehold("-c", file, *arguments), leasehold(*arguments, environment={"LEASEHOLD_CONFIG": str(file)})):
            assert done.returncode == 78
            said = done.stdout + done.stderr
            assert re.search(r"bad.conf:2: .*lenght", said) and re.search(r"bad.conf:4: .*threads", said)
        missing = leasehold("-c", tmp_path / "none.conf", *arguments)
        assert missing.returncode == 78 and "none.conf" in missing.stdout + missing.stderr


def test_options_win_over_the_environment(site):
    site.cli("version")
    environment = {"LEASEHOLD_CONFIG": "/nonexistent"}
    assert leasehold("-c", site.directory / "cli.conf", "list", environment=environment).returncode == 0
    assert leasehold("list", "-c", site.directory / "cli.conf", environment=environment).returncode == 0
    assert leasehold("list", environment=environment).returncode == 78


def test_database_that_is_not_there(site):
    """69 when it cannot be reached or refuses us, 78 when it is not ours; the password is in no message."""
    changes = [({"socket": str(site.directory / "none")}, 69), ({"password": PASSWORD + "x"}, 69),
               ({"name": "information_schema"}, 78)]
    for arguments in DATABASE_COMMANDS:
        for change, status in changes:
            done = site.cli(*arguments, config=merge(site.config(), {"database": change}), check=False)
            if "name" in change and arguments[0] == "enqueue":
                status = 1  # a producer may not look at the schema: it is simply not permitted to insert there
            assert done.returncode == status, (change, done)
            assert PASSWORD not in done.stdout + done.stderr and (done.stdout + done.stderr).strip()


def test_schema_that_is_missing(make_site, server):
    site = make_site(server, migrate=False)
    site.server.client("CREATE TABLE jobs (id INT); GRANT SELECT ON leasehold.* TO lh_worker", "leasehold")
    try:
        done = site.cli("list", check=False)
        assert done.returncode == 78 and "0001_jobs.sql" in done.stderr
        done = site.cli("check", check=False)
        assert done.returncode == 78 and "FAIL schema" in done.stdout
    finally:
        site.server.client("REVOKE SELECT ON leasehold.* FROM lh_worker")
        site.database.create()


# ---- Enqueue ----

def test_enqueue(site):
    """The id alone on a line; a list of ids as JSON; what was given is what is stored."""
    id = int(site.cli("enqueue", "note").stdout)
    assert site.database.job(id) | {"payload": "{}"} == site.database.job(id)
    payload = '{"text": "žluťoučký 👍 \' \\" \\\\ $(rm) %s"}'
    options = "--json --queue slow --priority -3 --delay 1h --unique-key k --max-attempts 4 --timeout 90s".split()
    (id,) = json.loads(site.cli("enqueue", "mail.x", "--payload", payload, *options).stdout)
    job = site.database.job(id)
    expected = {"kind": "mail.x", "queue": "slow", "priority": -3, "state": "scheduled", "unique_key": b"k", "max_attempts": 4,
                "timeout_ms": 90000, "payload": payload}
    assert job | expected == job
    assert abs((job["run_at"] - site.database.now()).total_seconds() - 3600) < 20
    assert re.fullmatch(r".+@.+", job["enqueued_by"])
    id = int(site.cli("enqueue", "note", "--at", "2099-12-31T23:59:59.5Z").stdout)
    assert str(site.database.job(id)["run_at"]) == "2099-12-31 23:59:59.500000"


def test_enqueue_keeps_the_trace(site):
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    ids = [int(site.cli("enqueue", "note", env={**os.environ, "TRACEPARENT": value}).stdout) for value in (trace, "nonsense")]
    assert [site.database.job(id)["traceparent"] for id in ids] == [trace, None]


def test_enqueue_payload_from_file_and_pipe(site):
    file = site.directory / "payload"
    file.write_text('[1,\n2]\n')
    for arguments, more in [(["--payload", f"@{file}"], {}), (["--payload", "-"], {"input": '[1,\n2]\n'})]:
        id = int(site.cli("enqueue", "note", *arguments, **more).stdout)
        assert site.database.job(id)["payload"] == '[1,\n2]\n'
    id = int(site.cli("enqueue", "note", "--payload", "plain text", "--raw").stdout)
    assert site.database.job(id)["payload"] == "plain text"


def test_enqueue_refuses_bad_payloads(site):
    """With both numbers, with the place in the text, or with what to do; and nothing is stored."""
    config = site.config(instance={"max_payload": "1KiB"})
    file = site.directory / "payload"
    cases = [(b'"' + b"x" * 1023 + b'"', "1025 bytes, instance.max_payload allows 1024"), (b'"\xff"', "UTF-8"), (b'"a\0b"', "NUL"),
             (b"", "not JSON"), (b'{"a":}', "line 1, column 6"), (b"[" * 1024, "not JSON")]
    for content, says in cases:
        file.write_bytes(content)
        for source in (f"@{file}", "-"):
            with open(file, "rb") as stdin:
                done = site.cli("enqueue", "note", "--payload", source, config=config, check=False, stdin=stdin)
            assert done.returncode == 1 and says in done.stderr and done.stdout == "", (content[:10], done)
    file.write_bytes(b'"' + b"x" * 1022 + b'"')
    site.cli("enqueue", "note", "--payload", f"@{file}", config=config)
    done = site.cli("enqueue", "note", "--payload", "@/nonexistent", check=False)
    assert done.returncode == 1 and "/nonexistent" in done.stderr
    assert site.database.value("SELECT COUNT(*) FROM jobs") == 1


def test_enqueue_of_many_is_all_or_nothing(site):
    ids = [int(line) for line in site.cli("enqueue", "note", "--count", 1234).stdout.splitlines()]
    assert len(set(ids)) == 1234 and site.database.states() == {"ready": 1234}
    site.server.client("""DELIMITER //
        CREATE TRIGGER test_refuses BEFORE INSERT ON jobs FOR EACH ROW BEGIN
          IF NEW.kind='last' AND (SELECT COUNT(*) FROM jobs WHERE kind='last') >= 5 THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT='five are enough';
          END IF;
        END//
        """, "leasehold")
    done = site.cli("enqueue", "last", "--count", 9, check=False)
    assert done.returncode == 1 and "five are enough" in done.stderr and done.stdout == ""
    assert site.database.value("SELECT COUNT(*) FROM jobs WHERE kind='last'") == 0


def test_enqueue_of_a_taken_key(site):
    """1, and who has it; a producer's account enqueues too, and is told what it may know."""
    id = int(site.cli("enqueue", "note", "--unique-key", "k").stdout)
    done = site.cli("enqueue", "note", "--unique-key", "k", check=False)
    assert done.returncode == 1 and f"job {id} " in done.stderr
    producer = merge(site.config(), {"database": {"user": "lh_producer"}})
    assert int(site.cli("enqueue", "note", config=producer).stdout) > id
    done = site.cli("enqueue", "note", "--unique-key", "k", config=producer, check=False)
    assert done.returncode == 1 and "'k'" in done.stderr
    done = site.cli("list", config=producer, check=False)
    assert done.returncode == 1 and "grants.sql" in done.stderr


# ---- Looking ----

def rows(done):
    head, *lines = done.stdout.splitlines()
    return [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]


def test_list(site):
    """The newest first, chosen by options, page by page; TABs for programs, JSON for more."""
    ids = site.database.enqueue("note", 5) + [site.database.enqueue("note", run_in=3600), site.database.enqueue("other", queue="q")]
    site.database.sql("UPDATE jobs SET state='dead', last_error='a\tb\nc' WHERE id=%s", ids[1])
    assert [int(row["ID"]) for row in rows(site.cli("list"))] == ids[::-1]
    assert [int(row["ID"]) for row in rows(site.cli("list", "--limit", 2, "--after", ids[3]))] == [ids[2], ids[1]]
    assert [int(row["ID"]) for row in rows(site.cli("list", "--oldest-first", "-n", 1))] == ids[:1]
    assert [int(row["ID"]) for row in rows(site.cli("list", "--kind", "note", "--state", "scheduled"))] == [ids[5]]
    (row,) = rows(site.cli("list", "--state", "dead"))
    assert row["ERROR"] == r"a\tb\nc" and row["STATE"] == "dead"
    (job,) = json.loads(site.cli("list", "--queue", "q", "--json").stdout)
    assert (job["id"], job["kind"], job["priority"], job["max_attempts"]) == (ids[6], "other", 0, None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", job["run_at"])
    assert json.loads(site.cli("list", "--queue", "none", "--json").stdout) == []
    assert rows(site.cli("list", "--queue", "none")) == []


def test_show(site):
    id = site.database.enqueue("note", payload="line 1\nline 2\x1b[31m")
    site.database.sql("INSERT INTO job_attempts (job_id, claim_no, outcome, cause, exit_code) "
                      "VALUES (%s, 1, 'retry', 'exit status 3', 3)", id)
    text = site.cli("show", id).stdout
    assert "payload\n    line 1\n    line 2\\x1b[31m\n" in text and "exit status 3" in text
    job = json.loads(site.cli("show", id, "--json").stdout)
    assert (job["payload"], job["result"], job["attempts"][0]["exit_code"]) == ("line 1\nline 2\x1b[31m", None, 3)
    assert job["steps"] == [] and "STEP" not in text
    site.database.sql("INSERT INTO job_steps (job_id, name, seq, save_no, claim_no, data) VALUES (%s, 'shipped', 2, 2, 1, 'null'), "
                      "(%s, 'charged', 1, 5, 1, %s)", id, id, '{"id":"ch_1\x1b[31m"}')
    text = site.cli("show", id).stdout
    assert [line.split()[0] for line in text.split("STEP")[1].splitlines()[1:3]] == ["charged", "shipped"] and '{"id":"ch_1\\x1b[31m"}' in text
    steps = json.loads(site.cli("show", id, "--json").stdout)["steps"]
    assert [(step["name"], step["claim_no"], step["bytes"], step["data"]) for step in steps] \
        == [("charged", 1, 18, '{"id":"ch_1\x1b[31m"}'), ("shipped", 1, 4, "null")] and steps[0]["saved_at"].endswith("Z")
    done = site.cli("show", id + 1, check=False)
    assert done.returncode == 1 and f"no job {id + 1}" in done.stderr


def test_progress_is_shown(site):
    """Percent and note, in the list and of one job; as JSON the number itself."""
    ids = [site.database.enqueue("note", queue="nobody") for _ in range(3)]
    site.database.sql("UPDATE jobs SET state='running', lease_id='x', lease_ms=4000000, locked_at=UTC_TIMESTAMP(6), progress=ELT(id-%s, 33.3, 40), "
                      "progress_note=IF(id=%s, 'half\tof it', NULL) WHERE id > %s", ids[0], ids[2], ids[0])
    listed = {int(row["ID"]): (row["PROGRESS"], row["NOTE"]) for row in rows(site.cli("list"))}
    assert listed == {ids[0]: ("-", "-"), ids[1]: ("33.3%", "-"), ids[2]: ("40%", r"half\tof it")}
    assert {int(row["ID"]) for row in rows(site.cli("list", "--state", "running"))} == set(ids[1:])
    jobs = json.loads(site.cli("list", "--state", "running", "--json").stdout)
    assert [(job["progress"], job["progress_note"]) for job in jobs] == [(40, "half\tof it"), (33.3, None)]
    assert re.search(r"^progress +33\.3%$", site.cli("show", ids[1]).stdout, re.MULTILINE)
    job = json.loads(site.cli("show", ids[2], "--json").stdout)
    assert (job["progress"], job["progress_note"]) == (40, "half\tof it")
    site.database.sql("UPDATE jobs SET progress_note=REPEAT('n', 255), last_error=REPEAT('e', 300) WHERE id=%s", ids[2])
    assert max(map(len, on_terminal(site, "list", NO_COLOR="1").splitlines())) <= 130


def test_largest_id(site):
    """BIGINT UNSIGNED to its end: no signed number of any library may bend it."""
    site.database.sql("INSERT INTO jobs (id, kind) VALUES (18446744073709551614, 'note')")
    assert json.loads(site.cli("show", 18446744073709551614, "--json").stdout)["id"] == "18446744073709551614"
    assert rows(site.cli("list"))[0]["ID"] == "18446744073709551614"
    site.cli("cancel", 18446744073709551614)
    assert site.database.states() == {"cancelled": 1}


def test_terminal_and_pipe(site):
    """Colour, aligned and cut on a terminal; none of it elsewhere, or when NO_COLOR asks for it."""
    id = site.database.enqueue("note")
    site.database.sql("UPDATE jobs SET state='dead', last_error=REPEAT('long ', 100) WHERE id=%s", id)
    text = on_terminal(site, "list")
    assert "\x1b[31mdead\x1b[0m" in text and "…" in text and "\t" not in text
    plain = on_terminal(site, "list", NO_COLOR="1")
    assert "\x1b" not in plain and "…" in plain and max(map(len, plain.splitlines())) <= 100
    piped = site.cli("list").stdout
    assert "\x1b" not in piped and "…" not in piped and "\t" in piped and "long " * 30 in piped
    assert "SLOT OF" in piped and "SLOT OF" not in plain  # there is nothing in it
    site.database.sql("UPDATE jobs SET state='succeeded' WHERE id=%s", id)


def test_queues(site):
    site.database.enqueue("note", 3, queue="b")
    site.database.enqueue("note", queue="a", run_in=3600)
    assert [(row["QUEUE"], row["READY"], row["SCHEDULED"], row["STATE"]) for row in rows(site.cli("queues"))] == \
        [("a", "0", "1", "open"), ("b", "3", "0", "open")]
    assert site.cli("pause", "b", "c").stdout == "queue b: paused\nqueue c: paused\n"
    assert site.cli("pause", "b").stdout == "queue b: was already paused\n"
    by_name = {queue["queue"]: queue for queue in json.loads(site.cli("queues", "--json").stdout)}
    assert set(by_name) == {"a", "b", "c"} and by_name["a"]["paused_at"] is None and by_name["b"]["paused_at"].endswith("Z")
    assert "@" in by_name["b"]["paused_by"] and by_name["b"]["ready"] == 3
    assert json.loads(site.cli("resume", "b", "a", "--json").stdout) == [{"queue": "b", "paused": False, "changed": True},
                                                                         {"queue": "a", "paused": False, "changed": False}]
    assert rows(site.cli("queues"))[1]["STATE"] == "open"


def test_workers_and_stats(site):
    """An instance is live until its own lease has passed since it was last seen."""
    daemon = site.start(instance={"name": "one"})
    site.database.sql("INSERT INTO job_workers SET worker='h:1:x', name='two', host='h', pid=1, version='1', lease_ms=60000, "
                      "threads=4, running=1, queues='default', status='running', seen_at=UTC_TIMESTAMP(6) - INTERVAL 61 SECOND")
    workers = {worker["name"]: worker for worker in json.loads(site.cli("workers", "--json").stdout)}
    assert workers["one"]["stale"] is False and workers["one"]["pid"] == daemon.pid and workers["two"]["stale"] is True
    assert {row["NAME"]: row["STATE"] for row in rows(site.cli("workers"))} == {"one": "live", "two": "stale"}
    ok = site.database.enqueue("note", 2)
    bad = site.database.enqueue("sh", payload="exit 65")
    site.database.wait_finished([*ok, bad])
    site.database.enqueue("note", queue="nobody")
    stats = json.loads(site.cli("stats", "--json").stdout)
    assert {row["state"]: row["jobs"] for row in stats["states"]} == \
        {"ready": 1, "scheduled": 0, "running": 0, "succeeded": 2, "dead": 1, "cancelled": 0}
    assert stats["kinds"] == [{"kind": "note", "ready": 1, "scheduled": 0, "running": 0, "dead": 0},
                              {"kind": "sh", "ready": 0, "scheduled": 0, "running": 0, "dead": 1}]
    assert stats["ledger_last_hour"] == [{"outcome": "dead", "attempts": 1}]
    assert "dead" in site.cli("stats").stdout


# ---- Changing ----

def test_bulk_retry(site):
    """How many, first as a question; each job once; no more than asked for; the number of attempts as asked for."""
    dead = site.database.enqueue("note", 250, queue="nobody")
    other = site.database.enqueue("other", queue="nobody")
    site.database.sql("UPDATE jobs SET state='dead', attempt=2, max_attempts=2")
    site.retried |= {*dead, other}
    assert site.cli("retry", "--dead", "--kind", "note", "--dry-run").stdout == "250 jobs would be ready again\n"
    assert site.database.states() == {"dead": 251}
    assert site.cli("retry", "--dead", "--kind", "note", "--limit", 120, "--attempts", 3).stdout == "120 jobs ready again\n"
    ready = site.database.sql("SELECT id, max_attempts FROM jobs WHERE state='ready'")
    assert {(job["id"], job["max_attempts"]) for job in ready} == {(id, 5) for id in dead[:120]}
    assert json.loads(site.cli("retry", "--dead", "--queue", "nobody", "--json").stdout) == \
        {"dry_run": False, "done": 131, "requested": 0, "failed": []}
    assert site.cli("retry", "--dead").stdout == "0 jobs ready again\n"


def test_bulk_retry_tells_of_the_one_that_cannot(site):
    """A live twin stops neither its batch nor the rest."""
    ids = site.database.enqueue("note", 20, queue="nobody")
    site.database.sql("UPDATE jobs SET state='dead', unique_key=IF(id=%s, 'k', NULL)", ids[7])
    twin = site.database.enqueue("note", queue="nobody", unique_key="k")
    site.retried |= set(ids)
    done = site.cli("retry", "--dead", check=False)
    assert done.returncode == 1 and done.stdout == "19 jobs ready again\n1 could not be\n"
    assert f"job {ids[7]}: job {twin}" in done.stderr
    assert site.database.states() == {"ready": 20, "dead": 1}
    failed = json.loads(site.cli("retry", "--dead", "--json", check=False).stdout)["failed"]
    assert failed == [{"id": ids[7], "reason": "twin", "twin": twin, "twin_state": "ready"}]


def running(site, **columns):
    id = site.database.enqueue("note", **columns)
    site.database.sql("UPDATE jobs SET state='running', lease_id=UUID(), locked_at=UTC_TIMESTAMP(6), lease_ms=3600000, "
                      "locked_by='test' WHERE id=%s", id)
    return id


def test_bulk_cancel_leaves_running_jobs_alone(site):
    """Unless it is told to; a job that is named is told to."""
    ready = site.database.enqueue("note", 3)
    scheduled = site.database.enqueue("note", run_in=3600)
    elsewhere = site.database.enqueue("note", queue="other")
    busy, named = running(site), running(site)
    assert site.cli("cancel", "--queue", "default", "--running", "--dry-run").stdout == \
        "4 jobs would be cancelled\n2 running: cancel would be requested\n"
    assert site.cli("cancel", "--queue", "default").stdout == "4 jobs cancelled\n"
    assert {site.database.state(id) for id in [*ready, scheduled]} == {"cancelled"} and site.database.state(elsewhere) == "ready"
    assert site.database.job(busy)["cancel_requested_at"] is None
    assert "its cancel is requested" in site.cli("cancel", named).stdout
    assert site.database.job(named)["cancel_requested_at"] and site.database.job(busy)["cancel_requested_at"] is None
    done = site.cli("cancel", "--state", "running", "--running", "--kind", "note")
    assert done.stdout == "0 jobs cancelled\n2 running: cancel requested\n"
    assert site.database.job(busy)["cancel_requested_at"] and site.database.state(busy) == "running"


def test_named_jobs_are_each_told_of(site):
    ready, done_id = site.database.enqueue("note", 2)
    site.database.sql("UPDATE jobs SET state='succeeded' WHERE id=%s", done_id)
    done = site.cli("cancel", ready, done_id, done_id + 1, check=False)
    assert done.returncode == 1 and done.stdout == f"job {ready}: cancelled\n"
    assert f"job {done_id} is succeeded" in done.stderr and f"no job {done_id + 1}" in done.stderr
    done = site.cli("retry", done_id, ready, "--dry-run", check=False)
    assert done.returncode == 1 and done.stdout == f"job {ready}: would be ready again\n"
    assert site.database.state(ready) == "cancelled"
    answer = json.loads(site.cli("cancel", done_id, done_id + 1, "--json", check=False).stdout)
    assert answer["failed"] == [{"id": done_id, "reason": "state", "state": "succeeded"}, {"id": done_id + 1, "reason": "missing"}]


def test_a_locked_row_does_not_stop_the_others(site):
    """A handler's open transaction holds one row: that one is told of, in time, and the rest is done."""
    ids = site.database.enqueue("note", 5)
    holder = site.database.connect(autocommit=False)
    with holder.cursor() as cursor:
        cursor.execute("SELECT id FROM jobs WHERE id=%s FOR UPDATE", [ids[2]])
    done = site.cli("cancel", "--queue", "default", check=False, seconds=60)
    assert done.returncode == 1 and f"job {ids[2]}: " in done.stderr and done.stdout == "4 jobs cancelled\n1 could not be\n"
    holder.rollback()
    holder.close()
    assert site.cli("cancel", ids[2]).returncode == 0


def test_lost_reply_is_not_called_a_failure_or_a_success(site):
    """The server may have done it: 69, and the hint to look."""
    proxy = site.proxy()
    proxy.on("INSERT INTO jobs", drop_reply)
    done = site.cli("enqueue", "note", config=site.config(proxy=proxy), check=False, seconds=60)
    assert done.returncode == 69 and "may have been done" in done.stderr
    until(lambda: site.database.states() == {"ready": 1}, 5)


# ---- Check ----

def test_check(site):
    """A line for each thing; nothing is changed; 0 as long as nothing fails."""
    done = site.cli("check")
    lines = done.stdout.splitlines()
    assert all(re.match(r"(ok  |warn) [a-z _]+: .", line) for line in lines), done.stdout
    assert {"schema", "engine", "index", "isolation", "binlog", "route", "matched rows", "plan", "grants"} <= \
        {re.match(r".{4} ([a-z _]+):", line)[1] for line in lines}
    entries = json.loads(site.cli("check", "--json").stdout)
    assert {entry["level"] for entry in entries} <= {"ok", "warn"} and set(entries[0]) == {"level", "subject", "text"}
    assert site.database.value("SELECT COUNT(*) FROM job_workers") == 0


def test_check_of_programs(site):
    """What will not start is told before the first job finds out; without a server too."""
    script, plain = site.directory / "script", site.directory / "plain"
    script.write_text("#!/nonexistent/interpreter -x\n")
    script.chmod(0o755)
    plain.write_text("")
    programs = {"a": "/nonexistent/program", "b": plain, "c": script, "d": "/"}
    handlers = [site.handler(kind, str(command)) for kind, command in programs.items()]
    config = merge(site.config(handlers), {"database": {"socket": "/nonexistent/socket"}})
    done = site.cli("check", "--config-only", config=config)
    told = {"a": "/nonexistent/program", "b": "not executable", "c": "/nonexistent/interpreter", "d": "not a file"}
    for kind, says in told.items():
        assert re.search(rf"^warn handler: {kind}: .*{says}", done.stdout, re.M), done.stdout
    done = site.cli("check", config=config, check=False)
    assert done.returncode == 69 and "FAIL connection" in done.stdout


def test_check_that_fails(site):
    """A missing privilege: 1, and which one."""
    done = site.cli("check", config=merge(site.config(), {"database": {"user": "lh_reader"}}), check=False)
    assert done.returncode == 1 and re.search(r"^FAIL grants: the claim is not permitted", done.stdout, re.M)


# ---- Output that does not arrive ----

def test_output_that_does_not_arrive(site):
    """A full disk is a failure that is told; a reader who has seen enough is not."""
    site.database.enqueue("note", 500)
    site.cli("version")
    command = [str(BINARY), "-c", str(site.directory / "cli.conf"), "list", "-n", "500"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=20 * STRETCH)
    assert done.returncode == 1 and "No space left" in done.stderr
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=20 * STRETCH)
    os.close(writer)
    assert done.stderr == ""


def test_progress_is_for_terminals(site):
    assert "\r" in on_terminal(site, "enqueue", "note", "--count", "10000")
    assert site.cli("enqueue", "note", "--count", "3000").stderr == ""
