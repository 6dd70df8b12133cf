"""A recorded run can be followed like a race: the same events, in the order of the same clocks."""

from dataclasses import replace

from specviz.decoding.race import Lane
from specviz.experiments.run.recorded_race import Replay
from specviz.experiments.run.recorder import Recorder
from tests.random_traces import not_started, random_trace


def test_following_a_replay_gives_the_trace_again() -> None:
    trace = random_trace(4, rounds=6)
    replay, recorder = Replay(trace), Recorder()
    for event in replay:
        recorder.add(event.lane, event.event)
    assert recorder.fill(replay.header) == trace


def test_the_header_is_what_was_known_before_anything_had_run() -> None:
    trace = random_trace(4, rounds=2)
    assert Replay(trace).header == replace(
        not_started(trace), token_texts=trace.token_texts, prompt_ids=trace.prompt_ids
    )


def test_the_lane_that_is_behind_on_its_own_clock_moves_next() -> None:
    clocks = dict.fromkeys(Lane, 0.0)
    ended = set()
    for event in Replay(random_trace(7, rounds=5)):
        other = next(lane for lane in Lane if lane is not event.lane)
        assert other in ended or clocks[event.lane] <= clocks[other]
        if event.clock == clocks[event.lane]:
            ended.add(event.lane)
        clocks[event.lane] = event.clock


def test_a_token_without_a_text_is_shown_by_its_number() -> None:
    replay = Replay(replace(random_trace(1), token_texts=((3, " the"),)))
    assert (replay.token_text(3), replay.token_text(4)) == (" the", "#4")
