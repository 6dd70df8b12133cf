"""A profile is sent while it is made; invalid requests are refused in one sentence."""

import threading
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.ui.profiles import profile_messages, profile_request
from specviz.ui.recordings import requested_trace

FORM = {"temperature": "0.8", "max_new_tokens": "12", "draft_length": "3"}


def asked(**question: Any) -> dict[str, Any]:
    return {"form": FORM, "task": "code", "count": "3"} | question


def test_a_profile_sends_progress_then_the_ranking_then_its_example_runs() -> None:
    messages = list(profile_messages(profile_request(asked()), threading.Event()))
    kinds = [each["kind"] for each in messages]
    assert kinds[0] == "progress" and kinds[-1] == "end"
    (found,) = (each for each in messages if each["kind"] == "profile")
    assert found["setting"] == {
        "pair": "Bundled pair",
        "method": "draft-model",
        "draft_length": 3,
        "temperature": 0.8,
        "max_new_tokens": 12,
    }
    runs = {each["index"]: each["data"] for each in messages if each["kind"] == "example"}
    assert found["profile"]["prompts"] == 3 and set(found["titles"]) == set(
        found["profile"]["rankings"]
    )
    for groups in found["profile"]["rankings"].values():
        for group in groups:
            for example in group["examples"]:
                trace = requested_trace({"data": runs[example["trace"]]})
                assert trace.rounds[example["round"]].tree.nodes[example["node"]]


def test_a_stopped_profile_keeps_its_results() -> None:
    stop = threading.Event()
    messages = []
    for message in profile_messages(profile_request(asked(count="40")), stop):
        messages.append(message)
        stop.set()
    assert messages[-1] == {"kind": "end", "reason": "stopped"}
    (found,) = (each for each in messages if each["kind"] == "profile")
    assert found["profile"]["prompts"] < 40


def test_a_prompt_file_may_have_lines_or_json_lines() -> None:
    lines = {"form": FORM, "name": "a.txt", "text": "one\ntwo\n"}
    assert profile_request(lines).prompts == ("one", "two")
    json_lines = {"form": FORM, "name": "a.jsonl", "text": '{"prompt": "x"}\n{"prompt": "y"}'}
    assert profile_request(json_lines).prompts == ("x", "y")


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"task": "poetry"}, "task must be one of"),
        ({"count": "many"}, "count must be a whole number"),
        ({"count": "0"}, "count must be a whole number from 1 to 40"),
        ({"count": "41"}, "count must be a whole number from 1 to 40"),
        ({"text": "", "name": "a.txt"}, "prompts must have at least one text"),
        ({"text": 5, "name": "a.txt"}, "prompts must be a text"),
        ({"text": "{", "name": "a.jsonl"}, "prompts line 1 must be a JSON object"),
        ({"form": FORM | {"draft_length": "99"}}, "draft_length must be"),
    ],
)
def test_invalid_requests_are_refused_before_the_queue(
    question: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as error:
        profile_request(asked(**question))
    assert str(error.value).startswith(sentence)
