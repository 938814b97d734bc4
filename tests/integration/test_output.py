"""What goes into a handler and what comes out of it: bytes, caps, pipes, descriptors."""
import hashlib
import re

import pytest

from harness.waiting import until

DIGEST = ("digest", "/bin/sh", "-c", "sha256sum | cut -c1-64 | tr -d '\\n'")


def test_payloads_arrive_byte_for_byte(site):
    """BR-45, BR-53, BR-55: nothing interprets a payload; odd, oversized and undecodable ones are in one batch, and each gives the right result."""
    payloads = ["", "null", "{", "[" * 1_000_000, "a\0b\r\n'\"\\$(rm -rf x)`", "žluťoučký 👍", "x" * 65536, "y" * 65537, "'" * 10_000_000, "{}"]
    ids = [site.database.enqueue("digest", payload=payload) for payload in payloads]
    daemon = site.start(handlers=[site.handler(*DIGEST)])
    for payload, id in zip(payloads, ids):
        job = site.database.wait(id, "succeeded", 20)
        assert job["result"] == hashlib.sha256(payload.encode()).hexdigest(), payload[:20]
        assert job["attempt"] == 1
    assert daemon.sanitized or daemon.rss_kb() < 150_000


def test_a_result_is_capped_marked_and_valid_text(site):
    """The cut never splits a character; what is not UTF-8 is replaced, so that any server takes it."""
    site.start(handlers=[site.handler("sh", max_result="4KiB")])
    cases = {"i=0; while [ $i -lt 3000 ]; do printf '\\303\\251'; i=$((i+1)); done": r"^é{1500,2048}[^é]", "printf 'a\\377\\376b\\000c'": r"^a.+b",
             "printf 'plain'": r"^plain$", "printf ''": r"^$"}
    jobs = {site.database.enqueue("sh", payload=script): pattern for script, pattern in cases.items()}
    for id, pattern in jobs.items():
        job = site.database.wait(id, "succeeded")
        assert re.search(pattern, job["result"] or ""), (pattern, (job["result"] or "")[-60:])
        assert len((job["result"] or "").encode()) <= 4096 + 128


def test_stderr_tail_is_kept_sanitised(site):
    """BR-52: bytes that no charset knows, a NUL, a character of four bytes: the failure is stored, as valid text, and logged on single lines."""
    daemon = site.start()
    id = site.database.enqueue("sh", payload=r"printf '\377\376\222a \360\237\221\215 \000 tail\nforged line' >&2; exit 65")
    job = site.database.wait(id, "dead")
    assert "👍" in job["last_error"] and "tail" in job["last_error"] and "exit status 65" in job["last_error"]
    assert not daemon.grep("^forged line")


def test_a_flood_on_stderr_with_a_small_packet(site):
    """BR-51: an error text that no packet would take is cut with a mark, kept in little memory, and is not mistaken for a lost connection."""
    site.server.client("SET GLOBAL max_allowed_packet=1048576")
    try:
        daemon = site.start()
        site.database.wait(site.database.enqueue("note"), "succeeded")
        before = daemon.rss_kb()
        flood = site.database.enqueue("sh", payload="yes 'a long line of complaint' | head -c 40000000 >&2; exit 1", max_attempts=1)
        big = site.database.enqueue("sh", payload="yes | head -c 40000000; exit 0")
        others = site.database.enqueue("note", 20)
        job = site.database.wait(flood, "dead", 20)
        site.database.wait([big, *others], "succeeded", 20)
        assert "complaint" in job["last_error"] and len(job["last_error"].encode()) < 65536
        assert job["attempt"] == 1 and (daemon.sanitized or daemon.rss_kb() < before + 20_000)
    finally:
        site.server.client("SET GLOBAL max_allowed_packet=67108864")


@pytest.mark.parametrize("script", [
    "head -c 10000000 /dev/zero", "head -c 10000000 /dev/zero >&2", "head -c 10000000 /dev/zero & head -c 10000000 /dev/zero >&2; wait",
    "exec >&- 2>&-; sleep 0.2", "exec <&-; sleep 0.2", "exec 3>&-; echo ok", "yes '{\"progress\": 1}' | head -n 100000 >&3",
    "(exec sleep 3) & exit 0"], ids=["stdout", "stderr", "both", "closed early", "stdin unread", "control closed", "control flood", "heir of the pipes"])
def test_no_pipe_ever_hangs_a_job(site, script):
    """BR-74: full pipes, closed pipes, and a grandchild that keeps them: all finish in a few seconds."""
    site.start(handlers=[site.handler("sh", log_stderr=False)])
    id = site.database.enqueue("sh", payload=script)
    site.database.wait(id, "succeeded", 5)


def test_descriptors_and_signals_of_a_handler(site):
    """BR-71: a handler has its four descriptors and no signal ignored or blocked."""
    site.start(handlers=[site.handler("look", "/bin/sh", "-c", "ls /proc/self/fd | tr '\\n' ' '; exec grep -E 'Sig(Ign|Blk)|ShdPnd' /proc/self/status")])
    job = site.database.wait(site.database.enqueue("look"), "succeeded")
    descriptors = job["result"].split("\n")[0].split("ShdPnd")[0].split()
    assert descriptors[:4] == ["0", "1", "2", "3"] and len([fd for fd in descriptors if fd.isdigit()]) <= 5, job["result"]
    masks = dict(re.findall(r"(Sig\w+):\s+(\w+)", job["result"]))
    internal = 0x180000000  # the two that the C library keeps to itself and ignores in every program it spawns
    assert int(masks["SigBlk"], 16) == 0 and int(masks["SigIgn"], 16) & ~internal == 0, masks


def test_limits_and_directory_of_a_handler(site):
    (site.directory / "home").mkdir()
    site.start(handlers=[site.handler("sh", cwd=str(site.directory / "home"), limits={"files": 32, "core": 0, "cpu": 1})])
    where = site.database.enqueue("sh", payload="pwd; ulimit -n; ulimit -c")
    spin = site.database.enqueue("sh", payload="trap '' XCPU; while :; do :; done", max_attempts=1)
    assert site.database.wait(where, "succeeded")["result"].split() == [str(site.directory / "home"), "32", "0"]
    assert re.search("SIGXCPU|SIGKILL", site.database.wait(spin, "dead", 15)["last_error"])
