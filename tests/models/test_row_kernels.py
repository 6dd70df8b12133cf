"""The compiled operations on few rows equal torch's, and a row does not depend on other rows."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from specviz.models.cache import SlotCache, StraightSlots
from specviz.models.llama.attention import CachedAttention, Heads, attention
from specviz.models.llama.layer import RootMeanSquareNorm, gated
from specviz.models.llama.row_kernels import FewRowAttention
from specviz.models.matrix_kernels import kernel
from specviz.models.matrix_kernels.choice import MOST_ALIKE

HEADS = Heads(6, 2, 32)
LAYERS = 2
START = 45

needs_kernel = pytest.mark.skipif(kernel.registers() is None, reason="no kernel on this machine")
rows_of_any_number = pytest.mark.parametrize("rows", [1, 3, MOST_ALIKE, MOST_ALIKE + 1])


def filled_cache() -> SlotCache:
    torch.manual_seed(1)
    cache = SlotCache(LAYERS, 200)
    for layer in range(LAYERS):
        cache.write(layer, torch.randn(1, 2 * HEADS.keys, START, HEADS.size), 0)
    cache.advance(START)
    return cache


def joined_rows(count: int) -> torch.Tensor:
    torch.manual_seed(count)
    return torch.randn(count, HEADS.queries + 2 * HEADS.keys, HEADS.size)


def mixed(joined: torch.Tensor, mask: torch.Tensor | None, cache: SlotCache) -> torch.Tensor:
    slots = StraightSlots(cache, cache.length, 1, len(joined))
    attend = attention(slots, HEADS, joined[:, 0].contiguous(), mask)
    few = kernel.registers() is not None and len(joined) <= MOST_ALIKE
    assert isinstance(attend, FewRowAttention if few else CachedAttention)
    return torch.stack([attend(layer, joined) for layer in range(LAYERS)])


@rows_of_any_number
def test_a_norm_is_that_of_torch(rows: int) -> None:
    x, weight = 3 * torch.randn(rows, 96), torch.randn(96)
    expected = F.rms_norm(x, (96,), weight, 1e-5)
    torch.testing.assert_close(RootMeanSquareNorm(weight, 1e-5)(x), expected)


@rows_of_any_number
def test_a_gate_is_that_of_torch_for_values_of_any_size(rows: int) -> None:
    both = torch.randn(rows, 2 * 48) * torch.logspace(-3, 3, 2 * 48)
    gate, up = both.chunk(2, -1)
    torch.testing.assert_close(gated(both), F.silu(gate) * up)


@rows_of_any_number
def test_a_gate_of_any_float32_number_is_that_of_torch(rows: int) -> None:
    gate = torch.tensor([-math.inf, -3e38, -1e38, -1e20, -89.0, 0.0, 89.0, 3e38, math.nan] * 16)
    both = torch.cat((gate, torch.ones_like(gate))).expand(rows, -1).contiguous()
    torch.testing.assert_close(gated(both), F.silu(gate).expand(rows, -1), equal_nan=True)


@needs_kernel
@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("is_query", [False, True])
def test_attention_does_not_hide_a_score_that_is_no_number(broken: float, is_query: bool) -> None:
    joined = joined_rows(2)
    joined[0, 0 if is_query else HEADS.queries, 0] = broken
    found = mixed(joined, None, filled_cache())[:, 0]
    heads = found.view(LAYERS, HEADS.queries, HEADS.size)
    sharing = HEADS.queries // HEADS.keys
    affected = heads[:, :1] if is_query else heads[:, :sharing]
    # a key with one infinite number can have the score minus infinity, and then it has no weight
    assert affected.isnan().any() if broken == math.inf else affected.isnan().all()
    assert heads[:, sharing:].isfinite().all()


@needs_kernel
@pytest.mark.parametrize("rows", [1, 3, MOST_ALIKE])
@pytest.mark.parametrize("has_mask", [False, True])
def test_attention_is_that_of_torch_and_fills_the_cache(
    rows: int, has_mask: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = torch.rand(rows, rows + 4) > 0.5 if has_mask else None
    joined, own, other = joined_rows(rows), filled_cache(), filled_cache()
    found = mixed(joined, mask, own)
    with monkeypatch.context() as patched:
        patched.setattr(kernel, "llvm", None)
        kernel.registers.cache_clear()
        expected = mixed(joined, mask, other)
    kernel.registers.cache_clear()
    torch.testing.assert_close(found, expected)
    for cache in (own, other):
        cache.advance(rows)
    pairs = zip(own.held(START + rows), other.held(START + rows), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)


@needs_kernel
def test_a_token_attends_alike_to_the_bit_alone_and_among_others() -> None:
    joined, together, alone = joined_rows(6), filled_cache(), filled_cache()
    expected = mixed(joined, None, together)
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    assert torch.equal(mixed(joined, causal, filled_cache()), expected)
    for row in range(6):
        assert torch.equal(mixed(joined[row : row + 1], None, alone)[:, 0], expected[:, row])
        alone.advance(1)


@needs_kernel
def test_attention_is_the_same_to_the_bit_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("specviz.models.llama.row_kernels._ALONE", 0)
    joined, before = joined_rows(5), torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(mixed(joined, None, filled_cache()))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_rows_of_another_width_are_refused() -> None:
    """The error comes from a function of torch, which runs before the compiled code.

    The compiled code itself checks nothing, and would read beyond the weights.
    """
    with pytest.raises(RuntimeError, match="size of tensor"):
        RootMeanSquareNorm(torch.randn(96), 1e-5)(torch.randn(2, 112))
