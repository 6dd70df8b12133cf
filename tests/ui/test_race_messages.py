"""A race sends every event once, and every figure is complete in the browser."""

import threading
import time
from dataclasses import asdict, replace
from typing import Any

import pytest

from specviz.experiments.run.recorded_race import Replay
from specviz.figures.moment_sentences import round_sentences
from specviz.figures.timeline import timeline_figure
from specviz.figures.tree import tree_drawing
from specviz.metrics import summarise
from specviz.pause import Gate
from specviz.trace_file import encode
from specviz.ui.note_words import remark
from specviz.ui.race_messages import RaceMessages, _Busy, delta
from specviz.ui.settings_form import race_request
from tests.random_traces import random_trace
from tests.ui.random_race import RandomRace

FORM = {"prompt": "hello", "temperature": "0.7", "max_new_tokens": "12", "seed": "3"}
SHAPES: list[dict[str, Any]] = [
    {},
    {"method": "draft-tree", "branching": "3,2", "drawing": "without-replacement"},
    {"method": "draft-tree", "branching": "2", "drawing": "chosen"},
    {"temperature": "0"},
]


def played(**options: Any) -> tuple[RandomRace, list[dict[str, Any]]]:
    race = RandomRace(race_request({**FORM, **options}))
    return race, list(RaceMessages(race).messages(threading.Event()))  # type: ignore[arg-type]


def composed(template: dict[str, Any], difference: dict[str, Any]) -> dict[str, Any]:
    """Apply a figure's difference to its template, as assets/player/shared/round.js does."""
    traces = zip(template["data"], difference["data"], strict=True)
    return {
        "data": [{**old, **new} for old, new in traces],
        "layout": {**template["layout"], **difference["layout"]},
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_every_event_is_sent_once_and_in_order(shape: dict[str, Any]) -> None:
    race, messages = played(**shape)
    assert messages[0]["kind"] == "header" and messages[-1]["kind"] == "end"
    rounds = [each["record"] for each in messages if each.get("type") == "round"]
    assert rounds == [encode(each) for each in race.trace_played.rounds]
    steps = [each["record"]["id"] for each in messages if each.get("type") == "step"]
    assert steps == [step.token_id for step in race.trace_played.lane("baseline").steps]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_token_texts_of_an_event_are_sent_before_it_is_shown(shape: dict[str, Any]) -> None:
    race, messages = played(**shape)
    known: dict[int, str] = {}
    for message in messages:
        new = message.get("texts", {})
        assert not known.keys() & new.keys(), "a text travels once"
        known |= new
        if message.get("type") == "round":
            record = message["record"]
            drafted = record["tree"]["nodes"]["id"]
            mentioned = {*drafted, *(i for p in record["positions"] for i in p["id"])}
            assert mentioned <= known.keys()


def test_a_figure_that_is_sent_as_a_difference_can_be_restored() -> None:
    race, messages = played(method="draft-tree", branching="3,2")
    templates: dict[str, Any] = {}
    last = race.trace_played.prefill
    assert last is not None
    root = last.extra.token_id
    rounds = [each for each in messages if each.get("type") == "round"]
    for message, round_ in zip(rounds, race.trace_played.rounds, strict=True):
        templates |= message.get("templates", {})
        whole = tree_drawing(round_, race.texts, root)
        assert composed(templates["tree"], message["tree"]) == whole
        extra = round_.extra is not None
        assert len(message["bars"]) == len(round_.tree.nodes) + extra
        root = round_.emitted_ids[-1]


def test_a_round_s_timeline_is_sent_again_with_the_next_round() -> None:
    race, messages = played()
    rounds = [each for each in messages if each.get("type") == "round"]
    templates: dict[str, Any] = {}
    shown: dict[int, Any] = {}
    for number, message in enumerate(rounds):
        templates |= message.get("templates", {})
        assert list(message["timelines"]) == [number, number - 1][: 1 + (number > 0)]
        for index, difference in message["timelines"].items():
            shown[index] = composed(templates["timeline"], difference)
    played_rounds = race.trace_played.rounds
    for index, figure in shown.items():
        neighbours = played_rounds[max(0, index - 1) : index + 2]
        assert figure == timeline_figure(neighbours, index)


def test_every_note_of_a_round_is_sent_in_words() -> None:
    race = RandomRace(race_request(FORM))
    race.trace_played = random_trace(3, rounds=12, has_distributions=False)
    messages = RaceMessages(race).messages(threading.Event())  # type: ignore[arg-type]
    said = [each["remarks"] for each in messages if each.get("type") == "round"]
    notes = [each.notes for each in race.trace_played.rounds]
    assert said == [[remark(note) for note in each] for each in notes]
    assert any(said)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_moment_of_a_round_is_sent_with_its_sentence(shape: dict[str, Any]) -> None:
    race, messages = played(**shape)
    said = [each["sentences"] for each in messages if each.get("type") == "round"]
    is_greedy = shape.get("temperature") == "0"
    rounds = race.trace_played.rounds
    assert said == [asdict(round_sentences(each, is_greedy)) for each in rounds]


def test_a_key_that_a_figure_lacks_becomes_empty() -> None:
    template = {"data": [{"x": [1], "text": ["a"]}], "layout": {"title": "t"}}
    figure = {"data": [{"x": [1]}], "layout": {}}
    assert delta(template, figure) == {"data": [{"text": None}], "layout": {"title": None}}


def test_the_last_numbers_are_those_of_the_whole_trace() -> None:
    race, messages = played(temperature="0")
    end = messages[-1]
    whole = summarise(race.trace_played)
    assert end["summary"]["identical"] is True
    assert end["summary"]["speedup"] == whole.speedup
    assert end["summary"]["speculative"]["target_forwards"] == whole.speculative.target_forwards
    assert end["reason"] == "length"


def test_a_paused_race_has_its_numbers_up_to_the_round_at_which_it_waits() -> None:
    gate = Gate()
    gate.advance(2)
    race = RandomRace(race_request(FORM))
    steps = RaceMessages(race, gate).messages(threading.Event())  # type: ignore[arg-type]
    messages = list(iter(steps.__next__, None))
    rounds = [at for at, each in enumerate(messages) if each.get("type") == "round"]
    assert len(rounds) == 2 and messages[rounds[-1] + 1]["kind"] == "summary"


def test_the_header_has_the_token_texts_of_the_model_s_prompt() -> None:
    race = RandomRace(race_request(FORM))
    race.header = replace(race.header, token_texts=(), prompt_ids=tuple(race.texts)[:3])
    messages = RaceMessages(race).messages(threading.Event())  # type: ignore[arg-type]
    assert dict(next(messages)["trace"]["tokens"]) == dict(list(race.texts.items())[:3])


def test_a_stop_takes_effect_after_the_current_event() -> None:
    stop = threading.Event()
    race = RandomRace(race_request(FORM))
    kinds = []
    for message in RaceMessages(race).messages(stop):  # type: ignore[arg-type]
        kinds.append(message["kind"])
        if kinds.count("event") == 5:
            stop.set()
    assert kinds.count("event") <= 6
    assert message["kind"] == "end" and message["reason"] == "stopped"


def test_a_recording_ends_with_the_circumstances_of_its_measurement() -> None:
    trace = replace(random_trace(rounds=2), beside=2, waited=0.25)
    *_, end = RaceMessages(Replay(trace)).messages(threading.Event())
    assert end is not None and (end["beside"], end["waited"]) == (2, 0.25)


def test_a_run_measures_the_share_of_its_time_that_other_work_used_the_processor() -> None:
    busy = _Busy()
    time.sleep(0.02)
    busy.end()
    assert busy.waited is not None and busy.waited > 0.8
    alone = _Busy()
    alone._wall, alone._own = 1.0, 0.95
    assert alone.waited is None
