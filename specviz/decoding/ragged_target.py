"""The target under rows of different lengths that share one cache and one forward.

Shorter rows are padded behind their tokens. Knows nothing of drafting or of what is accepted.
Letters: B rows, P tokens of the longest prompt, N tokens of the longest row in one forward.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.decoding.drafters.base import Proposal
from specviz.decoding.sampling import Sampler
from specviz.decoding.target import cache_capacity, check_prompt, finite
from specviz.decoding.transfer import HostTransfer
from specviz.decoding.tree_inputs import TreeInputs, tree_inputs
from specviz.models.language_model import BatchedModel, ForwardOutput
from specviz.records import DecodingConfig


class RaggedTarget:
    """See `TargetRows`; `padding` counts slots that held no token in the last forward."""

    def __init__(
        self,
        model: BatchedModel,
        prompts: Sequence[Sequence[int]],
        config: DecodingConfig,
        with_features: bool = False,
    ) -> None:
        """Raises InputError for a prompt that the model cannot take."""
        for prompt in prompts:
            check_prompt(model, prompt, config)
        capacity = max(cache_capacity(prompt, config) for prompt in prompts)
        self.model = model
        self.sampler = Sampler(config.temperature, config.top_k, config.top_p)
        self.transfer = HostTransfer()
        self.tokens = self.padding = 0
        self._cache = model.new_ragged_cache(len(prompts), capacity)
        self._with_features = with_features

    def cache(self, row: int) -> None:
        """No row has one of its own."""

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
            token_ids, counts, positions, self._cache, mask, last_only, self._with_features
        )


def _stacked(rows: Sequence[Tensor], length: int) -> Tensor:
    """Rows of any length, zeros behind them. -> [B, length]"""
    if all(len(row) == length for row in rows):
        return torch.stack(tuple(rows))
    return torch.stack([F.pad(row, (0, length - len(row))) for row in rows])


def _masks(rows: Sequence[TreeInputs], proposals: Sequence[Proposal]) -> Tensor | None:
    """[B, N, N], nothing seen by padding but itself; None where causal order does."""
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
    """The first `count` tokens of one row; `logits` where that many have any."""
    features = output.features
    return ForwardOutput(
        output.logits[row : row + 1, : count if logits is None else logits],
        None if features is None else features[row : row + 1, :count],
    )
