#!/usr/bin/python3
"""A warm process for tests: the payload of a job is Python code that says what is done with it, well or badly.

In the code: job (what Leasehold told), say(object or bytes), answer(outcome, **members), hear() (the next line, None at its
end), step(name, data) (returns the answer), mark(event) for the runs log. Code that says no outcome has succeeded; an exception
is a retry. With --shell the payload is a shell script instead, run as script.sh runs it. The other arguments spoil the start."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def say(line):
    data = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
    while data:
        data = data[os.write(1, data):]


def hear():
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else None


class Job:
    def __init__(self, told):
        self.told = told
        self.me = {"id": told["id"], "claim_no": told["claim_no"]}
        self.answered = False

    def answer(self, outcome="succeeded", **members):
        self.answered = True
        say({**self.me, "outcome": outcome, **members})

    def step(self, name, data=None):
        say({**self.me, "step": name, "data": data})
        return hear()

    def mark(self, event):
        if "LH_RUNS" in os.environ:
            now_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
            line = " ".join(str(self.told[key]) for key in ("id", "attempt", "claim_no")) + f" {os.getpid()} {event} {now_ms}\n"
            with open(os.environ["LH_RUNS"], "ab", buffering=0) as runs:
                runs.write(line.encode())

    def run(self):
        names = {"job": self.told, "me": self.me, "say": say, "hear": hear, "answer": self.answer, "step": self.step,
                 "mark": self.mark, "os": os, "sys": sys, "time": time, "signal": signal, "subprocess": subprocess}
        self.mark("start")
        try:
            exec(self.told["payload"], names)  # noqa: S102: that is what it is for
        except Exception as error:  # noqa: BLE001: whatever it is
            self.answer("retry", error=repr(error))
        self.mark("end")
        if not self.answered:
            self.answer()

    def shell(self):
        told = self.told
        environment = {**os.environ, "LEASEHOLD_JOB_ID": str(told["id"]), "LEASEHOLD_ATTEMPT": str(told["attempt"]),
                       "LEASEHOLD_CLAIM_NO": str(told["claim_no"]), "LEASEHOLD_LEASE_ID": told["lease_id"]}
        done = subprocess.run([str(HERE / "script.sh")], input=told["payload"].encode(), stdout=subprocess.PIPE, env=environment,
                              check=False)
        if done.returncode == 0:
            self.answer(result=done.stdout.decode(errors="replace"))
        elif done.returncode == 65:
            self.answer("dead", error="exit status 65")
        else:
            self.answer("retry", error=f"exit status {done.returncode}")


def start(mode):
    """What a bad child does where it should say hello. Returns whether it does so all the same."""
    if mode == "silent":
        time.sleep(1000)
    elif mode == "exit":
        print("cannot find my library", file=sys.stderr, flush=True)
        os._exit(3)
    elif mode == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif mode == "garbage":
        say(b"Starting up...\n")
    elif mode == "version":
        say({"hello": {"protocol": 2}})
    elif mode == "early":
        say({"id": 1, "claim_no": 1, "outcome": "succeeded"})
    elif mode == "chatter":
        say(b'{"hello":{"protocol":1}}\n{"note":"ready"}\n')  # in one piece, or it might come after a job
    elif mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say({"hello": {"protocol": 1}})
        time.sleep(1000)
    elif mode == "hasty":  # answers before it has read all of the job
        hear()
        say({"hello": {"protocol": 1}})
        told = os.read(0, 60).split(b'"id":')[1]
        say({"id": int(told.split(b",")[0]), "claim_no": int(told.split(b'"claim_no":')[1].split(b",")[0]), "outcome": "succeeded"})
        time.sleep(1000)
    elif mode == "unborn" and not os.path.exists(os.environ["LH_BORN"]):
        os._exit(4)
    else:
        return True
    time.sleep(1000)
    return False


def main():
    shell = "--shell" in sys.argv
    modes = [argument for argument in sys.argv[1:] if argument != "--shell"]
    if modes and not start(modes[0]):
        return
    greeting = hear()["hello"]
    assert greeting["protocol"] == 1, greeting
    say({"hello": {"protocol": 1, "client": "stream.py"}})
    while (line := hear()) is not None:
        if "job" in line:
            job = Job(line["job"])
            (job.shell if shell else job.run)()


main()
