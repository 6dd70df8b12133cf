"""The waiting line: places, stops, refills, forgetting."""

import pytest

from specviz.errors import InputError
from specviz.ui import runs
from specviz.ui.runs import Runs
from specviz.ui.settings_form import race_request

REQUEST = race_request({"prompt": "hello"})


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def ticket(number: int) -> str:
    return f"ticket-number-{number:04d}"


def joined(count: int) -> tuple[Runs, Clock]:
    clock = Clock()
    line = Runs(clock)
    for number in range(count):
        line.join(ticket(number), REQUEST)
    return line, clock


def test_each_run_knows_how_many_are_ahead() -> None:
    line, _ = joined(3)
    assert [line.look(ticket(n), 0)["ahead"] for n in range(3)] == [0, 1, 2]
    first = line.enter(ticket(0))
    assert first is not None
    assert [line.look(ticket(n), 0)["ahead"] for n in (1, 2)] == [1, 2]
    line.leave(first)
    assert [line.look(ticket(n), 0)["ahead"] for n in (1, 2)] == [0, 1]


def test_whoever_waits_is_told_what_runs_and_how_long_it_will_likely_go_on() -> None:
    line, clock = joined(3)
    first = line.enter(ticket(0))
    assert first is not None
    assert line.look(ticket(0), 0)["running"] is None
    assert line.look(ticket(2), 0)["running"] == {"title": "a race", "seconds_left": None}
    line.expect(first, 30.0)
    clock.now += 4
    assert line.look(ticket(1), 0)["running"] == {"title": "a race", "seconds_left": 26.0}
    clock.now += 40
    line.look(ticket(2), 0)
    assert line.look(ticket(1), 0)["running"] == {"title": "a race", "seconds_left": 0.0}
    line.leave(first)
    assert line.look(ticket(2), 0)["running"] is None  # one waits before it, none runs


def test_a_ticket_runs_once() -> None:
    line, _ = joined(1)
    assert line.enter(ticket(0)) is not None
    assert line.enter(ticket(0)) is None


def test_a_run_stopped_while_waiting_never_starts_and_frees_its_place() -> None:
    line, _ = joined(2)
    line.stop(ticket(0))
    assert line.enter(ticket(0)) is None
    assert line.look(ticket(0), 0)["state"] == "done"
    assert line.look(ticket(1), 0)["ahead"] == 0


def test_stop_reaches_a_running_race() -> None:
    line, _ = joined(1)
    run = line.enter(ticket(0))
    assert run is not None and not run.stop.is_set()
    line.stop(ticket(0))
    assert run.stop.is_set()
    assert line.look(ticket(0), 0)["state"] == "running"


def test_a_strange_ticket_learns_nothing() -> None:
    line, _ = joined(1)
    assert line.look("somebody-elses-ticket", 0) == {
        "state": "unknown",
        "ahead": 0,
        "running": None,
        "messages": [],
    }
    line.stop("somebody-elses-ticket")


def test_missed_messages_come_from_the_asked_number_on() -> None:
    line, _ = joined(1)
    run = line.enter(ticket(0))
    assert run is not None
    run.messages.extend(["a", "b", "c"])
    assert line.look(ticket(0), 1)["messages"] == ["b", "c"]
    assert line.look(ticket(0), -5)["messages"] == ["a", "b", "c"]


def test_a_browser_that_went_away_is_no_longer_counted() -> None:
    line, clock = joined(2)
    clock.now += runs.AWAY_SECONDS + 1
    assert line.look(ticket(1), 0)["ahead"] == 0
    assert line.look(ticket(0), 0)["ahead"] == 0  # it came back, to its old place
    assert line.look(ticket(1), 0)["ahead"] == 1


def test_finished_runs_are_forgotten_after_a_while() -> None:
    line, clock = joined(1)
    run = line.enter(ticket(0))
    assert run is not None
    line.leave(run)
    clock.now += runs.KEEP_SECONDS + 1
    line.join(ticket(1), REQUEST)
    assert line.look(ticket(0), 0)["state"] == "unknown"


def test_a_running_race_is_never_forgotten() -> None:
    line, clock = joined(1)
    line.enter(ticket(0))
    clock.now += 100 * runs.KEEP_SECONDS
    line.join(ticket(1), REQUEST)
    assert line.look(ticket(0), 0)["state"] == "running"


def test_the_queue_has_an_end() -> None:
    line, _ = joined(runs.MAX_WAITING)
    with pytest.raises(InputError, match="waiting already"):
        line.join(ticket(999), REQUEST)


@pytest.mark.parametrize("bad", ["", "short", "x" * 65, ticket(0)])
def test_a_ticket_must_be_new_and_long_enough_to_be_secret(bad: str) -> None:
    line, _ = joined(1)
    with pytest.raises(InputError, match="ticket"):
        line.join(bad, REQUEST)


def test_a_held_run_of_a_page_that_went_away_keeps_nobody_waiting() -> None:
    line, clock = joined(2)
    run = line.enter(ticket(0))
    assert run is not None
    run.gate.pause()
    line.look(ticket(0), 0)
    clock.now += runs.AWAY_SECONDS
    line.look(ticket(1), 0)
    assert run.gate.is_paused, "its page may still come back"
    clock.now += runs.AWAY_SECONDS + 1
    line.look(ticket(1), 0)
    assert not run.gate.wait_turn()
