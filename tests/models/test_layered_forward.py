"""A forward pass that stops between layers and continues gives exactly the whole pass."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from specviz.errors import InputError
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.language_model import KeyValueCache, LayeredModel
from specviz.models.llama.llama_model import LlamaModel

PROMPT = torch.tensor([7, 3, 11, 42, 5, 19, 28])
TREE = torch.tensor([4, 9, 2, 33, 50])
DEPTHS = torch.tensor([0, 1, 1, 2, 2])
MASK = torch.tensor(
    [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 0, 1]],
    dtype=torch.bool,
)
SPLITS = ((0, 3), (0, 1, 3), (0, 2, 3), (0, 1, 2, 3))


FAMILIES = ("llama", "llama-grouped", "llama-biased", "qwen3")


@pytest.fixture(params=[(kind, each) for kind in (LlamaModel, CapturedModel) for each in FAMILIES])
def model(request: pytest.FixtureRequest, tiny_module: Any, tiny_info: Any) -> LayeredModel:
    kind, family = request.param
    module = tiny_module(family)
    return kind(module, tiny_info(module))


def prefilled(model: LayeredModel) -> KeyValueCache:
    cache = model.new_cache(64)
    model.forward(PROMPT[None], torch.arange(len(PROMPT))[None], cache)
    return cache


def whole(model: LayeredModel, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the logits of the tree's nodes, and those of one token that follows the tree."""
    cache = prefilled(model)
    positions = (len(PROMPT) + (DEPTHS if mask is not None else torch.arange(5)))[None]
    logits = model.forward(TREE[None], positions, cache, mask).logits[0]
    after = model.forward(TREE[None, :1], torch.tensor([[12]]), cache).logits[0]
    return logits, after


@pytest.mark.parametrize("mask", [None, MASK], ids=["chain", "tree"])
@pytest.mark.parametrize("split", SPLITS)
def test_any_split_of_the_layers_equals_the_whole_forward(
    model: LayeredModel, split: tuple[int, ...], mask: Tensor | None
) -> None:
    cache = prefilled(model)
    start = cache.length
    positions = start + (DEPTHS if mask is not None else torch.arange(5))
    hidden = model.embed(TREE)
    for first, end in pairwise(split):
        hidden = model.run_layers(hidden, positions, cache, range(first, end), start, mask)
        assert cache.length == start
    cache.advance(5)
    logits = model.output(model.norm(hidden))
    after = model.forward(TREE[None, :1], torch.tensor([[12]]), cache).logits[0]
    expected = whole(model, mask)
    assert torch.equal(logits, expected[0])
    assert torch.equal(after, expected[1])


def test_running_the_lower_layers_level_by_level_equals_the_whole_tree(
    model: LayeredModel,
) -> None:
    cache = prefilled(model)
    start = cache.length
    hidden = []
    for level in ([0], [1, 2], [3, 4]):
        seen = level[-1] + 1
        part = model.embed(TREE[level])
        places = (start + DEPTHS[level], cache, range(0, 2), start + level[0])
        hidden.append(model.run_layers(part, *places, MASK[level, :seen]))
    joined = torch.cat(hidden)
    joined = model.run_layers(joined, start + DEPTHS, cache, range(2, 3), start, MASK)
    logits = model.output(model.norm(joined))
    torch.testing.assert_close(logits, whole(model, MASK)[0], rtol=1e-5, atol=1e-5)


def test_layers_that_ran_ahead_do_not_change_committed_tokens(model: LayeredModel) -> None:
    cache, untouched = prefilled(model), prefilled(model)
    model.run_layers(
        model.embed(TREE), len(PROMPT) + DEPTHS, cache, range(0, 2), cache.length, MASK
    )
    logits = [
        model.forward(TREE[None], len(PROMPT) + torch.arange(5)[None], each).logits
        for each in (cache, untouched)
    ]
    assert torch.equal(*logits)


def test_layers_cannot_run_beyond_the_cache_s_capacity(model: LayeredModel) -> None:
    cache = model.new_cache(8)
    model.forward(PROMPT[None], torch.arange(len(PROMPT))[None], cache)
    with pytest.raises(InputError, match="8 slots, 7 of them in use: no room for 5 more"):
        model.run_layers(model.embed(TREE), 7 + DEPTHS, cache, range(0, 2), 7, MASK)
