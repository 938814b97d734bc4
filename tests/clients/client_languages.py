"""The six clients: where each is, how it is started, and what its own tools say of it."""
import hashlib
import os
import shutil
import subprocess
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "clients"
HANDLERS = Path(__file__).resolve().parent / "handlers"

INTERPRETERS = {
    "python": ["/usr/bin/python3"],
    "php": ["php"],
    "node": ["node"],
    "perl": ["perl"],
    "ruby": ["ruby"],
}
SUFFIXES = {"python": "py", "php": "php", "node": "js", "perl": "pl", "ruby": "rb", "c": "c"}
COMPILE = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c99", f"-I{CLIENTS / 'c'}"]
COMPILERS = {"c": ["cc", "-O2", *COMPILE], "c-sanitized": ["cc", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *COMPILE]}
SCRIPTED = list(INTERPRETERS)
LANGUAGES = SCRIPTED + list(COMPILERS)


def build(language, source, directory):
    """The command that runs a source file."""
    if language in INTERPRETERS:
        return [*INTERPRETERS[language], source]
    program = directory / f"{source.stem}-{language}"
    if not program.exists():
        tool(*COMPILERS[language], "-o", program, source)
    return [program]


def behave(language):
    return HANDLERS / f"behave.{SUFFIXES[plain(language)]}"


def example(language):
    return CLIENTS / plain(language) / f"example.{SUFFIXES[plain(language)]}"


def plain(language):
    """Without the way in which it is compiled."""
    return language.split("-")[0]


def digest_of(language, content):
    """What the example of a language finds out of a file."""
    if plain(language) == "c":
        return {"bytes": len(content), "crc32": f"{zlib.crc32(content):08x}"}
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def tool(*command):
    """Runs a tool that must be there and must not complain."""
    assert shutil.which(str(command[0])), f"{command[0]} is not installed: scripts/packages test"
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
