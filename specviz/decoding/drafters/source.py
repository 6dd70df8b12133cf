"""A source of next-token logits for the nodes of a growing tree, from a small language model.

Knows nothing of how many children a node gets, nor of verification: shapes decide that.
Letters: M nodes of one level, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from specviz.decoding.topology import Topology
from specviz.models.language_model import LanguageModel


class Source(Protocol):
    """What a shape grows a tree from."""

    @property
    def device(self) -> torch.device: ...

    def begin(self, committed: Sequence[int]) -> Tensor:
        """Logits after the last committed token. -> [1, V]"""
        ...

    def extend(self, level: range, tree: Topology, token_ids: Tensor) -> Tensor:
        """Logits after each node of a level, all levels above being there already. -> [M, V]

        `level` are the nodes' indices in `tree`, `token_ids` their tokens, [M].
        """
        ...

    def keep(self, path: Sequence[int]) -> None:
        """Forget every node of the tree but those of `path`."""
        ...


class ModelSource:
    """Logits of a draft model; its own cache covers a prefix of the committed tokens."""

    def __init__(self, model: LanguageModel, capacity: int, vocab_size: int) -> None:
        self._model = model
        self._cache = model.new_cache(capacity)
        self._vocab_size = vocab_size
        self._root_end = 0  # slots that hold committed tokens
        self._ran = 0  # nodes of the present tree that are in the cache

    @property
    def device(self) -> torch.device:
        return self._model.device

    def begin(self, committed: Sequence[int]) -> Tensor:
        missing = committed[self._cache.length :]
        positions = range(self._cache.length, len(committed))
        output = self._model.forward(
            self._on_device(missing), self._on_device(positions), self._cache, last_only=True
        )
        self._root_end, self._ran = len(committed), 0
        return self._fitted(output.logits[0])

    def extend(self, level: range, tree: Topology, token_ids: Tensor) -> Tensor:
        rows = slice(level.start + 1, level.stop + 1)  # row 0 of the tables is the root
        positions = self._root_end - 1 + tree.offsets[rows]
        # a chain is causal order; a level of a tree sees its ancestors only
        mask = None if tree.is_chain else tree.mask[rows, 1 : level.stop + 1]
        output = self._model.forward(token_ids[None], positions[None], self._cache, mask)
        self._ran = level.stop
        return self._fitted(output.logits[0])

    def keep(self, path: Sequence[int]) -> None:
        kept = [self._root_end + node for node in path if node < self._ran]
        self._cache.keep(self._root_end, kept)

    def _on_device(self, token_ids: Sequence[int]) -> Tensor:
        return torch.tensor([token_ids], dtype=torch.int64).to(self.device, non_blocking=True)

    def _fitted(self, logits: Tensor) -> Tensor:
        """Bring padded vocabularies to the target's width; added tokens can never be drawn."""
        missing = self._vocab_size - logits.shape[-1]
        if missing <= 0:
            return logits[..., : self._vocab_size]
        return torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)
