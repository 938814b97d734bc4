"""One instance of the daemon under test: its configuration file, its process, its log."""
import copy
import os
import re
import signal
import subprocess
from pathlib import Path

from .database import NAME, PASSWORD
from .waiting import STRETCH, until

HANDLERS = Path(__file__).resolve().parent / "handlers"
BINARY = Path(os.environ.get("LEASEHOLD_BIN") or Path(__file__).resolve().parents[2] / "build" / "leasehold")

# Configuration F (fast): the shortest lease that is allowed, and everything else in proportion.
FAST = {
    "database": {"name": NAME, "user": "lh_worker", "password": PASSWORD, "connect_timeout": "2s", "timeout": "5s"},
    "instance": {"shutdown_timeout": "5s"},
    "lease": {"length": "3s", "heartbeat": "500ms"},
    "pools": [{"name": "default", "queues": ["default"], "threads": 8, "poll": "100ms", "poll_max": "200ms"}],
    "recovery": {"interval": "500ms", "promote_interval": "100ms", "backoff": {"base": "200ms", "max": "1s"}},
    "log": {"level": "debug", "format": "text"},
}
HANDLER = {"type": "exec", "timeout": "1m", "kill_grace": "900ms", "backoff": {"base": "200ms", "max": "1s"}}
LEASE_S, SCAN_S, GRACE_S, MARGIN_S = 3.0, 0.5, 0.9, 0.2


def render(value, indent=0):
    """A Python value in libconfig's notation."""
    pad = "\t" * indent
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = "".join(f"{pad}\t{key} = {render(item, indent + 1)};\n" for key, item in value.items() if item is not None)
        return f"{{\n{inner}{pad}}}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(render(item, indent + 1) for item in value)
        return f"( {inner} )" if value and isinstance(value[0], dict) else f"[ {inner} ]"
    if isinstance(value, (int, float)):
        return str(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def merge(base, changes):
    """Groups merge key by key; everything else, lists too, is replaced."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        result[key] = merge(result[key], value) if isinstance(value, dict) and isinstance(result.get(key), dict) else copy.deepcopy(value)
    return result


def config_text(groups):
    return "".join(f"{name} = {render(value)};\n" for name, value in groups.items())


class Daemon:
    def __init__(self, directory, name, groups, environment=None, binary=BINARY):
        self.name = name
        self.binary = str(binary)
        self.groups = groups
        self.config = Path(directory) / f"{name}.conf"
        self.log_file = Path(directory) / f"{name}.log"
        self.environment = {**os.environ, **(environment or {})}
        self.process = None
        self.log_start = 0
        self.may_fail = False  # the test ends it, or wants it to end, in a way that is not exit 0
        self.write_config(groups)

    def write_config(self, groups):
        """Holds the password: readable by its owner alone."""
        self.groups = groups
        temporary = self.config.with_suffix(".new")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(config_text(groups))
        temporary.replace(self.config)

    @property
    def pid(self):
        return self.process.pid

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    @property
    def sanitized(self):
        """Built with a sanitizer: memory figures mean nothing, and it wants to be the first library."""
        return any(mark in Path(self.binary).read_bytes() for mark in (b"__asan_init", b"__tsan_init"))

    def spawn(self):
        """Starts it in its own process group and does not wait for anything."""
        assert not self.running
        self.log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen([self.binary, "-c", str(self.config), "run"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment, process_group=0)
        return self

    def start(self, database, seconds=10):
        """Starts it and waits until it has announced itself in job_workers."""
        self.spawn()
        until(lambda: not self.running or database.sql("SELECT 1 FROM job_workers WHERE pid=%s", self.pid), seconds,
              lambda: f"{self.name} does not show up in job_workers: {self.tail()}")
        assert self.running, f"{self.name} ended with status {self.process.returncode}: {self.tail()}"
        return self

    def signal(self, number):
        self.process.send_signal(number)

    def freeze(self):
        """The daemon alone: neither its runner nor its handlers."""
        self.signal(signal.SIGSTOP)
        until(lambda: self.stat_letter() == "T", 2, "the daemon to be stopped")

    def thaw(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """As a power cut would: no chance to say anything."""
        self.may_fail = True
        self.process.kill()
        self.process.wait()

    def terminate(self, seconds=15):
        """An orderly drain; returns the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait_exit(seconds)

    def wait_exit(self, seconds):
        try:
            return self.process.wait(seconds * STRETCH)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {seconds} s: {self.tail()}") from None

    def end(self):
        """At teardown, whatever state it is in."""
        if not self.running:
            return
        self.thaw()
        self.process.terminate()
        try:
            self.process.wait(12 * STRETCH)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not end on SIGTERM: {self.tail()}") from None

    def log(self, whole=False):
        """What this process (or all of this name) wrote."""
        if not self.log_file.exists():
            return ""
        with open(self.log_file, "rb") as log:
            log.seek(0 if whole else self.log_start)
            return log.read().decode(errors="replace")

    def tail(self, lines=25):
        return "\n".join(self.log().splitlines()[-lines:])

    def grep(self, pattern):
        return [line for line in self.log().splitlines() if re.search(pattern, line)]

    def wait_log(self, pattern, seconds=10, count=1):
        return until(lambda: len(self.grep(pattern)) >= count and self.grep(pattern), seconds,
                     lambda: f"a log line like {pattern!r}: {self.tail()}")

    def stat_letter(self, pid=None):
        return Path(f"/proc/{pid or self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def children(self):
        return [int(pid) for task in Path(f"/proc/{self.pid}/task").iterdir() for pid in (task / "children").read_text().split()]

    @property
    def runner_pid(self):
        """The one child that the daemon ever has; waits while there is none."""
        def found():
            try:
                return [pid for pid in self.children() if b"--runner" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
            except OSError:  # it went while we looked
                return []
        return until(found, 5, "a runner process")[0]

    def fds(self):
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def rss_kb(self):
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())[1])

    def threads(self):
        return sorted((task / "comm").read_text().strip() for task in Path(f"/proc/{self.pid}/task").iterdir())
