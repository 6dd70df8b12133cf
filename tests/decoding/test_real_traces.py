"""Traces of real runs with every method can be written to a file and read unchanged."""

import math
from functools import cache

import pytest

from specviz.decoding import autoregressive, speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.target import cache_capacity
from specviz.experiments.run.recorder import Recorder
from specviz.models.text.grammar import compiled
from specviz.records import (
    BASELINE,
    SPECULATIVE,
    Drawing,
    FinishReason,
    Lane,
    LaneKind,
    Round,
    Trace,
)
from specviz.records.notes import NOTE_TYPES
from specviz.trace_file import decode, dumps, encode, loads
from tests.decoding.batch_runs import batch_steps, rounds_of
from tests.decoding.conftest import tiny_model
from tests.decoding.table_model import TableModel
from tests.decoding.test_every_drafter import PROMPT, config_of
from tests.decoding.tiny_codecs import tiny_codec
from tests.decoding.tiny_parts import parts_for
from tests.trace_file.test_trace_file import same_but_for_digits

EVERY_KIND = [
    pytest.param(method, kind, id=f"{method.name} {kind.value}")
    for method in DRAFTERS.values()
    for kind in method.drawings
]


@cache
def models():
    return tiny_model(1, 3, "tiny target"), tiny_model(2, 1, "tiny draft")


PIECES = ("a", "b", "ab", "<|end|>", "c", "Ã", "©", "Ã©", "abc", "Ġ", "Ġa", "d")
CODEC = tiny_codec(PIECES, "<|end|>")
REGEX = "(ab|cd){40}"  # a text that the limit of tokens cuts, with many forced tokens


@cache
def real_trace(method, kind, regex=""):
    """Return the trace of a race of two lanes that runs to the end of its text."""
    target, draft = models()
    changes = {"grammar": regex, "draft_forced": bool(regex)}
    config = config_of(method, kind, temperature=0.8, top_p=0.95, seed=3, **changes)
    grammar = compiled(regex, CODEC)
    setup = Setup(target, parts_for(target, draft), config, cache_capacity(PROMPT, config))
    recorder, drafter = Recorder(), make_drafter(setup)
    for event in autoregressive.decode(target, PROMPT, config, grammar=grammar):
        recorder.add(BASELINE, event)
    for event in speculative.decode(target, drafter, PROMPT, config, grammar=grammar):
        recorder.add(SPECULATIVE, event)
    header = Trace(
        target=target.info,
        device="cpu",
        dtype="float32",
        prompt="a prompt",
        prompt_ids=PROMPT,
        token_texts=tuple((token, f"<{token}>") for token in sorted(recorder.token_ids)),
        lanes=(
            Lane(BASELINE, LaneKind.BASELINE, config),
            Lane(SPECULATIVE, LaneKind.SPECULATIVE, config, draft=draft.info),
        ),
    )
    return recorder.fill(header)


@pytest.mark.parametrize("method, kind", EVERY_KIND)
def test_a_real_trace_survives_the_file(method, kind):
    trace = real_trace(method, kind)
    assert_survives(trace)
    assert trace.finish is FinishReason.LENGTH
    assert len(trace.emitted_ids) == trace.config.max_new_tokens


def assert_survives(trace):
    once = loads(dumps(trace))
    assert same_but_for_digits(once, trace)
    assert loads(dumps(once)) == once


def forced_trace():
    method = DRAFTERS["draft-model"]
    return real_trace(method, method.drawings[0], REGEX)


def test_a_real_trace_with_a_grammar_survives_the_file():
    pytest.importorskip("llguidance")
    trace = forced_trace()
    assert_survives(trace)
    allowed = {position.allowed for each in trace.rounds for position in each.positions}
    assert 1 in allowed and len(allowed) > 1


def test_rounds_of_a_batch_survive_sending_to_the_browser():
    target, draft = models()
    method = DRAFTERS["draft-tree"]
    config = config_of(method, method.drawings[0], temperature=0.8)
    steps = batch_steps(target, parts_for(target, draft), config)
    for record in (record for rounds in rounds_of(steps) for record in rounds):
        assert same_but_for_digits(decode(Round, encode(record), "round"), record)
        assert isinstance(record, Round) and record.notes[-1].rows


def test_real_runs_contain_notes_of_every_type():
    """The tests above therefore cover every type of note, except the one that only batches have."""
    pytest.importorskip("llguidance")
    traces = [*(real_trace(*each.values) for each in EVERY_KIND), forced_trace()]
    seen = {type(note) for trace in traces for each in trace.rounds for note in each.notes}
    assert {kind.__name__ for kind in set(NOTE_TYPES.values()) - seen} == {"BatchRound"}


@pytest.mark.parametrize("sharpness", [1.0, 12.0])
def test_the_entropy_of_a_certain_target_is_exact_and_never_negative(sharpness):
    target, draft = (TableModel(seed, vocab=6, sharpness=sharpness) for seed in (1, 2))
    for layer in target.layers:
        # Adding 40 to all logits changes no distribution. But an entropy that is computed from sums
        # of logits would lose digits.
        layer.weight += 40
    method = DRAFTERS["draft-model"]
    config = config_of(method, Drawing.INDEPENDENT, temperature=0.8, max_new_tokens=200)
    setup = Setup(target, parts_for(target, draft), config, cache_capacity(PROMPT, config))
    events = speculative.decode(target, make_drafter(setup), (0, 2, 1), config)
    places = [place for each in events if isinstance(each, Round) for place in each.positions]
    for place in places:
        expected = -sum(p * math.log(p) for p in place.raw_target_probs if p > 0)
        assert 0 <= place.entropy == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert len(places) > 100
