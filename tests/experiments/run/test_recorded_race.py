"""A replay of a recorded run yields its events, ordered by the clocks of the recorded lanes."""

from dataclasses import replace

from specviz.experiments.run.recorded_race import Replay
from specviz.experiments.run.recorder import Recorder
from specviz.records import BASELINE, SPECULATIVE
from tests.random_traces import random_trace


def test_following_a_replay_gives_the_recorded_trace() -> None:
    trace = random_trace(4, rounds=6)
    replay, recorder = Replay(trace), Recorder()
    for event in replay:
        recorder.add(event.lane, event.event)
    assert recorder.fill(replay.header) == trace


def test_the_header_contains_what_is_known_before_the_run() -> None:
    trace = random_trace(4, rounds=2)
    header = Replay(trace).header
    assert (header.token_texts, header.prompt_ids) == (trace.token_texts, trace.prompt_ids)
    assert header.config == trace.config and not any(lane.emitted_ids for lane in header.lanes)


def test_the_lane_whose_clock_is_behind_moves_next() -> None:
    names = BASELINE, SPECULATIVE
    clocks = dict.fromkeys(names, 0.0)
    ended = set()
    for event in Replay(random_trace(7, rounds=5)):
        other = next(lane for lane in names if lane != event.lane)
        assert other in ended or clocks[event.lane] <= clocks[other]
        if event.clock == clocks[event.lane]:
            ended.add(event.lane)
        clocks[event.lane] = event.clock


def test_a_token_without_a_text_is_shown_by_its_number() -> None:
    replay = Replay(replace(random_trace(1), token_texts=((3, " the"),)))
    assert (replay.token_text(3), replay.token_text(4)) == (" the", "#4")
