"""The one checker of what must hold after every test, whatever the test did (the numbers are those of the test conventions).

I1  nothing leaves a finished state, except by an operator's retry
I2  whatever ends while running had a lease
I3  no two runs of one job at a time, and no claim is run twice
I4  no row appears or vanishes
I5  no daemon died that was not killed, none complained of memory, and no process of ours is left
I6  at rest nothing runs on a lease that lapsed longer than two scans ago
I7  only the arrows of the state machine, claim numbers never fall, and no two claims share a lease and a job
I8  never more runs of a concurrency key at a time than it has slots, as their handlers counted (mark_slot)"""
import re
from collections import Counter
from pathlib import Path

from .daemon import SCAN_S
from .waiting import STRETCH, until

FINISHED = {"succeeded", "dead", "cancelled"}
ARROWS = {("ready", "running"), ("running", "succeeded"), ("running", "dead"), ("running", "cancelled"), ("running", "scheduled"),
          ("running", "ready"), ("scheduled", "ready"), ("ready", "scheduled"), ("ready", "cancelled"), ("scheduled", "cancelled")}
RETRY = {("dead", "ready"), ("cancelled", "ready")}
CLAIM_NO_MAX = 4294967295  # it stays there, and tells claims apart no longer
COMPLAINTS = r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:|SUMMARY: \w+Sanitizer"


def check_rest(site, seconds=5):
    """I6, while the daemons still run."""
    late = ("SELECT id, locked_at, lease_ms, locked_by FROM jobs WHERE state='running' AND COALESCE(locked_at + INTERVAL "
            "(lease_ms + %s) * 1000 MICROSECOND, '1000-01-01') < UTC_TIMESTAMP(6)")
    slack_ms = int(1000 * (2 * SCAN_S + 0.5) * STRETCH)
    until(lambda: not site.database.sql(late, slack_ms), seconds, lambda: f"I6: lapsed and not taken back: {site.database.sql(late, slack_ms)}")


def check_end(site, seconds=5):
    """Everything else, after the daemons have ended. Raises one AssertionError that names every violation."""
    database = site.database
    audit = [change for change in database.audit() if not change["account"].startswith("root@")]
    by_hand = {change["id"] for change in database.audit() if change["account"].startswith("root@") and change["old_state"]}
    found = [*arrows(audit, site.retried), *leases(audit, by_hand), *runs(site), *slots(site), *rows(database), *daemons(site), *leftovers(site.mark, seconds)]
    assert not found, "invariants violated:\n" + "\n".join(found[:20])


def arrows(audit, retried):
    for change in audit:
        arrow = (change["old_state"], change["new_state"])
        if None in arrow or arrow[0] == arrow[1] or arrow in ARROWS or (arrow in RETRY and change["id"] in retried):
            continue
        yield f"{'I1' if arrow[0] in FINISHED else 'I7'}: job {change['id']} went from {arrow[0]} to {arrow[1]} ({change['account']})"


def leases(audit, by_hand):
    claims = Counter()
    for change in audit:
        if change["old_state"] == "running" and change["new_state"] in FINISHED and not change["old_lease"] and change["id"] not in by_hand:
            yield f"I2: job {change['id']} became {change['new_state']} without a lease"
        if change["old_state"] == "ready" and change["new_state"] == "running":
            claims[change["id"], change["new_lease"]] += 1
        if change["old_claim_no"] is not None and change["new_claim_no"] is not None and change["new_claim_no"] < change["old_claim_no"]:
            yield f"I7: job {change['id']} had claim number {change['old_claim_no']}, then {change['new_claim_no']}"
    for (id, lease), count in claims.items():
        if count > 1 or not lease:
            yield f"I7: job {id} was claimed {count} times under lease {lease}"


def runs(site):
    events = [event for event in site.runs.events() if event.claim_no < CLAIM_NO_MAX]
    started = Counter((event.job, event.claim_no) for event in events if event.what == "start")
    yield from (f"I3: claim {claim} of job {job} was run {count} times" for (job, claim), count in started.items() if count > 1)
    if not site.overlap_allowed:
        yield from overlaps(events)


def overlaps(events):
    """By the log alone (an end after the next start), and by what a starting handler saw of its predecessor."""
    for event in events:
        if event.what.startswith("overlap"):
            yield f"I3: job {event.job} attempt {event.attempt} started beside pid {event.what.split(':')[1]}"
    ended = {(event.job, event.claim_no): event.ms for event in events if event.what == "end"}
    last = {}
    for event in sorted((event for event in events if event.what == "start"), key=lambda event: event.ms):
        before = last.get(event.job)
        if before and ended.get((before.job, before.claim_no), 0) > event.ms + 10:  # the log's clock ticks in 10 ms
            yield f"I3: job {event.job} claim {before.claim_no} ended {ended[before.job, before.claim_no] - event.ms} ms after the next start"
        last[event.job] = event


def slots(site):
    for event in site.runs.events():
        if event.what.startswith("over:"):
            _, key, count = event.what.split(":")
            yield f"I8: job {event.job} attempt {event.attempt} started as number {count} of key {key}"


def rows(database):
    inserted = database.value("SELECT COUNT(*) FROM test_audit WHERE old_state IS NULL")
    deleted = database.value("SELECT COUNT(*) FROM test_audit WHERE new_state IS NULL")
    present = database.value("SELECT COUNT(*) FROM jobs")
    if present != inserted - deleted:
        yield f"I4: {inserted} rows were inserted, {deleted} deleted, and {present} are there"


def daemons(site):
    for daemon in site.daemons:
        status = daemon.process.poll() if daemon.process else 0
        if status and not daemon.may_fail:
            yield f"I5: {daemon.name} ended with status {status}: {daemon.tail()}"
        for line in re.findall(rf".*(?:{COMPLAINTS}).*", daemon.log(whole=True)):
            yield f"I5: {daemon.name}: {line}"


def marked(mark):
    """The processes that carry the mark in their environment: handlers, and what they left behind."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")))
            except OSError:
                pass
    return found


def leftovers(mark, seconds):
    try:
        until(lambda: not marked(mark), seconds)
    except AssertionError:
        yield from (f"I5: process {pid} is left: {command}" for pid, command in marked(mark))


def attempts_equal_starts(site, ids):
    """Where nothing was lost between a claim and its start, the row has counted exactly the runs that there were."""
    starts = Counter(event.job for event in site.runs.starts())
    wrong = [(id, site.database.job(id)["attempt"], starts[id]) for id in ids if site.database.job(id)["attempt"] != starts[id]]
    assert not wrong, f"(job, attempt, starts): {wrong[:10]}"
