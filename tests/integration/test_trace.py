"""The trace of the request that asked for a job: with the handler, and on every line about the attempt."""
import json
import os

import pytest

from harness.waiting import until

ID = "0af7651916cd43dd8448eb211c80319c"
TRACE = f"00-{ID}-b7ad6b7169203331-01"
MALFORMED = ["00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "00-" + 32 * "0" + "-b7ad6b7169203331-01", "x\ny trace=1", "00-" + ID]
DEAF = "trap 'exit 1' TERM; while :; do sleep 0.05; done"


def about(daemon, id):
    return daemon.grep(rf"\bjob={id} ")


def test_every_line_of_an_attempt_carries_the_trace(site):
    """Claim, standard error, complaints, retry, death, cancel, a lease that is lost: and nothing of the neighbours' lines."""
    a = site.start()
    noisy = "echo 'to stderr' >&2; echo nonsense >&3; [ $LEASEHOLD_ATTEMPT -ge 2 ] && exit 65; exit 1"
    failing, plain = (site.database.enqueue("sh", payload=noisy, traceparent=trace) for trace in (TRACE, None))
    cancelled, stolen = site.database.enqueue("sh", 2, payload=DEAF, traceparent=TRACE)
    succeeding = site.database.enqueue("sh", payload="exit 0", traceparent=TRACE)
    unknown = site.database.enqueue("who.knows", traceparent=TRACE)
    spent = site.database.enqueue("sh", payload="exit 0", traceparent=TRACE, attempt=3, max_attempts=3)
    site.database.wait([failing, plain, spent], "dead")
    site.database.wait(succeeding, "succeeded")
    until(lambda: len(site.runs.starts(cancelled)) == len(site.runs.starts(stolen)) == 1, 5)
    site.cli("cancel", cancelled)
    site.database.wait(cancelled, "cancelled")
    site.database.sql("UPDATE jobs SET lease_id=UUID() WHERE id=%s", stolen)
    a.wait_log("lease lost")
    expected = {failing: ["claimed", "stderr: to stderr", "line on descriptor 3", "retry in", "dead"], cancelled: ["cancel was requested", "cancel: "],
                stolen: ["lease lost"], succeeding: ["claimed", "succeeded"], unknown: ["no handler here"], spent: ["attempts spent"]}
    for id, words in expected.items():
        lines = about(a, id)
        assert lines and all(f": trace={ID} job={id} " in line for line in lines), lines
        assert all(any(word in line for line in lines) for word in words), (words, lines)
    assert about(a, plain) and not any("trace=" in line for line in about(a, plain))
    others = [line for line in a.grep("trace=") if not any(f"job={id} " in line for id in expected)]
    assert not others
    site.database.sql("UPDATE jobs SET state='cancelled', finished_at=UTC_TIMESTAMP(6) WHERE id=%s", stolen)


def test_the_lines_of_recovery_and_of_a_late_result_carry_it_too(site):
    """The holder died, or the row went to another: those who tell of it know the trace as well."""
    a = site.start()
    lapsed = site.database.enqueue("sh", payload="exit 0", traceparent=TRACE, state="running", lease_id=ID[:32] + "-abc", lease_ms=1000, attempt=1, claim_no=1)
    a.wait_log(f"recover: trace={ID} job={lapsed} kind=sh attempt=1 lease lapsed", 15)
    late = site.database.enqueue("sh", payload="until [ -e $LH_DIR/go ]; do sleep 0.02; done", traceparent=TRACE)
    until(lambda: site.runs.starts(late), 10)
    site.database.sql("UPDATE jobs SET state='cancelled', lease_id=NULL, finished_at=UTC_TIMESTAMP(6) WHERE id=%s", late)
    (site.directory / "go").touch()
    a.wait_log(f"trace={ID} job={late} .*lease lost", 10)


def test_json_lines_have_members(site):
    a = site.start(log={"format": "json"})
    id = site.database.enqueue("sh", payload="echo '{\"a\": 1}' >&2; exit 65", traceparent=TRACE)
    site.database.wait(id, "dead")
    a.wait_log('"dead|dead: ')
    lines = [json.loads(line) for line in a.grep(f'"job":{id}')]
    assert len(lines) >= 3
    for line in lines:
        assert (line["job"], line["kind"], line["attempt"], line["trace"]) == (id, "sh", 1, ID), line
    assert any(line["text"].endswith('stderr: {"a": 1}') for line in lines)


@pytest.mark.parametrize("value", MALFORMED, ids=["capitals", "zeros", "text", "short"])
def test_a_malformed_one_reaches_the_handler_and_no_line(site, value):
    a = site.start()
    id = site.database.enqueue("sh", payload="echo told >&2; printf '%s' \"$TRACEPARENT\"", traceparent=value)
    assert site.database.wait(id, "succeeded")["result"] == value
    assert len(about(a, id)) == 3 and not a.grep("trace=") and value not in a.log()


def test_enqueue_with_a_trace(site):
    """The option goes before the environment, and has to be well-formed."""
    other = TRACE.replace("01", "00", 1)
    environment = {**os.environ, "TRACEPARENT": TRACE}
    ids = [int(site.cli("enqueue", "note", *options, env=environment).stdout) for options in ([], ["--traceparent", other])]
    assert [site.database.job(id)["traceparent"] for id in ids] == [TRACE, other]
    for bad in [*MALFORMED, "", TRACE + "-x", "01" + TRACE[2:] + "-" + 20 * "x"]:
        done = site.cli("enqueue", "note", "--traceparent", bad, check=False)
        assert done.returncode == 64 and "well-formed" in done.stderr, (bad, done.stderr)
    assert len(site.database.sql("SELECT 1 FROM jobs")) == 2
