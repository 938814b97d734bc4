"""Files that the daemon must refuse, and how it says so."""
import re
import subprocess

import pytest

from harness.daemon import BINARY, HANDLERS, config_text, merge

EXIT_CONFIG = 78

# What is wrong with the file, and the words that the refusal must hold.
CONTRADICTIONS = {
    "heartbeat against lease": ({"lease": {"length": "30s", "heartbeat": "11s"}}, ["lease.heartbeat", "lease.length"]),
    "grace against lease": ({"handlers": [{"kind": "a", "command": ["/bin/true"], "kill_grace": "1s"}]}, ["kill_grace", "lease.length"]),
    "lease of nothing": ({"lease": {"length": "0s"}}, ["length"]),
    "lease below nothing": ({"lease": {"length": "-3s"}}, ["length"]),
    "a unit that is none": ({"lease": {"length": "3x"}}, ["length", "3x"]),
    "no unit": ({"lease": {"length": "3"}}, ["length"]),
    "interval against lease": ({"recovery": {"interval": "4s"}}, ["interval", "length"]),
    "poll against its maximum": ({"pools": [{"name": "p", "poll": "2s", "poll_max": "1s"}]}, ["poll", "poll_max"]),
    "a queue in two pools": ({"pools": [{"name": "a", "queues": ["q"]}, {"name": "b", "queues": ["q"]}]}, ["q"]),
    "a kind twice": ({"handlers": [{"kind": "a", "command": ["/bin/true"]}] * 2}, ["a"]),
    "no handler command": ({"handlers": [{"kind": "a"}]}, ["command"]),
    "a relative command": ({"handlers": [{"kind": "a", "command": ["true"]}]}, ["command", "true"]),
    "more environment than a program can be given": ({"handlers": [{"kind": "a", "command": ["/bin/true"], "kill_grace": "500ms",
                                                                    "env": ["X=" + "x" * 200_000]}]}, ["command", "env"]),
    "string for int": ({"pools": [{"name": "p", "threads": "four"}]}, ["threads"]),
    "int for duration": ({"lease": {"length": 3}}, ["length"]),
    "out of range": ({"pools": [{"name": "p", "threads": 100000}]}, ["threads"]),
    "64 bits and more": ({"database": {"port": 2 ** 70}}, ["port"]),
    "an unknown choice": ({"log": {"level": "loud"}}, ["level", "loud"]),
}
MISSPELT = {"database": ["hots", "pasword"], "lease": ["lenght", "hartbeat"], "recovery": ["intervall", "max_orphan"], "instance": ["nmae"],
            "retention": ["ledgers"], "log": ["levle"]}


@pytest.fixture
def refused(binary, tmp_path):
    """Runs both commands that read a file, and returns what they say; the daemon's own word must be the checker's."""
    def run(text):
        file = tmp_path / "bad.conf"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        file.chmod(0o600)
        said = []
        for command in ("run", "check"):
            done = subprocess.run([str(BINARY), "-c", str(file), command], capture_output=True, text=True, timeout=20, errors="replace")
            assert done.returncode == EXIT_CONFIG, f"{command}: exit {done.returncode}: {done.stdout}{done.stderr}"
            said.append(done.stdout + done.stderr)
        return said
    return run


def groups(changes):
    base = {"database": {"socket": "/nonexistent/s", "password": "x"}, "lease": {"length": "3s", "heartbeat": "1s"},
            "pools": [{"name": "p", "queues": ["q"]}], "recovery": {"interval": "1s"},
            "handlers": [{"kind": "x", "command": [str(HANDLERS / "note.sh")], "kill_grace": "500ms"}]}
    return merge(base, changes)


def test_contradictions_ranges_and_types(refused):
    """BR-10, BR-55, BR-90: refused before anything is done, both keys named, with file and line."""
    wrong = []
    for name, (changes, words) in CONTRADICTIONS.items():
        for said in refused(config_text(groups(changes))):
            missing = [word for word in words if word not in said]
            if missing or not re.search(r"bad\.conf:\d+", said):
                wrong.append(f"{name}: {missing} not in {said!r}")
    assert not wrong, "\n".join(wrong)


def test_misspelt_keys_are_all_told_at_once(refused):
    """BR-90: every error of a file in one go, each with its line and its key."""
    changes = {group: {key: "x" for key in keys} for group, keys in MISSPELT.items()}
    changes["handlers"] = [{"kind": "a", "command": ["/bin/true"], "kill_grace": "500ms", "retyAfter": "5s"}]
    text = config_text(groups(changes))
    for said in refused(text):
        for key in [*sum(MISSPELT.values(), []), "retyAfter"]:
            line = next(number for number, line in enumerate(text.splitlines(), 1) if f"{key} =" in line)
            assert re.search(rf"bad\.conf:{line}:.*{key}", said), f"{key} (line {line}) not in {said}"


@pytest.mark.parametrize("text", [b"lease = {", b"\xef\xbb\xbflease = { length = \"3s\" };}", b'@include "/no/such/file"\n',
                                  b"lease = { length = \"3s\"; length = \"4s\"; };",
                                  b"#" * 10_000_000, b"nonsense = 1;"], ids=["cut", "BOM and stray", "include", "duplicate", "10 MB", "unknown group"])
def test_files_that_are_not_a_configuration(refused, text):
    """BR-90"""
    for said in refused(text):
        assert "bad.conf" in said or "/no/such/file" in said


def test_a_missing_file(binary, tmp_path):
    done = subprocess.run([str(BINARY), "-c", str(tmp_path / "none.conf"), "run"], capture_output=True, text=True, timeout=20)
    assert done.returncode == EXIT_CONFIG and "none.conf" in done.stderr


def test_a_secret_is_never_printed(site):
    """Not by a failing login, not in the log of a run, not by the status."""
    config = merge(site.config(), {"database": {"password": "swordfish-9"}})
    done = site.cli("check", config=config, check=False)
    assert done.returncode != 0 and "swordfish-9" not in done.stdout + done.stderr
    a = site.start()
    site.database.wait(site.database.enqueue("note"), "succeeded")
    a.signal(10)
    a.terminate()
    assert "only-for-tests" not in a.log()
