"""A page may open any recording; what is none is refused in one sentence, and nothing is stuck."""

import base64
import json
import time
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.golden import golden_names, golden_trace
from specviz.trace_file import dumps, encode
from specviz.ui import recordings
from specviz.ui.handlers import MAX_OPENINGS, Handlers
from specviz.ui.recordings import requested_trace
from tests.random_traces import random_trace

TICKET = "a-ticket-of-a-test"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def all_messages(handlers: Handlers, ticket: str) -> list[dict[str, Any]]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        seen = handlers.look({"ticket": ticket, "after": 0})
        if seen["state"] == "done":
            return [json.loads(text) for text in seen["messages"]]
        time.sleep(0.02)
    raise AssertionError("the recording was not opened in time")


def test_a_file_comes_back_round_by_round() -> None:
    trace, handlers = random_trace(3, rounds=4), Handlers()
    asked = {"ticket": TICKET, "data": encoded(dumps(trace))}
    assert handlers.open(asked) == {"error": None}
    messages = all_messages(handlers, TICKET)
    assert [messages[0]["kind"], messages[-1]["kind"]] == ["header", "end"]
    records = [each["record"] for each in messages if each.get("type") == "round"]
    assert records == [encode(each) for each in trace.rounds]


@pytest.mark.parametrize("name", golden_names())
def test_every_golden_recording_opens(name: str) -> None:
    trace = requested_trace({"golden": name})
    assert trace == golden_trace(name)
    assert trace.config.method == name.partition(".")[0]
    assert trace.rounds and trace.lane("baseline").steps


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"golden": "../../etc/passwd"}, "trace must be one of"),
        ({"golden": ["x"]}, "trace must be one of"),
        ({}, "trace must be a file in base64, got none"),
        ({"data": "%%%"}, "trace must be a file in base64, got other text"),
        (
            {"data": encoded(b"hello")},
            "trace must be the file of a run, as Save in Step through",
        ),
        ({"data": encoded(b"\x1f\x8bhello")}, "trace must be a whole gzip file"),
        ({"data": encoded(b"[]")}, "trace must be the file of a run"),
        ({"data": encoded(b"[" * 200_000)}, "trace must be JSON text"),
        ({"data": encoded(b'{"format": NaN}')}, "trace must hold finite numbers only, got NaN"),
    ],
)
def test_what_is_no_recording_is_refused_in_one_sentence(
    question: dict[str, Any], sentence: str
) -> None:
    reply = Handlers().open(question | {"ticket": TICKET})
    assert reply["error"].startswith(sentence) and "\n" not in reply["error"]


def test_a_file_above_the_limit_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "MAX_UPLOAD_BYTES", 1_000_000)
    with pytest.raises(InputError, match="at most 1 MB, got 3 MB"):
        requested_trace({"data": "A" * 4_000_000})


def test_a_refused_recording_leaves_room_for_the_next() -> None:
    handlers = Handlers()
    for _ in range(2 * MAX_OPENINGS):
        assert handlers.open({"ticket": TICKET, "data": "%"})["error"]
    for number in range(2 * MAX_OPENINGS):
        ticket = f"{TICKET}-{number}"
        data = encoded(dumps(random_trace(number, rounds=1)))
        assert handlers.open({"ticket": ticket, "data": data}) == {"error": None}
        all_messages(handlers, ticket)


def test_two_runs_are_compared_in_one_sentence() -> None:
    same = {"a": {"golden": "draft-model.code"}, "b": {"golden": "draft-model.code"}}
    assert Handlers().diff(same) == {
        "error": None,
        "sentence": "Both texts are the same.",
        "index": None,
    }
    other = Handlers().diff({"a": same["a"], "b": {"golden": "draft-tree.story"}})
    assert other["index"] == 0 and "prompt" in other["sentence"]


@pytest.mark.parametrize("b", [None, [], {"data": "%"}])
def test_what_is_no_run_cannot_be_compared(b: object) -> None:
    reply = Handlers().diff({"a": {"golden": "draft-model.code"}, "b": b})
    assert "must" in reply["error"] and "\n" not in reply["error"]
