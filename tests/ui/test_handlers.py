"""The server's handlers turn an error into one sentence, and a closed generator frees its race."""

import asyncio
import base64
import gzip
import json
import logging
import math
import os
import threading
import time
from collections import Counter
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
from specviz.trace_file import dumps
from specviz.ui import decoding_queue, runs
from specviz.ui import handlers as handlers_module
from specviz.ui.answers import UNEXPECTED
from specviz.ui.handlers import MAX_CHECKS, Handlers
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.page import ASKED, LAB_ASKED, SERVING_ASKED
from specviz.ui.pair_words import report_lines
from specviz.ui.recordings import RECORD_BYTES, requested_recording
from specviz.ui.runs import QueuePlace
from specviz.ui.settings_form import form_demand, form_method, refusals
from specviz.ui.turns import QueuedOrder, State, Work
from tests.random_traces import random_trace
from tests.ui.heard import awaited, heard
from tests.ui.random_race import RandomRace
from tests.ui.test_pair_words import FINE

TICKET, OTHER = "a-ticket-of-a-test", "another-ticket-of-a-test"
FORM = {"prompt": "hello", "max_new_tokens": "5", "temperature": "0"}


def run(handlers: Handlers, ticket: str = TICKET) -> list[dict[str, Any]]:
    return heard(handlers, ticket)


def test_a_race_sends_messages_from_loading_to_its_end() -> None:
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
def test_an_invalid_request_is_answered_with_one_line(name: str, question: Any) -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    parts = (handlers, handlers.lab, handlers.serving)
    owner = next(part for part in parts if hasattr(part, name))
    error = getattr(owner, name)(question)["error"]
    assert error is None or ("\n" not in error and len(error) < 300)


@pytest.mark.parametrize("name", ["look", "stop", "join", "hold", "check"])
def test_a_missing_field_is_named(name: str) -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    assert getattr(handlers, name)({})["error"].endswith(
        " must be given in the request, got nothing"
    )


def test_a_fault_of_the_server_is_one_line_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*given: Any) -> PairReport:
        raise TypeError("a fault")

    form = FORM | {"device": "cpu", "dtype": "float32"}
    with caplog.at_level(logging.ERROR):
        assert Handlers(check=fail).check({"form": form}) == {"error": UNEXPECTED}
    assert "TypeError" in caplog.text


@pytest.mark.parametrize(
    ("error", "sentence"),
    [(InputError("prompt must fit"), "prompt must fit"), (OSError(5), UNEXPECTED)],
)
def test_an_error_while_loading_is_one_sentence(error: Exception, sentence: str) -> None:
    def fail(request: RaceRequest) -> Any:
        raise error

    handlers = Handlers(start=fail)
    handlers.join({"ticket": TICKET, "form": FORM})
    messages = run(handlers)
    assert messages[-1] == {"seq": 1, "kind": "error", "text": sentence}
    assert handlers.look({"ticket": TICKET, "after": 9})["state"] == "done"


def test_an_error_during_a_race_frees_it_and_sends_one_line() -> None:
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


def test_a_race_that_starts_paused_decodes_nothing_before_a_round_is_allowed() -> None:
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


def test_a_stopped_run_is_freed_and_keeps_its_numbers() -> None:
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


def test_a_paused_run_whose_page_is_gone_is_freed_without_any_request(
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
def test_memory_that_runs_have_freed_is_returned_to_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding_queue, "GIVE_BACK_SECONDS", 0.0)
    parts = [b"x" * 100_000 for _ in range(2000)]
    before = resident()
    # Free all blocks but the last. As long as the last one is in use, the allocator does not return
    # the memory of the others to the system.
    del parts[:-1]
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    handlers.join({"ticket": TICKET, "form": FORM})
    run(handlers)
    # The decoding thread returns unused memory to the system some time after the last message.
    deadline = time.monotonic() + 60
    while resident() > before - 100_000_000 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert parts and resident() <= before - 100_000_000


QUESTION = {"form": {"device": "auto", "dtype": "float32"}}


def test_a_check_answers_with_the_report_and_with_what_the_pair_cannot_do() -> None:
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
    ("error", "sentence"),
    [(InputError("model 'x' is gated"), "model 'x' is gated"), (OSError(5), UNEXPECTED)],
)
def test_a_check_that_fails_is_one_sentence(error: Exception, sentence: str) -> None:
    def fail(*_: Any) -> PairReport:
        raise error

    handlers = Handlers(check=fail)
    # The limit counts only checks that run, so failed checks may be repeated.
    for _ in range(MAX_CHECKS + 1):
        assert handlers.check(QUESTION) == {"error": sentence}


def test_too_many_simultaneous_checks_are_asked_to_wait() -> None:
    handlers = Handlers()
    replies = []

    def look(*_: Any) -> PairReport:
        replies.append(handlers.check(QUESTION))
        return FINE

    handlers._check = look
    handlers.check(QUESTION)
    # The test's check starts the next check inside itself, until the limit of simultaneous checks
    # refuses the innermost one.
    innermost, *others = replies
    assert len(others) == MAX_CHECKS - 1 and all(reply["error"] is None for reply in others)
    assert "try again" in innermost["error"]


class Slow(LabOrder):
    """Work that measures until it is stopped, and always yields to other work."""

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


def test_a_race_runs_while_a_sweep_measures_and_the_sweep_stops_deep_inside_a_call() -> None:
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
    """Return the number of threads, not counting short-lived timers."""
    return sum(not isinstance(each, threading.Timer) for each in threading.enumerate())


def test_a_page_gets_news_and_waits_for_it_without_a_thread() -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]

    async def heard(number: int) -> list[dict[str, Any]]:
        ticket, messages = f"ticket-of-a-test-{number}", list[dict[str, Any]]()
        handlers.join({"ticket": ticket, "form": FORM | {"seed": str(number)}})
        while True:
            seen = await handlers.hear({"ticket": ticket, "after": len(messages)})
            messages += map(json.loads, seen["messages"])
            if seen["state"] == "done":
                return messages

    async def all_heard() -> list[list[dict[str, Any]]]:
        before = threads()
        found = await asyncio.gather(*map(heard, range(8)))
        assert threads() <= before + 1  # only the decoding thread was added
        return found

    for messages in awaited(all_heard()):
        assert [each["seq"] for each in messages] == list(range(len(messages)))
        assert messages[-1]["kind"] == "end"


def test_an_invalid_request_for_news_is_answered_with_one_line() -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    for question in NONSENSE:
        error = awaited(handlers.hear(question))["error"]
        assert error is None or "\n" not in error


def test_a_run_stopped_while_it_waited_sends_nothing() -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    handlers.join({"ticket": TICKET, "form": FORM})
    handlers.stop({"ticket": TICKET})
    assert run(handlers) == []


def test_a_download_blocks_nobody_and_ends_at_a_stop() -> None:
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


def test_a_waiting_page_is_woken_by_news_instead_of_polling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In an earlier version each page asked 20 times per second.

    Hundreds of pages took most of a core.
    """
    handlers, looks, charged = Handlers(), Counter[str](), Counter[str]()
    for number in range(50):
        order = QueuedOrder("a race", Work.RACE, None, request=number)
        order.state = State.RUNNING
        handlers._runs._places[f"ticket {number}"] = place = QueuePlace(
            f"ticket {number}", order, "an address", time.monotonic()
        )
    look = handlers.look

    def counted(question: dict[str, Any]) -> dict[str, Any]:
        looks[question["ticket"]] += 1
        return dict(look(question))

    monkeypatch.setattr(handlers, "look", counted)
    monkeypatch.setattr(
        handlers_module.spending, "add", lambda visitor, _: charged.update([visitor])
    )
    monkeypatch.setattr(handlers_module, "PATIENCE", {"running": 30.0})

    async def all_hear() -> list[dict[str, Any]]:
        asked = [
            asyncio.create_task(
                handlers.hear({"ticket": each, "after": 0, "address": "an address"})
            )
            for each in handlers._runs._places
        ]
        while sum(looks.values()) < len(asked):
            await asyncio.sleep(0)
        for each in [*handlers._runs._places.values()]:
            await asyncio.to_thread(each.order.say, {"kind": "event"})
        return await asyncio.gather(*asked)

    replies = awaited(all_hear())
    assert all(len(each["messages"]) == 1 for each in replies)
    assert set(looks.values()) == {2} and charged == {"an address": 100}
    assert place.order.listeners == []


def test_an_address_that_used_much_time_gets_its_news_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handlers, slept = Handlers(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(handlers_module.spending, "is_over", lambda visitor: visitor == "greedy")
    monkeypatch.setattr(handlers_module.asyncio, "sleep", sleep)
    for address in ("greedy", "modest"):
        awaited(handlers.hear({"ticket": TICKET, "after": 0, "address": address}))
    assert slept == [3.0]


def test_uploaded_files_that_wait_do_not_delay_the_app_s_own_recordings() -> None:
    handlers, may_end = Handlers(), threading.Event()
    handlers._openings["file"].submit(may_end.wait, 20)
    assert handlers.open({"ticket": TICKET, "golden": OPENING}) == {"error": None}
    assert run(handlers)[-1]["kind"] == "end"
    may_end.set()


def lie(size: int) -> str:
    """Return the first and last bytes of a gzip file that claims to contain `size` bytes."""
    return "H4sI" + base64.b64encode(b"\0\0" + size.to_bytes(4, "little")).decode()


def test_a_recording_counts_with_the_size_that_was_found_in_its_file() -> None:
    text = dumps(random_trace(3, rounds=4))
    for data in (text, gzip.compress(text)):
        question = {"data": base64.b64encode(data).decode()}
        assert requested_recording(question).weight == RECORD_BYTES * len(text)
    assert requested_recording({"golden": OPENING}).weight == 0


@pytest.mark.parametrize("data", [lie(399_990_000), "H4sI\u00e9", 5, "x" * 100_000])
def test_a_false_size_of_a_file_that_is_not_read_has_no_effect(
    data: object, caplog: pytest.LogCaptureFixture
) -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    asked = {"ticket": TICKET, "form": FORM, "held": True, "data": data}
    assert handlers.join(asked) == {"error": None}
    assert handlers._runs._places[TICKET].order.weight == 0
    sent = base64.b64encode(dumps(random_trace(3, rounds=4))).decode()
    assert handlers.open({"ticket": OTHER, "data": sent}) == {"error": None}
    assert not caplog.records
