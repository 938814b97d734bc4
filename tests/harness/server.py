"""A private MariaDB or MySQL server in a temporary directory: Unix socket, and a loopback port only when asked for.

LEASEHOLD_TEST_SERVER unset: the system's mariadbd. Else: a directory with an unpacked MySQL (usr/sbin/mysqld), run with its own loader."""
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pymysql

from .waiting import STRETCH, until

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
# Tests lose servers to SIGKILL only where they ask for durability themselves.
OPTIONS = ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M", "--skip-log-bin", "--skip-name-resolve",
           "--max-connections=400", "--max-allowed-packet=64M", "--performance-schema=OFF", "--secure-file-priv="]


def quick_directory():
    """Memory, where there is enough of it: a test's database is dropped and made again every second. Else the usual place."""
    shared = "/dev/shm"
    if not os.access(shared, os.W_OK) or shutil.disk_usage(shared).free < 2 << 30:
        return None
    return shared


class Server:
    def __init__(self, directory=None, port=None, options=(), faketime=False):
        self.directory = Path(tempfile.mkdtemp(prefix="lhs.", dir=directory or quick_directory()))
        self.datadir = self.directory / "data"
        self.socket = str(self.directory / "s")
        self.port = port
        self.options = list(options)
        self.clock_file = self.directory / "clock" if faketime else None
        root = os.environ.get("LEASEHOLD_TEST_SERVER")
        self.mysql_root = Path(root) if root else None
        self.process = None

    @property
    def is_mariadb(self):
        return self.mysql_root is None

    @property
    def pid(self):
        return self.process.pid

    def create(self):
        """Initialises the data directory: an account root without a password, no test database."""
        if self.is_mariadb:
            command = ["mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
                       f"--datadir={self.datadir}", *self._user()]
        else:
            command = [*self._mysqld(), "--initialize-insecure", f"--datadir={self.datadir}", *self._user()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120 * STRETCH, env=self._environment())
        assert done.returncode == 0, f"cannot create the server: {done.stdout}{done.stderr}"
        return self

    def _environment(self):
        """A server that starts clears its directory for temporary files, which therefore no other one may share."""
        return {**os.environ, "TMPDIR": str(self.directory)}

    def start(self, *extra):
        assert self.process is None
        network = [f"--port={self.port}", "--bind-address=127.0.0.1"] if self.port else ["--skip-networking"]
        command = [*(["mariadbd", "--no-defaults"] if self.is_mariadb else self._mysqld()), *self._user(), f"--datadir={self.datadir}",
                   f"--socket={self.socket}", f"--pid-file={self.directory}/pid", *network, *OPTIONS, *self.options, *extra]
        environment = self._environment()
        if self.clock_file:
            self.step_clock(0)
            environment.update(LD_PRELOAD=FAKETIME, FAKETIME_TIMESTAMP_FILE=str(self.clock_file), FAKETIME_NO_CACHE="1",
                               DONT_FAKE_MONOTONIC="1", FAKETIME_DONT_RESET="1")
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, process_group=0)
        until(self._answers, 60, lambda: f"the server does not answer: {self.log()[-2000:]}", every=0.05)
        return self

    def stop(self):
        """An orderly shutdown."""
        if self.process:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self._reap()

    def kill(self):
        if self.process:
            self.process.kill()
            self._reap()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def step_clock(self, seconds):
        """Moves the server's wall clock this far from the true one, at once, for sessions that are open too."""
        temporary = self.clock_file.with_suffix(".new")
        temporary.write_text(f"{seconds:+d}\n")
        temporary.replace(self.clock_file)

    def destroy(self):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def log(self):
        return (self.directory / "log").read_text(errors="replace")

    def connect(self, user="root", password="", database=None, **more):
        more.setdefault("autocommit", True)
        more.setdefault("init_command", "SET time_zone='+00:00'")
        return pymysql.connect(unix_socket=self.socket, user=user, password=password, database=database, charset="utf8mb4", **more)

    def client(self, sql, database=None, check=True, user="root", password=""):
        """Feeds a script to the stock client, as the DBA unless told otherwise, as migrations/README.md tells an operator to."""
        command = ["mariadb", "--no-defaults", f"--user={user}", f"--password={password}", f"--socket={self.socket}",
                   "--default-character-set=utf8mb4"]
        done = subprocess.run(command + ([database] if database else []), input=sql, capture_output=True, text=True, timeout=60 * STRETCH)
        assert not check or done.returncode == 0, f"the client failed: {done.stderr}"
        return done

    def _answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with status {self.process.returncode}: {self.log()[-2000:]}")
        try:
            self.connect().close()
        except pymysql.err.OperationalError:
            return False
        return True

    def _reap(self):
        try:
            self.process.wait(60 * STRETCH)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _user(self):
        return ["--user=root"] if os.geteuid() == 0 else []

    def _mysqld(self):
        root = self.mysql_root
        return [f"{root}/usr/lib64/ld-linux-x86-64.so.2", "--library-path", f"{root}/usr/lib/x86_64-linux-gnu", f"{root}/usr/sbin/mysqld",
                "--no-defaults", f"--basedir={root}/usr", f"--lc-messages-dir={root}/usr/share/mysql", "--mysqlx=OFF"]
