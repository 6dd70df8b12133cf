"""Drafters of a batch: the protocol, and a drafter per row for methods that cannot do better.

A method that can draft for all rows in one forward says so in its registry entry. Lists run
parallel to the rows that have not ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from specviz.decoding.drafters.base import (
    Drafter,
    HeldMemory,
    Observation,
    OverlappedWork,
    PrefilledPrompt,
    Proposal,
)


class BatchDrafter(Protocol):
    """Proposes the trees of all rows; each method does for many what `Drafter`'s does for one."""

    @property
    def feature_layers(self) -> tuple[int, ...]: ...

    @property
    def memory(self) -> HeldMemory: ...

    def start(self, prompts: Sequence[PrefilledPrompt]) -> None: ...

    def propose(
        self, committed: Sequence[Sequence[int]], rooms: Sequence[int], round_index: int
    ) -> list[Proposal]:
        """What each row's own drafter would propose: same tokens, same distributions."""
        ...

    def observe(self, observations: Sequence[Observation]) -> list[OverlappedWork]: ...

    def select(self, rows: Sequence[int]) -> None:
        """Only these rows (ascending) go on; free what the others held."""
        ...

    def close(self) -> None: ...


class RowDrafters:
    """Every row drafts for itself, one after the other."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = list(drafters)

    @property
    def feature_layers(self) -> tuple[int, ...]:
        return self._drafters[0].feature_layers

    @property
    def memory(self) -> HeldMemory:
        """Weights are shared, so they count once; caches are not."""
        held = [drafter.memory for drafter in self._drafters]
        caches = [each.caches for each in held if each.caches is not None]
        total = sum(caches) if len(caches) == len(held) else None
        return HeldMemory(max(each.weights for each in held), total)

    def start(self, prompts: Sequence[PrefilledPrompt]) -> None:
        for drafter, prompt in zip(self._drafters, prompts, strict=True):
            drafter.start(prompt)

    def propose(
        self, committed: Sequence[Sequence[int]], rooms: Sequence[int], round_index: int
    ) -> list[Proposal]:
        asked = zip(self._drafters, committed, rooms, strict=True)
        return [drafter.propose(ids, room, round_index) for drafter, ids, room in asked]

    def observe(self, observations: Sequence[Observation]) -> list[OverlappedWork]:
        pairs = zip(self._drafters, observations, strict=True)
        return [drafter.observe(observation) for drafter, observation in pairs]

    def select(self, rows: Sequence[int]) -> None:
        for index, drafter in enumerate(self._drafters):
            if index not in rows:
                drafter.close()
        self._drafters = [self._drafters[index] for index in rows]

    def close(self) -> None:
        for drafter in self._drafters:
            drafter.close()
