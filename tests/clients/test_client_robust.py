"""Clients under conditions that are not those of the first try: pieces, sizes, ids, locales, prints, and peers that go or lie."""
import json
import os
import signal
import time

import pytest

from client_driver import HELLO, LEASE, job_message, line
from client_languages import behave


def test_many_jobs_in_one_process(behaves):
    first = behaves.run("pid", {})["result"]
    for number in range(300):
        assert behaves.run("echo", str(number))["result"] == number
        assert behaves.run("fail", {"message": "m"})["outcome"] == "retry"
    assert behaves.run("pid", {})["result"] == first == behaves.process.pid
    behaves.finish()


@pytest.mark.parametrize("number", [1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_an_id_comes_back_as_it_was(behaves, number):
    """Each number beyond 2^53 has neighbours that a double cannot tell from it."""
    other = number - 1 if number > 1 else 2
    steps = {"id": {"id": other}, "old": [{"job": {"id": other}}, '{"id":1}']}
    behaves.send(job_message("describe", {"id": other}, id=number, claim_no=2**32 - 1, steps=steps))
    answer = behaves.receive()
    assert (answer["id"], answer["claim_no"]) == (number, 2**32 - 1)
    assert answer["result"]["id"] == str(number) and answer["result"]["claim_no"] == 2**32 - 1
    behaves.send(job_message("steps", {}, id=number))
    assert behaves.receive() == {"id": number, "claim_no": 3, "step": "charged", "data": {"amount": 12, "who": "ü"}}
    behaves.send({"step": {"id": other, "claim_no": 3, "name": "charged", "saved": False, "why": "another job's"}},
                 {"cancel": {"id": other, "claim_no": 3, "reason": "lease"}},
                 {"step": {"id": number, "claim_no": 3, "name": "charged", "saved": True}})
    assert behaves.receive()["step"] == "mailed"
    behaves.send({"cancel": {"id": number, "claim_no": 3, "reason": "cancel"}},
                 {"step": {"id": number, "claim_no": 3, "name": "mailed", "saved": True}})
    assert behaves.receive()["result"][2] == "cancel"
    behaves.finish()


def test_members_in_any_order_and_unknown_ones(behaves):
    job = job_message("describe", "{}", future={"id": 99, "kind": "echo"})["job"]
    turned = {"later": 1, "job": dict(reversed(job.items()))}
    behaves.send({"weather": "fine"}, turned)
    assert behaves.answer()["result"]["payload_text"] == "{}"
    spaced = json.dumps({"job": job}, indent=1).replace("\n", "\t").encode() + b"\r\n"
    behaves.send(spaced)
    assert behaves.answer()["result"]["lease_id"] == LEASE
    behaves.send(json.dumps({"job": {**job, "payload": "ü𝄞"}}, ensure_ascii=False).encode() + b"\n")
    assert behaves.answer()["result"]["payload_text"] == "ü𝄞"
    minimal = {"job": {name: job[name] for name in ("id", "claim_no", "kind", "payload")}}
    minimal["job"]["kind"] = "echo"
    behaves.send(minimal)
    # An empty object is an empty array in PHP.
    assert behaves.answer() == {"outcome": "succeeded", "result": [] if "php" in behaves.process.args[0] else {}}
    behaves.finish()


def test_a_line_that_comes_in_pieces(start, language):
    child = start(language, behave(language))
    for byte in line(HELLO):
        child.send(bytes([byte]))
    assert child.receive(20)["hello"]["protocol"] == 1
    text = json.dumps(job_message("echo", {"a": "ü€𝄞"}), ensure_ascii=False).encode() + b"\n"
    for at in range(len(text)):
        child.send(text[at:at + 1])
        if at % 50 == 0:
            time.sleep(0.001)  # so that the client really reads pieces
    assert child.answer()["result"] == {"a": "ü€𝄞"}
    child.send(job_message("echo", "1"), *[{"cancel": {"id": 17, "claim_no": 2, "reason": "lease"}}] * 3)
    assert child.answer()["result"] == 1
    child.finish()


@pytest.mark.parametrize("megabytes", [5, 15])
def test_a_big_payload(behaves, language, megabytes):
    if language == "perl" and megabytes > 5:
        megabytes = 6  # JSON::PP takes a second for each
    text = "[" + '"\\u00fc ü \\"quoted\\" 𝄞",' * (megabytes << 20 >> 5) + '"the end"]'
    answer = behaves.run("size", text, seconds=60)
    assert answer == {"outcome": "succeeded", "result": [len(text.encode()), text[-9:]]}
    behaves.finish()


ENVIRONMENTS = {"C": {}, "UTF-8": {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"},
                "odd": {"LC_ALL": "POSIX", "PERL_UNICODE": "SDAL", "RUBYOPT": "-E ISO-8859-1:UTF-8"}}


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
@pytest.mark.parametrize("sockets", [False, True], ids=["pipes", "sockets"])
def test_prints_do_not_break_the_protocol(start, language, environment, sockets):
    # Over anything but a pipe, Node cannot keep descriptors of its own: then it answers for its own streams only.
    own = language == "node" and sockets
    child = start(language, behave(language), environment=environment, sockets=sockets).greet()
    for _ in range(3):
        assert child.run("print_own" if own else "print", {}) == {"outcome": "succeeded", "result": "read 0"}
    assert child.run("echo", {"a": "ü"})["result"] == {"a": "ü"}
    log = child.finish()
    assert [log.count(text) for text in ("printed\n", "written\n", "from the child\n")] == [3, 3, 0 if own else 3]
    assert log.count("hé\n") == 3 or "RUBYOPT" in environment  # which asks for another encoding


def test_the_end(start, language):
    """Exit 0 at the end of standard input, before and after the greeting; what is begun is still answered."""
    child = start(language, behave(language))
    child.finish()
    start(language, behave(language)).greet().finish()
    child = start(language, behave(language)).greet()
    child.send(job_message("steps", {}))
    assert child.answer()["step"] == "charged"
    child.hang_up()
    answer = child.answer()
    assert answer["outcome"] == "retry" and "was not saved: Leasehold is gone" in answer["error"]
    assert child.receive() is None and child.wait() == 0


def test_half_a_line_at_the_end_is_no_job(start, language):
    child = start(language, behave(language)).greet()
    child.send(line(job_message("echo", "1"))[:-1])
    child.hang_up()
    assert child.receive() is None and child.wait() == 0


GREETINGS = [b'{"hello":{"protocol":2}}\n', b'{"hello":{}}\n', b'{"hello":1}\n', b'{"job":{"id":1}}\n', b"[1]\n", b"hello\n", b"\n", b'{"hello":\xff}\n']


@pytest.mark.parametrize("text", GREETINGS)
def test_another_protocol_is_refused(start, language, text):
    child = start(language, behave(language))
    child.send(text)
    assert child.receive(20) is None
    assert child.wait() == 1
    assert "leasehold." in child.log.lower()
    assert ("speaks protocol 1, but was greeted with" in child.log or "this is no message of Leasehold" in child.log)


@pytest.mark.parametrize("text", [b"garbage\n", b"[]\n", b'{"job":\n', b'{"a":"\xff"}\n', b"\n"])
def test_garbage_ends_the_process_with_a_clear_text(start, language, text):
    child = start(language, behave(language)).greet()
    child.send(text)
    assert child.receive() is None
    assert child.wait() == 1
    assert "this is no message of Leasehold" in child.log


def test_sigterm_ends_it_at_once(start, language):
    child = start(language, behave(language)).greet()
    child.process.send_signal(signal.SIGTERM)
    assert child.receive() is None and child.wait() == -signal.SIGTERM
    child = start(language, behave(language)).greet()
    child.send(job_message("stop", {"then": "finish"}))
    assert child.answer() == {"progress": 1}
    child.process.send_signal(signal.SIGTERM)
    assert child.receive() is None and child.wait() == -signal.SIGTERM


def test_a_leasehold_that_is_gone_is_not_an_endless_loop(start, language):
    """Both pipes break, as when the daemon is killed."""
    child = start(language, behave(language)).greet()
    child.send(job_message("steps", {}))
    assert child.answer()["step"] == "charged"
    os.close(child.output)
    child.output = -1
    child.hang_up()
    child.wait()


def test_nothing_is_lost_when_the_reader_is_slow(behaves):
    """A result that is larger than the pipe."""
    text = "ü" * 200_000
    behaves.send(job_message("raw", text))
    time.sleep(0.2)  # it has met a full pipe by now, or will: either way all of it must arrive
    assert behaves.answer(30)["result"] == text
    behaves.finish()
