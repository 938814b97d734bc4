"""The harness itself: a checker that cannot find a fault proves nothing, so each fault is committed once by hand."""
import subprocess
import time

import pytest

from harness import invariants
from harness.daemon import HANDLERS, config_text
from harness.site import Site


@pytest.fixture
def quiet_site(server):
    """A site without a daemon, which the test spoils as it likes."""
    site = Site(server)
    yield site
    site.clean()


def worker(site, *statements):
    """Does it under the daemon's own account: the DBA's hands are not judged."""
    connection = site.database.connect("lh_worker")
    for statement in statements:
        with connection.cursor() as cursor:
            cursor.execute(statement)
    connection.close()


def violated(site):
    with pytest.raises(AssertionError) as caught:
        invariants.check_end(site, 0.3)
    return str(caught.value)


CLAIM = "UPDATE jobs SET state='running', lease_id='a', claim_no=claim_no+1, attempt=attempt+1, locked_at=UTC_TIMESTAMP(6), lease_ms=3000"


def test_an_honest_life_passes(quiet_site):
    quiet_site.database.enqueue("x")
    worker(quiet_site, CLAIM, "UPDATE jobs SET state='succeeded'")
    invariants.check_end(quiet_site, 0.3)


def test_leaving_a_finished_state(quiet_site):
    id = quiet_site.database.enqueue("x")
    worker(quiet_site, CLAIM, "UPDATE jobs SET state='dead'", "UPDATE jobs SET state='ready', lease_id=NULL")
    assert "I1" in violated(quiet_site)
    quiet_site.retried.add(id)
    invariants.check_end(quiet_site, 0.3)
    worker(quiet_site, "UPDATE jobs SET state='succeeded'")
    assert "I7" in violated(quiet_site)


def test_ending_without_a_lease(quiet_site):
    quiet_site.database.enqueue("x")
    worker(quiet_site, CLAIM, "UPDATE jobs SET lease_id=NULL", "UPDATE jobs SET state='succeeded'")
    assert "I2" in violated(quiet_site)


def test_a_lapsed_lease_nobody_takes(quiet_site):
    quiet_site.database.enqueue("x")
    worker(quiet_site, CLAIM, "UPDATE jobs SET locked_at=UTC_TIMESTAMP(6) - INTERVAL 1 HOUR")
    with pytest.raises(AssertionError, match="I6"):
        invariants.check_rest(quiet_site, 0.3)


def test_a_vanished_row(quiet_site):
    quiet_site.database.enqueue("x", 2)
    quiet_site.database.sql("DELETE FROM jobs LIMIT 1")
    invariants.check_end(quiet_site, 0.3)
    quiet_site.database.sql("DELETE FROM test_audit WHERE old_state IS NOT NULL")
    assert "I4" in violated(quiet_site)


def start(site, job, claim_no, script):
    environment = {"LEASEHOLD_JOB_ID": str(job), "LEASEHOLD_ATTEMPT": "1", "LEASEHOLD_CLAIM_NO": str(claim_no),
                   **dict(item.split("=", 1) for item in site.environment)}
    process = subprocess.Popen([str(HANDLERS / "script.sh")], stdin=subprocess.PIPE, env=environment, text=True)
    process.stdin.write(script)
    process.stdin.close()
    return process


def test_two_runs_at_a_time(quiet_site):
    first = start(quiet_site, 7, 1, "while [ ! -e $LH_DIR/go ]; do sleep 0.05; done")
    while not quiet_site.runs.starts(7):
        pass
    start(quiet_site, 7, 2, "exit 0").wait()
    time.sleep(0.05)  # the log's clock ticks in 10 ms
    (quiet_site.directory / "go").touch()
    first.wait()
    found = violated(quiet_site)
    assert f"started beside pid {first.pid}" in found and "after the next start" in found


def test_runs_one_after_the_other_pass_and_one_claim_runs_once(quiet_site):
    start(quiet_site, 7, 1, "kill -9 $$").wait()
    start(quiet_site, 7, 2, "exit 3").wait()
    invariants.check_end(quiet_site, 0.3)
    start(quiet_site, 7, 2, "exit 0").wait()
    assert "claim 2 of job 7 was run 2 times" in violated(quiet_site)


def test_more_runs_of_a_key_than_it_has_slots(quiet_site):
    wait = "while [ ! -e $LH_DIR/go ]; do sleep 0.05; done"
    start(quiet_site, 6, 1, "mark_slot k 2; kill -9 $$").wait()  # the dead do not count
    running = [start(quiet_site, job, 1, f"mark_slot k 2; mark counted; {wait}") for job in (7, 8)]
    other = start(quiet_site, 9, 1, f"mark_slot other 2; mark counted; {wait}")
    while len(quiet_site.runs.events(what="counted")) < 3:
        pass
    start(quiet_site, 10, 1, "mark_slot k 2").wait()
    (quiet_site.directory / "go").touch()
    for process in (*running, other):
        process.wait()
    found = violated(quiet_site)
    assert "I8: job 10 attempt 1 started as number 3 of key k" in found and found.count("I8") == 1


def test_a_process_that_is_left_behind(quiet_site):
    process = start(quiet_site, 7, 1, "sleep 60")
    while not quiet_site.runs.starts(7):
        pass
    assert "process" in violated(quiet_site)
    process.kill()
    process.wait()


def test_the_configuration_is_written_as_libconfig_reads_it():
    text = config_text({"log": {"level": "info"}, "pools": [{"name": "a", "queues": ["x", "y"], "threads": 4}], "x": {"y": True, "z": 'q"\\'}})
    assert text == ('log = {\n\tlevel = "info";\n};\npools = ( {\n\t\tname = "a";\n\t\tqueues = [ "x", "y" ];\n\t\tthreads = 4;\n\t} );\n'
                    'x = {\n\ty = true;\n\tz = "q\\"\\\\";\n};\n')
