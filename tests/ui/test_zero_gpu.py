"""A run in a separate process, to which a GPU is lent, sends the messages of an ordinary run."""

from __future__ import annotations

import os
import sys
import time

import pytest

from specviz.ui import zero_gpu
from specviz.ui.handlers import Handlers
from specviz.ui.messages import Message
from tests.ui.forked_gpu import ForkedGpu, refuse
from tests.ui.heard import heard
from tests.ui.random_race import RandomRace

TICKET = "0123456789abcdef"
FORM = {"pair": "bundled", "prompt": "Why?", "max_new_tokens": "8"}
OWN = ("process", "seq", "clock", "beside", "limit")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ForkedGpu:
    stand_in = ForkedGpu()
    monkeypatch.setitem(sys.modules, "spaces", stand_in)
    monkeypatch.setenv("SPACES_ZERO_GPU", "1")
    return stand_in


def handlers() -> Handlers:
    return Handlers(start=RandomRace)  # type: ignore[arg-type]


def messages_of(server: Handlers) -> list[Message]:
    assert server.join({"ticket": TICKET, "form": FORM}) == {"error": None}
    return heard(server, TICKET)


def outline(messages: list[Message]) -> list[tuple[str, str | None]]:
    return [(each["kind"], each.get("type")) for each in messages if each["kind"] != "summary"]


def test_a_race_is_one_call_in_another_process_with_the_same_messages(
    gpu: ForkedGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = messages_of(handlers())
    assert len({each["process"] for each in there[1:]} | {os.getpid()}) == 2
    assert len(gpu.processes) == 1 and gpu.durations == [20]
    monkeypatch.delenv("SPACES_ZERO_GPU")
    assert outline(there) == outline(messages_of(handlers()))


def test_a_stopped_run_returns_the_gpu(gpu: ForkedGpu) -> None:
    server = handlers()
    server.join({"ticket": TICKET, "form": FORM | {"max_new_tokens": "1000"}})
    while len(server.look({"ticket": TICKET, "after": 0})["messages"]) < 2:
        time.sleep(0.02)
    server.stop({"ticket": TICKET})
    deadline = time.monotonic() + 60
    while any(each.is_alive() for each in gpu.processes) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(each.is_alive() for each in gpu.processes)


def test_a_run_requests_at_most_the_allowed_seconds() -> None:
    from specviz.ui.settings_form import race_request

    asked = [race_request(FORM | {"max_new_tokens": count}) for count in ("100", "4000")]
    assert list(map(zero_gpu.lent_seconds, asked)) == [25, zero_gpu.MOST_SECONDS]


def test_an_error_in_the_other_process_arrives_as_its_sentence(gpu: ForkedGpu) -> None:
    server = Handlers(start=refuse)
    last = messages_of(server)[-1]
    assert last["kind"] == "error" and last["text"] == "draft must be there, got nothing"


def test_a_run_on_a_lent_gpu_cannot_be_held(gpu: ForkedGpu) -> None:
    server = handlers()
    refused = server.hold({"ticket": TICKET, "do": "pause"})["error"]
    assert refused.startswith("this run cannot be paused, because this page borrows its GPU")


def test_other_machines_decode_in_their_own_process() -> None:
    assert zero_gpu.lent(lambda: iter(())) is None  # type: ignore[arg-type, return-value]
