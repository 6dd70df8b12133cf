"""Pages queue, share and stop runs, and a run ends once its pages no longer ask about it."""

from threading import Thread

import pytest

from specviz.errors import InputError
from specviz.pause import Gate
from specviz.ui import runs
from specviz.ui.runs import Runs
from specviz.ui.turns import MAX_LIVE, QueuedOrder, State, Work
from tests.ui.clocked import Workshop


def ticket(number: int) -> str:
    return f"ticket-number-{number:04d}"


class Room(Workshop):
    """A queue of work that several pages request."""

    def __init__(self, most_live: int = 48) -> None:
        super().__init__(most_live)
        self.lacks_memory = False
        self.runs = Runs(self.turns, self.clock, lambda: self.lacks_memory)

    def join(self, number: int, name: str, *given: object, is_heard: bool = True) -> QueuedOrder:
        order = self.order(name, *given)  # type: ignore[arg-type]
        self.runs.join(ticket(number), order)
        if is_heard:
            self.look(number)
        return order

    def look(self, number: int, after: int = 0) -> dict[str, object]:
        return self.runs.look(ticket(number), after)

    def run(self, turns: int = 10_000) -> None:
        for _ in range(turns):
            self.runs.tidy()
            if not self.turns.move(self.may_begin):
                return

    def may_begin(self, order: QueuedOrder) -> bool:
        return order.is_wanted and not (self.lacks_memory and self.turns.live)

    def wait(self, seconds: float, *pages: int) -> None:
        """Let the fake clock advance by `seconds` seconds.

        Once in each second, the given pages ask about their runs.
        """
        ends = self.clock.now + seconds
        while self.clock.now < ends:
            self.clock.now += 1
            for number in pages:
                self.look(number)
            self.run(1)


def state(room: Room, number: int) -> object:
    return room.look(number)["state"]


def test_each_run_knows_how_many_are_ahead_and_what_it_waits_for() -> None:
    room = Room(most_live=1)
    for number, name in enumerate("abc"):
        room.join(number, name)
    assert [room.look(n)["ahead"] for n in range(3)] == [0, 1, 2]
    room.run(1)
    assert [room.look(n)["ahead"] for n in range(3)] == [0, 1, 2]
    assert room.look(2)["running"] == {"title": "a", "seconds_left": None}
    assert room.look(0)["running"] is None
    room.turns.live[0].ends = room.clock.now + 30
    room.clock.now += 4
    assert round(room.look(1)["running"]["seconds_left"]) == 26  # type: ignore[index]


def test_runs_of_many_pages_proceed_at_the_same_time() -> None:
    room = Room()
    for number in range(40):
        room.join(number, str(number))
    room.run(40)
    assert len(set(room.moved)) == 40
    assert room.look(0)["beside"] == 39


def test_pages_with_the_same_request_see_one_run_from_its_beginning() -> None:
    room = Room()
    room.join(0, "same")
    room.run(2)
    room.join(1, "same")
    room.join(2, "other")
    assert room.look(0)["pages"] == room.look(1)["pages"] == 2
    assert room.look(2)["pages"] == 1
    assert room.look(1)["messages"] == room.look(0)["messages"] != []
    room.run()
    assert room.moved.count("same") == 3
    assert room.look(1)["messages"] == room.look(0)["messages"]


def test_a_run_that_has_ended_or_is_paused_is_not_shared() -> None:
    room = Room()
    room.join(0, "same")
    room.run()
    room.join(1, "same")
    room.run()
    assert room.moved.count("same") == 6
    held = room.order("same")
    held.gate.pause()
    held.is_held = True
    room.runs.join(ticket(2), held)
    room.join(3, "same")
    assert room.look(2)["pages"] == room.look(3)["pages"] == 1


def test_a_page_that_stops_a_shared_run_leaves_it_and_the_last_page_ends_it() -> None:
    room = Room()
    order = room.join(0, "same", Work.RACE, 50)
    room.join(1, "same")
    room.run(2)
    room.runs.stop(ticket(0))
    seen = room.look(0)
    assert seen["state"] == "done" and len(seen["messages"]) == 2  # type: ignore[arg-type]
    room.run(2)
    assert room.look(0) == seen and state(room, 1) == "running" and not order.stop.is_set()
    assert room.look(1)["pages"] == 1
    room.runs.stop(ticket(1))
    room.run()
    assert state(room, 1) == "done" and order.state is State.DONE and room.closed == ["same"]


def test_a_shared_run_cannot_be_paused_by_one_of_its_pages() -> None:
    room = Room()
    room.join(0, "same")
    room.run(1)
    assert room.runs.hold(ticket(0), Gate.resume)
    room.join(1, "same")
    with pytest.raises(
        InputError, match="2 pages show this run, so it cannot be paused for one of them"
    ):
        room.runs.hold(ticket(0), Gate.pause)
    assert not room.runs.hold("somebody-elses-ticket", Gate.pause)


def test_a_page_that_joins_a_run_while_it_is_being_paused_gets_its_own_run() -> None:
    room = Room()
    held = room.join(0, "same")
    room.run(1)
    joining = Thread(target=room.join, args=(1, "same"))

    def slowly(gate: Gate) -> None:
        joining.start()
        joining.join(0.2)
        gate.pause()

    assert room.runs.hold(ticket(0), slowly)
    joining.join()
    own = room.runs._places[ticket(1)].order
    assert own is not held and own.gate.is_open


def test_a_run_stopped_while_waiting_never_starts_and_frees_its_position() -> None:
    room = Room(most_live=1)
    room.join(0, "a"), room.join(1, "b")
    room.runs.stop(ticket(0))
    assert state(room, 0) == "done" and room.look(1)["ahead"] == 0
    room.run()
    assert room.moved == ["b"] * 3


def test_an_unknown_ticket_learns_nothing() -> None:
    room = Room()
    room.join(0, "a")
    nothing = {"ahead": 0, "running": None, "messages": [], "pages": 0, "beside": 0}
    assert room.runs.look("somebody-elses-ticket", 0) == {"state": "unknown"} | nothing
    room.runs.stop("somebody-elses-ticket")


def test_missed_messages_are_sent_from_the_requested_number_on() -> None:
    room = Room()
    order = room.join(0, "a")
    room.run()
    assert room.look(0, 2)["messages"] == order.messages[2:]
    assert room.look(0, -5)["messages"] == order.messages


@pytest.mark.parametrize("is_held", [False, True])
def test_a_run_whose_page_is_gone_is_freed_within_15_seconds(is_held: bool) -> None:
    room = Room()
    order = room.join(0, "a", Work.RACE, 10_000)
    room.run(3)
    if is_held:
        order.gate.pause()
        room.run(1)
    for _ in range(15):
        room.clock.now += 1
        room.run(1)
    room.run(2)
    assert order.state is State.DONE and state(room, 0) == "unknown"


def test_a_page_that_keeps_asking_keeps_its_run() -> None:
    room = Room()
    order = room.join(0, "a")
    room.run(1)
    order.gate.pause()
    for _ in range(600):
        room.clock.now += 5
        room.look(0)
        room.run(1)
    assert order.state is State.RUNNING
    order.gate.resume()
    room.run()
    assert state(room, 0) == "done"


def test_a_run_that_nobody_asks_for_is_never_started_and_soon_deleted() -> None:
    room = Room()
    for number in range(1000):
        room.join(number, str(number), is_heard=False)
    assert len(room.turns.waiting) <= runs.MAX_UNHEARD + 1
    order = room.join(5000, "wanted")
    room.run()
    assert room.moved == ["wanted"] * 3 and order.state is State.DONE
    room.clock.now += runs.UNHEARD_SECONDS + 1
    room.run()
    assert room.turns.waiting == []


def state_of_last(room: Room) -> object:
    return room.look(runs.MAX_OF_ADDRESS - 1)["messages"]


def test_the_queue_is_limited_and_an_address_has_a_part_of_it() -> None:
    room = Room(most_live=1)
    for number in range(runs.MAX_OF_ADDRESS):
        room.join(number, str(number))
    with pytest.raises(InputError, match="runs from your address are running already"):
        room.join(998, "one more")
    for number in range(runs.MAX_OF_ADDRESS, runs.MAX_WAITING):
        room.runs.join(ticket(number), room.order(str(number), visitor="another"))
        room.look(number)
    room.join(999, "one more", Work.RACE, 3, 0.1, "a third")
    assert runs.GIVEN_UP in str(state_of_last(room)), "it is taken from the address that has most"
    room.join(1000, "7")  # a page that joins an existing run needs no position in the queue


def test_two_addresses_cannot_close_the_queue_to_a_third() -> None:
    room = Room()
    for number in range(2 * runs.MAX_OF_ADDRESS):
        visitor = f"greedy {number // runs.MAX_OF_ADDRESS}"
        room.join(number, str(number), Work.RACE, 4000, 0.01, visitor)
        room.run(1)
    assert len(room.turns.live) == MAX_LIVE and len(room.turns.waiting) >= runs.MAX_WAITING
    began = room.clock.now
    late = room.join(900, "late", Work.RACE, 400, 0.1, "a third")
    while not late.has_shown:
        room.run(1)
    assert room.clock.now - began < 2
    told = [room.look(number) for number in range(2 * runs.MAX_OF_ADDRESS)]
    given_up = [each for each in told if runs.GIVEN_UP in str(each["messages"])]
    assert len(given_up) == 1 and given_up[0]["state"] == "done"
    paused = [each for each in told if (each["running"] or {}).get("has_given")]  # type: ignore
    assert len(paused) == 1 and paused[0]["ahead"] >= 1 and paused[0]["state"] == "waiting"


def test_a_page_learns_that_its_run_waits_for_memory() -> None:
    room = Room()
    room.join(0, "a", Work.RACE, 4000, 0.1, "one")
    room.run(2)
    room.lacks_memory = True
    room.join(1, "b", Work.RACE, 3, 0.1, "another")
    room.run(5)
    waiting = {"title": "a", "seconds_left": None, "lacks_memory": True}
    told = room.look(1)
    assert (told["state"], told["ahead"], told["running"]) == ("waiting", 1, waiting)
    room.lacks_memory = False
    assert room.look(1)["running"] is None
    room.run(5)
    assert state(room, 1) != "waiting"


def test_a_paused_run_ends_if_others_wait_for_its_memory() -> None:
    room = Room()
    held = room.join(0, "a", Work.RACE, 4000, 0.1, "one")
    room.run(2)
    room.runs.hold(ticket(0), Gate.pause)
    room.run(2)
    room.lacks_memory = True
    room.join(1, "b", Work.RACE, 3, 0.1, "another")
    room.wait(runs.HELD_SECONDS + 3, 0, 1)
    assert "it was held for 20 s" in held.limit
    assert state(room, 1) != "waiting"


def test_the_address_with_most_runs_gives_one_up_if_others_wait_for_memory() -> None:
    room = Room()
    greedy = [room.join(n, str(n), Work.RACE, 4000, 0.1, "greedy") for n in range(3)]
    other = room.join(3, "other", Work.RACE, 4000, 0.1, "other")
    room.run(8)
    room.lacks_memory = True
    room.join(4, "late", Work.RACE, 3, 0.1, "late")
    room.wait(runs.HELD_SECONDS - 3, *range(5))
    assert not any(each.limit for each in greedy), "most runs end by themselves"
    room.wait(6, *range(5))
    assert [each.limit for each in greedy] == ["", "", runs.GAVE_MEMORY]
    room.wait(runs.HELD_SECONDS + 1, *range(5))
    assert [bool(each.limit) for each in (*greedy, other)] == [False, True, True, False]
    room.wait(2 * runs.HELD_SECONDS, *range(5))
    assert not greedy[0].limit and not other.limit, "everybody keeps one"
    room.lacks_memory = False
    room.run(5)
    assert state(room, 4) != "waiting"


def test_an_address_with_no_more_runs_than_others_loses_none() -> None:
    room = Room(most_live=1)
    for number in range(runs.MAX_WAITING):
        room.join(number, str(number), Work.RACE, 3, 0.1, f"visitor {number}")
    with pytest.raises(InputError, match="64 runs are waiting already"):
        room.join(900, "late", Work.RACE, 3, 0.1, "a third")


def test_a_run_that_lost_its_position_can_be_held() -> None:
    room = Room(most_live=2)
    for number in range(2):
        room.join(number, str(number), Work.RACE, 400, 0.1, "one")
    room.run(4)
    room.join(2, "late", Work.RACE, 400, 0.1, "another")
    room.run(1)
    assert state(room, 1) == "waiting"
    assert room.runs.hold(ticket(1), Gate.pause)


def test_an_address_gains_nothing_by_asking_about_its_runs_later() -> None:
    room = Room()
    for number in range(99):
        room.join(number, str(number), is_heard=False)
    active = [each for each in room.runs._places.values() if runs.is_active(each)]
    assert len(active) == runs.MAX_OF_ADDRESS


def test_an_address_cannot_use_up_the_limit_by_watching_one_run_many_times() -> None:
    room = Room()
    long = room.join(0, "a", Work.RACE, 10_000)
    with pytest.raises(InputError, match="256 runs from your address are open"):
        for number in range(1, runs.MAX_PLACES):
            room.join(number, "a")
    with pytest.raises(InputError, match="256 runs from your address are open"):
        seen = QueuedOrder("a recording", Work.RACE, None, long.visitor, "r", is_recording=True)
        room.runs.begin(ticket(998), seen)
    room.runs.join(ticket(999), room.order("a", visitor="another"))
    assert state(room, 0) == state(room, 999) == "waiting"


def test_at_the_limit_of_open_runs_the_address_with_most_loses_its_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "MAX_PLACES", 6)
    room = Room()
    for number, visitor in enumerate(["one", "two", "two", "one", "two", "one"]):
        room.runs.join(ticket(number), room.order("the same", visitor=visitor))
    for number in (10, 11):
        room.runs.join(ticket(number), room.order("mine", visitor="a third"))
    assert [state(room, number) for number in (4, 5, 10, 11)] == ["unknown"] * 2 + ["waiting"] * 2
    with pytest.raises(InputError, match="6 runs are open on this server"):
        room.runs.join(ticket(12), room.order("mine", visitor="a third"))


def test_a_large_answer_is_sent_in_parts_and_the_run_stays_until_all_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "MAX_ANSWER_BYTES", 100)
    room = Room()
    order = room.join(0, "a", Work.RACE, 50)
    room.run()
    told, states = list[str](), list[object]()
    while not states or states[-1] == "running":
        seen = room.look(0, len(told))
        told += seen["messages"]  # type: ignore[arg-type]
        states.append(seen["state"])
    assert told == order.messages and len(states) > 10 and states[-1] == "done"


def test_after_the_server_slept_pages_get_time_to_ask_again() -> None:
    room = Room()
    order = room.join(0, "a", Work.RACE, 400)
    room.run(2)
    room.clock.now += 60
    room.run(10)
    assert state(room, 0) == "running"
    room.run(200)
    assert order.stop.is_set(), "a page that is really gone is left"


def test_finished_runs_are_deleted_after_a_while() -> None:
    room = Room()
    room.join(0, "a")
    room.run()
    room.clock.now += runs.KEEP_SECONDS + 1
    room.run()
    assert state(room, 0) == "unknown" and room.runs.bytes == 0


@pytest.mark.parametrize("bad", ["", "short", "x" * 65, ticket(0)])
def test_a_ticket_must_be_new_and_long_enough_to_be_secret(bad: str) -> None:
    room = Room()
    room.join(0, "a")
    with pytest.raises(InputError, match="ticket"):
        room.runs.join(bad, room.order("b"))


def test_of_too_many_paused_runs_the_oldest_is_ended_with_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "MAX_HELD", 2)
    room = Room()
    orders = [room.join(number, str(number)) for number in range(3)]
    for order in orders:
        order.gate.pause()
    room.run()
    room.clock.now += 1
    room.run()
    assert [each.state for each in orders] == [State.DONE, State.RUNNING, State.RUNNING]
    assert "2 runs are held on this server, and this was the oldest" in orders[0].messages[-1]


def test_if_runs_are_sequential_a_paused_run_is_limited_while_others_wait() -> None:
    room = Room(most_live=1)
    held = room.join(0, "h", Work.RACE, 50)
    room.run(1)
    held.gate.pause()
    room.run()
    for _ in range(100):
        room.clock.now += 10
        room.look(0)
        room.run()
    assert held.state is State.RUNNING, "nobody waits for it"
    room.join(1, "a")
    room.clock.now += 1
    room.run()
    assert held.state is State.DONE and room.moved[-3:] == ["a"] * 3
    assert "ended: others wait, and it was held for 20 s" in held.messages[-1]


def test_the_messages_of_runs_are_limited_and_finished_runs_are_deleted_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "MAX_RUN_BYTES", 3000)
    monkeypatch.setattr(runs, "MAX_BYTES", 4000)
    room = Room()
    long = room.join(0, "a", Work.RACE, 10_000)
    room.run()
    assert "ended: its record has more than" in long.messages[-1] and long.bytes < 4000
    room.join(1, "b", Work.RACE, 40)
    room.run()
    assert state(room, 0) == "unknown" and state(room, 1) == "done"
    held = room.join(2, "c", Work.RACE, 40)
    held.gate.advance(30)
    room.run()
    room.join(3, "d", Work.RACE, 45)
    room.run()
    room.clock.now += 1
    room.run()
    assert room.runs.bytes <= 4000 or held.state is State.DONE


def recording(name: str) -> QueuedOrder:
    return QueuedOrder("a recording", Work.RACE, None, request=name, is_recording=True)


def test_a_recording_does_not_wait_and_is_prepared_once_for_all_pages() -> None:
    room = Room(most_live=1)
    room.join(0, "a")
    room.run(1)
    first = recording("golden")
    assert room.runs.begin(ticket(1), first)
    assert not room.runs.begin(ticket(2), recording("golden"))
    first.say({"kind": "header"})
    first.say({"kind": "end"})
    first.finish()
    assert [room.look(n)["messages"] for n in (1, 2)] == [first.messages] * 2
    room.clock.now += runs.KEEP_SECONDS + 1
    room.look(0)
    assert not room.runs.begin(ticket(3), recording("golden"))
    assert room.look(3)["state"] == "done" and room.look(3)["pages"] == 1


def test_recordings_being_opened_and_stored_recordings_are_limited() -> None:
    room = Room()
    made = [recording(str(number)) for number in range(runs.MAX_OPENINGS)]
    for number, each in enumerate(made):
        room.runs.begin(ticket(number), each)
    with pytest.raises(InputError, match="other recordings are being opened"):
        room.runs.begin(ticket(999), recording("one more"))
    for each in made:
        each.say({"kind": "end"})
        each.finish()
    room.runs.begin(ticket(999), recording("one more"))
    room.clock.now += runs.KEEP_SECONDS + 1
    room.runs.tidy()
    assert len(room.runs._orders()) <= runs.MAX_RECORDINGS + 1


def test_open_runs_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_PLACES", 5)
    room = Room()
    for number in range(12):
        room.join(number, "done" + str(number))
        room.run()
    for number in range(100, 105):
        room.join(number, str(number))
    with pytest.raises(InputError, match="5 runs are open on this server"):
        room.join(999, "one more")


def test_the_size_of_requests_is_limited_until_their_runs_end() -> None:
    room = Room(most_live=1)
    half = runs.MAX_WEIGHT // 2
    for number in range(2):
        order = room.order(str(number))
        order.weight, order.visitor = half, str(number)
        room.runs.join(ticket(number), order)
        room.look(number)
    late = recording("one more")
    late.weight = half
    with pytest.raises(InputError, match="uploaded recordings use all the memory"):
        room.runs.begin(ticket(2), late)
    room.join(3, "without any")
    room.run()
    assert room.runs.begin(ticket(2), late)


def sent(name: str, visitor: str, weight: int = 1) -> QueuedOrder:
    """Return a request to open a recording that this visitor has uploaded."""
    made = recording(name)
    made.visitor, made.weight = visitor, weight
    return made


def test_recordings_uploaded_by_one_address_do_not_exclude_those_of_others() -> None:
    """The server makes the figures of one recording at a time, which takes seconds for a large one.

    So recordings wait, and the number of waiting recordings is limited for each address and in
    total.
    """
    room = Room()
    for number in range(runs.OPENINGS_OF_ADDRESS):
        room.runs.begin(ticket(number), sent(f"one {number}", "one"))
    with pytest.raises(InputError, match="other recordings are being opened"):
        room.runs.begin(ticket(90), sent("one more", "one"))
    at = runs.OPENINGS_OF_ADDRESS
    while at < runs.MAX_SENT_OPENINGS:
        assert room.runs.begin(ticket(at), sent(f"another {at}", f"another {at}"))
        at += 1
    with pytest.raises(InputError, match="other recordings are being opened"):
        room.runs.begin(ticket(91), sent("a late one", "late"))
    assert room.runs.begin(ticket(92), recording("one of the app's"))


def test_requests_of_one_address_do_not_exclude_those_of_others() -> None:
    room = Room()
    most = runs.WEIGHT_OF_ADDRESS
    assert 2 * most < runs.MAX_WEIGHT
    assert room.runs.begin(ticket(1), sent("large", "one", most))
    with pytest.raises(InputError, match="uploaded recordings use all the memory"):
        room.runs.begin(ticket(2), sent("more", "one", 1))
    assert room.runs.begin(ticket(3), sent("more", "another", most))
