"""What the handlers themselves wrote: the runs log."""
from collections import namedtuple
from pathlib import Path

Event = namedtuple("Event", "job attempt claim_no pid what ms")


class Runs:
    def __init__(self, directory):
        self.path = Path(directory) / "runs"
        self.alive = Path(directory) / "alive"
        self.alive.mkdir()
        self.path.touch()

    def events(self, job=None, what=None):
        events = []
        for line in self.path.read_text().splitlines():
            id, attempt, claim_no, pid, name, ms = line.split()
            event = Event(int(id), int(attempt), int(claim_no), int(pid), name, int(ms))
            if (job is None or event.job == job) and (what is None or event.what == what):
                events.append(event)
        return events

    def starts(self, job=None):
        return self.events(job, "start")

    def ends(self, job=None):
        return self.events(job, "end")
