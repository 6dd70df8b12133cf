"""No lane's clock counts the time while a race is paused or another race runs."""

import time

import pytest

from specviz.decoding.drafters.registry import method_named
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.pair_catalog import pair_named
from specviz.pause import Gate, in_turns
from specviz.records import SPECULATIVE, DecodingConfig, FinishReason

WAIT = 0.05


def race_of(method, prompt="def f(x):\n"):
    kind = method_named(method).drawings[0]
    config = DecodingConfig(method=method, drawing=kind, max_new_tokens=14)
    return start_race(RaceRequest(pair_named("bundled"), prompt, config, device="cpu"))


@pytest.mark.parametrize("method", ["draft-model", "pre-speculation"])
def test_the_clocks_of_the_lanes_do_not_count_a_pause(method):
    race, gate = race_of(method), Gate()
    gate.advance()
    began, waited = time.perf_counter(), 0.0
    for event in in_turns(race, gate, SPECULATIVE):
        if event is None:
            time.sleep(WAIT)
            waited += WAIT
            gate.advance()
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


def test_a_pause_does_not_change_the_text():
    free = race_of("draft-model")
    for _ in free:
        pass
    race, gate = race_of("draft-model"), Gate()
    gate.pause()
    for event in in_turns(race, gate, SPECULATIVE):
        if event is None:
            gate.advance()
    assert race.trace().emitted_ids == free.trace().emitted_ids
    free.close(), race.close()


@pytest.mark.parametrize(
    "method",
    [
        "draft-model",
        "pre-speculation",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("quantised-self", "eagle")),
    ],
)
def test_races_that_take_turns_write_the_same_texts_as_alone(method):
    prompts = ("def f(x):\n", "Once upon a time")
    alone = []
    for prompt in prompts:
        race = race_of(method, prompt)
        alone.append([each.event for each in race] and race.trace().emitted_ids)
        race.close()
    races = [race_of(method, prompt) for prompt in prompts]
    began = time.perf_counter()
    events, count = [iter(race) for race in races], 0
    while events:
        for each in tuple(events):
            if next(each, None) is None:
                events.remove(each)
            count += 1
    wall = time.perf_counter() - began
    assert [race.trace().emitted_ids for race in races] == alone and count > 30
    assert sum(lane.seconds for race in races for lane in race.trace().lanes) <= wall
    for race in races:
        race.close()
