"""Leasehold's side of the stream protocol, over pipes to one child: what a test says to a client, and what it hears."""
import json
import os
import select
import signal
import socket
import subprocess
import time

from harness.waiting import STRETCH

HELLO = {"hello": {"protocol": 1, "leasehold": "0.1.0", "kind": "*"}}
LEASE = "0e8cdd9c-95b5-4d22-b1ac-2b1d3f6b8a11"


def job_message(kind, payload, **changes):
    """What Leasehold sends for a job. A payload that is not a str is written as JSON."""
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return {"job": {"id": 17, "claim_no": 3, "kind": kind, "queue": "default", "attempt": 1, "max_attempts": 10, "lease_id": LEASE,
                    "lease_ms": 60000, "timeout_ms": 300000, "payload": text, "steps": {}, **changes}}


def line(message):
    return json.dumps(message).encode() + b"\n"


class Child:
    """A client in a process of its own. Everything is waited for with a deadline."""

    def __init__(self, command, stderr, sockets=False, environment=None):
        self.log_file = stderr
        # The poorest locale there is: a client must not depend on any.
        environment = {"PATH": os.environ["PATH"], "LANG": "C", "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
        if sockets:
            ours_in, theirs_in = socket.socketpair()
            ours_out, theirs_out = socket.socketpair()
            pipes = [ours_in.detach(), ours_out.detach(), theirs_in.detach(), theirs_out.detach()]
            self.input, self.output, child_in, child_out = pipes
        else:
            child_in, self.input = os.pipe()
            self.output, child_out = os.pipe()
        with open(stderr, "wb") as log:
            self.process = subprocess.Popen([str(part) for part in command], stdin=child_in, stdout=child_out, stderr=log,
                                            env=environment, process_group=0)
        os.close(child_in)
        os.close(child_out)
        self.buffer = b""

    def send(self, *messages):
        """In one piece. bytes are sent as they are."""
        data = memoryview(b"".join(m if isinstance(m, bytes) else line(m) for m in messages))
        while data:
            data = data[os.write(self.input, data):]

    def receive(self, seconds=10):
        """The next message; None at the end."""
        deadline = time.monotonic() + seconds * STRETCH
        while b"\n" not in self.buffer:
            ready = select.select([self.output], [], [], max(0, deadline - time.monotonic()))[0]
            assert ready, f"nothing within {seconds} s; so far {self.buffer[:200]!r}; the log: {self.log}"
            chunk = os.read(self.output, 1 << 16)
            if not chunk:
                assert not self.buffer, f"the last line has no end: {self.buffer[:200]!r}"
                return None
            self.buffer += chunk
        text, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(text.decode("utf-8", "strict"), parse_constant=lambda name: 1 / 0)

    def greet(self):
        self.send(HELLO)
        answer = self.receive(20)
        assert answer and answer["hello"]["protocol"] == 1, f"{answer}; the log: {self.log}"
        return self

    def answer(self, seconds=10):
        """The next message, which must be about the job that job_message() makes; without id and claim_no."""
        message = self.receive(seconds)
        assert message is not None, f"the child has ended; its log: {self.log}"
        assert (message.pop("id"), message.pop("claim_no")) == (17, 3)
        return message

    def run(self, kind, payload, seconds=10, **changes):
        self.send(job_message(kind, payload, **changes))
        return self.answer(seconds)

    def saved(self, name, saved=True, **more):
        self.send({"step": {"id": 17, "claim_no": 3, "name": name, "saved": saved, **more}})

    def cancel(self, reason, **changes):
        self.send({"cancel": {"id": 17, "claim_no": 3, "reason": reason, **changes}})

    @property
    def log(self):
        return self.log_file.read_text(errors="replace")

    def wait(self, seconds=10):
        """Its exit status."""
        return self.process.wait(seconds * STRETCH)

    def hang_up(self):
        os.close(self.input)
        self.input = -1

    def finish(self):
        """No more work: it must end by itself, with nothing more to say. Its log."""
        self.hang_up()
        assert self.receive() is None
        assert self.wait() == 0, self.log
        return self.log

    def close(self):
        for fd in (self.input, self.output):
            if fd >= 0:
                os.close(fd)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
