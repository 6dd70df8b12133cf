"""Who moves next: everybody in turn, classes by their shares, budgets, what was measured beside."""

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


def test_short_steps_share_a_turn_and_whoever_comes_later_moves_at_once() -> None:
    shop = Workshop()
    shop.add("a", Work.RACE, 20, 0.01)
    shop.run(2)
    assert shop.moved == ["a"] * 6
    shop.add("b", Work.RACE, 20, 0.01)
    shop.run(1)
    assert shop.moved[6:] == ["b"] * 3


def test_a_first_round_goes_before_all_others_however_long_it_takes() -> None:
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


def test_what_shows_nothing_for_long_goes_before_others_no_more() -> None:
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


def test_many_first_rounds_of_a_visitor_keep_nobody_waiting_for_long() -> None:
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


def test_first_rounds_go_ahead_again_after_many_of_them() -> None:
    shop = Workshop()
    shop.add("a", Work.RACE, 4000)
    for number in range(30):
        shop.add(f"many {number}", Work.RACE, 1, 1.0, "another")
    shop.run(400)  # of which "a" has had some ten seconds alone
    shop.add("b", Work.RACE, 4000)
    shop.run(40)
    shop.moved.clear()
    shop.add("n", Work.RACE, 4, 0.1, "an address")
    shop.run(1)
    assert shop.moved[0] == "n"


def test_short_asks_of_one_who_is_alone_delay_no_first_round_later() -> None:
    shop = Workshop()
    for number in range(60):
        shop.add(f"ask {number}", Work.ASK, 1, 1.5)
        shop.run()
    assert shop.turns._ahead == AHEAD_SECONDS


def test_who_asks_for_much_at_once_takes_no_more_time_than_another_visitor() -> None:
    shop = Workshop()
    for number in range(30):
        shop.add(f"many {number}", Work.RACE, 400, 0.1, "one")
    shop.add("a", Work.RACE, 400, 0.1, "another")
    shop.run(60)
    shop.moved.clear()
    shop.run(100)
    assert 45 <= shop.moved.count("a") <= 55


def test_one_visitor_leaves_room_for_others_to_begin() -> None:
    shop = Workshop()
    for number in range(MAX_LIVE):
        shop.add(f"many {number}", Work.RACE, 400, 0.1, "one")
    shop.run(2 * MAX_LIVE)
    assert len(shop.turns.live) == LIVE_OF_VISITOR
    shop.add("a", Work.RACE, 400, 0.1, "another")
    shop.run(1)
    assert shop.moved[-1] == "a"


def test_a_race_hardly_notices_a_sweep_and_the_sweep_gets_on() -> None:
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


def test_who_slept_while_others_worked_is_owed_a_moment_and_not_all_that_time() -> None:
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


def test_an_order_that_is_held_takes_no_turn_and_keeps_nobody_waiting() -> None:
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


def test_an_order_joined_held_says_what_it_is_before_it_waits() -> None:
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


def test_who_is_over_the_budget_is_ended_with_a_sentence_and_keeps_what_was_measured() -> None:
    shop = Workshop(budgets=BUDGETS | {Work.LAB: 1.0})
    sweep, race = shop.add("l", Work.LAB, 100, 0.25), shop.add("r", Work.RACE, 40)
    shop.run()
    assert shop.moved.count("l") == 4 and shop.moved.count("r") == 40
    words = "ended after 1 s of decoding, the limit of this server; what was measured is kept"
    assert last(sweep)["limit"] == words and last(sweep)["reason"] == "stopped"
    assert last(race)["limit"] is None


def test_the_last_message_says_how_many_had_turns_meanwhile() -> None:
    shop = Workshop()
    alone = shop.add("a")
    shop.run()
    both = [shop.add("b"), shop.add("c", Work.RACE, 9)]
    sleeper = shop.add("h")
    sleeper.gate.pause()
    shop.run()
    assert [last(each)["beside"] for each in (alone, *both)] == [0, 1, 1]


def test_only_so_many_go_on_at_once_and_the_others_begin_in_their_order() -> None:
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


def test_nobody_begins_whom_nobody_wants_to_hear() -> None:
    shop = Workshop(most_live=1)
    shop.add("a")
    wanted = shop.add("b")
    while shop.turns.move(lambda order: order is wanted):
        pass
    assert shop.moved == ["b"] * 3


def test_an_order_that_fails_is_over_and_the_others_go_on() -> None:
    shop = Workshop()

    def broken(order: QueuedOrder):  # type: ignore[no-untyped-def]
        yield {"kind": "event", "number": float("nan")}

    order = QueuedOrder("x", Work.RACE, broken, request="x")
    shop.turns.add(order)
    shop.add("a")
    shop.run()
    assert last(order) == {"seq": 0, "kind": "error", "text": UNEXPECTED}
    assert shop.moved == ["a"] * 3 and order.request is order.make is order.steps is None


def test_what_has_ended_holds_nothing_but_its_words() -> None:
    shop = Workshop()
    order = shop.add("a")
    shop.run()
    assert order.state is State.DONE and order.request is order.make is order.steps is None
    assert order.bytes == sum(map(len, order.messages))
    assert isinstance(order.gate, Gate)


def test_whoever_waits_is_told_what_an_order_says_of_its_time() -> None:
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


def test_an_order_that_waits_for_a_download_lets_the_others_move_and_hears_a_stop() -> None:
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
