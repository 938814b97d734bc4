"""What one test works with: a fresh database, any number of daemons and proxies, a runs log, and the end of it all."""
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

from . import invariants
from .daemon import BINARY, FAST, HANDLER, HANDLERS, Daemon, config_text, merge
from .database import Database
from .proxy import Proxy
from .runs import Runs
from .waiting import STRETCH


class Site:
    def __init__(self, server, migrate=True):
        self.server = server
        self.directory = Path(tempfile.mkdtemp(prefix="lht."))
        self.runs = Runs(self.directory)
        self.mark = f"LH_TEST_MARK={uuid.uuid4()}"
        self.database = Database(server).create(migrate)
        self.daemons, self.proxies = [], []
        self.retried = set()          # jobs that an operator retried
        self.overlap_allowed = False  # for the cases in which the manual promises nothing
        self.failed = False           # the test itself has failed: no second verdict

    # What handlers are given besides the contract's own variables.
    @property
    def environment(self):
        return [self.mark, f"LH_RUNS={self.runs.path}", f"LH_ALIVE={self.runs.alive}", f"LH_DIR={self.directory}"]

    def handler(self, kind, *command, **options):
        """A handler's group for the configuration. Without a command: run the payload as a script."""
        return merge(merge(HANDLER, {"kind": kind, "command": list(command) or [str(HANDLERS / "script.sh")], "env": self.environment}), options)

    def stream(self, kind, *arguments, **options):
        """A stream handler whose payload is Python code, or with "--shell" a shell script; see handlers/stream.py."""
        return self.handler(kind, "/usr/bin/python3", str(HANDLERS / "stream.py"), *arguments, **merge({"type": "stream"}, options))

    def handlers(self, how, **options):
        """`sh` and `note` as config has them, with `sh` run by exec or on warm processes: what is done with a job is the same."""
        note = self.handler("note", str(HANDLERS / "note.sh"))
        return [self.handler("sh", **options) if how == "exec" else self.stream("sh", "--shell", **options), note]

    def config(self, handlers=None, server=None, proxy=None, **groups):
        """Configuration F for this site, with changes by group; `sh` runs its payload, `note` leaves a trace only."""
        given = merge(FAST, {"database": {"socket": proxy.path if proxy else (server or self.server).socket}})
        given["handlers"] = handlers or [self.handler("sh"), self.handler("note", str(HANDLERS / "note.sh"))]
        return merge(given, groups)

    def daemon(self, name=None, handlers=None, proxy=None, environment=None, **groups):
        """A daemon that is not yet started."""
        name = name or "ABCDEFGHIJ"[len(self.daemons)]
        config = self.config(handlers, proxy=proxy, **merge({"instance": {"name": name}}, groups))
        daemon = Daemon(self.directory, name, config, environment)
        self.daemons.append(daemon)
        return daemon

    def start(self, *args, **kwargs):
        return self.daemon(*args, **kwargs).start(self.database)

    def proxy(self, **knobs):
        proxy = Proxy(self.server, self.directory, f"p{len(self.proxies)}")
        for name, value in knobs.items():
            setattr(proxy, name, value)
        self.proxies.append(proxy.start())
        return proxy

    def cli(self, *arguments, config=None, check=True, seconds=20, **more):
        """Runs a command of the command line on this database."""
        file = self.directory / "cli.conf"
        file.write_text(config_text(config or self.config()))
        file.chmod(0o600)
        done = subprocess.run([str(BINARY), "-c", str(file), *map(str, arguments)], capture_output=True, text=True, timeout=seconds * STRETCH,
                              **more)
        assert not check or done.returncode == 0, f"{arguments}: exit {done.returncode}: {done.stdout}{done.stderr}"
        return done

    def retry(self, *ids, extra=None):
        """An operator's retry: the checker has to know of it."""
        self.retried |= set(ids)
        return self.cli("retry", *ids, *(["--attempts", extra] if extra else []))

    def finish(self):
        """Rest, end, invariants; whatever fails, nothing of ours is left running."""
        try:
            if self.failed:
                return
            if any(daemon.running and daemon.stat_letter() != "T" for daemon in self.daemons):
                invariants.check_rest(self)
            for daemon in self.daemons:
                daemon.end()
            invariants.check_end(self)
        finally:
            self.clean()

    def clean(self):
        for daemon in self.daemons:
            if daemon.running:
                daemon.kill()
        for proxy in self.proxies:
            proxy.stop()
        for pid, _ in invariants.marked(self.mark):
            subprocess.run(["kill", "-KILL", str(pid)], check=False)
        self.database.drop_connection()
        shutil.rmtree(self.directory, ignore_errors=True)
