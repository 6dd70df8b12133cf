"""The queue continues after any error, and reports how long the next step has been waiting."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from specviz.slices import Stopped
from specviz.ui.answers import UNEXPECTED
from specviz.ui.decoding_queue import DecodingQueue
from specviz.ui.messages import Message
from specviz.ui.turns import QueuedOrder, State, Work
from tests.ui.clocked import Clock

ENDED_SECONDS = 30.0


class Panic(BaseException):
    """An error like those that a library written in Rust raises."""


def joined(queue: DecodingQueue, name: str, error: BaseException | None) -> QueuedOrder:
    """Queue a run that raises `error` in its second step, or ends normally if `error` is None."""

    def make(order: QueuedOrder) -> Iterator[Message]:
        yield {"kind": "loading"}
        if error is not None:
            raise error
        yield {"kind": "end"}

    order = QueuedOrder(name, Work.RACE, make, request=name)
    queue.runs.join(f"a-ticket-of-{name:>8}", order)
    queue.runs.look(f"a-ticket-of-{name:>8}", 0)
    queue.wake()
    return order


def has_ended(order: QueuedOrder) -> bool:
    """Wait at most ENDED_SECONDS for the decoding thread; return whether the run has ended."""
    deadline = threading.Event()
    for _ in range(int(ENDED_SECONDS / 0.01)):
        if order.state is State.DONE:
            return True
        deadline.wait(0.01)
    return False


@pytest.mark.parametrize(
    "error", [Panic("retry-limit-in-match"), SystemExit(1), KeyboardInterrupt(), Stopped()]
)
def test_any_error_of_a_run_ends_it_with_a_sentence_and_the_next_run_works(
    error: BaseException,
) -> None:
    queue = DecodingQueue()
    broken = joined(queue, "broken", error)
    assert has_ended(broken)
    assert json.loads(broken.messages[-1]) == {"seq": 1, "kind": "error", "text": UNEXPECTED}
    assert has_ended(joined(queue, "next", None))


def test_the_queue_continues_after_any_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue, failures = DecodingQueue(), [Panic("first"), ValueError("second")]
    tidy = queue.runs.tidy

    def failing() -> None:
        if failures and threading.current_thread().name == "decoding":
            raise failures.pop()
        tidy()

    monkeypatch.setattr(queue.runs, "tidy", failing)
    first = joined(queue, "first", None)
    queue.wake()
    assert has_ended(first) and not failures


def test_the_queue_says_since_when_a_turn_has_been_due() -> None:
    clock = Clock()
    queue, begun, go_on = DecodingQueue(clock), threading.Event(), threading.Event()
    assert queue.turn_age == 0

    def make(order: QueuedOrder) -> Iterator[Message]:
        begun.set()
        go_on.wait(ENDED_SECONDS)
        yield {"kind": "end"}

    order = QueuedOrder("slow", Work.RACE, make, request="slow")
    queue.runs.join("a-ticket-of-a-test", order)
    queue.runs.look("a-ticket-of-a-test", 0)
    queue.wake()
    assert begun.wait(ENDED_SECONDS)
    clock.now += 100
    assert queue.turn_age == 100
    go_on.set()
    assert has_ended(order)
    idle = threading.Event()
    while queue.turn_age:
        idle.wait(0.01)
