"""The server's side: errors become one sentence, a closed generator frees its race."""

import asyncio
import base64
import gzip
import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specviz.decoding.race import LaneEvent
from specviz.errors import InputError
from specviz.experiments.run.racing import RaceRequest
from specviz.golden import OPENING
from specviz.models import memory
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.models.pair_check import PairReport
from specviz.slices import give_way, until_stopped
from specviz.ui import decoding_queue, runs
from specviz.ui.answers import UNEXPECTED
from specviz.ui.handlers import MAX_CHECKS, RECORD_BYTES, Handlers, weight_of
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.page import ASKED, LAB_ASKED, SERVING_ASKED
from specviz.ui.pair_words import report_lines
from specviz.ui.settings_form import form_demand, form_method, refusals
from tests.ui.heard import awaited, heard
from tests.ui.random_race import RandomRace
from tests.ui.test_pair_words import FINE

TICKET, OTHER = "a-ticket-of-a-test", "another-ticket-of-a-test"
FORM = {"prompt": "hello", "max_new_tokens": "5", "temperature": "0"}


def run(handlers: Handlers, ticket: str = TICKET) -> list[dict[str, Any]]:
    return heard(handlers, ticket)


def test_a_race_goes_from_loading_to_its_end() -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    assert handlers.join({"ticket": TICKET, "form": FORM}) == {"error": None}
    messages = run(handlers)
    assert [messages[0]["kind"], messages[1]["kind"]] == ["loading", "header"]
    assert messages[-1]["kind"] == "end"
    seen = handlers.look({"ticket": TICKET, "after": 0})
    assert [json.loads(text) for text in seen["messages"]] == messages
    assert seen["state"] == "done"


def test_a_bad_setting_is_refused_before_the_queue() -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    reply = handlers.join({"ticket": TICKET, "form": FORM | {"draft_length": "0"}})
    assert reply["error"].startswith("draft_length must be")
    assert run(handlers) == []


HANDLERS = [*(name for name in ASKED if name != "hear"), *LAB_ASKED, *SERVING_ASKED]
NONSENSE: list[Any] = [
    {},
    None,
    [],
    "look",
    3,
    {"ticket": None, "after": None, "form": None, "file": None, "do": None, "what": None},
    {"ticket": {}, "after": "x", "form": [], "file": 3, "do": ["x" * 10_000], "what": {}},
    {"ticket": TICKET, "after": math.inf, "form": "x", "golden": [], "record": {}, "a": 1},
]


@pytest.mark.parametrize("name", HANDLERS)
@pytest.mark.parametrize("question", NONSENSE)
def test_nonsense_is_answered_with_one_line(name: str, question: Any) -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    parts = (handlers, handlers.lab, handlers.serving)
    owner = next(part for part in parts if hasattr(part, name))
    error = getattr(owner, name)(question)["error"]
    assert error is None or ("\n" not in error and len(error) < 300)


@pytest.mark.parametrize("name", ["look", "stop", "join", "hold", "check"])
def test_a_field_that_is_missing_is_named(name: str) -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    assert getattr(handlers, name)({})["error"].endswith(" is missing from the question")


def test_a_fault_of_the_server_is_one_line_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*given: Any) -> PairReport:
        raise TypeError("a fault")

    form = FORM | {"device": "cpu", "dtype": "float32"}
    with caplog.at_level(logging.ERROR):
        assert Handlers(check=fail).check({"form": form}) == {"error": UNEXPECTED}
    assert "TypeError" in caplog.text


@pytest.mark.parametrize(
    ("error", "told"),
    [(InputError("prompt must fit"), "prompt must fit"), (OSError(5), UNEXPECTED)],
)
def test_an_error_while_loading_is_one_sentence(error: Exception, told: str) -> None:
    def fail(request: RaceRequest) -> Any:
        raise error

    handlers = Handlers(start=fail)
    handlers.join({"ticket": TICKET, "form": FORM})
    messages = run(handlers)
    assert messages[-1] == {"seq": 1, "kind": "error", "text": told}
    assert handlers.look({"ticket": TICKET, "after": 9})["state"] == "done"


def test_an_error_in_mid_race_frees_it_and_tells_one_line() -> None:
    races = []

    class Broken(RandomRace):
        def __init__(self, request: RaceRequest) -> None:
            super().__init__(request)
            races.append(self)

        def token_text(self, token_id: int) -> str:
            raise RuntimeError("secret detail")

    handlers = Handlers(start=Broken)  # type: ignore[arg-type]
    handlers.join({"ticket": TICKET, "form": FORM})
    messages = run(handlers)
    assert messages[-1]["text"] == UNEXPECTED
    assert "secret" not in json.dumps(messages)
    assert races[0].is_closed


def test_a_race_that_joins_held_asks_for_no_event_before_a_round_is_let_through() -> None:
    pulled: list[str] = []

    class Counted(RandomRace):
        def __iter__(self) -> Iterator[LaneEvent]:
            for event in super().__iter__():
                pulled.append(type(event.event).__name__)
                yield event

    handlers = Handlers(start=Counted)  # type: ignore[arg-type]
    assert handlers.join({"ticket": TICKET, "form": FORM, "held": True}) == {"error": None}
    while not is_under_way(handlers):
        time.sleep(0.01)
    time.sleep(0.1)
    assert pulled == []
    handlers.hold({"ticket": TICKET, "do": "advance"})
    while "Round" not in pulled:
        time.sleep(0.01)
    time.sleep(0.1)
    assert pulled.count("Round") == 1
    handlers.stop({"ticket": TICKET})
    assert run(handlers)[-1]["reason"] == "stopped"


def is_under_way(handlers: Handlers) -> bool:
    messages = handlers.look({"ticket": TICKET, "after": 0})["messages"]
    return any(json.loads(text)["kind"] == "header" for text in messages)


def test_a_run_that_is_stopped_is_freed_and_keeps_its_numbers() -> None:
    races, goes_on = [], threading.Event()

    class Long(RandomRace):
        def __iter__(self) -> Iterator[LaneEvent]:
            races.append(self)
            for event in super().__iter__():
                yield event
                if "Round" in repr(event):
                    goes_on.wait(60)

    handlers = Handlers(start=Long)  # type: ignore[arg-type]
    handlers.join({"ticket": TICKET, "form": FORM})
    while not is_under_way(handlers):
        time.sleep(0.001)
    handlers.stop({"ticket": TICKET})
    goes_on.set()
    end = run(handlers)[-1]
    assert end["reason"] == "stopped" and end["summary"] and races[0].is_closed


def test_a_held_run_whose_page_is_gone_is_freed_though_nobody_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding_queue, "REST_SECONDS", 0.1)
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    handlers.join({"ticket": TICKET, "form": FORM, "held": True})
    while not is_under_way(handlers):
        time.sleep(0.01)
    monkeypatch.setattr(runs, "AWAY_SECONDS", 0.2)
    deadline = time.monotonic() + 60
    while handlers.queue.turns.live and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not handlers.queue.turns.live
    assert handlers.look({"ticket": TICKET, "after": 0})["state"] == "unknown"


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not memory.can_give_back(), reason="the allocator is not glibc's")
def test_what_runs_have_freed_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_queue, "GIVE_BACK_SECONDS", 0.0)
    parts = [b"x" * 100_000 for _ in range(2000)]
    before = resident()
    del parts[:-1]  # the last one keeps what lies below it
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    handlers.join({"ticket": TICKET, "form": FORM})
    run(handlers)
    deadline = time.monotonic() + 60  # the decoding thread gives back after it has told the end
    while resident() > before - 100_000_000 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert parts and resident() <= before - 100_000_000


QUESTION = {"form": {"device": "auto", "dtype": "float32"}}


def test_a_check_tells_what_is_known_and_what_the_pair_cannot_do() -> None:
    asked = []

    def look(*question: Any) -> PairReport:
        asked.append(question)
        return FINE

    reply = Handlers(check=look).check(QUESTION)
    assert reply["error"] is None
    assert reply["lines"] == report_lines(FINE)
    assert reply["refusals"] == refusals(pair_named(BUNDLED))
    needs, demand = form_method({}).needs, form_demand(QUESTION["form"])
    assert asked == [(pair_named(BUNDLED), "auto", "float32", needs, demand)]


@pytest.mark.parametrize(
    ("error", "told"),
    [(InputError("model 'x' is gated"), "model 'x' is gated"), (OSError(5), UNEXPECTED)],
)
def test_a_check_that_fails_is_one_sentence(error: Exception, told: str) -> None:
    def fail(*_: Any) -> PairReport:
        raise error

    handlers = Handlers(check=fail)
    for _ in range(MAX_CHECKS + 1):  # a failed one gives its place back
        assert handlers.check(QUESTION) == {"error": told}


def test_too_many_checks_at_once_are_asked_to_wait() -> None:
    handlers = Handlers()
    replies = []

    def look(*_: Any) -> PairReport:
        replies.append(handlers.check(QUESTION))
        return FINE

    handlers._check = look
    handlers.check(QUESTION)
    innermost, *others = replies  # one check within another, until there is no room
    assert len(others) == MAX_CHECKS - 1 and all(reply["error"] is None for reply in others)
    assert "try again" in innermost["error"]


class Slow(LabOrder):
    """Measures until it is stopped, and gives way all the while."""

    title = "a slow order"
    pair = pair_named(BUNDLED)

    def messages(self, stop: threading.Event) -> Iterator[dict[str, Any]]:
        yield {"kind": "progress", "seconds_left": 1000.0}
        for _ in until_stopped(self._long(), stop):
            pass
        yield {"kind": "end", "reason": "stopped"}

    def _long(self) -> Iterator[None]:
        for _ in range(100_000):
            time.sleep(0.01)
            give_way()
        yield None


def test_a_race_goes_through_while_a_sweep_measures_which_hears_its_stop_deep_inside() -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    handlers.take({"ticket": TICKET}, Slow())
    while not handlers.look({"ticket": TICKET, "after": 0})["messages"]:
        time.sleep(0.01)
    handlers.join({"ticket": OTHER, "form": FORM})
    end = run(handlers, OTHER)[-1]
    assert end["kind"] == "end" and end["reason"] == "length"
    handlers.stop({"ticket": TICKET})
    assert run(handlers)[-1] | {"seq": 0} == {
        "seq": 0, "kind": "end", "reason": "stopped", "beside": 1, "limit": None
    }  # fmt: skip


def threads() -> int:
    """But those that wait for a rest to end, which come and go by themselves."""
    return sum(not isinstance(each, threading.Timer) for each in threading.enumerate())


def test_a_page_hears_what_is_new_and_waits_in_no_thread() -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]

    async def told(number: int) -> list[dict[str, Any]]:
        ticket, messages = f"ticket-of-a-test-{number}", list[dict[str, Any]]()
        handlers.join({"ticket": ticket, "form": FORM | {"seed": str(number)}})
        while True:
            seen = await handlers.hear({"ticket": ticket, "after": len(messages)})
            messages += map(json.loads, seen["messages"])
            if seen["state"] == "done":
                return messages

    async def all_told() -> list[list[dict[str, Any]]]:
        before = threads()
        found = await asyncio.gather(*map(told, range(8)))
        assert threads() <= before + 1  # one decodes
        return found

    for messages in awaited(all_told()):
        assert [each["seq"] for each in messages] == list(range(len(messages)))
        assert messages[-1]["kind"] == "end"


def test_hearing_nonsense_is_answered_with_one_line() -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    for question in NONSENSE:
        error = awaited(handlers.hear(question))["error"]
        assert error is None or "\n" not in error


def test_a_run_stopped_while_it_waited_sends_nothing() -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    handlers.join({"ticket": TICKET, "form": FORM})
    handlers.stop({"ticket": TICKET})
    assert run(handlers) == []


def test_a_download_keeps_nobody_waiting_and_is_left_at_a_stop() -> None:
    may_end = threading.Event()

    def wait() -> None:
        may_end.wait(20)

    def fetching(request: RaceRequest) -> Callable[[], None] | None:
        return wait if request.pair.name == "custom" else None

    handlers = Handlers(start=RandomRace, fetching=fetching)  # type: ignore[arg-type]
    far = FORM | {"pair": "custom", "target": "someone/model", "method": "prompt-lookup"}
    assert handlers.join({"ticket": TICKET, "form": far}) == {"error": None}
    handlers.look({"ticket": TICKET, "after": 0})
    handlers.join({"ticket": OTHER, "form": FORM})
    assert run(handlers, OTHER)[-1]["reason"] == "length"
    assert handlers.look({"ticket": TICKET, "after": 0})["state"] == "running"
    handlers.stop({"ticket": TICKET})
    assert [each["kind"] for each in run(handlers)] == ["loading", "end"]
    may_end.set()


def test_files_that_wait_to_be_shown_keep_no_recording_of_the_app_waiting() -> None:
    handlers, may_end = Handlers(), threading.Event()
    handlers._openings["file"].submit(may_end.wait, 20)
    assert handlers.open({"ticket": TICKET, "golden": OPENING}) == {"error": None}
    assert run(handlers)[-1]["kind"] == "end"
    may_end.set()


def test_a_recording_weighs_what_its_file_holds_when_it_is_unpacked() -> None:
    text = b"x" * 10_000
    packed = base64.b64encode(gzip.compress(text)).decode()
    assert weight_of({"data": packed}) == RECORD_BYTES * len(text)
    assert weight_of({"data": base64.b64encode(text).decode()}) > RECORD_BYTES * len(text)
    assert weight_of({"golden": "draft-model.code"}) == 0
