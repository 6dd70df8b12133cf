"""Captured steps equal plain forward passes, whatever ran on the same buffers before."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from specviz.errors import InputError
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.graphs.graph_buffers import (
    LEAST_SLOTS,
    MOST_TOKENS,
    GraphBuffers,
    GraphCache,
)
from specviz.models.language_model import KeyValueCache, LanguageModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.llama.self_model import layer_skipping, quantised
from tests.devices import DEVICES

VOCAB = 61
PROMPT = [7, 3, 11, 42, 5, 19, 28]
CONTEXT = 4 * LEAST_SLOTS
Pair = tuple[CapturedModel, LlamaModel]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["llama", "llama-grouped", "qwen3"])
def pair(request: Any, device: str, tiny_module: Any, tiny_info: Any) -> Pair:
    """Return two models with the same weights; only the first one captures its steps."""

    def made(kind: Callable[[Any, Any], Any]) -> Any:
        module = tiny_module(request.param).to(device)
        module.config.max_position_embeddings = CONTEXT
        return kind(module, tiny_info(module))

    return made(CapturedModel), made(LlamaModel)


def ids_of(model: LanguageModel, count: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(VOCAB, (1, count), generator=draw).to(model.device)


def positions_of(model: LanguageModel, start: int, count: int) -> Tensor:
    return torch.arange(start, start + count, device=model.device)[None]


def filled(model: LanguageModel, length: int = len(PROMPT), capacity: int = 300) -> KeyValueCache:
    cache = model.new_cache(capacity)
    model.forward(ids_of(model, length), positions_of(model, 0, length), cache, last_only=True)
    return cache


def buffers_of(cache: KeyValueCache) -> GraphBuffers:
    assert isinstance(cache, GraphCache)
    assert cache.buffers is not None
    return cache.buffers


def chain(model: LanguageModel, cache: KeyValueCache, count: int, seed: int = 1) -> Tensor:
    start = cache.length
    ids, positions = ids_of(model, count, seed), positions_of(model, start, count)
    return model.forward(ids, positions, cache).logits


def star(model: LanguageModel, cache: KeyValueCache, count: int) -> Tensor:
    """Run a root and `count` - 1 children of the root in one forward; return their logits."""
    mask = torch.eye(count, dtype=torch.bool, device=model.device)
    mask[:, 0] = True
    positions = cache.length + torch.arange(count, device=model.device).clamp(max=1)[None]
    return model.forward(ids_of(model, count, 2), positions, cache, mask).logits


def assert_near(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("run", [chain, star])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 16, 33, 65, MOST_TOKENS])
def test_steps_of_every_size_give_the_plain_logits(pair: Pair, run: Any, count: int) -> None:
    found, expected = (run(model, filled(model), count) for model in pair)
    assert_near(found, expected)


def test_padding_is_harmless_with_a_mask_over_every_slot(pair: Pair) -> None:
    behind = []
    for model in pair:
        cache = filled(model)
        end = cache.length + 3  # a captured step pads these three tokens to four
        mask = torch.ones(3, end, dtype=torch.bool, device=model.device).tril(cache.length)
        positions = positions_of(model, cache.length, 3)
        model.forward(ids_of(model, 3), positions, cache, mask)
        behind.append(chain(model, cache, 3))
    assert_near(*behind)


def test_a_tree_after_a_shorter_text_sees_no_slot_of_a_longer_one(pair: Pair) -> None:
    captured, _ = pair
    cache = filled(captured, 200)
    star(captured, cache, 4)
    buffers = buffers_of(cache)
    del cache  # the next cache reuses the buffers of this one
    caches = [filled(model) for model in pair]
    assert buffers_of(caches[0]) is buffers
    assert_near(*(star(model, cache, 4) for model, cache in zip(pair, caches, strict=True)))


def test_every_padding_token_of_a_tree_sees_a_slot() -> None:
    """On a GPU, attention over no slot gives NaN.

    The keys of the padding would then be NaN in the next layer, and reach the other tokens.
    """
    buffers = GraphBuffers(1, 1, 4, 8, LEAST_SLOTS, torch.float32, torch.device("cpu"))
    # All tokens see the slots before the first column of a mask. This mask has a column for each of
    # the 13 slots, 10 cached and 3 new, so there are no such slots.
    covering = torch.ones(3, 13, dtype=torch.bool).tril(10)
    shape = buffers.shape(None, 10, 3, covering, ())
    buffers.write_step(shape, 10, 3, covering)
    mask = buffers.mask(shape)
    assert mask.shape == (4, LEAST_SLOTS)
    assert mask.any(1).all()


def test_steps_of_different_sizes_share_one_cache(pair: Pair) -> None:
    caches = [filled(model) for model in pair]
    for count in (1, 5, 2, 1, 7, 16, 3, 1):
        found, expected = (
            chain(model, cache, count, seed=count)
            for model, cache in zip(pair, caches, strict=True)
        )
        assert_near(found, expected)


def test_accepted_slots_of_a_tree_are_kept_and_the_rest_is_dropped(pair: Pair) -> None:
    behind = []
    for model in pair:
        cache = filled(model)
        start = cache.length
        star(model, cache, 6)
        cache.keep(start, [start, start + 4])
        assert cache.length == start + 2
        behind.append(torch.cat([chain(model, cache, 3), star(model, cache, 2)], 1))
    assert_near(*behind)


def test_a_text_may_grow_into_the_next_bucket_of_slots(pair: Pair) -> None:
    caches = [filled(model, LEAST_SLOTS - 3, capacity=LEAST_SLOTS + 300) for model in pair]
    for count in (1, 2, 1, 4, 1):
        found, expected = (chain(m, c, count) for m, c in zip(pair, caches, strict=True))
        assert_near(found, expected)


def test_results_stay_unchanged_while_other_steps_run(pair: Pair) -> None:
    model = pair[0]
    cache = filled(model)
    root, position = ids_of(model, 1), positions_of(model, cache.length, 1)
    first = model.forward(root, position, cache, feature_layers=(model.info.layers,))
    assert first.features is not None
    logits, features = first.logits.clone(), first.features.clone()
    for seed in range(3):
        chain(model, cache, 1, seed)
        star(model, cache, 4)
    assert torch.equal(first.logits, logits) and torch.equal(first.features, features)


def test_hidden_states_stay_unchanged_while_other_steps_run(pair: Pair) -> None:
    model = pair[0]
    cache = filled(model)
    first = run_layer(model, cache, seed=1)
    kept = first.clone()
    run_layer(model, cache, seed=2)
    assert torch.equal(first, kept)


def run_layer(model: LlamaModel, cache: KeyValueCache, seed: int) -> Tensor:
    positions = positions_of(model, cache.length, 3)[0]
    hidden = model.embed(ids_of(model, 3, seed)[0])
    return model.run_layers(hidden, positions, cache, range(1), cache.length)


def test_two_sequences_at_once_do_not_affect_each_other(pair: Pair) -> None:
    model, plain = pair
    one, other = filled(model, 7), filled(model, 12)
    chain(model, one, 2, seed=5)
    chain(model, other, 4, seed=6)
    alone = filled(plain, 7)
    chain(plain, alone, 2, seed=5)
    assert_near(chain(model, one, 2), chain(plain, alone, 2))


def test_a_new_cache_gets_the_graphs_of_a_deleted_one(pair: Pair) -> None:
    model, plain = pair
    cache = filled(model)
    assert isinstance(cache, GraphCache) and cache.buffers is not None
    buffers = cache.buffers
    with torch.inference_mode():
        # A model with broken weights may have left NaN in the buffers.
        buffers.keys_values.fill_(float("nan"))
    del cache
    again = filled(model)
    assert isinstance(again, GraphCache) and again.buffers is buffers
    assert_near(chain(model, again, 3), chain(plain, filled(plain), 3))


def test_features_equal_those_of_the_plain_forward(pair: Pair) -> None:
    ids, outputs = ids_of(pair[0], 3), []
    for model in pair:
        cache = filled(model)
        positions = positions_of(model, cache.length, 3)
        outputs.append(
            model.forward(
                ids, positions, cache, last_only=True, feature_layers=(model.info.layers,)
            )
        )
    found, expected = outputs
    assert found.logits.shape == (1, 1, VOCAB)
    assert_near(found.logits, expected.logits)
    assert found.features is not None and expected.features is not None
    assert_near(found.features, expected.features)


def test_a_full_cache_is_refused_as_without_graphs(pair: Pair) -> None:
    model = pair[0]
    cache = filled(model, capacity=10)
    with pytest.raises(InputError, match="no room for 4 more tokens"):
        chain(model, cache, 4)
    with pytest.raises(InputError, match="no room"):
        hidden = model.embed(ids_of(model, 4)[0])
        model.run_layers(hidden, positions_of(model, 7, 4)[0], cache, range(1), cache.length)
    assert chain(model, cache, 3).shape == (1, 3, VOCAB)


@pytest.mark.parametrize("cheaper", [lambda model: layer_skipping(model, [1]), quantised])
def test_models_made_from_its_layers_capture_their_own_steps(pair: Pair, cheaper: Any) -> None:
    chain(pair[0], filled(pair[0]), 2)
    found, expected = (chain(cheaper(model), filled(cheaper(model)), 2) for model in pair)
    # The kernels of a copy in int8 may also round the inputs of its layers. Then a difference in
    # the last bit of an input may become a difference of a whole rounding step.
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-3)


def test_a_model_on_the_cache_of_another_model_uses_its_own_steps(pair: Pair) -> None:
    found = []
    for model in pair:
        cache = filled(model)
        chain(model, cache, 2)  # on a GPU, this forward captures a graph
        found.append(chain(layer_skipping(model, [1]), cache, 2))
    assert_near(*found)


def test_another_process_gets_the_model_without_its_graphs(pair: Pair) -> None:
    model = pair[0]
    expected = chain(model, filled(model), 3)
    copied = pickle.loads(pickle.dumps(model))
    assert torch.equal(chain(copied, filled(copied), 3), expected)
