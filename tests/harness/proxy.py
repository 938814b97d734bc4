"""Stands between a daemon and its server and loses things on purpose: the product needs no failpoints for it.

It understands just enough of the protocol: packets are framed (3 bytes length, 1 byte sequence), a client's packet with sequence 0 starts a
command, and a command of kind 3 is a query in plain text. The handshake passes through unchanged; TLS and compression are not supported.
Rules look at the text of queries; an action decides what becomes of one."""
import os
import re
import socket
import struct
import threading
import time
from collections import namedtuple
from pathlib import Path

QUERY = 3
Statement = namedtuple("Statement", "at session sql")

# The statements of a job's life, as patterns. The SQL is the product's; what it must contain is fixed by the schema and the protocol.
CLAIM = r"UPDATE\s+\S*jobs\b.*SET\s+state\s*=\s*'running'"
READ_BACK = r"SELECT\b.*\bpayload\b.*FROM\s+\S*jobs\b.*lease_id\s*="
RENEW = r"UPDATE\s+\S*jobs\b.*SET\s+locked_at\s*=\s*UTC_TIMESTAMP\(6\)\s+WHERE"
SETTLE = r"UPDATE\s+\S*jobs\b.*SET\s+state\s*=\s*'succeeded'"
REQUEUE = r"UPDATE\s+\S*jobs\b.*requeued_at"
COMMIT = r"^\s*COMMIT"
KILL = r"^\s*KILL"


class Lost(Exception):
    """The session ends here."""


class Rule:
    """Matches a pattern from its nth match on, so many times (None: for ever). With `after`: only in a transaction that has seen such a statement."""

    def __init__(self, pattern, action, nth, times, after):
        self.pattern = re.compile(pattern, re.IGNORECASE | re.DOTALL)
        self.after = after and re.compile(after, re.IGNORECASE | re.DOTALL)
        self.action, self.nth, self.times = action, nth, times
        self.seen = 0
        self.fired = threading.Event()
        self.lock = threading.Lock()

    def applies(self, sql, transaction):
        if not self.pattern.search(sql) or (self.after and not any(map(self.after.search, transaction))):
            return False
        with self.lock:
            self.seen += 1
            return self.seen >= self.nth and (self.times is None or self.seen < self.nth + self.times)

    def wait(self, seconds, what=None):
        assert self.fired.wait(seconds), f"no statement like {self.pattern.pattern!r} within {seconds} s{what or ''}"


# Actions. Each gets the session and the packet(s) of the command.
def pass_on(session, packet):
    session.upstream.sendall(packet)


def drop_before(session, packet):
    """The connection breaks before the server has seen the statement."""
    raise Lost


def drop_reply(session, packet):
    """The server does it, and nobody hears of it."""
    session.swallow.set()
    session.upstream.sendall(packet)
    session.replied.wait(30)
    raise Lost


def land_late(seconds):
    """The client loses its connection at once; the server gets the statement after so long."""
    def action(session, packet):
        session.swallow.set()
        session.close_client()
        time.sleep(seconds)
        pass_on(session, packet)
        session.replied.wait(30)
        raise Lost
    return action


def delay(seconds):
    def action(session, packet):
        time.sleep(seconds)
        pass_on(session, packet)
    return action


def swallow(until):
    """A black hole: the statement is taken and nothing ever comes back. Ends, unheard, with the event."""
    def action(session, packet):
        until.wait(60)
        raise Lost
    return action


def call(function):
    """Runs a function (of the session and the text) and then lets the statement pass."""
    def action(session, packet):
        function(session, packet[5:].decode(errors="replace"))
        pass_on(session, packet)
    return action


def answer_error(code, message="refused by the test", state="HY000"):
    """The client gets an error packet; the server does not see the statement."""
    def action(session, packet):
        session.client.sendall(error_packet(code, message, state, sequence=1))
    return action


def error_packet(code, message, state="HY000", sequence=0):
    body = b"\xff" + struct.pack("<H", code) + b"#" + state.encode() + message.encode()
    return len(body).to_bytes(3, "little") + bytes([sequence]) + body


class Session:
    """One client's connection and the one to the server that belongs to it: a thread for each direction."""

    def __init__(self, proxy, number, client):
        self.proxy, self.number, self.client = proxy, number, client
        self.upstream = socket.socket(socket.AF_UNIX)
        self.upstream.connect(proxy.server_socket)
        self.swallow, self.replied = threading.Event(), threading.Event()
        self.transaction = []  # the statements since the last BEGIN

    def start(self):
        for target in (self._to_server, self._to_client):
            threading.Thread(target=target, daemon=True).start()

    def close(self):
        self.proxy.forget(self)
        for end in (self.client, self.upstream):
            close_socket(end)

    def close_client(self):
        close_socket(self.client)

    def _to_server(self):
        try:
            while True:
                packet = read_command(self.client)
                if packet[3] == 0 and packet[4] == QUERY:
                    self._query(packet)
                else:
                    self.upstream.sendall(packet)
        except (OSError, EOFError, Lost):
            self.close()

    def _query(self, packet):
        sql = packet[5:].decode(errors="replace")
        if re.match(r"\s*(BEGIN|START)", sql, re.IGNORECASE):
            self.transaction = []
        self.proxy.record(self.number, sql)
        rule = self.proxy.rule_for(sql, self.transaction)
        self.transaction.append(sql)
        if not rule:
            self.upstream.sendall(packet)
            return
        try:
            rule.action(self, packet)
        finally:
            rule.fired.set()

    def _to_client(self):
        try:
            if self.proxy.renumber:
                self.client.sendall(renumbered(read_packet(self.upstream)))
            while True:
                data = self.upstream.recv(65536)
                if not data:
                    raise EOFError
                if self.swallow.is_set():
                    self.replied.set()
                else:
                    self.client.sendall(data)
        except (OSError, EOFError):
            self.replied.set()
            self.close()


class Proxy:
    """A context of its own: start() listens, stop() ends every session. Every knob may be turned while it runs."""

    def __init__(self, server, directory, name="proxy", port=None):
        self.server_socket = server.socket
        self.path = str(Path(directory) / f"{name}.s")
        self.port = port
        self.renumber = False    # hide the server's connection numbers, as multiplexing proxies do
        self.refuse = None       # (code, message) for every new connection
        self.limit = None        # how many sessions there may be; more get 1203
        self.refused = 0
        self.sessions, self.rules, self.statements = {}, [], []
        self._count = 0
        self._lock = threading.Lock()

    def start(self):
        if self.port is None:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(self.path)
        else:
            self.listener = socket.create_server(("127.0.0.1", self.port))
            self.port = self.listener.getsockname()[1]
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def stop(self):
        close_socket(self.listener)
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.drop_all()

    def on(self, pattern, action, nth=1, times=1, after=None):
        rule = Rule(pattern, action, nth, times, after)
        with self._lock:
            self.rules.append(rule)
        return rule

    def clear(self):
        with self._lock:
            self.rules = []

    def drop_all(self):
        with self._lock:
            sessions = list(self.sessions.values())
        for session in sessions:
            session.close()

    def seen(self, pattern):
        """The statements so far that match."""
        wanted = re.compile(pattern, re.IGNORECASE | re.DOTALL)
        with self._lock:
            statements = list(self.statements)
        return [statement for statement in statements if wanted.search(statement.sql)]

    def record(self, session, sql):
        with self._lock:
            self.statements.append(Statement(time.monotonic(), session, sql))
            del self.statements[:-50000]

    def rule_for(self, sql, transaction):
        with self._lock:
            rules = list(self.rules)
        return next((rule for rule in rules if rule.applies(sql, transaction)), None)

    def forget(self, session):
        with self._lock:
            self.sessions.pop(session.number, None)

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            refuse = self.refuse
            if not refuse and self.limit is not None and len(self.sessions) >= self.limit:
                refuse = (1203, "User already has more than 'max_user_connections' active connections")
            try:
                if refuse:
                    self.refused += 1
                    threading.Thread(target=self._turn_away, args=(client, refuse), daemon=True).start()
                    continue
                self._count += 1
                session = Session(self, self._count, client)
                with self._lock:
                    self.sessions[session.number] = session
                session.start()
            except OSError:  # the server is down, or the client has gone
                close_socket(client)

    def _turn_away(self, client, refuse):
        """A full server says so (1040) instead of a greeting; every other refusal comes, as from a server, after the account is known."""
        try:
            sequence = 0
            if refuse[0] != 1040:
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(self.server_socket)
                client.sendall(read_packet(upstream))
                close_socket(upstream)
                sequence = read_packet(client)[3] + 1
            client.sendall(error_packet(*refuse, sequence=sequence))
        except (OSError, EOFError):
            pass
        close_socket(client)


def close_socket(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()


def read_exactly(end, count):
    data = bytearray()
    while len(data) < count:
        part = end.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def read_packet(end):
    head = read_exactly(end, 4)
    return head + read_exactly(end, int.from_bytes(head[:3], "little"))


def read_command(end):
    """A packet with all its continuations: one of the largest size is followed by another."""
    packet = whole = read_packet(end)
    while packet[:3] == b"\xff\xff\xff":
        packet = read_packet(end)
        whole += packet
    return whole


def renumbered(greeting):
    """The server's greeting with another connection number: after the protocol byte and the version, which ends in a NUL."""
    at = greeting.index(b"\0", 5) + 1
    number = (int.from_bytes(greeting[at:at + 4], "little") + 1_000_000).to_bytes(4, "little")
    return greeting[:at] + number + greeting[at + 4:]
