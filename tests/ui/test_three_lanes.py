"""A race of three lanes is streamed, recorded, saved, loaded, replayed and measured."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.decoding.race import race
from specviz.experiments.run.recorded_race import Replay
from specviz.experiments.run.recorder import Recorder
from specviz.metrics import RunMeter, summarise
from specviz.records import BASELINE, SPECULATIVE, Trace
from specviz.trace_file import encode, load, save
from specviz.ui.race_messages import RaceMessages
from tests.random_traces import three_lanes

NAMES = [BASELINE, SPECULATIVE, "generate"]


def recorded(trace: Trace) -> Trace:
    """Return the trace as a recorder stores it while its lanes race."""
    recorder = Recorder()
    for event in race({lane.name: lane.events for lane in trace.lanes}):
        recorder.add(event.lane, event.event)
    return recorder.fill(trace.unstarted)


def streamed(trace: Trace) -> list[dict[str, Any]]:
    return list(RaceMessages(Replay(trace)).messages(threading.Event()))


def test_a_race_of_three_lanes_is_recorded_saved_and_loaded(tmp_path: Path) -> None:
    trace = three_lanes()
    assert recorded(trace) == trace
    save(trace, tmp_path / "three.json.gz")
    again = load(tmp_path / "three.json.gz")
    assert [(lane.name, lane.kind) for lane in again.lanes] == [
        (lane.name, lane.kind) for lane in trace.lanes
    ]
    assert [lane.emitted_ids for lane in again.lanes] == [lane.emitted_ids for lane in trace.lanes]
    assert again.main.name == SPECULATIVE and again.baseline == again.lane(BASELINE)


def test_each_event_sent_to_the_page_names_its_lane() -> None:
    trace = three_lanes()
    header, *messages, end = streamed(trace)
    assert [lane["name"] for lane in header["trace"]["lanes"]] == NAMES
    for lane in trace.lanes:
        own = [each for each in messages if each.get("lane") == lane.name]
        assert [each["type"] for each in own[:: len(own) - 1]] == ["prefill", "finish"]
        assert own[-1]["clock"] == pytest.approx(lane.seconds)
        rounds = [each["record"] for each in own if each["type"] == "round"]
        assert rounds == [encode(each) for each in lane.rounds]
    drawn = {each["lane"] for each in messages if "tree" in each}
    assert drawn == {SPECULATIVE}  # the server draws figures only for the rounds of the main lane
    assert trace.main.finish is not None and end["reason"] == trace.main.finish.value


def test_the_lane_whose_clock_is_behind_moves_next() -> None:
    clocks, ended = dict.fromkeys(NAMES, 0.0), set()
    for event in Replay(three_lanes()):
        going = [clocks[name] for name in NAMES if name not in ended]
        assert clocks[event.lane] == min(going)
        if event.clock == clocks[event.lane]:
            ended.add(event.lane)
        clocks[event.lane] = event.clock
    assert ended == set(NAMES)


def test_a_third_lane_has_its_own_numbers_and_changes_none_of_the_others() -> None:
    trace = three_lanes()
    assert summarise(trace) == summarise(replace(trace, lanes=trace.lanes[:2]))
    meter = RunMeter(trace)
    for lane in trace.lanes:
        for event in lane.events:
            meter.add(lane.name, event)
    for lane in trace.lanes:
        assert meter.lanes[lane.name].tokens == len(lane.emitted_ids)
        assert meter.lanes[lane.name].seconds == pytest.approx(lane.seconds)
