"""The target drafts for itself, with rounded weights or with some layers left out."""

from functools import cache

import pytest
import torch

from specviz.decoding import autoregressive, batch, speculative
from specviz.decoding.batch_target import batch_target
from specviz.decoding.drafters import self_draft
from specviz.decoding.drafters.base import HostTransfer, PrefilledPrompt
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter, make_row_drafters
from specviz.decoding.drafters.row_drafters import RowDrafters
from specviz.decoding.speculative import SpeculativeRun
from specviz.errors import InputError
from specviz.metrics import acceptance_rate
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.pair_catalog import pair_named
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need
from specviz.prompts import TASKS, held_out_prompt
from specviz.records import DecodingConfig, Drawing, Round
from tests.decoding.batch_runs import batch_parts, events_of, setups_of
from tests.decoding.events import tokens_of


@cache
def loaded():
    return load_pair(pair_named("bundled"), "cpu", "float32", frozenset({Need.LAYERS}))


def setup_of(method, **changes):
    return Setup(loaded().target, loaded().parts, DecodingConfig(method=method, **changes), 700)


@cache
def rounds_of(method):
    """Return the rounds of one held-out prompt per task."""
    setup = setup_of(method, draft_length=4, max_new_tokens=64)
    events = []
    for task in TASKS:
        prompt = loaded().codec.encode(held_out_prompt(task, 2), task)[:400]
        drafter = make_drafter(setup)
        events += speculative.decode(loaded().target, drafter, prompt, setup.config)
    return [event for event in events if isinstance(event, Round)]


def test_at_least_95_percent_of_the_int8_copy_s_drafts_are_accepted():
    assert acceptance_rate(rounds_of("quantised-self")) >= 0.95


def test_the_int8_copy_takes_at_most_three_tenths_of_the_target_s_memory():
    extra = make_drafter(setup_of("quantised-self")).memory.weights
    assert 0 < extra <= 0.3 * loaded().target.info.bytes


def test_a_copy_has_8_or_4_bits_and_8_without_a_measurement():
    names = [
        self_draft._quantised(setup_of("quantised-self", options=(("bits", bits),)))[0].info.name
        for bits in (0, 8, 4)
    ]
    assert [name.rsplit(" ", 1)[1] for name in names] == ["int8", "int8", "int4"]
    with pytest.raises(InputError, match="^bits must be one of 0, 4, 8, got 5$"):
        make_drafter(setup_of("quantised-self", options=(("bits", 5),)))


@pytest.mark.slow
def test_leaving_layers_out_takes_no_memory_and_half_of_its_drafts_are_accepted():
    assert make_drafter(setup_of("layer-skip")).memory.weights == 0
    assert acceptance_rate(rounds_of("layer-skip")) >= 0.5


@pytest.mark.parametrize("method", ["quantised-self", "layer-skip"])
def test_a_run_that_resumes_after_its_prompt_fills_the_copy_s_cache(method):
    """The test of losslessness starts runs in this way: the prompt's last token is the root."""
    setup = setup_of(method, max_new_tokens=1)
    prompt = loaded().codec.encode(held_out_prompt("code", 2), "code")
    (first,) = tokens_of(autoregressive.decode(setup.target, prompt, setup.config))
    run = SpeculativeRun(setup.target, make_drafter(setup), prompt, setup.config, ())
    run.resume()
    assert run.round().emitted_ids[0] == first


def test_the_number_of_omitted_layers_can_be_chosen():
    skipping, kept = self_draft._skipping(setup_of("layer-skip", options=(("skipped", 5),)))
    assert skipping.info.layers == len(kept) == 12 - 5
    with pytest.raises(InputError, match="skipped must be from 1 to 10 of the target's 12 layers"):
        make_drafter(setup_of("layer-skip", options=(("skipped", 11),)))


@pytest.mark.parametrize("method", ["quantised-self", "layer-skip"])
def test_the_target_itself_is_not_changed(method):
    make_drafter(setup_of(method))
    assert loaded().target.info.layers == len(loaded().target.layers) == 12


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("method", ["quantised-self", "layer-skip"])
def test_neither_method_runs_the_prompt_again(method, rows, monkeypatch):
    setup = setup_of(method, draft_length=3, max_new_tokens=4)
    target, counts = loaded().target, []

    def counted(forward):
        def run(model, token_ids, *args, **options):
            # A batched forward gets the tokens of its rows in one of two ways: as a tensor with two
            # dimensions, or as one row after the other with the rows' token counts in the third
            # argument.
            if model is not target:
                counts.extend([token_ids.shape[1]] if token_ids.ndim > 1 else args[2])
            return forward(model, token_ids, *args, **options)

        return run

    for name in ("forward", "forward_rows", "forward_apart"):
        monkeypatch.setattr(LlamaModel, name, counted(getattr(LlamaModel, name)))
    prompt = tuple(range(100, 140))
    if rows == 1:
        list(speculative.decode(target, make_drafter(setup), prompt, setup.config))
    else:
        prompts = (prompt, prompt[:30])
        drafter = make_row_drafters([setup] * rows)
        batched = batch_target(target, prompts, setup.config)
        list(batch.decode(batched, drafter, prompts, [setup.config] * rows))
    # Per row, the draft runs only the root, or the last accepted node and the root if it did not
    # run that node while drafting. It never runs the prompt.
    assert counts and max(counts) <= 2


@pytest.mark.parametrize(("branching", "bits"), [((), 8), ((2,), 8), ((2,), 4)])
def test_rows_that_draft_together_draft_exactly_what_each_would_draft_alone(branching, bits):
    """The eleven rows are too many for one forward. The test has chains and trees."""
    prompts = [tuple(range(100 + 7 * row, 120 + 9 * row)) for row in range(11)]
    config = DecodingConfig(
        method="quantised-self",
        draft_length=3,
        branching=branching,
        drawing=Drawing.WITHOUT_REPLACEMENT if branching else Drawing.INDEPENDENT,
        max_new_tokens=9,
        temperature=0.9,
        options=(("bits", bits),),
    )
    target, parts = loaded().target, loaded().parts
    rows, together, *settings = batch_parts(target, parts, config, prompts)
    assert not isinstance(together, RowDrafters)
    apart = RowDrafters([make_drafter(each) for each in setups_of(target, parts, config, prompts)])
    steps = list(batch.decode(rows, together, *settings))
    expected = list(batch.decode(batch_target(target, prompts, config), apart, *settings))
    for row in range(len(prompts)):
        assert drafted(events_of(steps, row)) == drafted(events_of(expected, row))


def drafted(events):
    """Return the drafted tokens of each round with their draft probabilities."""
    rounds = [event for event in events if isinstance(event, Round)]
    return [[(node.token_id, node.draft_prob) for node in each.tree.nodes] for each in rounds]


def test_omitted_layers_are_omitted_from_the_prompt_s_cache_as_well():
    """Each layer of the draft must use the keys of the same layer of the target."""
    setup = setup_of("layer-skip")
    kept = [i for i in range(12) if i not in loaded().parts.self_drafting.skipped_layers]
    cache = loaded().target.new_cache(40)
    prompt = torch.arange(100, 120)[None]
    loaded().target.forward(prompt, torch.arange(20)[None], cache)
    drafter = make_drafter(setup)
    held = cache.held(20)
    drafter.start(PrefilledPrompt(tuple(range(20)), cache, None, HostTransfer(), lambda: held))
    own = drafter._source._cache.held(20)
    assert len(own) == len(kept)
    assert all(torch.equal(a, held[layer]) for a, layer in zip(own, kept, strict=True))
