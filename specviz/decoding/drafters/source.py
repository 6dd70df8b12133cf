"""A source of next-token logits for the nodes of a growing tree.

Knows nothing of how many children a node gets, nor of verification: shapes decide that. A source
counts the nodes that it ran, level by level, from 0; a shape tells verification those numbers as
the nodes' origins. Letters: M nodes of one level, S nodes run so far and these, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Observation, Opening, Partial
from specviz.models.language_model import LanguageModel


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Nodes of one depth, all run at once."""

    token_ids: Tensor  # [M] int64
    parents: Tensor  # [M] int64, the source's number of each one's parent, -1 = root
    depth: int
    mask: Tensor | None  # [M, S] bool, ancestors and itself; None: a chain


class Source(Protocol):
    """What a shape grows a tree from."""

    @property
    def device(self) -> torch.device: ...

    @property
    def needs_features(self) -> bool:
        """Whether it wants the target's hidden states after the final norm."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Weights beside the target's."""
        ...

    def start(self, opening: Opening) -> None: ...

    def begin(self, committed: Sequence[int]) -> Tensor:
        """Logits after the last committed token. -> [1, V]"""
        ...

    def extend(self, level: Level) -> Tensor:
        """Logits after each node of a level, all levels above being there already. -> [M, V]"""
        ...

    def partial(self) -> Partial | None:
        """What the target need not run again, of the root and the nodes in the order they ran."""
        ...

    def keep(self, observation: Observation) -> None:
        """Forget every node but those accepted; `observation.origins` are the source's numbers."""
        ...


class ModelSource:
    """Logits of a draft model; its own cache covers a prefix of the committed tokens."""

    needs_features = False

    def __init__(self, model: LanguageModel, capacity: int, vocab_size: int) -> None:
        self._model = model
        self._cache = model.new_cache(capacity)
        self._vocab_size = vocab_size
        self._root_end = 0  # slots that hold committed tokens
        self._ran = 0  # nodes of the present tree that are in the cache
        self.memory_bytes = model.info.bytes

    @property
    def device(self) -> torch.device:
        return self._model.device

    def start(self, opening: Opening) -> None:
        """The prompt is run with the first root."""

    def begin(self, committed: Sequence[int]) -> Tensor:
        missing = committed[self._cache.length :]
        positions = range(self._cache.length, len(committed))
        output = self._model.forward(
            self._on_device(missing), self._on_device(positions), self._cache, last_only=True
        )
        self._root_end, self._ran = len(committed), 0
        return fitted(output.logits[0], self._vocab_size)

    def extend(self, level: Level) -> Tensor:
        count = len(level.token_ids)
        position = self._root_end - 1 + level.depth
        positions = torch.full((1, count), position, device=self.device)
        output = self._model.forward(level.token_ids[None], positions, self._cache, level.mask)
        self._ran += count
        return fitted(output.logits[0], self._vocab_size)

    def partial(self) -> None:
        """The target shares nothing with a model of its own cache."""

    def keep(self, observation: Observation) -> None:
        ran = [origin for origin in observation.origins if 0 <= origin < self._ran]
        self._cache.keep(self._root_end, [self._root_end + origin for origin in ran])

    def _on_device(self, token_ids: Sequence[int]) -> Tensor:
        return torch.tensor([token_ids], dtype=torch.int64).to(self.device, non_blocking=True)


def fitted(logits: Tensor, vocab_size: int) -> Tensor:
    """Bring padded vocabularies to the target's width; added tokens can never be drawn."""
    missing = vocab_size - logits.shape[-1]
    if missing <= 0:
        return logits[..., :vocab_size]
    return torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)
