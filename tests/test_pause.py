"""A paused run waits for real, moves round by round, and ends when it is told to or forgotten.

No test sleeps until something has happened: threads meet in events and queues with time limits.
"""

import queue
import threading
import time

import pytest

from specviz.decoding.race import LaneEvent, race
from specviz.errors import InputError
from specviz.experiments.run.recorded_race import Replay
from specviz.pause import Gate, in_turns
from specviz.records import BASELINE, SPECULATIVE, FinishReason, Round
from tests.random_traces import random_trace

LONG = 30.0  # seconds that only a broken gate takes


class Walker(threading.Thread):
    """Takes turns until it is told to stop; `passed` gets every turn as it is taken."""

    def __init__(self, gate):
        super().__init__(daemon=True)
        self.gate, self.passed, self.taken = gate, queue.Queue(), 0

    def run(self):
        while self.gate.wait_turn():
            self.taken += 1
            self.passed.put(self.taken)

    def reach(self, turn):
        while self.passed.get(timeout=LONG) != turn:
            pass


@pytest.fixture
def gate():
    made = Gate(patience_seconds=LONG)
    yield made
    made.release()


def walker_at(gate):
    walker = Walker(gate)
    walker.start()
    return walker


def stays(walker, turn, seconds=0.1):
    """Whether no turn is taken for a while."""
    try:
        return walker.passed.get(timeout=seconds) <= turn
    except queue.Empty:
        return walker.taken == turn


def test_an_open_gate_holds_nobody(gate):
    assert all(gate.wait_turn() for _ in range(1000))
    assert not gate.is_paused


def test_a_paused_gate_lets_exactly_the_allowed_turns_through(gate):
    gate.pause()
    walker = walker_at(gate)
    assert stays(walker, 0)
    for turns, reached in ((1, 1), (3, 4), (1, 5)):
        gate.advance(turns)
        walker.reach(reached)
        assert stays(walker, reached)
    assert gate.is_paused


def test_turns_allowed_by_many_threads_at_once_are_all_counted(gate):
    gate.pause()
    walker = walker_at(gate)
    helpers = [
        threading.Thread(target=lambda: [gate.advance() for _ in range(200)]) for _ in range(8)
    ]
    for helper in helpers:
        helper.start()
    for helper in helpers:
        helper.join(LONG)
    walker.reach(1600)
    assert stays(walker, 1600)


def test_many_who_wait_share_the_turns(gate):
    gate.pause()
    walkers = [walker_at(gate) for _ in range(4)]
    gate.advance(100)
    deadline = time.monotonic() + LONG
    while sum(walker.taken for walker in walkers) < 100 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert sum(walker.taken for walker in walkers) == 100
    gate.release()
    for walker in walkers:
        walker.join(LONG)
    assert sum(walker.taken for walker in walkers) == 100


def test_resume_opens_and_pause_takes_back_turns_not_taken(gate):
    gate.advance(5)
    assert gate.wait_turn()
    gate.pause()
    walker = walker_at(gate)
    assert stays(walker, 0)
    gate.resume()
    walker.reach(50)


def test_advance_on_an_open_gate_pauses_after_those_turns(gate):
    gate.advance(2)
    assert gate.wait_turn() and gate.wait_turn()
    assert gate.is_paused


def test_release_ends_whoever_waits_and_everybody_after(gate):
    gate.pause()
    walker = walker_at(gate)
    gate.release()
    walker.join(LONG)
    assert not walker.is_alive() and walker.taken == 0
    gate.resume()
    gate.advance()
    assert not gate.wait_turn()
    assert not gate.timed_out and not gate.is_paused


def test_a_pause_that_nobody_ends_times_out_and_ends_the_run():
    gate = Gate(patience_seconds=0.05)
    gate.pause()
    assert not gate.wait_turn()
    assert gate.timed_out and not gate.is_paused


def test_working_the_gate_starts_its_patience_anew():
    gate = Gate(patience_seconds=0.5)
    gate.pause()
    walker = walker_at(gate)
    began = time.monotonic()
    while time.monotonic() - began < 1.5:
        gate.pause()
        time.sleep(0.02)
    assert walker.is_alive() and not gate.timed_out
    walker.join(LONG)
    assert gate.timed_out


def test_an_open_gate_never_times_out():
    gate = Gate(patience_seconds=0.0)
    assert all(gate.wait_turn() for _ in range(10))


@pytest.mark.parametrize("turns", [0, -3])
def test_less_than_one_turn_is_refused(gate, turns):
    with pytest.raises(InputError, match=f"turns must be 1 or more, got {turns}"):
        gate.advance(turns)


def counted(events, seen):
    for event in events:
        seen.append(event)
        yield event


def rounds_of(events):
    return [each.event.index for each in events if isinstance(each.event, Round)]


def test_one_turn_is_one_round_and_what_the_baseline_did_until_then(gate):
    trace, seen = random_trace(3, rounds=6), []
    gate.advance(3)
    followed = in_turns(counted(Replay(trace), seen), gate, SPECULATIVE)
    got = []
    while rounds_of(got) != [0, 1, 2]:
        got.append(next(followed))
    assert seen == got  # nothing was pulled ahead
    gate.release()
    assert list(followed) == []
    assert seen == got


def test_a_paused_run_pulls_no_event_until_it_may(gate):
    seen, got = [], queue.Queue()
    gate.pause()
    events = in_turns(counted(Replay(random_trace(3, rounds=3)), seen), gate, SPECULATIVE)
    thread = threading.Thread(target=lambda: [got.put(e) for e in events], daemon=True)
    thread.start()
    with pytest.raises(queue.Empty):
        got.get(timeout=0.1)
    assert seen == []
    gate.advance()
    events_got = [got.get(timeout=LONG)]
    while not rounds_of(events_got):
        events_got.append(got.get(timeout=LONG))
    with pytest.raises(queue.Empty):
        got.get(timeout=0.1)
    assert seen == events_got
    gate.resume()
    thread.join(LONG)
    assert rounds_of(seen) == [0, 1, 2]


def test_behind_the_last_round_each_baseline_token_is_a_turn(gate):
    trace = random_trace(1, rounds=3)
    plain = trace.lane(BASELINE)
    steps = [plain.prefill, *plain.steps[:4], FinishReason.LENGTH]
    events = [
        *race({SPECULATIVE: [trace.prefill, FinishReason.LENGTH]}),
        *(LaneEvent(BASELINE, each, 9.0) for each in steps),
    ]
    gate.advance(3)
    followed = in_turns(events, gate, SPECULATIVE)
    ends = [index for index, each in enumerate(events) if each.lane == SPECULATIVE]
    for _ in range(ends[-1] + 1 + 2):  # the last turn of that lane, then two more
        next(followed)
    assert gate.is_paused
    gate.release()
    assert list(followed) == []


def test_an_open_gate_changes_nothing(gate):
    trace = random_trace(5, rounds=4)
    assert list(in_turns(Replay(trace), gate, SPECULATIVE)) == list(Replay(trace))
