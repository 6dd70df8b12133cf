"""A paused race: the real decoder waits, and no clock of a lane knows of it."""

import threading
import time

import pytest

from specviz.decoding.drafters.registry import method_named
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.pair_catalog import pair_named
from specviz.pause import Gate, in_turns
from specviz.records import SPECULATIVE, DecodingConfig, FinishReason, Round

WAIT = 0.05


def race_of(method):
    kind = method_named(method).kinds[0]
    config = DecodingConfig(method=method, tree_kind=kind, max_new_tokens=14)
    return start_race(RaceRequest(pair_named("bundled"), "def f(x):\n", config, device="cpu"))


@pytest.mark.parametrize("method", ["draft-model", "pre-speculation"])
def test_the_lanes_own_clocks_do_not_count_the_wait(method):
    race, gate = race_of(method), Gate()
    gate.advance()
    began, waited = time.perf_counter(), 0.0
    for event in in_turns(race, gate, SPECULATIVE):
        if isinstance(event.event, Round):
            threading.Timer(WAIT, gate.advance).start()
            waited += WAIT
        elif event.lane == SPECULATIVE and isinstance(event.event, FinishReason):
            gate.resume()
    wall = time.perf_counter() - began
    trace = race.trace()
    race.close()
    assert trace.finish is FinishReason.LENGTH and waited >= 2 * WAIT
    assert sum(lane.seconds for lane in trace.lanes) <= wall - waited
    clock = trace.prefill.seconds
    for each in trace.rounds:
        assert each.spans[0].start == pytest.approx(clock)
        clock += each.seconds


def test_a_forgotten_race_ends_as_a_stopped_one():
    race, gate = race_of("draft-model"), Gate(patience_seconds=0.05)
    gate.advance(2)
    events = list(in_turns(race, gate, SPECULATIVE))
    race.close()
    assert gate.timed_out
    trace = race.trace()
    assert len(trace.rounds) == 2 and trace.finish is None
    assert events[-1].lane == SPECULATIVE


def test_a_pause_changes_nothing_of_what_is_written():
    free = race_of("draft-model")
    for _ in free:
        pass
    race, gate = race_of("draft-model"), Gate()
    gate.advance()
    for event in in_turns(race, gate, SPECULATIVE):
        if isinstance(event.event, Round):
            gate.advance()
        elif event.lane == SPECULATIVE and isinstance(event.event, FinishReason):
            gate.resume()
    assert race.trace().emitted_ids == free.trace().emitted_ids
    free.close(), race.close()
