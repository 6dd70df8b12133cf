"""The target model of a batch, with one cache per row or with one cache for all rows.

One cache per row needs one forward per row. A shared cache needs one forward for all rows, although
they have different lengths. All lists have one entry per row that has not ended.

In shapes, B is the number of rows, P the number of tokens of a prompt, N the number of tokens of
the longest row in one forward, W the hidden size and V the size of the vocabulary.
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
from specviz.models.accelerator import upload
from specviz.models.language_model import (
    BatchedModel,
    ForwardOutput,
    KeyValueCache,
    LanguageModel,
)
from specviz.models.library_model import as_batched
from specviz.records import DecodingConfig


class TargetRows(Protocol):
    """The target model of all rows of a batch.

    `tokens` and `padding` describe the last forward: how many of its input positions held a token,
    and how many were empty.
    """

    tokens: int
    padding: int

    @property
    def model(self) -> LanguageModel: ...

    @property
    def sampler(self) -> Sampler: ...

    @property
    def transfer(self) -> HostTransfer: ...

    def cache(self, row: int) -> KeyValueCache | None:
        """Return the cache of one row, or None if all rows share a cache."""
        ...

    def keys_values(self, row: int, count: int) -> Sequence[Tensor]:
        """Return the keys and values of a row's first `count` tokens, one tensor per layer.

        This works only for a model whose layers can run one by one.
        """
        ...

    def to_host(self, packed: Tensor) -> list[float]:
        """Copy a tensor to the host and count the copy.

        Raises InputError if it contains NaN or infinity.
        """
        ...

    def fill(self, prompts: Sequence[Sequence[int]]) -> list[ForwardOutput]:
        """Run the prompts and fill the empty caches with their keys and values.

        -> per row: logits [1, 1, V], features [1, P, W]
        """
        ...

    def step(self, roots: Sequence[int], ends: Sequence[int]) -> Tensor:
        """Run the last committed token of each row. -> logits [B, V]

        `ends` has the number of committed tokens of each row.
        """
        ...

    def verify(
        self, roots: Sequence[int], proposals: Sequence[Proposal], ends: Sequence[int]
    ) -> list[ForwardOutput]:
        """Run the root, the draft tree and the extra queries of every row.

        `ends` has the number of committed tokens of each row; the last of them is the root. The
        result has one entry per row, with shape [1, N, …].
        """
        ...

    def keep(self, ends: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Keep in each row's cache the root and the nodes in `paths` (ascending).

        The keys and values of all other nodes are dropped.
        """
        ...

    def select(self, rows: Sequence[int]) -> None:
        """Keep the rows with these indices (ascending) in the batch, and drop all other rows."""
        ...


class SeparateRows:
    """A target with one cache and one forward per row, for all models and all drafters.

    It is slower than a shared cache, so it serves only models that cannot batch and drafters that
    read the target's cache.
    """

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
    """A target with one cache and one forward for all rows.

    The rows have different lengths. Shorter rows are padded at the end.
    """

    def __init__(
        self,
        model: BatchedModel,
        prompts: Sequence[Sequence[int]],
        config: DecodingConfig,
        feature_layers: Sequence[int] = (),
    ) -> None:
        """Create the shared cache. Raises InputError for a prompt that the model cannot read."""
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
        """Return None, because no row has a cache of its own: all rows share one cache."""

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
        return upload(torch.tensor(numbers, dtype=torch.int64), self.model.device)

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
    """Pad the rows at their end with zeros up to `length`, and stack them. -> [B, length]"""
    if all(len(row) == length for row in rows):
        return torch.stack(tuple(rows))
    return torch.stack([F.pad(row, (0, length - len(row))) for row in rows])


def _masks(rows: Sequence[TreeInputs], proposals: Sequence[Proposal]) -> Tensor | None:
    """Return the attention masks, or None if the draft of every row is a chain. -> [B, N, N]

    In the masks, a padding position sees only itself.
    """
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
    """Return the part of an output that belongs to the first `count` tokens of one row.

    If `logits` is not None, the result has only the logits of the row's first `logits` tokens.
    """
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
    """Return a target model that serves all rows of a batch.

    The rows share one cache if the model can batch. Each row gets a cache of its own if the model
    cannot, or if `shares_cache` says that the drafter reads the target's cache. Raises InputError
    for a prompt that the model cannot read.
    """
    batched = None if shares_cache else as_batched(model)
    if batched is not None:
        return RaggedTarget(batched, prompts, config, feature_layers)
    transfer = HostTransfer()
    return SeparateRows(
        [Target.of(model, prompt, config, feature_layers, transfer) for prompt in prompts]
    )
