"""The helpers of clients/ under the real daemon: each language's example runs real jobs in a warm process, configured as clients/README.md says."""
import json
import os
import shutil
import sys
import threading
from pathlib import Path

import pytest

from harness.waiting import until

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clients"))

from client_languages import build, digest_of, example  # noqa: E402

LANGUAGES = ["python", "php", "node", "perl", "ruby", "c"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(params=LANGUAGES)
def archive(request, site, programs):
    """A daemon that serves the kind `archive` with the example of a language, and what that finds out of a file."""
    program, *arguments = map(str, build(request.param, example(request.param), programs))
    handler = site.handler("archive", shutil.which(program), *arguments, type="stream", processes=1)
    site.start(handlers=[handler])
    return lambda content: digest_of(request.param, content)


def payload(source, target):
    return json.dumps({"from": str(source), "to": str(target)})


def steps(site, id):
    return {row["name"]: json.loads(row["data"]) for row in site.database.sql("SELECT name, data FROM job_steps WHERE job_id=%s", id)}


def test_jobs_are_done_one_after_the_other(site, archive):
    """Ten files of all sizes, and two jobs that cannot be done among them, in one process."""
    contents = {f"file {n} ü": bytes([n]) * (n ** 5 * 30) for n in range(10)}
    ids = {}
    for name, content in contents.items():
        (site.directory / name).write_bytes(content)
        ids[name] = site.database.enqueue("archive", payload=payload(site.directory / name, site.directory / f"{name}.copy"))
    dead = [site.database.enqueue("archive", payload=text) for text in (payload("/nowhere/at/all", "/nowhere/either"), "no JSON: ü")]
    for name, id in ids.items():
        job = site.database.wait(id, "succeeded", 30)
        assert json.loads(job["result"]) == archive(contents[name])
        assert job["attempt"] == 1
        assert (site.directory / f"{name}.copy").read_bytes() == contents[name]
        assert steps(site, id) == {"copied": archive(contents[name]), "verified": None}
    errors = [site.database.wait(id, "dead", 30)["last_error"] for id in dead]
    assert "does not exist" in errors[0]
    # In C it is the handler that looks whether the payload is JSON.
    assert "the payload is not" in errors[1]


def test_a_later_attempt_gets_the_steps_back(site, archive):
    """The first attempt has copied; the second has only the copy, and what was saved about it."""
    target = site.directory / "copy"
    target.write_bytes(b"content")
    id = site.database.enqueue("archive", payload=payload("/nowhere/at/all", target), run_in=3600)
    site.database.sql("INSERT INTO job_steps (job_id, name, seq, save_no, claim_no, data) VALUES (%s, 'copied', 1, 1, 0, %s)", id,
                      json.dumps(archive(b"content")))
    site.database.sql("UPDATE jobs SET run_at=UTC_TIMESTAMP(6) WHERE id=%s", id)
    job = site.database.wait(id, "succeeded", 30)
    assert json.loads(job["result"]) == archive(b"content")
    assert steps(site, id) == {"copied": archive(b"content"), "verified": None}


def test_an_error_is_tried_again(site, archive):
    """The target's directory is missing at first."""
    source, directory = site.directory / "source", site.directory / "later"
    source.write_bytes(b"content")
    id = site.database.enqueue("archive", payload=payload(source, directory / "copy"), max_attempts=50)
    until(lambda: site.database.job(id)["last_error"], 20, "the first attempt")
    assert str(directory) in site.database.job(id)["last_error"]
    directory.mkdir()
    job = site.database.wait(id, "succeeded", 20)
    assert job["attempt"] > 1 and (directory / "copy").read_bytes() == b"content"


def feed(pipe, stop):
    """Gives a reader a little all the time, until it goes away."""
    try:
        with open(pipe, "wb", buffering=0) as file:
            while not stop.wait(0.01):
                file.write(bytes(65536))
    except BrokenPipeError:
        pass


def test_a_job_is_stopped_and_its_process_is_kept(site, archive):
    """It copies what has no end, until it is asked to stop; then the next job is done."""
    source, target = site.directory / "source", site.directory / "copy"
    os.mkfifo(source)
    stop = threading.Event()
    feeder = threading.Thread(target=feed, args=(source, stop))
    feeder.start()
    try:
        id = site.database.enqueue("archive", payload=payload(source, target))
        until(lambda: site.database.job(id)["progress_note"], 20, "some progress")
        site.cli("cancel", id)
        job = site.database.wait(id, "cancelled", 20)
        assert job["attempt"] == 1
    finally:
        stop.set()
        os.close(os.open(source, os.O_RDONLY | os.O_NONBLOCK))  # if it still waits for a reader
        feeder.join()
    until(lambda: not list(site.directory.glob("*.part")), 5, "the half of a copy to go")
    assert not target.exists()
    source.unlink()
    source.write_bytes(b"content")
    again = site.database.enqueue("archive", payload=payload(source, target))
    assert json.loads(site.database.wait(again, "succeeded", 20)["result"]) == archive(b"content")
