"""The server's side: errors become one sentence, a closed generator frees its race."""

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr
import pytest

from specviz.decoding.race import LaneEvent
from specviz.errors import InputError
from specviz.experiments.run.racing import RaceRequest
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.models.pair_check import PairReport
from specviz.ui.handlers import MAX_CHECKS, UNEXPECTED, Handlers
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.page import ASKED, LAB_ASKED
from specviz.ui.pair_words import report_lines
from specviz.ui.settings_form import form_demand, form_method, refusals
from tests.ui.random_race import RandomRace
from tests.ui.test_pair_words import FINE

TICKET, OTHER = "a-ticket-of-a-test", "another-ticket-of-a-test"
FORM = {"prompt": "hello", "max_new_tokens": "5", "temperature": "0"}


def run(handlers: Handlers, ticket: str = TICKET) -> list[dict[str, Any]]:
    event = gr.EventData(None, {"ticket": ticket})
    batches = [json.loads(text) for text in handlers.race(event)]
    return [message for batch in batches for message in batch["messages"]]


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


HANDLERS = [*ASKED, *LAB_ASKED]
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
    owner = handlers if name in ASKED else handlers.lab
    error = getattr(owner, name)(question)["error"]
    assert error is None or ("\n" not in error and len(error) < 300)


@pytest.mark.parametrize("name", ["look", "stop", "join", "hold", "check"])
def test_a_field_that_is_missing_is_named(name: str) -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    assert getattr(handlers, name)({})["error"].endswith(" is missing from the question")


def test_a_fault_of_the_server_is_one_line_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        assert handlers.join({"ticket": TICKET, "form": None}) == {"error": UNEXPECTED}
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
    racing = threading.Thread(target=run, args=(handlers,))
    racing.start()
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
    racing.join(10)
    assert not racing.is_alive()


def is_under_way(handlers: Handlers) -> bool:
    messages = handlers.look({"ticket": TICKET, "after": 0})["messages"]
    return any(json.loads(text)["kind"] == "header" for text in messages)


def test_closing_the_generator_frees_the_race() -> None:
    races = []

    def start(request: RaceRequest) -> RandomRace:
        races.append(RandomRace(request))
        return races[-1]

    handlers = Handlers(start=start)  # type: ignore[arg-type]
    handlers.join({"ticket": TICKET, "form": FORM})
    batches = handlers.race(gr.EventData(None, {"ticket": TICKET}))
    next(batches), next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert races[0].is_closed
    assert handlers.look({"ticket": TICKET, "after": 0})["state"] == "done"


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


class Telling(LabOrder):
    """Says how long it will go on, and hears what the one behind it is told."""

    title = "a slow order"
    pair = pair_named(BUNDLED)

    def __init__(self, look: Callable[[], dict[str, Any]]) -> None:
        self.look, self.heard = look, []

    def messages(self, stop: threading.Event) -> Iterator[dict[str, Any]]:
        for left in (1000.0, 0.0, None):
            yield {"kind": "progress", "seconds_left": left}
            yield {"kind": "progress"}  # says nothing of it
            self.heard.append(self.look()["running"])


def test_those_who_wait_are_told_how_long_the_run_before_them_takes() -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    order = Telling(lambda: handlers.look({"ticket": OTHER, "after": 0}))
    handlers._runs.join(TICKET, order)
    handlers.join({"ticket": OTHER, "form": FORM})
    run(handlers)
    assert {each["title"] for each in order.heard} == {"a slow order"}
    first, *others = [each["seconds_left"] for each in order.heard]
    assert 900 < first <= 1000 and others == [0.0, None]


def test_a_run_stopped_while_it_waited_sends_nothing() -> None:
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    handlers.join({"ticket": TICKET, "form": FORM})
    handlers.stop({"ticket": TICKET})
    assert run(handlers) == []
