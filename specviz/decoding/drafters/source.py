"""A drafter of two parts: a source of next-token logits, and a shape that grows a tree from them.

A source numbers the nodes that it ran from 0, level by level; a shape passes these numbers on as
the nodes' origins. Letters: M nodes of one level, S nodes run so far with these, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.decoding.drafters.base import (
    NOTHING_OVERLAPPED,
    HeldMemory,
    Observation,
    OverlappedWork,
    Partial,
    PrefilledPrompt,
    Proposal,
)
from specviz.models.language_model import LanguageModel


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Nodes of one depth, run at once."""

    token_ids: Tensor  # [M] int64
    parents: Tensor  # [M] int64, the source's numbers of their parents, -1 = root
    depth: int
    mask: Tensor | None  # [M, S] bool, ancestors and itself; None for a chain


class DraftSource(Protocol):
    """Gives logits for the nodes of a growing tree."""

    @property
    def device(self) -> torch.device: ...

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Which features of the target it asks for, as `ForwardOutput` counts them; () if none."""
        ...

    @property
    def memory(self) -> HeldMemory: ...

    def start(self, prompt: PrefilledPrompt) -> None: ...

    def begin(self, committed: Sequence[int]) -> Tensor:
        """Logits after the last committed token. -> [1, V]"""
        ...

    def extend(self, level: Level) -> Tensor:
        """Logits after each node of a level, called level by level. -> [M, V]"""
        ...

    def partial(self) -> Partial | None:
        """The root and the nodes, in the order they ran, if the target need not run them whole."""
        ...

    def keep(self, observation: Observation) -> None:
        """Keep the accepted nodes only; `observation.origins` are the source's numbers."""
        ...


class DraftShape(Protocol):
    """Grows a tree from the logits of a source."""

    def grow(
        self, source: DraftSource, committed: Sequence[int], room: int, round_index: int
    ) -> Proposal:
        """A tree of at most `room` levels after the committed tokens."""
        ...


class SourceDrafter:
    """Any source combined with any shape."""

    def __init__(self, source: DraftSource, shape: DraftShape) -> None:
        self._source = source
        self._shape = shape

    @property
    def feature_layers(self) -> tuple[int, ...]:
        return self._source.feature_layers

    @property
    def memory(self) -> HeldMemory:
        return self._source.memory

    def start(self, prompt: PrefilledPrompt) -> None:
        self._source.start(prompt)

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        return self._shape.grow(self._source, committed, room, round_index)

    def observe(self, observation: Observation) -> OverlappedWork:
        self._source.keep(observation)
        return NOTHING_OVERLAPPED

    def close(self) -> None:
        """There is nothing to free."""


class ModelSource:
    """A draft model; its own cache covers a prefix of the committed tokens.

    A model that is made of layers of the target names them as `shared`. It does not read the
    prompt: it starts from a copy of the target's own keys and values in those layers.
    """

    feature_layers: tuple[int, ...] = ()

    def __init__(
        self,
        model: LanguageModel,
        capacity: int,
        vocab_size: int,
        shared: Sequence[int] = (),
    ) -> None:
        self._model = model
        self._cache = model.new_cache(capacity)
        self._vocab_size = vocab_size
        self._shared = shared
        self._root_end = 0  # slots that hold committed tokens
        self._ran = 0  # nodes of the present tree that are in the cache

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory(self._model.info.bytes, self._cache.bytes)

    @property
    def device(self) -> torch.device:
        return self._model.device

    def start(self, prompt: PrefilledPrompt) -> None:
        if self._shared and prompt.keys_values is not None:
            self._cache.begin(shared_layers(prompt.keys_values(), self._shared))
        if self._cache.length < len(prompt.prompt_ids):
            self._read(prompt.prompt_ids)

    def begin(self, committed: Sequence[int]) -> Tensor:
        logits = self._read(committed)
        self._root_end, self._ran = len(committed), 0
        return fitted(logits, self._vocab_size)

    def _read(self, token_ids: Sequence[int]) -> Tensor:
        """Run what the cache lacks of them, at least the last one. -> [1, V] of the model's own"""
        missing = token_ids[self._cache.length :]
        positions = range(self._cache.length, len(token_ids))
        output = self._model.forward(
            self._on_device(missing), self._on_device(positions), self._cache, last_only=True
        )
        return output.logits[0]

    def extend(self, level: Level) -> Tensor:
        count = len(level.token_ids)
        position = self._root_end - 1 + level.depth
        positions = torch.full((1, count), position, device=self.device)
        output = self._model.forward(level.token_ids[None], positions, self._cache, level.mask)
        self._ran += count
        return fitted(output.logits[0], self._vocab_size)

    def partial(self) -> None:
        """The draft model has a cache of its own."""

    def keep(self, observation: Observation) -> None:
        ran = [origin for origin in observation.origins if 0 <= origin < self._ran]
        self._cache.keep(self._root_end, [self._root_end + origin for origin in ran])

    def _on_device(self, token_ids: Sequence[int]) -> Tensor:
        return torch.tensor([token_ids], dtype=torch.int64).to(self.device, non_blocking=True)


def shared_layers(keys_values: Sequence[Tensor], shared: Sequence[int]) -> list[Tensor]:
    """The keys and values of the layers that a draft shares with the target."""
    return [keys_values[layer] for layer in shared]


def fitted(logits: Tensor, vocab_size: int) -> Tensor:
    """Cut or pad logits to the target's vocabulary; padded tokens have probability 0."""
    missing = vocab_size - logits.shape[-1]
    if missing <= 0:
        return logits[..., :vocab_size]
    return torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)
