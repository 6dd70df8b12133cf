"""Fair clocks: the lane that is behind moves, and only its own work moves its clock."""

from dataclasses import dataclass

from specviz.decoding.race import Lane, race
from specviz.records import FinishReason


@dataclass
class Step:
    seconds: float


def test_the_lane_whose_clock_is_behind_moves_next():
    slow = [Step(3.0), Step(3.0), FinishReason.LENGTH]
    fast = [Step(1.0)] * 5 + [FinishReason.LENGTH]
    order = [event.lane.value[0] for event in race(slow, fast)]
    # baseline to 3; speculative 1, 2, 3; then the tie goes to the baseline again
    assert "".join(order) == "bsssb" + "sss" + "b"


def test_a_clock_counts_its_own_lane_only():
    events = list(race([Step(2.0), FinishReason.LENGTH], [Step(0.5), FinishReason.LENGTH]))
    last = {event.lane: event.clock for event in events}
    assert last == {Lane.BASELINE: 2.0, Lane.SPECULATIVE: 0.5}


def test_both_lanes_run_to_their_own_end():
    events = list(race([FinishReason.LENGTH], [Step(1.0), Step(1.0), FinishReason.END_OF_SEQUENCE]))
    assert [event.event for event in events if isinstance(event.event, FinishReason)] == [
        FinishReason.LENGTH,
        FinishReason.END_OF_SEQUENCE,
    ]
