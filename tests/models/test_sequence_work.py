"""A unit of work gives the same result whether it is captured or run operation by operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from specviz.errors import InputError
from specviz.models.graphs import graph_buffers
from specviz.models.graphs.captured_model import CapturedModel, run_work
from specviz.models.graphs.captured_work import CapturedWork
from specviz.models.graphs.graph_buffers import KEPT_KINDS, LEAST_SLOTS, GraphCache
from specviz.models.language_model import KeyValueCache, LanguageModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.sequence_work import HostNumbers, Numbers, SequenceWork, Steps
from tests.devices import DEVICES
from tests.models.test_captured_model import filled

Pair = tuple[CapturedModel, LlamaModel]
DRAWS = (0.1, 1 / 3, 1 - 2**-53)


@dataclass(frozen=True)
class Grown:
    """Work over three levels of tokens: a root, its two children, and one child of each of these.

    The work on a level needs the result of the level above it.
    """

    shift: int = 1
    alike: Sequence[SequenceWork] = ()
    wholes = 1
    tokens = 5

    def __call__(
        self, steps: Steps, numbers: Numbers, inputs: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        device, (bias,) = numbers.wholes.device, inputs
        root = steps.forward(numbers.wholes, torch.zeros_like(numbers.wholes))
        best = (root.logits[0, 0] + bias).topk(2).indices
        own = torch.eye(2, dtype=torch.bool, device=device)
        first = steps.forward(best, torch.full_like(best, 1), own)
        ids = (first.logits[0] + bias).argmax(-1)
        second = steps.forward(ids, torch.full_like(ids, 2), torch.cat([own, own], 1))
        return first.logits[0], second.logits[0] * self.shift, numbers.draws * 2


@pytest.fixture(params=DEVICES)
def pair(request: Any, tiny_module: Any, tiny_info: Any) -> Pair:
    """Return two models with the same weights; only the first one captures its work."""

    def made(kind: Any) -> Any:
        module = tiny_module("llama-grouped").to(request.param)
        module.config.max_position_embeddings = 4 * LEAST_SLOTS
        return kind(module, tiny_info(module))

    return made(CapturedModel), made(LlamaModel)


def bias_of(model: LanguageModel, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(model.info.vocab_size, generator=draw).to(model.device)


def grow(
    model: LanguageModel, cache: KeyValueCache, root: int = 5, seed: int = 0, work: Any = None
) -> list[Tensor]:
    numbers = HostNumbers((root,), DRAWS)
    with torch.inference_mode():
        results = run_work(model, cache, work or Grown(), numbers, (bias_of(model, seed),))
        return [result.clone() for result in results]


def test_numbers_reach_the_work_exactly() -> None:
    numbers = HostNumbers((7, 2**40, -1), DRAWS).on(torch.device("cpu"))
    assert numbers.wholes.tolist() == [7, 2**40, -1] and numbers.draws.tolist() == list(DRAWS)
    assert numbers.wholes.untyped_storage().data_ptr() == numbers.draws.untyped_storage().data_ptr()


def test_consecutive_forwards_give_the_plain_logits(pair: Pair) -> None:
    caches = [filled(model) for model in pair]
    for round_index in range(3):
        found, expected = (
            grow(model, cache, root=round_index, seed=round_index)
            for model, cache in zip(pair, caches, strict=True)
        )
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one.double(), other.double(), rtol=1e-4, atol=1e-4)
        for cache in caches:  # keep the path of the root, its second child, and that child's child
            start = cache.length - Grown.tokens
            cache.keep(start, [start, start + 2, start + 4])


def test_a_text_may_grow_into_the_next_number_of_slots(pair: Pair) -> None:
    length, capacity = LEAST_SLOTS - 3, LEAST_SLOTS + 300
    found, expected = (grow(model, filled(model, length, capacity)) for model in pair)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-4, atol=1e-4)


def test_the_next_run_overwrites_the_results(pair: Pair) -> None:
    model = pair[0]
    cache, results = filled(model), []
    with torch.inference_mode():
        for root in (1, 2):
            inputs = (bias_of(model, root),)
            results.append(run_work(model, cache, Grown(), HostNumbers((root,), DRAWS), inputs))
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    assert [one.data_ptr() for one in results[0]] == [other.data_ptr() for other in results[1]]


def test_work_that_does_not_fit_the_cache_is_refused(pair: Pair) -> None:
    model = pair[0]
    cache = filled(model, capacity=10)
    with pytest.raises(InputError, match="no room for 2 more tokens"):
        grow(model, cache)


def test_work_and_its_variants_are_captured_after_their_first_run(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = pair[0]
    usual = Grown(alike=(Grown(shift=2),))
    grow(model, filled(model), work=usual)
    next_cache = filled(model)
    monkeypatch.setattr(CapturedWork, "__init__", None)  # from now on, a capture is an error
    expected = grow(model, next_cache, work=usual)
    next_cache.keep(next_cache.length - Grown.tokens, [])
    doubled = grow(model, next_cache, work=Grown(shift=2))
    assert torch.equal(doubled[1], 2 * expected[1])


def test_only_the_newest_graphs_are_kept(pair: Pair) -> None:
    model = pair[0]
    cache = filled(model)
    assert isinstance(cache, GraphCache) and cache.buffers is not None
    buffers = cache.buffers
    for shift in range(1, KEPT_KINDS + 4):
        grow(model, cache, work=Grown(shift))
        cache.keep(cache.length - Grown.tokens, [])
    del cache
    again = filled(model)
    assert isinstance(again, GraphCache) and again.buffers is buffers
    kept = {
        shape.kind.work for shape in buffers._graphs if isinstance(shape, graph_buffers.WorkShape)
    }
    assert kept == {Grown(shift) for shift in range(4, KEPT_KINDS + 4)}
