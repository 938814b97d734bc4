"""One handler for each behaviour that tests/clients asks of every language; see test_client_outcomes.py for what each must come to."""
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "clients/python"))
sys.dont_write_bytecode = True

import leasehold  # noqa: E402
from leasehold import Cancelled, Dead, Retry, Snooze  # noqa: E402

kept = None


def describe(job):
    names = ("claim_no", "kind", "queue", "attempt", "max_attempts", "lease_id", "lease_ms", "timeout_ms", "traceparent", "payload_text")
    return {"id": str(job.id), **{name: getattr(job, name) for name in names}}


def size(job):
    return [len(job.payload_text.encode()), job.payload_text[-9:]]


def fail(job):
    raise ValueError(job.payload["message"])


def retry(job):
    after = job.payload.get("ms")
    raise Retry(job.payload["message"], after=after if after is None else after / 1000)


def snooze(job):
    raise Snooze(job.payload["ms"] / 1000)


def dead(job):
    raise Dead(job.payload["message"])


def cancelled(job):
    raise Cancelled()


def progress(job):
    job.progress(0)
    job.progress(40.5, "half \u00fcnd")
    job.progress(note="n" * 2000)
    job.progress(250)
    job.progress(-5)


def charge():
    print("ran charge", flush=True)
    return {"amount": 12, "who": "\u00fc"}


def steps(job):
    charged = job.step("charged", charge)
    mailed = job.step("mailed", lambda: None)
    return [charged, mailed, job.cancelled()]


def again(job):
    return [job.step("charged", charge), job.step("charged", charge)]


def name(job):
    return job.step(job.payload["name"], lambda: 1)


def stop(job):
    job.progress(1)
    while not (reason := job.cancelled()):
        time.sleep(0.005)
    if job.payload["then"] == "raise":
        raise Cancelled()
    if job.payload["then"] == "fail":
        raise ValueError(f"stopped by {reason}")
    return reason


def look(job):
    return job.cancelled() or "no"


def prints(job):
    print("printed")
    print("h\u00e9", flush=True)
    os.write(1, b"written\n")
    subprocess.run(["sh", "-c", "echo from the child; cat"], check=True)
    return f"read {len(sys.stdin.read())}"


def unencodable(job):
    value = {"object": object(), "text": "\ud800", "number": float("nan")}[job.payload["what"]]
    return job.step("odd", lambda: value) if job.payload["where"] == "step" else value


def keep(job):
    global kept
    kept = job


def late(job):
    kept.progress(1)


HANDLERS = {
    "echo": lambda job: job.payload, "raw": lambda job: job.payload_text, "nothing": lambda job: None, "pid": lambda job: os.getpid(),
    "describe": describe, "size": size, "fail": fail, "retry": retry, "snooze": snooze, "dead": dead, "cancelled": cancelled,
    "progress": progress, "steps": steps, "again": again, "name": name, "stop": stop, "busy": stop, "look": look, "print": prints,
    "unencodable": unencodable, "keep": keep, "late": late,
}

leasehold.serve(HANDLERS)
