"""The target's own weights as its draft: in int8, and with layers left out."""

from functools import cache

import pytest

from specviz.decoding import speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.metrics import acceptance_rate
from specviz.models.pair_catalog import pair_named
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need
from specviz.prompts import TASKS, held_out_prompt
from specviz.records import DecodingConfig, Round


@cache
def loaded():
    return load_pair(pair_named("bundled"), "cpu", "float32", frozenset({Need.LAYERS}))


def setup_of(method, **changes):
    return Setup(loaded().target, loaded().parts, DecodingConfig(method=method, **changes), 700)


@cache
def rounds_of(method):
    """Of one held-out prompt per task."""
    setup = setup_of(method, draft_length=4, max_new_tokens=64)
    events = []
    for task in TASKS:
        prompt = loaded().codec.encode(held_out_prompt(task, 2), task)[:400]
        drafter = make_drafter(setup)
        events += speculative.decode(loaded().target, drafter, prompt, setup.config)
    return [event for event in events if isinstance(event, Round)]


def test_the_int8_copy_of_the_bundled_target_is_accepted_95_times_in_100():
    assert acceptance_rate(rounds_of("quantised-self")) >= 0.95


def test_the_int8_copy_takes_at_most_three_tenths_of_the_target_s_memory():
    extra = make_drafter(setup_of("quantised-self")).memory.weights
    assert 0 < extra <= 0.3 * loaded().target.info.bytes


def test_leaving_layers_out_takes_no_memory_and_is_accepted_half_the_time():
    assert make_drafter(setup_of("layer-skip")).memory.weights == 0
    assert acceptance_rate(rounds_of("layer-skip")) >= 0.5


@pytest.mark.parametrize("method", ["quantised-self", "layer-skip"])
def test_the_target_itself_is_left_as_it_was(method):
    make_drafter(setup_of(method))
    assert loaded().target.info.layers == len(loaded().target.layers) == 12
