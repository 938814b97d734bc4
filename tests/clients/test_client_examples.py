"""The examples as they are installed, the shortest handlers of clients/README.md, and what each language's own tools say of the files."""
import os
import re
import shutil

import pytest

from client_driver import job_message
from client_languages import CLIENTS, COMPILE, HANDLERS, SCRIPTED, behave, digest_of, example, tool

CHECKS = {"php": ["php", "-l"], "ruby": ["ruby", "-wc"], "node": ["node", "--check"], "perl": ["perl", "-wc", f"-I{CLIENTS / 'perl'}"],
          "python": ["/usr/bin/python3", "-c", "import sys; compile(open(sys.argv[1]).read(), sys.argv[1], 'exec')"]}


@pytest.fixture
def archiver(start, language):
    return start(language, example(language)).greet()


def reports_until(child, wanted):
    """Progress comes first; then what is wanted."""
    reports = []
    while wanted not in (message := child.answer()):
        reports.append(message)
    assert all(0 <= report.get("progress", 0) <= 100 for report in reports)
    return reports, message


@pytest.mark.parametrize("content", [b"", b"short \xff\n", bytes(range(256)) * 12_000], ids=["empty", "short", "3 MB"])
def test_the_example_archives_a_file(archiver, language, tmp_path, content):
    source, target = tmp_path / "a file ü", tmp_path / "archived ü"
    source.write_bytes(content)
    archiver.send(job_message("archive", {"from": str(source), "to": str(target)}))
    _, copied = reports_until(archiver, "step")
    assert copied == {"step": "copied", "data": digest_of(language, content)}
    assert target.read_bytes() == content
    archiver.saved("copied")
    _, verified = reports_until(archiver, "step")
    assert verified == {"step": "verified", "data": None}
    archiver.saved("verified")
    assert archiver.answer() == {"outcome": "succeeded", "result": digest_of(language, content)}
    assert sorted(os.listdir(tmp_path)) == sorted(["a file ü", "archived ü", *[n for n in os.listdir(tmp_path) if n.startswith("stderr")]])
    archiver.finish()


def test_the_example_resumes(archiver, language, tmp_path):
    """The copying is not repeated: its source may even be gone."""
    target = tmp_path / "target"
    target.write_bytes(b"content")
    payload = {"from": str(tmp_path / "source"), "to": str(target)}
    archiver.send(job_message("archive", payload, attempt=2, steps={"copied": digest_of(language, b"content")}))
    assert reports_until(archiver, "step")[1] == {"step": "verified", "data": None}
    archiver.saved("verified")
    assert archiver.answer()["result"] == digest_of(language, b"content")
    archiver.send(job_message("archive", payload, attempt=2, steps={"copied": digest_of(language, b"other")}))
    dead = reports_until(archiver, "outcome")[1]
    assert dead["outcome"] == "dead" and "is not what was copied" in dead["error"]
    archiver.finish()


def test_the_example_stops_when_asked(archiver, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(1 << 20))
    archiver.send(job_message("archive", {"from": str(source), "to": str(target)}), {"cancel": {"id": 17, "claim_no": 3, "reason": "cancel"}})
    assert reports_until(archiver, "outcome")[1] == {"outcome": "cancelled"}
    assert not target.exists() and not list(tmp_path.glob("*.part"))
    archiver.finish()


def test_the_example_tells_errors_apart(archiver, tmp_path):
    for payload in ("no JSON", "[]", "{}", '{"from": 1, "to": 2}', {"from": "/nowhere/at/all", "to": "/nowhere/either"}):
        assert archiver.run("archive", payload)["outcome"] == "dead"
    source = tmp_path / "source"
    source.write_bytes(b"x")
    archiver.send(job_message("archive", {"from": str(source), "to": "/nowhere/at/all"}))
    retry = reports_until(archiver, "outcome")[1]
    assert retry["outcome"] == "retry" and "/nowhere" in retry["error"]
    archiver.finish()


# ---- README.md ----------------------------------------------------------------------------------------------------------------

BLOCKS = {"Python": ("python", "py"), "PHP": ("php", "php"), "Node": ("node", "js"), "Perl": ("perl", "pl"), "Ruby": ("ruby", "rb"), "C": ("c", "c")}


@pytest.mark.parametrize("title", BLOCKS)
def test_the_shortest_handler_works_as_it_is_printed(start, tmp_path, title):
    language, suffix = BLOCKS[title]
    text = (CLIENTS / "README.md").read_text()
    code = re.search(rf"^{title}:\n\n```\w+\n(.*?)```", text, re.M | re.S)[1]
    source = tmp_path / f"shortest.{suffix}"
    source.write_text(code)
    for file in (CLIENTS / language).glob("[lL]easehold.*"):
        shutil.copy(file, tmp_path)
    child = start(language, source, environment={"PERL5LIB": str(tmp_path)}).greet()
    assert child.run("greet", {"name": "wörld"})["result"] == ("hello" if language == "c" else {"hello": "wörld"})
    child.finish()


# ---- Tools ---------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("language", SCRIPTED)
def test_every_file_is_clean_for_the_language_itself(language):
    files = [file for file in (CLIENTS / language).iterdir() if file.is_file()] + [behave(language)]
    assert len(files) == 3
    for file in files:
        said = tool(*CHECKS[language], file)
        assert "warning" not in said.lower(), said


def test_node_is_new_enough():
    assert int(tool("node", "--version").lstrip("v").split(".")[0]) >= 18


@pytest.mark.parametrize("compiler", ["cc", "gcc", "clang"])
def test_c_compiles_without_a_warning(compiler, tmp_path):
    for name in [example("c"), HANDLERS / "behave.c"]:
        tool(compiler, *COMPILE, "-O2", "-o", tmp_path / "program", name)
        tool(compiler, *COMPILE, "-Wshadow", "-Wconversion", "-Wstrict-prototypes", "-fsyntax-only", name)
    # In two files of one program, as a header that is part of both.
    (tmp_path / "other.c").write_text('#include "leasehold.h"\nint other(void);\nint other(void)\n{\n\treturn 1;\n}\n')
    tool(compiler, *COMPILE, "-O2", "-o", tmp_path / "program", example("c"), tmp_path / "other.c")


def test_every_example_is_executable_and_says_what_it_is():
    for language in SCRIPTED:
        assert os.access(example(language), os.X_OK), language
        assert example(language).read_text().startswith("#!/usr/bin/")
