"""In a batch of different lengths, each row gets the result of its own forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from specviz.errors import InputError
from specviz.models.cache import RaggedCache
from specviz.models.language_model import BatchedModel, KeyValueCache, RaggedKeyValueCache
from specviz.models.library_model import LibraryModel
from specviz.models.llama.llama_model import LlamaModel
from tests.models.test_tree_forward import (
    DEVICES,
    OTHER_FAMILIES,
    SLIDING_FAMILIES,
    NoReading,
    RandomTree,
    random_tree,
)

VOCAB = 61
FAMILIES = ("llama", "llama-grouped", "qwen3")
PATHS = (
    *((LibraryModel, family) for family in (*FAMILIES, *OTHER_FAMILIES, *SLIDING_FAMILIES)),
    *((LlamaModel, family) for family in FAMILIES),
)
PROMPTS = ([7, 3, 11, 42, 5, 19, 28], [4], [9, 2, 33, 50])


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=PATHS, ids=lambda path: f"{path[0].__name__}-{path[1]}")
def model(
    request: pytest.FixtureRequest, device: str, tiny_module: Callable[..., Any], tiny_info: Any
) -> BatchedModel:
    path, family = request.param
    module = tiny_module(family).to(device)
    loaded: BatchedModel = path(module, tiny_info(module))
    return loaded


def padded(rows: Sequence[Sequence[int]], device: torch.device, filler: int = 0) -> Tensor:
    width = max(map(len, rows))
    filled = [[*row, *[filler] * (width - len(row))] for row in rows]
    return torch.tensor(filled, device=device)


class Together:
    """Runs all rows of a batch together, with one cache."""

    def __init__(self, model: BatchedModel, rows: int, capacity: int = 64) -> None:
        self.model = model
        self.cache: RaggedKeyValueCache = model.new_ragged_cache(rows, capacity)

    def run(
        self,
        ids: Sequence[Sequence[int]],
        depths: Sequence[Sequence[int]] | None = None,
        **options: Any,
    ) -> list[Tensor]:
        """Return the logits of each row's tokens, without padding.

        `depths` has each token's position, counted from the end of the row's cache.
        """
        starts = self.cache.lengths
        depths = depths or [range(len(row)) for row in ids]
        places = [[n + d for d in row] for n, row in zip(starts, depths, strict=True)]
        counts, at = [len(row) for row in ids], self.model.device
        output = self.model.forward_rows(
            padded(ids, at, filler=60), counts, padded(places, at), self.cache, **options
        )
        assert self.cache.lengths == tuple(n + c for n, c in zip(starts, counts, strict=True))
        if options.get("last_only"):
            return list(output.logits)
        return [row[:count] for row, count in zip(output.logits, counts, strict=True)]


class Alone:
    """Runs a single row, with its own cache."""

    def __init__(self, model: BatchedModel) -> None:
        self.model = model
        self.cache: KeyValueCache = model.new_cache(64)

    def run(
        self, ids: Sequence[int], depths: Sequence[int] | None = None, mask: Tensor | None = None
    ) -> Tensor:
        if not ids:
            return torch.empty(0, VOCAB, device=self.model.device)
        start, at = self.cache.length, self.model.device
        places = [start + depth for depth in (depths or range(len(ids)))]
        tokens, positions = torch.tensor([ids], device=at), torch.tensor([places], device=at)
        mask = None if mask is None else mask.to(at)
        return self.model.forward(tokens, positions, self.cache, mask).logits[0]


def assert_same(left: Sequence[Tensor], right: Sequence[Tensor]) -> None:
    for one, other in zip(left, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=5e-5)


def square(masks: Sequence[Tensor], device: torch.device) -> Tensor:
    """Return the masks of all rows in one tensor [rows, width, width], padded to the widest."""
    width = max(len(mask) for mask in masks)
    stacked = torch.zeros(len(masks), width, width, dtype=torch.bool)
    for row, mask in enumerate(masks):
        stacked[row, : len(mask), : len(mask)] = mask
    return stacked.to(device)


def prefilled(model: BatchedModel) -> tuple[Together, list[Alone]]:
    together, alone = Together(model, len(PROMPTS)), [Alone(model) for _ in PROMPTS]
    logits = together.run(PROMPTS)
    assert_same(logits, [each.run(ids) for each, ids in zip(alone, PROMPTS, strict=True)])
    return together, alone


def test_trees_of_any_size_equal_those_of_each_row_alone(model: BatchedModel) -> None:
    """Four rounds run trees of different sizes and keep only the accepted paths in the cache.

    In one of the rounds, one row has no tree.
    """
    together, alone = prefilled(model)
    for seed, sizes in enumerate(((12, 1, 5), (3, 9, 0), (1, 1, 1), (2, 7, 12))):
        trees = [
            random_tree(10 * seed + row, size) if size else RandomTree([], [])
            for row, size in enumerate(sizes)
        ]
        ids, depths = [tree.token_ids for tree in trees], [tree.depths for tree in trees]
        masks = [tree.mask for tree in trees]
        starts = together.cache.lengths
        logits = together.run(ids, depths, tree_mask=square(masks, model.device))
        runs = zip(alone, ids, depths, masks, strict=True)
        assert_same(logits, [each.run(*tree) for each, *tree in runs])
        paths = [tree.path(len(tree.parents) - 1) if tree.parents else [] for tree in trees]
        kept = [[start + node for node in path] for start, path in zip(starts, paths, strict=True)]
        together.cache.keep(starts, kept)
        for each, start, slots in zip(alone, starts, kept, strict=True):
            each.cache.keep(start, slots)
        assert together.cache.lengths == tuple(each.cache.length for each in alone)


def test_tokens_after_rows_of_any_length_equal_those_of_each_row_alone(model: BatchedModel) -> None:
    together, alone = prefilled(model)
    for ids in ([[1], [2], [3]], [[4, 5, 6], [], [7]], [[8], [9, 10], [11, 12, 13, 14]]):
        logits = together.run(ids)
        assert_same(logits, [each.run(row) for each, row in zip(alone, ids, strict=True)])


def test_trees_grown_level_by_level_equal_those_of_each_row_alone(model: BatchedModel) -> None:
    """The levels of the rows have different widths.

    So the columns of the mask begin at a different slot in each row.
    """
    together, alone = prefilled(model)
    trees = (
        RandomTree([4, 9, 2, 33, 50, 8, 21], [-1, 0, 0, 1, 1, 2, 3]),
        RandomTree([5, 6, 7], [-1, 0, 1]),
        RandomTree([1, 2, 3, 12, 13], [-1, -1, -1, 1, 1]),
    )
    starts = together.cache.lengths
    for depth in range(4):
        levels = [[n for n, d in enumerate(tree.depths) if d == depth] for tree in trees]
        width = max(map(len, levels))
        covered = max(len(tree.parents) for tree in trees) + width
        mask = torch.zeros(len(trees), width, covered, dtype=torch.bool)
        ids, depths = [], []
        for row, (tree, level) in enumerate(zip(trees, levels, strict=True)):
            length = together.cache.lengths[row]
            # `shift` is the column of the first node of the row's tree. It is negative if the mask
            # begins after that node.
            shift = starts[row] - (length + width - covered)
            for i, node in enumerate(level):
                mask[row, i, : max(shift, 0)] = True
                for above in tree.path(node):
                    mask[row, i, shift + above] = True
            ids.append([tree.token_ids[node] for node in level])
            depths.append([starts[row] + depth - length] * len(level))
        logits = together.run(ids, depths, tree_mask=mask.to(model.device))
        for row, (each, tree, level) in enumerate(zip(alone, trees, levels, strict=True)):
            if level:
                seen = tree.mask[level, : level[-1] + 1]
                assert_same([logits[row]], [each.run(ids[row], depths[row], seen)])


def test_rows_that_end_do_not_change_the_others(model: BatchedModel) -> None:
    together, alone = prefilled(model)
    together.cache.select([0, 2])
    assert together.cache.lengths == (7, 4)
    logits = together.run([[1, 2], [3]])
    assert_same(logits, [alone[0].run([1, 2]), alone[2].run([3])])
    together.cache.select([1])
    assert_same(together.run([[5, 6]]), [alone[2].run([5, 6])])


def test_last_only_gives_the_last_real_token_of_each_row(model: BatchedModel) -> None:
    full = Together(model, len(PROMPTS)).run(PROMPTS)
    last = Together(model, len(PROMPTS)).run(PROMPTS, last_only=True)
    assert all(row.shape == (1, VOCAB) for row in last)
    assert_same([row[0] for row in last], [row[-1] for row in full])


def test_features_equal_those_of_each_row_alone(model: BatchedModel) -> None:
    counts, ids = [len(prompt) for prompt in PROMPTS], padded(PROMPTS, model.device)
    positions = torch.arange(ids.shape[1], device=model.device).expand(len(PROMPTS), -1)
    for last_only in (False, True):
        cache = model.new_ragged_cache(len(PROMPTS), 16)
        output = model.forward_rows(
            ids, counts, positions, cache, last_only=last_only, feature_layers=(model.info.layers,)
        )
        assert output.features is not None
        assert output.logits.shape[1] == (1 if last_only else ids.shape[1])
        for row, prompt in enumerate(PROMPTS):
            own = torch.tensor([prompt], device=model.device)
            places = torch.arange(len(prompt), device=model.device)[None]
            expected = model.forward(
                own, places, model.new_cache(16), feature_layers=(model.info.layers,)
            )
            assert expected.features is not None
            assert_same([output.features[row, : len(prompt)]], [expected.features[0]])
            at = 0 if last_only else len(prompt) - 1
            assert_same([output.logits[row, at]], [expected.logits[0, -1]])


def test_padding_may_exceed_capacity_and_context(model: BatchedModel) -> None:
    together, alone = Together(model, 2, capacity=128), Alone(model)
    text = [each % VOCAB for each in range(128)]
    together.run([text[:127], [1]])
    ids = torch.tensor([[5, 0, 0, 0], [2, 3, 4, 6]], device=model.device)
    positions = torch.tensor([[127, 0, 0, 0], [1, 2, 3, 4]], device=model.device)
    logits = model.forward_rows(ids, [1, 4], positions, together.cache).logits
    alone.cache = model.new_cache(128)
    alone.run(text[:127])
    assert_same([logits[0, :1]], [alone.run([5])])
    assert together.cache.lengths == (128, 5)


def test_a_full_row_and_a_position_outside_the_context_are_refused(model: BatchedModel) -> None:
    together = Together(model, 2, capacity=8)
    together.run([[1] * 7, [1]])
    with pytest.raises(InputError, match="row 0 of the cache has 8 slots, 7 of them in use: no ro"):
        together.run([[1, 2], [1, 2]])
    assert together.cache.lengths == (7, 1)
    together = Together(model, 2, capacity=200)
    together.run([[1] * 128, [1]])
    with pytest.raises(InputError, match="context length of tiny is 128 tokens, got position 128"):
        together.run([[1], [2]])
    root = torch.ones(2, 1, 1, dtype=torch.bool, device=model.device)
    with pytest.raises(InputError, match="got position 128"):
        together.run([[1], [2]], tree_mask=root)
    together.cache.select([1])
    assert len(together.run([[2, 3]])[0]) == 2


def test_no_forward_of_rows_reads_a_number_from_the_device(model: BatchedModel) -> None:
    cache = model.new_ragged_cache(2, 64)
    ids, root = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[3], [2]])
    ids, root = ids.to(model.device), root.to(model.device)
    mask = torch.ones(2, 1, 1, dtype=torch.bool, device=model.device)
    with NoReading():
        model.forward_rows(ids, [3, 2], torch.arange(3).expand(2, -1).to(ids), cache)
        model.forward_rows(root, [1, 1], root, cache, last_only=True)
        cache.keep([3, 2], [[], []])
        model.forward_rows(root, [1, 1], root, cache, mask)


def test_memory_that_was_never_written_has_no_influence(tiny_module: Any, tiny_info: Any) -> None:
    """Unwritten memory may contain NaN, and 0 * NaN is NaN, so the mask must hide it."""
    module = tiny_module("llama-grouped")
    model = LlamaModel(module, tiny_info(module))
    torch.use_deterministic_algorithms(True)  # with this setting, torch fills new memory with NaN
    try:
        together, alone = prefilled(model)
        logits = together.run([[1, 2], [3], [5]])
    finally:
        torch.use_deterministic_algorithms(False)
    assert_same(logits, [alone[0].run([1, 2]), alone[1].run([3]), alone[2].run([5])])


def test_invalid_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="cache rows must be >= 1, got 0"):
        RaggedCache(layers=1, rows=0, capacity=8)
    with pytest.raises(InputError, match="cache capacity must be >= 1, got 0"):
        RaggedCache(layers=1, rows=1, capacity=0)
