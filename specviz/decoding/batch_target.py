"""The target of a batch: a cache and a forward per row, or one ragged cache and one forward.

Lists run parallel to the rows that have not ended. Letters: B rows, P tokens of a prompt, N tokens
of the longest row in one forward, W hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.decoding.drafters.base import HostTransfer, Proposal, empty_proposal
from specviz.decoding.sampling import Sampler
from specviz.decoding.target import (
    Target,
    TreeInputs,
    cache_capacity,
    check_prompt,
    finite,
    tree_inputs,
)
from specviz.models.language_model import (
    BatchedModel,
    ForwardOutput,
    KeyValueCache,
    LanguageModel,
)
from specviz.models.library_model import as_batched
from specviz.records import DecodingConfig


class TargetRows(Protocol):
    """`tokens` and `padding` count the slots of the last forward with and without a token."""

    tokens: int
    padding: int

    @property
    def model(self) -> LanguageModel: ...

    @property
    def sampler(self) -> Sampler: ...

    @property
    def transfer(self) -> HostTransfer: ...

    def cache(self, row: int) -> KeyValueCache | None:
        """The row's own cache; None if all rows share one."""
        ...

    def keys_values(self, row: int, count: int) -> Sequence[Tensor]:
        """The keys and values of a row's first tokens, if its model can run layer by layer."""
        ...

    def to_host(self, packed: Tensor) -> list[float]:
        """The counted blocking copy; InputError if any number is NaN or infinite."""
        ...

    def fill(self, prompts: Sequence[Sequence[int]]) -> list[ForwardOutput]:
        """Run the prompts into empty caches: logits [1, 1, V] after each, features [1, P, W]."""
        ...

    def step(self, roots: Sequence[int], ends: Sequence[int]) -> Tensor:
        """Run each row's root, at text position end - 1, and nothing else. -> logits [B, V]"""
        ...

    def verify(
        self, roots: Sequence[int], proposals: Sequence[Proposal], ends: Sequence[int]
    ) -> list[ForwardOutput]:
        """Each row's root at text position end - 1, its nodes, its extra queries. [1, N, …]"""
        ...

    def keep(self, ends: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Of each row's last forward keep the root and these nodes, ascending."""
        ...

    def select(self, rows: Sequence[int]) -> None:
        """Only these rows (ascending) go on."""
        ...


class SeparateRows:
    """A cache and a forward for every row, for models or drafters that cannot share them."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = list(targets)
        self.model = targets[0].model
        self.sampler = targets[0].sampler
        self.transfer = targets[0].transfer
        self.tokens = 0
        self.padding = 0

    def cache(self, row: int) -> KeyValueCache:
        return self._targets[row].cache

    def keys_values(self, row: int, count: int) -> Sequence[Tensor]:
        return self._targets[row].keys_values(count)

    def to_host(self, packed: Tensor) -> list[float]:
        return self._targets[0].to_host(packed)

    def fill(self, prompts: Sequence[Sequence[int]]) -> list[ForwardOutput]:
        self.tokens = sum(map(len, prompts))
        return [target.fill(ids) for target, ids in zip(self._targets, prompts, strict=True)]

    def step(self, roots: Sequence[int], ends: Sequence[int]) -> Tensor:
        nothing = [empty_proposal(self.model.device)] * len(roots)
        return torch.cat([output.logits[:, 0] for output in self.verify(roots, nothing, ends)])

    def verify(
        self, roots: Sequence[int], proposals: Sequence[Proposal], ends: Sequence[int]
    ) -> list[ForwardOutput]:
        self.tokens = sum(1 + each.topology.size + each.query_count for each in proposals)
        asked = zip(self._targets, roots, proposals, ends, strict=True)
        return [target.verify(root, each, end) for target, root, each, end in asked]

    def keep(self, ends: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        for target, end, path in zip(self._targets, ends, paths, strict=True):
            target.cache.keep(end, [end + node for node in path])

    def select(self, rows: Sequence[int]) -> None:
        self._targets = [self._targets[row] for row in rows]


class RaggedTarget:
    """Rows of different lengths in one cache and one forward, padded at the end."""

    def __init__(
        self,
        model: BatchedModel,
        prompts: Sequence[Sequence[int]],
        config: DecodingConfig,
        feature_layers: Sequence[int] = (),
    ) -> None:
        """Raises InputError for a prompt that the model cannot take."""
        for prompt in prompts:
            check_prompt(model, prompt, config)
        capacity = max(cache_capacity(prompt, config) for prompt in prompts)
        self.model = model
        self.sampler = Sampler.of(config)
        self.transfer = HostTransfer()
        self.tokens = self.padding = 0
        self._cache = model.new_ragged_cache(len(prompts), capacity)
        self._feature_layers = feature_layers

    def cache(self, row: int) -> None:
        """All rows share one."""

    def keys_values(self, row: int, count: int) -> Sequence[Tensor]:
        return self._cache.held(row, count)

    def to_host(self, packed: Tensor) -> list[float]:
        return finite(self.transfer.to_host(packed), self.model)

    def fill(self, prompts: Sequence[Sequence[int]]) -> list[ForwardOutput]:
        counts = list(map(len, prompts))
        longest = max(counts)
        token_ids = self._on_device([[*ids, *[0] * (longest - len(ids))] for ids in prompts])
        positions = torch.arange(longest, device=self.model.device).expand(len(prompts), -1)
        output = self._run(token_ids, counts, positions, last_only=True)
        return [_row(output, row, count, logits=1) for row, count in enumerate(counts)]

    def step(self, roots: Sequence[int], ends: Sequence[int]) -> Tensor:
        table = self._on_device([roots, [end - 1 for end in ends]])
        return self._run(table[0][:, None], [1] * len(roots), table[1][:, None]).logits[:, 0]

    def verify(
        self, roots: Sequence[int], proposals: Sequence[Proposal], ends: Sequence[int]
    ) -> list[ForwardOutput]:
        table = self._on_device([roots, [end - 1 for end in ends]])
        asked = zip(table[0, :, None], proposals, strict=True)
        rows = [tree_inputs(root, proposal) for root, proposal in asked]
        counts = [len(row.token_ids) for row in rows]
        token_ids = _stacked([row.token_ids for row in rows], max(counts))
        positions = _stacked([row.offsets for row in rows], max(counts)) + table[1][:, None]
        output = self._run(token_ids, counts, positions, _masks(rows, proposals))
        return [_row(output, row, count) for row, count in enumerate(counts)]

    def keep(self, ends: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        kept = [[end + node for node in path] for end, path in zip(ends, paths, strict=True)]
        self._cache.keep(ends, kept)

    def select(self, rows: Sequence[int]) -> None:
        self._cache.select(rows)

    def _on_device(self, numbers: Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64).to(self.model.device, non_blocking=True)

    def _run(
        self,
        token_ids: Tensor,  # [B, N]
        counts: Sequence[int],
        positions: Tensor,  # [B, N]
        mask: Tensor | None = None,  # [B, N, N]
        last_only: bool = False,
    ) -> ForwardOutput:
        self.tokens = sum(counts)
        self.padding = token_ids.numel() - self.tokens
        return self.model.forward_rows(
            token_ids, counts, positions, self._cache, mask, last_only, self._feature_layers
        )


def _stacked(rows: Sequence[Tensor], length: int) -> Tensor:
    """Rows padded with zeros. -> [B, length]"""
    if all(len(row) == length for row in rows):
        return torch.stack(tuple(rows))
    return torch.stack([F.pad(row, (0, length - len(row))) for row in rows])


def _masks(rows: Sequence[TreeInputs], proposals: Sequence[Proposal]) -> Tensor | None:
    """Padding sees itself only. -> [B, N, N], or None if all rows are chains"""
    if all(row.mask is None for row in rows):
        return None
    length = max(len(row.token_ids) for row in rows)
    masks = []
    for row, proposal in zip(rows, proposals, strict=True):
        mask = proposal.topology.mask if row.mask is None else row.mask
        behind = length - len(mask)
        masks.append(F.pad(mask, (0, behind, 0, behind)) if behind else mask)
    return torch.stack(masks) | torch.eye(length, dtype=torch.bool, device=masks[0].device)


def _row(output: ForwardOutput, row: int, count: int, logits: int | None = None) -> ForwardOutput:
    """The first `count` tokens of one row, or the first `logits` ones of its logits."""
    features = output.features
    return ForwardOutput(
        output.logits[row : row + 1, : count if logits is None else logits],
        None if features is None else features[row : row + 1, :count],
    )


def batch_target(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    config: DecodingConfig,
    feature_layers: Sequence[int] = (),
    shares_cache: bool = False,
) -> TargetRows:
    """A ragged target, unless the model cannot run one or the drafter needs each row's cache.

    Raises InputError for a prompt that the model cannot take.
    """
    batched = None if shares_cache else as_batched(model)
    if batched is not None:
        return RaggedTarget(batched, prompts, config, feature_layers)
    transfer = HostTransfer()
    return SeparateRows(
        [Target.of(model, prompt, config, feature_layers, transfer) for prompt in prompts]
    )
