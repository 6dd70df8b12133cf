"""Clocks of a race are fair: the lane whose clock is behind moves, and only its own work counts."""

from dataclasses import dataclass

from specviz.decoding.race import race
from specviz.records import FinishReason


@dataclass
class Step:
    seconds: float


def test_the_lane_whose_clock_is_behind_moves_next():
    slow = [Step(3.0), Step(3.0), FinishReason.LENGTH]
    fast = [Step(1.0)] * 5 + [FinishReason.LENGTH]
    order = [event.lane[0] for event in race({"baseline": slow, "speculative": fast})]
    # The baseline (b) moves first, and its clock shows 3 s. Then the speculative lane (s) moves
    # until its clock also shows 3 s, after 1, 2 and 3 s. If both clocks show the same time, the
    # baseline moves.
    assert "".join(order) == "bsssb" + "sss" + "b"


def test_a_clock_counts_only_the_work_of_its_own_lane():
    runs = {"a": [Step(2.0), FinishReason.LENGTH], "b": [Step(0.5), FinishReason.LENGTH]}
    events = list(race(runs))
    last = {event.lane: event.clock for event in events}
    assert last == {"a": 2.0, "b": 0.5}


def test_every_lane_runs_to_its_own_end():
    longer = [Step(1.0), Step(1.0), FinishReason.END_OF_SEQUENCE]
    events = list(race({"a": [FinishReason.LENGTH], "b": longer}))
    assert [event.event for event in events if isinstance(event.event, FinishReason)] == [
        FinishReason.LENGTH,
        FinishReason.END_OF_SEQUENCE,
    ]


def test_any_number_of_lanes_race():
    lanes = {name: [Step(seconds)] * 4 + [FinishReason.LENGTH] for name, seconds in SPEEDS.items()}
    order = "".join(event.lane for event in race(lanes))
    assert sorted(order) == sorted("abc" * 5) and order.startswith("abcc")


SPEEDS = {"a": 4.0, "b": 2.0, "c": 1.0}
