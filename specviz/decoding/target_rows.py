"""The target under all rows of a run: where their keys and values are, and how they run.

Knows nothing of drafting or of what is accepted. Lists run parallel to the rows that are still
there. Letters: B rows, P tokens of a prompt, N of a row in one forward, W hidden size,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Proposal, empty_proposal
from specviz.decoding.sampling import Sampler
from specviz.decoding.target import Target
from specviz.decoding.transfer import HostTransfer
from specviz.models.language_model import ForwardOutput, KeyValueCache, LanguageModel


class TargetRows(Protocol):
    """`tokens` and `padding` count what the last forward ran: slots that held a token or none."""

    tokens: int
    padding: int

    @property
    def model(self) -> LanguageModel: ...

    @property
    def sampler(self) -> Sampler: ...

    @property
    def transfer(self) -> HostTransfer: ...

    def cache(self, row: int) -> KeyValueCache | None:
        """The row's own cache; None where all rows share one."""
        ...

    def to_host(self, packed: Tensor) -> list[float]:
        """The counted copy; InputError where the model's numbers are no numbers."""
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
    """A cache and a forward for every row: one prompt alone, or drafters that share the cache."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = list(targets)
        self.model = targets[0].model
        self.sampler = targets[0].sampler
        self.transfer = targets[0].transfer
        self.tokens = 0
        self.padding = 0

    def cache(self, row: int) -> KeyValueCache:
        return self._targets[row].cache

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
