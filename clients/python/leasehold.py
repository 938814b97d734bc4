"""Run Leasehold jobs in a warm Python process (a handler with type = "stream").

    import leasehold

    def send(job):
        deliver(job.payload["to"], job.payload["text"])
        return {"sent": True}

    leasehold.serve(send)                              # every kind, or by kind:
    leasehold.serve({"mail.send": send, "mail.bounce": bounce})

A handler is a function that takes a Job and returns the job's result: anything that json.dumps() takes, a str (kept as text), or
None for no result. How it ends says what becomes of the job:

    return                succeeded
    raise Dead(text)      never tried again
    raise Retry(text)     tried again after the backoff, or after so many seconds: Retry(text, after=30)
    raise Snooze(60)      run again in so many seconds, and not counted as an attempt
    raise Cancelled()     stopped because job.cancelled() said so
    any other exception   tried again, with its class and message as the error; the traceback goes to the log

A result that JSON cannot hold makes the job dead: trying again would not help.

While serve() runs, descriptor 1 is standard error, so print() writes to Leasehold's log, and descriptor 0 is /dev/null. Print
nothing to standard output before. serve() returns when Leasehold has no more work for this process. Needs Python 3.8 and nothing
else.
"""
import json
import os
import re
import select
import sys
import threading
import traceback

__all__ = ["serve", "Job", "Retry", "Dead", "Snooze", "Cancelled", "StepNotSaved"]

PROTOCOL = 1
ERROR_BYTES = 500
NOTE_BYTES = 1020  # 255 characters are kept
DEEPEST = 90  # Leasehold takes no line that is nested more than 100 deep
LONGEST_DELAY_S = 31_622_400  # a year


class Retry(Exception):
    """The attempt failed: try again after `after` seconds (0 to 31622400; None: after the backoff)."""

    def __init__(self, message="", after=None):
        super().__init__(message)
        self.after_ms = None if after is None else _milliseconds(after)


class Dead(Exception):
    """The job cannot succeed: do not try again."""


class Snooze(Exception):
    """It is too early: run again after `after` seconds (0 to 31622400). The attempt is not counted."""

    def __init__(self, after):
        super().__init__(f"again in {after} s")
        self.after_ms = _milliseconds(after)


class Cancelled(Exception):
    """The handler stopped because it was asked to. Without a request, this is an error like any other."""


class StepNotSaved(Exception):
    """Leasehold could not save a step, because the lease is lost, say. Let it end the attempt: it is tried again."""


class Job:
    """One attempt at a job. Only progress() may be called from other threads than the handler's.

    id, claim_no           int; together the fencing token for other systems: claim_no grows with every claim
    kind, queue            str
    attempt, max_attempts  int; the first attempt is 1
    lease_id, lease_ms     str (a UUID) and int; the lease is renewed while the handler runs
    timeout_ms             int; how long the handler may run, 0 is without limit
    traceparent            str or None; the W3C trace context of whoever enqueued the job
    payload_text           str; the payload as it is in the table
    """

    def __init__(self, channel, job):
        self.id, self.claim_no = job["id"], job["claim_no"]
        self.kind, self.queue = job["kind"], job.get("queue")
        self.attempt, self.max_attempts = job.get("attempt"), job.get("max_attempts")
        self.lease_id, self.lease_ms = job.get("lease_id"), job.get("lease_ms")
        self.timeout_ms = job.get("timeout_ms", 0)
        self.traceparent = job.get("traceparent")
        self.payload_text = job["payload"]
        self._steps = job.get("steps") or {}
        self._channel = channel
        self._reason = None
        self._ended = False

    @property
    def payload(self):
        """The payload, decoded. Raises Dead if it is not JSON; then only payload_text is of use."""
        try:
            return json.loads(self.payload_text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise Dead(f"the payload is not JSON: {error}") from None

    def progress(self, percent=None, note=None):
        """Reports how far the work is (0 to 100; what lies outside is moved to the edge), what it is at, or both. Does not wait."""
        message = {}
        if percent is not None:
            message["progress"] = min(100.0, max(0.0, float(percent)))
        if note is not None:
            message["note"] = _clean(note, NOTE_BYTES)
        if message:
            self._send(message)

    def cancelled(self):
        """Why the job is to end early: "cancel", "timeout", "lease" or "shutdown"; None if it is not. Does not wait.

        SIGTERM follows soon after such a request, then SIGKILL. Who stops before keeps the process.
        """
        while self._reason is None:
            message = self._channel.receive(wait=False)
            if message is None:
                break
            self._note_cancel(message)
        return self._reason

    def step(self, name, work):
        """Does work() once for all attempts of this job, and returns what it returned, as JSON gives it back.

        If an earlier attempt saved the step, work() is not called. Otherwise its result is saved (None is fine; all steps of a job
        have 64 KiB together), and step() returns once that is committed; StepNotSaved says that it is not. The name has 1 to 64
        characters of A-Z a-z 0-9 _ . : -; a job may have 64.
        """
        if not re.fullmatch(r"[A-Za-z0-9_.:-]{1,64}", name):
            raise ValueError(f"not a name for a step: {name!r}")
        if name not in self._steps:
            data = work()
            try:
                text = _encode(data)
            except (TypeError, ValueError, RecursionError) as error:
                raise Dead(f"step {name} cannot be written as JSON: {error}") from error
            self._send({"step": name, "data": data})
            self._await_saved(name)
            self._steps[name] = json.loads(text)
        return self._steps[name]

    def _await_saved(self, name):
        while True:
            message = self._channel.receive()
            if message is None:
                raise StepNotSaved(f"step {name} was not saved: Leasehold is gone")
            answer = message.get("step")
            if answer and self._is(answer) and answer["name"] == name:
                if answer["saved"] is True:
                    return
                raise StepNotSaved(f"step {name} was not saved: {answer.get('why', 'no reason given')}")
            self._note_cancel(message)

    def _note_cancel(self, message):
        if "cancel" in message and self._is(message["cancel"]):
            self._reason = message["cancel"]["reason"]

    def _is(self, other):
        return other["id"] == self.id and other["claim_no"] == self.claim_no

    def _send(self, message):
        if self._ended:
            raise RuntimeError("this job has ended")
        # The id may be beyond what a result may hold.
        self._channel.write(b'{"id":%d,"claim_no":%d,' % (self.id, self.claim_no) + _encode(message)[1:])

    def _run(self, handler):
        """What the handler comes to, as a message."""
        try:
            if handler is None:
                raise LookupError(f"no handler for the kind {self.kind}")
            result = handler(self)
            return {"outcome": "succeeded"} if result is None else {"outcome": "succeeded", "result": result}
        except Retry as error:
            answer = {"outcome": "retry", "error": _clean(error) or "Retry"}
            return answer if error.after_ms is None else {**answer, "retry_after_ms": error.after_ms}
        except Snooze as error:
            return {"outcome": "snooze", "snooze_ms": error.after_ms}
        except Dead as error:
            return {"outcome": "dead", "error": _clean(error) or "Dead"}
        except Exception as error:
            if isinstance(error, Cancelled) and self.cancelled():
                return {"outcome": "cancelled"}
            traceback.print_exc()
            return {"outcome": "retry", "error": _clean(f"{type(error).__name__}: {error}")}

    def _finish(self, handler):
        answer = self._run(handler)
        try:
            self._send(answer)
        except (TypeError, ValueError, RecursionError) as error:
            self._send({"outcome": "dead", "error": _clean(f"the result cannot be written as JSON: {error}")})
        self._ended = True


class _Channel:
    """The two pipes to Leasehold: messages are JSON objects, one a line."""

    def __init__(self):
        self._in, self._out = os.dup(0), os.dup(1)  # not inherited by programs that a handler starts
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
        self._buffer, self._searched = bytearray(), 0
        self._sending = threading.Lock()

    def receive(self, wait=True):
        """The next message; None at the end, and, without wait, if there is none yet."""
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[:end + 1]
                self._searched = 0
                return _message(line)
            self._searched = len(self._buffer)
            if not wait and not select.select([self._in], [], [], 0)[0]:
                return None
            chunk = os.read(self._in, 65536)
            if not chunk:
                return None
            self._buffer += chunk

    def write(self, text):
        line = memoryview(text + b"\n")
        with self._sending:
            while line:
                line = line[os.write(self._out, line):]


def serve(handlers):
    """Runs jobs until Leasehold closes the pipe. handlers: a function for every kind, or a dict of kind to function."""
    channel = _Channel()
    hello = channel.receive()
    if hello is None:
        return
    protocol = hello["hello"].get("protocol") if isinstance(hello.get("hello"), dict) else None
    if protocol != PROTOCOL:
        sys.exit(f"leasehold.py speaks protocol {PROTOCOL}, but was greeted with {json.dumps(hello)[:200]}")
    try:
        channel.write(_encode({"hello": {"protocol": PROTOCOL, "client": "leasehold.py 1"}}))
        while (message := channel.receive()) is not None:
            if "job" in message:  # a request to cancel the job before may still come
                job = Job(channel, message["job"])
                job._finish(handlers if callable(handlers) else handlers.get(job.kind))
    except BrokenPipeError:
        pass  # Leasehold is gone


def _message(line):
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        sys.exit(f"leasehold.py: this is no message of Leasehold: {line[:200]!r}")
    return message


def _encode(value):
    """JSON that Leasehold can read: in UTF-8, not too deep, and with no whole number beyond 64 bits."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    depth = 0
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]|-?[0-9.]{19,}(?![0-9.eE])', text):
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        elif token[0] != '"' and "." not in token and not -2**63 <= int(token) < 2**63:
            raise ValueError(f"{token} does not fit into 64 bits")
        if depth > DEEPEST:
            raise ValueError(f"nested more than {DEEPEST} deep")
    return text.encode()


def _no_constant(name):
    raise ValueError(f"{name} is not a number of JSON")


def _clean(text, limit=ERROR_BYTES):
    """Text that can be sent whatever is in it, cut between two characters."""
    return str(text).encode("utf-8", "backslashreplace")[:limit].decode("utf-8", "ignore")


def _milliseconds(seconds):
    if not 0 <= seconds <= LONGEST_DELAY_S:
        raise ValueError(f"not a delay of 0 to {LONGEST_DELAY_S} seconds: {seconds!r}")
    return round(seconds * 1000)
