"""What a handler in any of the six languages can do, and that it comes to the same on the wire in all of them."""
import pytest

from client_driver import job_message
from client_languages import SCRIPTED

# The class that fail() throws, where the language has such a thing.
FAILURE = {"python": "ValueError: ", "php": "UnexpectedValueException: ", "node": "RangeError: ", "perl": "Failure: ", "ruby": "ArgumentError: "}
LONGEST = 31622400000

# kind, payload, answer: the answer is complete. What several languages word differently is below.
ANSWERS = [
    ("nothing", {}, {"outcome": "succeeded"}),
    ("echo", {"a": [1, -2.5, True, None, "x"], "b": {"c": ""}}, {"outcome": "succeeded", "result": {"a": [1, -2.5, True, None, "x"], "b": {"c": ""}}}),
    ("echo", '"text"', {"outcome": "succeeded", "result": "text"}),
    ("echo", " 7 ", {"outcome": "succeeded", "result": 7}),
    ("echo", "false", {"outcome": "succeeded", "result": False}),
    ("echo", "0", {"outcome": "succeeded", "result": 0}),
    ("echo", '""', {"outcome": "succeeded", "result": ""}),
    ("echo", {"deep": "ü € 𝄞 \u2028 \0 \x7f \" \\ / \n \t"}, {"outcome": "succeeded", "result": {"deep": "ü € 𝄞 \u2028 \0 \x7f \" \\ / \n \t"}}),
    ("echo", r'"\u00fc\ud834\udd1e\u0000\/"', {"outcome": "succeeded", "result": "ü𝄞\0/"}),
    ("echo", "[" * 80 + "]" * 80, {"outcome": "succeeded", "result": "nested"}),
    ("echo", "[9007199254740991,-9007199254740991,0.12345678901234500000]",
     {"outcome": "succeeded", "result": [2**53 - 1, 1 - 2**53, 0.123456789012345]}),
    ("echo", r'["\"[[{{18446744073709551616"]', {"outcome": "succeeded", "result": ['"[[{{18446744073709551616']}),
    ("raw", "this is no JSON: ü \\ \" \n", {"outcome": "succeeded", "result": "this is no JSON: ü \\ \" \n"}),
    ("size", "nul \0 and ü\0 the end.", {"outcome": "succeeded", "result": [22, " the end."]}),
    ("retry", {"message": "busy: ü"}, {"outcome": "retry", "error": "busy: ü"}),
    ("retry", {"message": "busy", "ms": 1500}, {"outcome": "retry", "error": "busy", "retry_after_ms": 1500}),
    ("retry", {"message": "at once", "ms": 0}, {"outcome": "retry", "error": "at once", "retry_after_ms": 0}),
    ("retry", {"message": "next year", "ms": LONGEST}, {"outcome": "retry", "error": "next year", "retry_after_ms": LONGEST}),
    ("snooze", {"ms": 250}, {"outcome": "snooze", "snooze_ms": 250}),
    ("snooze", {"ms": LONGEST}, {"outcome": "snooze", "snooze_ms": LONGEST}),
    ("dead", {"message": "no such user: ü"}, {"outcome": "dead", "error": "no such user: ü"}),
    ("look", {}, {"outcome": "succeeded", "result": "no"}),
]


@pytest.mark.parametrize("kind,payload,expected", ANSWERS, ids=[f"{kind}-{n}" for n, (kind, _, _) in enumerate(ANSWERS)])
def test_answer(behaves, kind, payload, expected):
    answer = behaves.run(kind, payload)
    if expected.get("result") == "nested":
        for _ in range(79):
            answer["result"], = answer["result"]
        expected = {"outcome": "succeeded", "result": []}
    assert answer == expected
    assert type(answer.get("result")) is type(expected.get("result"))
    behaves.finish()


def test_what_a_handler_knows(behaves):
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    answer = behaves.run("describe", '{"a": "ü"}', queue="slow", attempt=2, max_attempts=7, timeout_ms=0, lease_ms=3600000, traceparent=trace)
    assert answer["result"] == {
        "id": "17", "claim_no": 3, "kind": "describe", "queue": "slow", "attempt": 2, "max_attempts": 7, "timeout_ms": 0, "lease_ms": 3600000,
        "lease_id": "0e8cdd9c-95b5-4d22-b1ac-2b1d3f6b8a11", "traceparent": trace, "payload_text": '{"a": "ü"}'}
    assert behaves.run("describe", "{}")["result"]["traceparent"] is None
    behaves.finish()


def test_an_error_is_tried_again_with_its_text(behaves, language):
    assert behaves.run("fail", {"message": "no route: ü"}) == {"outcome": "retry", "error": FAILURE.get(language, "") + "no route: ü"}
    log = behaves.finish()
    # Where there are exceptions, whoever looks for the cause finds more in the log.
    assert ("no route: ü" in log) == (language in FAILURE)


@pytest.mark.parametrize("kind", ["fail", "retry", "dead"])
@pytest.mark.parametrize("letter", ["n", "ü", "€", "𝄞"])
def test_an_error_is_cut_between_two_characters(behaves, kind, letter):
    error = behaves.run(kind, {"message": "." + letter * 1500})["error"]
    assert 490 <= len(error.encode()) <= 500
    assert set(error.rsplit(".", 1)[1]) == {letter}
    behaves.finish()


@pytest.mark.parametrize("kind", ["retry", "snooze"])
@pytest.mark.parametrize("ms", [-5, LONGEST + 1000])
def test_a_delay_out_of_range_is_an_error(behaves, kind, ms):
    answer = behaves.run(kind, {"message": "m", "ms": ms})
    assert answer.keys() == {"outcome", "error"}
    assert answer["outcome"] == "retry" and "not a delay of 0 to" in answer["error"]
    behaves.finish()


NO_JSON = ["", " ", "{", '{"a":', "[1,]", "nul", "NaN", "{'a': 1}", '{"a": 1} x', '"\x01"', "01", "1.", '{"a" 1}', "\ufeff"]


@pytest.mark.parametrize("text", NO_JSON)
def test_a_payload_that_is_not_json_is_dead_for_who_wants_json(behaves, text):
    answer = behaves.run("echo", text)
    assert answer["outcome"] == "dead" and answer["error"].startswith("the payload is not JSON")
    assert behaves.run("raw", text)["result"] == text
    behaves.finish()


def test_half_a_surrogate_pair_in_a_payload_is_not_sent_back(behaves):
    """Some JSON libraries let it in; none may let it out, for it has no UTF-8."""
    answer = behaves.run("echo", r'{"a": "\ud834"}')
    assert answer["outcome"] == "dead" and "JSON" in answer["error"]
    behaves.finish()


@pytest.mark.parametrize("where", ["result", "step"])
@pytest.mark.parametrize("what", ["object", "text", "number"])
def test_what_json_cannot_hold_makes_the_job_dead(behaves, language, where, what):
    if language == "node" and what == "number":
        # JSON.stringify() makes null of it, as every user of it knows.
        what = "object"
    answer = behaves.run("unencodable", {"where": where, "what": what})
    assert answer["outcome"] == "dead"
    assert ("result" if where == "result" else "step odd") in answer["error"] and "JSON" in answer["error"]
    assert behaves.run("echo", "1")["result"] == 1
    behaves.finish()


def test_what_leasehold_could_not_read_is_not_sent(behaves, language):
    """It takes lines of at most 100 levels, and whole numbers of 64 bits: beyond, a line would cost the process, attempt after attempt."""
    for payload in ("[" * 500 + "]" * 500, '{"a":' * 150 + "1" + "}" * 150):
        answer = behaves.run("echo", payload)
        assert answer["outcome"] == "dead" and "result" in answer["error"]
    # What the language itself makes of such a number may be something that fits.
    answer = behaves.run("echo", "[1, -9223372036854775809, 9223372036854775808]")
    if language in ("python", "ruby") or language.startswith("c"):
        assert answer["outcome"] == "dead" and "result" in answer["error"]
    else:
        assert answer["outcome"] == "dead" or all(isinstance(n, (str, float)) for n in answer["result"][1:])
    if language != "node":
        assert behaves.run("echo", "[9223372036854775807, -9223372036854775808]")["result"] == [2**63 - 1, -2**63]
    behaves.finish()


def test_an_unknown_kind_is_tried_again(behaves):
    answer = behaves.run("toString", {})
    assert answer["outcome"] == "retry" and "no handler for the kind toString" in answer["error"]
    behaves.finish()


def test_progress(behaves):
    behaves.send(job_message("progress", {}))
    assert behaves.answer() == {"progress": 0}
    assert behaves.answer() == {"progress": 40.5, "note": "half ünd"}
    note = behaves.answer()
    assert note.keys() == {"note"} and 255 <= len(note["note"]) <= 1020 and set(note["note"]) == {"n"}
    assert behaves.answer() == {"progress": 100}
    assert behaves.answer() == {"progress": 0}
    assert behaves.answer() == {"outcome": "succeeded"}
    behaves.finish()


CHARGED = {"amount": 12, "who": "ü"}


def test_fresh_steps(behaves):
    behaves.send(job_message("steps", {}))
    assert behaves.answer() == {"step": "charged", "data": CHARGED}
    behaves.saved("charged")
    assert behaves.answer() == {"step": "mailed", "data": None}
    behaves.saved("mailed")
    assert behaves.answer() == {"outcome": "succeeded", "result": [CHARGED, None, None]}
    assert behaves.finish().count("ran charge") == 1


def test_steps_of_an_earlier_attempt_are_not_done_again(behaves):
    earlier = {"other": [1], "charged": {"amount": 11, "who": "€", "more": {"id": 5, "payload": "x"}}, "mailed": None}
    assert behaves.run("steps", {}, steps=earlier) == {"outcome": "succeeded", "result": [earlier["charged"], None, None]}
    behaves.send(job_message("steps", {}, steps={"charged": 0}))
    assert behaves.answer() == {"step": "mailed", "data": None}
    behaves.saved("mailed")
    assert behaves.answer()["result"] == [0, None, None]
    assert "ran charge" not in behaves.finish()


def test_a_step_counts_only_once_it_is_saved(behaves):
    """It waits for the answer, whatever else comes meanwhile, and takes no other answer for it."""
    behaves.send(job_message("steps", {}))
    assert behaves.answer()["step"] == "charged"
    for wrong in ({"id": 18}, {"claim_no": 2}, {"name": "mailed"}):
        behaves.send({"step": {"id": 17, "claim_no": 3, "name": "charged", "saved": True, **wrong}})
    behaves.cancel("cancel", claim_no=2)
    behaves.cancel("shutdown")
    behaves.send({"news": {"id": 17}})
    with pytest.raises(AssertionError, match="nothing within"):
        behaves.receive(0.3)
    behaves.saved("charged")
    assert behaves.answer()["step"] == "mailed"
    behaves.saved("mailed")
    assert behaves.answer()["result"] == [CHARGED, None, "shutdown"]
    behaves.finish()


def test_a_step_that_is_refused_ends_the_attempt(behaves):
    behaves.send(job_message("steps", {}))
    assert behaves.answer()["step"] == "charged"
    behaves.saved("charged", False, why="the lease is lost: ü")
    answer = behaves.answer()
    assert answer["outcome"] == "retry" and "step charged was not saved: the lease is lost: ü" in answer["error"]
    behaves.send(job_message("steps", {}))
    assert behaves.answer()["step"] == "charged"
    behaves.saved("charged", False)
    assert "no reason given" in behaves.answer()["error"]
    assert behaves.run("echo", "1")["result"] == 1
    behaves.finish()


def test_a_step_of_one_name_is_done_once(behaves):
    behaves.send(job_message("again", {}))
    assert behaves.answer()["step"] == "charged"
    behaves.saved("charged")
    assert behaves.answer()["result"] == [CHARGED, CHARGED]
    assert behaves.finish().count("ran charge") == 1


@pytest.mark.parametrize("name", ["", "two words", "ü", "a" * 65, "line\n", "a/b"])
def test_a_name_that_no_step_may_have(behaves, name):
    answer = behaves.run("name", {"name": name})
    assert answer["outcome"] == "retry" and "not a name for a step" in answer["error"]
    behaves.finish()


def test_the_longest_name_of_a_step(behaves):
    name = "A-z_0.9:" * 8
    assert behaves.run("name", {"name": name}) == {"step": name, "data": 1}
    behaves.saved(name)
    assert behaves.answer()["result"] == 1
    behaves.finish()


@pytest.mark.parametrize("reason", ["cancel", "timeout", "lease", "shutdown"])
@pytest.mark.parametrize("kind", ["stop", "busy"])
def test_a_request_to_stop_is_seen(behaves, kind, reason):
    behaves.send(job_message(kind, {"then": "finish"}))
    assert behaves.answer() == {"progress": 1}
    behaves.cancel(reason, id=18)
    behaves.cancel(reason, claim_no=2)
    behaves.cancel(reason)
    assert behaves.answer() == {"outcome": "succeeded", "result": reason}
    assert behaves.run("look", {}) == {"outcome": "succeeded", "result": "no"}
    behaves.finish()


def test_after_a_request_to_stop_any_answer_will_do(behaves):
    for then in ("raise", "fail"):
        behaves.send(job_message("stop", {"then": then}))
        assert behaves.answer() == {"progress": 1}
        behaves.cancel("cancel")
        answer = behaves.answer()
        if then == "raise":
            assert answer == {"outcome": "cancelled"}
        else:
            assert answer["outcome"] == "retry" and "stopped by cancel" in answer["error"]
    behaves.finish()


def test_cancelled_without_a_request_is_an_error(behaves):
    answer = behaves.run("cancelled", {})
    assert answer["outcome"] == "retry" and "cancelled" in answer["error"].lower()
    behaves.finish()


def test_a_request_that_came_with_the_job_is_seen(behaves):
    """All in one piece: what was read beyond the job is not forgotten."""
    behaves.send(job_message("look", {}), {"cancel": {"id": 17, "claim_no": 3, "reason": "timeout"}})
    assert behaves.answer()["result"] == "timeout"
    behaves.send(job_message("cancelled", {}), {"cancel": {"id": 17, "claim_no": 3, "reason": "timeout"}})
    assert behaves.answer() == {"outcome": "cancelled"}
    # A short line behind a long one that takes several reads.
    behaves.send(job_message("stop", {"then": "finish", "more": "x" * 200_000}), {"cancel": {"id": 17, "claim_no": 3, "reason": "lease"}})
    assert behaves.answer() == {"progress": 1}
    assert behaves.answer()["result"] == "lease"
    behaves.finish()


@pytest.mark.parametrize("language", SCRIPTED, indirect=True)
def test_a_job_that_has_ended_cannot_be_reported_on(behaves):
    """In C, nothing of a job is left that could be used after it."""
    assert behaves.run("keep", {}) == {"outcome": "succeeded"}
    answer = behaves.run("late", {})
    assert answer["outcome"] == "retry" and "this job has ended" in answer["error"]
    behaves.finish()


@pytest.mark.parametrize("language", ["c", "c-sanitized"], indirect=True)
def test_c_outcomes_without_their_details(behaves):
    assert behaves.run("bare_dead", {}) == {"outcome": "dead", "error": "the handler returned LH_DEAD"}
    assert behaves.run("bare_snooze", {}) == {"outcome": "retry", "error": "the handler returned LH_SNOOZE without lh_snooze()"}
    assert behaves.run("changed_mind", {}) == {"outcome": "succeeded"}
    behaves.finish()


@pytest.mark.parametrize("language", ["node"], indirect=True)
def test_node_signal_and_parallel_steps(behaves):
    behaves.send(job_message("signal", {}))
    assert behaves.answer() == {"progress": 1}
    behaves.cancel("lease")
    assert behaves.answer() == {"outcome": "cancelled"}
    behaves.send(job_message("parallel", {}))
    assert [behaves.answer()["step"] for _ in range(3)] == ["one", "two", "three"]
    for name in ("one", "two", "three"):
        behaves.saved(name)
    assert behaves.answer()["result"] == ["one", "two", "three"]
    behaves.finish()
