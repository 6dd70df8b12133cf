"""Runs take steps in turns, and no visitor gets more time than another.

If the queue may run only one job at a time, as on a GPU, it does not interrupt this job.
"""

import json
from collections.abc import Iterator
from concurrent.futures import Future

from specviz.pause import Gate
from specviz.ui.answers import UNEXPECTED
from specviz.ui.messages import Message
from specviz.ui.turns import (
    AHEAD_SECONDS,
    LIVE_OF_VISITOR,
    MAX_LIVE,
    YOUNG_SECONDS,
    QueuedOrder,
    State,
    Work,
)
from tests.ui.clocked import BUDGETS, Workshop


def last(order: QueuedOrder) -> dict[str, object]:
    found: dict[str, object] = json.loads(order.messages[-1])
    return found


def test_races_of_all_sessions_move_in_turn() -> None:
    shop = Workshop()
    for name in "abc":
        shop.add(name)
    shop.run()
    assert "".join(shop.moved) == "abcabcabc"


def test_short_steps_share_a_turn_and_a_newcomer_moves_at_once() -> None:
    shop = Workshop()
    shop.add("a", Work.RACE, 20, 0.01)
    shop.run(2)
    assert shop.moved == ["a"] * 6
    shop.add("b", Work.RACE, 20, 0.01)
    shop.run(1)
    assert shop.moved[6:] == ["b"] * 3


def test_a_first_round_comes_before_all_others_however_long_it_takes() -> None:
    shop = Workshop()
    shop.add("l", Work.LAB, 100, 0.25)
    for name in "ab":
        shop.add(name, Work.RACE, 40)
    shop.run(20)
    shop.moved.clear()
    shop.add("n", Work.RACE, 40, YOUNG_SECONDS / 2)
    shop.add("m", Work.RACE, 40)
    shop.run(6)
    assert shop.moved[:2] == ["n", "m"], "each has its first round before the next one begins"
    assert {"a", "b"} <= set(shop.moved[2:]), "and then the others have their turns"


def test_a_run_without_a_result_for_long_loses_its_priority() -> None:
    shop = Workshop()

    def make(order: QueuedOrder) -> Iterator[Message]:
        for _ in range(40):
            shop.clock.now += YOUNG_SECONDS / 4
            shop.moved.append("s")
            yield {"kind": "event", "type": "step"}

    shop.add("a", Work.RACE, 40)
    shop.run(4)
    shop.moved.clear()
    shop.turns.add(QueuedOrder("s", Work.RACE, make, "another address"))
    shop.run(5)
    assert shop.moved[:4] == ["s"] * 4 and shop.moved[4] == "a"


def test_many_first_rounds_of_one_visitor_do_not_delay_others_for_long() -> None:
    shop = Workshop()
    shop.add("a", Work.RACE, 400)
    shop.run(10)
    shop.moved.clear()
    began, waits = shop.clock.now, []
    for number in range(30):
        shop.add(f"many {number}", Work.RACE, 1, 1.0, "another")
    while shop.moved.count("a") < 20:
        shop.run(1)
        if shop.moved[-1] == "a":
            waits.append(shop.clock.now - began)
            began = shop.clock.now
    assert max(waits) < AHEAD_SECONDS + 1.2


def test_first_rounds_have_priority_again_after_many_of_them() -> None:
    shop = Workshop()
    shop.add("a", Work.RACE, 4000)
    for number in range(30):
        shop.add(f"many {number}", Work.RACE, 1, 1.0, "another")
    shop.run(400)  # for about 10 s of the fake clock, only run "a" can move
    shop.add("b", Work.RACE, 4000)
    shop.run(40)
    shop.moved.clear()
    shop.add("n", Work.RACE, 4, 0.1, "an address")
    shop.run(1)
    assert shop.moved[0] == "n"


def test_short_requests_of_a_single_visitor_do_not_delay_later_first_rounds() -> None:
    shop = Workshop()
    for number in range(60):
        shop.add(f"ask {number}", Work.ASK, 1, 1.5)
        shop.run()
    assert shop.turns._ahead == AHEAD_SECONDS


def test_a_visitor_with_many_runs_gets_no_more_time_than_another() -> None:
    shop = Workshop()
    for number in range(30):
        shop.add(f"many {number}", Work.RACE, 400, 0.1, "one")
    shop.add("a", Work.RACE, 400, 0.1, "another")
    shop.run(60)
    shop.moved.clear()
    shop.run(100)
    assert 45 <= shop.moved.count("a") <= 55


def test_one_visitor_leaves_positions_for_others_to_start() -> None:
    shop = Workshop()
    for number in range(MAX_LIVE):
        shop.add(f"many {number}", Work.RACE, 400, 0.1, "one")
    shop.run(2 * MAX_LIVE)
    assert len(shop.turns.live) == LIVE_OF_VISITOR
    shop.add("a", Work.RACE, 400, 0.1, "another")
    shop.run(1)
    assert shop.moved[-1] == "a"


def test_a_new_visitor_starts_in_a_position_of_the_visitor_with_most_runs() -> None:
    shop = Workshop(6, dict.fromkeys(Work, 1e6))
    sweeps = [shop.add(f"l{number}", Work.LAB, 400, 0.5, "one") for number in range(3)]
    shop.run(3)
    races = [shop.add(f"r{number}", Work.RACE, 400, 0.1, "one") for number in range(9)]
    others = [shop.add(f"o{number}", Work.RACE, 400, 0.1, "two") for number in range(2)]
    shop.run(60)
    assert len(shop.turns.live) == 6
    began = shop.clock.now
    late = shop.add("late", Work.RACE, 40, 0.1, "a third")
    while not late.has_shown:
        shop.run(1)
    assert shop.clock.now - began < 1
    returned = [each for each in sweeps + races if each.has_begun and each.state is State.WAITING]
    assert sweeps[-1] in returned and len(shop.turns.live) == 6
    assert all(each in shop.turns.begun for each in returned)
    assert any(each.state is State.RUNNING for each in others), "who holds less keeps a place"
    shop.run()
    assert {each.state for each in [*sweeps, *races, *others, late]} == {State.DONE}
    assert {last(each)["reason"] for each in sweeps + races} == {"done"}, "it went on where it was"
    assert all(shop.moved.count(each.title) == 400 for each in sweeps + races + others)


def test_nobody_loses_a_position_to_a_visitor_with_as_many_runs() -> None:
    shop = Workshop(most_live=2)
    for visitor in ("one", "two"):
        shop.add(visitor, Work.RACE, 5, 0.1, visitor)
    shop.run(2)
    shop.add("late", Work.RACE, 1, 0.1, "a third")
    shop.run()
    assert shop.moved[:10].count("one") == shop.moved[:10].count("two") == 5


def test_if_runs_are_sequential_a_running_one_is_not_interrupted() -> None:
    shop = Workshop(most_live=1)
    for name in "ab":
        shop.add(name, Work.RACE, 5, 0.1, "one")
    shop.run(1)
    shop.add("c", Work.RACE, 1, 0.1, "another")
    shop.run()
    assert "".join(shop.moved) == "aaaaacbbbbb"


def test_a_run_that_lost_its_position_can_be_stopped() -> None:
    shop = Workshop(most_live=2)
    first, second = (shop.add(name, Work.RACE, 400, 0.1, "one") for name in "ab")
    shop.run(4)
    shop.add("c", Work.RACE, 400, 0.1, "another")
    shop.run(1)
    assert second.state is State.WAITING and not shop.turns.drop(second)
    second.cancel()
    shop.run(6)
    assert last(second)["reason"] == "stopped" and first.state is State.RUNNING


def test_a_sweep_slows_a_race_only_slightly_and_still_proceeds() -> None:
    shop = Workshop()
    shop.add("l", Work.LAB, 100, 0.25)
    shop.run(4)
    shop.moved.clear()
    shop.add("r", Work.RACE, 400, 0.1)
    shop.run(100)
    assert shop.moved[0] == "r", "it does not wait for the time that the sweep had alone"
    shop.moved.clear()
    shop.run(120)
    sweep = 0.25 * shop.moved.count("l")
    whole = sweep + 0.1 * shop.moved.count("r")
    assert 0.08 < sweep / whole < 0.16
    longest = max(len(each) for each in "".join(shop.moved).split("r"))
    assert longest <= 2, "a slice of a sweep is half a second"


def test_a_run_that_was_idle_gets_only_a_moment_and_not_all_missed_time() -> None:
    shop = Workshop()
    race = shop.add("r", Work.RACE, 400, 0.1)
    shop.run(1)
    race.gate.pause()
    shop.add("l", Work.LAB, 1000, 0.25)
    shop.run(100)
    race.gate.resume()
    shop.moved.clear()
    shop.run(180)
    assert "l" in shop.moved[:90]


def test_held_work_takes_no_turn_and_delays_nobody() -> None:
    shop = Workshop()
    held = shop.add("h")
    held.gate.pause()
    shop.add("a")
    shop.run()
    assert shop.moved == ["a"] * 3 and held.is_parked
    held.gate.advance()
    shop.run()
    assert shop.moved == ["a"] * 3 + ["h"]
    held.cancel()
    shop.run()
    assert held.state is State.DONE and last(held)["reason"] == "stopped"


def test_work_that_starts_paused_sends_its_header_before_it_waits() -> None:
    shop = Workshop()
    seen: list[str] = []

    def make(order: QueuedOrder):  # type: ignore[no-untyped-def]
        yield {"kind": "header"}
        yield {"kind": "warning"}
        while order.gate.is_paused:
            seen.append("asked")
            yield None

    order = QueuedOrder("h", Work.RACE, make, is_held=True)
    shop.turns.add(order)
    shop.run()
    assert len(order.messages) == 2 and seen == ["asked"]


def test_work_over_its_budget_ends_with_a_sentence_and_keeps_its_measurements() -> None:
    shop = Workshop(budgets=BUDGETS | {Work.LAB: 1.0})
    sweep, race = shop.add("l", Work.LAB, 100, 0.25), shop.add("r", Work.RACE, 40)
    shop.run()
    assert shop.moved.count("l") == 4 and shop.moved.count("r") == 40
    words = "ended after 1 s of decoding, the limit of this server; what was measured is kept"
    assert last(sweep)["limit"] == words and last(sweep)["reason"] == "stopped"
    assert last(race)["limit"] is None


def test_the_last_message_says_how_many_other_runs_had_turns() -> None:
    shop = Workshop()
    alone = shop.add("a")
    shop.run()
    both = [shop.add("b"), shop.add("c", Work.RACE, 9)]
    sleeper = shop.add("h")
    sleeper.gate.pause()
    shop.run()
    assert [last(each)["beside"] for each in (alone, *both)] == [0, 1, 1]


def test_only_a_limited_number_runs_at_once_and_the_others_start_in_order() -> None:
    shop = Workshop(most_live=1)
    for name in "abc":
        shop.add(name)
    assert shop.turns.missing_room == 0
    shop.run(1)
    assert [each.title for each in shop.turns.live] == ["a"]
    assert [each.title for each in shop.turns.waiting] == ["b", "c"] and MAX_LIVE >= 40
    assert shop.turns.missing_room == 1
    shop.run()
    assert "".join(shop.moved) == "aaabbbccc"


def test_work_that_nobody_watches_does_not_start() -> None:
    shop = Workshop(most_live=1)
    shop.add("a")
    wanted = shop.add("b")
    while shop.turns.move(lambda order: order is wanted):
        pass
    assert shop.moved == ["b"] * 3


def test_failed_work_ends_and_the_others_continue() -> None:
    shop = Workshop()

    def broken(order: QueuedOrder):  # type: ignore[no-untyped-def]
        yield {"kind": "event", "number": float("nan")}

    order = QueuedOrder("x", Work.RACE, broken, request="x")
    shop.turns.add(order)
    shop.add("a")
    shop.run()
    assert last(order) == {"seq": 0, "kind": "error", "text": UNEXPECTED}
    assert shop.moved == ["a"] * 3 and order.request is order.make is order.steps is None


def test_finished_work_keeps_nothing_but_its_messages() -> None:
    shop = Workshop()
    order = shop.add("a")
    shop.run()
    assert order.state is State.DONE and order.request is order.make is order.steps is None
    assert order.bytes == sum(map(len, order.messages))
    assert isinstance(order.gate, Gate)


def test_waiting_pages_see_the_remaining_time_that_running_work_reports() -> None:
    shop = Workshop()

    def told(order: QueuedOrder):  # type: ignore[no-untyped-def]
        yield {"kind": "progress", "seconds_left": 30.0}
        shop.clock.now += 4
        yield {"kind": "progress"}
        shop.clock.now += 1
        yield {"kind": "progress", "seconds_left": None}

    order = QueuedOrder("t", Work.RACE, told)
    shop.turns.add(order)
    shop.run(1)
    assert shop.turns.seconds_left(order) == 26.0
    shop.run()
    assert shop.turns.seconds_left(order) is None


def test_work_that_waits_for_a_download_lets_others_move_and_can_be_stopped() -> None:
    shop = Workshop()
    download: Future[None] = Future()

    def make(order: QueuedOrder):  # type: ignore[no-untyped-def]
        order.is_idle = lambda: not download.done()
        while not download.done() and not order.stop.is_set():
            yield None
        yield {"kind": "end", "reason": "stopped" if order.stop.is_set() else "done"}

    waiting = QueuedOrder("w", Work.RACE, make)
    shop.turns.add(waiting)
    shop.add("a")
    shop.run()
    assert shop.moved == ["a"] * 3 and waiting.state is State.RUNNING
    waiting.cancel()
    shop.run()
    assert last(waiting)["reason"] == "stopped"
