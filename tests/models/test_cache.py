"""The cache keeps the selected slots, grows as it fills, and refuses overflow."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specviz.errors import InputError
from specviz.models.cache import FIRST_SLOTS, RaggedCache, SlotCache


def numbered(first: int, count: int) -> Tensor:
    """Return keys [1, 2, count, 1] of two heads: slot n has the key n in one head, -n in the other.

    The slots are numbered from `first` on.
    """
    numbers = torch.arange(first, first + count, dtype=torch.float32)
    return torch.stack((numbers, -numbers))[None, :, :, None]


def fill(cache: SlotCache, first: int, count: int) -> None:
    for layer in range(2):
        cache.write(layer, numbered(first, count), cache.length)
    cache.advance(count)


def contents(cache: SlotCache) -> list[list[float]]:
    """Return the cached keys of each layer, as a write of zero tokens returns them."""
    nothing = numbered(0, 0)
    keys = [cache.write(layer, nothing, cache.length)[0] for layer in range(2)]
    return [each[0, 0, :, 0].int().tolist() for each in keys]


@pytest.mark.parametrize(
    ("slots", "left"),
    [
        ([], [0, 1, 2, 3]),
        ([4, 5], [0, 1, 2, 3, 4, 5]),
        ([4, 6, 7], [0, 1, 2, 3, 4, 6, 7]),
        ([7, 8], [0, 1, 2, 3, 7, 8]),
        ([5, 6, 7, 8], [0, 1, 2, 3, 5, 6, 7, 8]),
    ],
)
def test_keep_moves_the_accepted_slots_forward(slots: list[int], left: list[int]) -> None:
    cache = SlotCache(layers=2, capacity=16)
    fill(cache, 0, 9)
    cache.keep(4, slots)
    assert cache.length == len(left)
    assert contents(cache) == [left, left]


def test_keys_and_values_are_separated() -> None:
    cache = SlotCache(layers=2, capacity=4)
    keys, values = cache.write(0, numbered(1, 3), 0)
    assert torch.equal(keys, -values)
    assert keys.shape == (1, 1, 3, 1)


def test_a_growing_cache_keeps_its_contents() -> None:
    cache = SlotCache(layers=2, capacity=FIRST_SLOTS * 3)
    for first in range(0, FIRST_SLOTS * 3, 64):
        fill(cache, first, 64)
    expected = list(range(FIRST_SLOTS * 3))
    assert contents(cache) == [expected, expected]


def test_a_large_capacity_takes_no_memory_before_it_is_used() -> None:
    cache = SlotCache(layers=2, capacity=1 << 30)
    assert cache.bytes == 0
    fill(cache, 0, 4)
    assert cache.bytes == 2 * 2 * FIRST_SLOTS * 4


def test_one_token_too_many_is_refused() -> None:
    cache = SlotCache(layers=2, capacity=4)
    fill(cache, 0, 3)
    with pytest.raises(InputError, match="4 slots, 3 of them in use: no room for 2 more tokens"):
        cache.check_room(2)


def test_a_forward_that_fails_in_the_middle_leaves_the_cache_unchanged() -> None:
    cache = SlotCache(layers=2, capacity=8)
    fill(cache, 0, 3)
    cache.write(0, numbered(90, 2), 3)
    assert cache.length == 3
    fill(cache, 3, 1)
    assert contents(cache) == [[0, 1, 2, 3], [0, 1, 2, 3]]


def test_slots_that_one_layer_wrote_ahead_survive_growth() -> None:
    cache = SlotCache(layers=2, capacity=2 * FIRST_SLOTS)
    fill(cache, 0, FIRST_SLOTS - 4)
    cache.write(0, numbered(FIRST_SLOTS - 4, 4), FIRST_SLOTS - 4)
    cache.write(0, numbered(FIRST_SLOTS, 2), FIRST_SLOTS)
    cache.advance(6)
    assert contents(cache)[0] == list(range(FIRST_SLOTS + 2))


def test_a_capacity_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="cache capacity must be >= 1, got 0"):
        SlotCache(layers=1, capacity=0)


def test_a_cache_can_begin_with_a_copy_of_another_cache() -> None:
    target = SlotCache(layers=2, capacity=16)
    fill(target, 0, 9)
    draft = SlotCache(layers=2, capacity=32)
    draft.begin(target.held(6))
    target.keep(2, [])
    fill(target, 100, 5)
    assert contents(draft) == [list(range(6))] * 2
    fill(draft, 6, 3)
    assert contents(draft) == [list(range(9))] * 2


def test_a_cache_that_is_too_small_for_the_copy_refuses_it() -> None:
    target = SlotCache(layers=2, capacity=16)
    fill(target, 0, 9)
    with pytest.raises(InputError, match="no room for 9 more tokens"):
        SlotCache(layers=2, capacity=8).begin(target.held(9))


def test_a_ragged_cache_begins_with_copies_of_different_lengths() -> None:
    caches = [SlotCache(layers=2, capacity=16) for _ in range(2)]
    for cache, count in zip(caches, (7, 3), strict=True):
        fill(cache, 10 * count, count)
    ragged = RaggedCache(layers=2, rows=2, capacity=16)
    ragged.begin([cache.held(cache.length) for cache in caches])
    assert ragged.lengths == (7, 3)
    for row, cache in enumerate(caches):
        pairs = zip(ragged.held(row, cache.length), cache.held(cache.length), strict=True)
        assert all(torch.equal(ours, theirs) for ours, theirs in pairs)
