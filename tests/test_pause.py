"""A paused run moves round by round, ends when it is stopped, and never blocks a thread."""

import threading

import pytest

from specviz.decoding.race import LaneEvent, race
from specviz.errors import InputError
from specviz.experiments.run.recorded_race import Replay
from specviz.pause import Gate, GateAnswer, in_turns
from specviz.records import BASELINE, SPECULATIVE, FinishReason, Round
from tests.random_traces import random_trace


@pytest.fixture
def gate():
    return Gate()


def taken(gate, most=100):
    """Return how many steps of a run the pause gate allows before it pauses the run.

    The result is at most `most`.
    """
    return next((n for n in range(most) if gate.take_turn() is not GateAnswer.TAKEN), most)


def test_an_open_gate_blocks_nobody(gate):
    assert taken(gate, 1000) == 1000
    assert gate.is_open and not gate.is_paused


def test_a_paused_gate_lets_exactly_the_allowed_turns_through(gate):
    gate.pause()
    assert gate.take_turn() is GateAnswer.HELD
    for turns in (1, 3, 1):
        gate.advance(turns)
        assert taken(gate) == turns
    assert gate.is_paused and not gate.is_open


def test_turns_allowed_by_many_threads_at_once_are_all_counted(gate):
    gate.pause()
    helpers = [
        threading.Thread(target=lambda: [gate.advance() for _ in range(200)]) for _ in range(8)
    ]
    for helper in helpers:
        helper.start()
    for helper in helpers:
        helper.join()
    assert taken(gate, 2000) == 1600


def test_resume_opens_the_gate_and_pause_cancels_unused_turns(gate):
    gate.advance(5)
    assert gate.take_turn() is GateAnswer.TAKEN
    gate.pause()
    assert gate.take_turn() is GateAnswer.HELD
    gate.resume()
    assert taken(gate) == 100


def test_advance_on_an_open_gate_pauses_after_those_turns(gate):
    gate.advance(2)
    assert taken(gate) == 2
    assert gate.is_paused


def test_release_ends_all_waiting_and_later_runs(gate):
    gate.pause()
    gate.release()
    assert gate.take_turn() is GateAnswer.ENDED
    gate.resume()
    gate.advance()
    assert gate.take_turn() is GateAnswer.ENDED
    assert not gate.is_paused and not gate.is_open


@pytest.mark.parametrize("turns", [0, -3])
def test_fewer_than_one_turn_is_refused(gate, turns):
    with pytest.raises(InputError, match=f"turns must be at least 1, got {turns}"):
        gate.advance(turns)


def counted(events, seen):
    for event in events:
        seen.append(event)
        yield event


def rounds_of(events):
    return [each.event.index for each in events if isinstance(each.event, Round)]


def until_held(followed):
    got = []
    while (event := next(followed)) is not None:
        got.append(event)
    return got


def test_one_turn_is_one_round_and_the_baseline_s_tokens_until_then(gate):
    trace, seen = random_trace(3, rounds=6), []
    gate.advance(3)
    followed = in_turns(counted(Replay(trace), seen), gate, SPECULATIVE)
    got = until_held(followed)
    assert rounds_of(got) == [0, 1, 2]
    assert seen == got  # the run has decoded only the events that it has sent
    gate.release()
    assert list(followed) == []
    assert seen == got


def test_a_paused_run_computes_nothing_and_blocks_no_thread(gate):
    seen = []
    gate.pause()
    followed = in_turns(counted(Replay(random_trace(3, rounds=3)), seen), gate, SPECULATIVE)
    assert [next(followed) for _ in range(3)] == [None] * 3
    assert seen == []
    gate.advance()
    assert until_held(followed) == seen and rounds_of(seen) == [0]
    gate.resume()
    assert None not in list(followed)
    assert rounds_of(seen) == [0, 1, 2]


def test_after_the_last_round_each_baseline_token_is_a_turn(gate):
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
    # The speculative lane runs to its end. After that, the run writes two more tokens of the
    # baseline and then pauses.
    for _ in range(ends[-1] + 1 + 2):
        next(followed)
    assert gate.is_paused
    gate.release()
    assert list(followed) == []


def test_an_open_gate_changes_nothing(gate):
    trace = random_trace(5, rounds=4)
    assert list(in_turns(Replay(trace), gate, SPECULATIVE)) == list(Replay(trace))
