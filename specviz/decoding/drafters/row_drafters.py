"""The protocol of drafters for a batch, and a drafter that drafts for one row after another.

Methods that cannot draft for all rows in one forward use that drafter. All lists have one entry per
row that has not ended.
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
    """A drafter for all rows of a batch.

    Each function of this class does for all rows what the function of `Drafter` with the same name
    does for one row.
    """

    @property
    def feature_layers(self) -> tuple[int, ...]: ...

    @property
    def memory(self) -> HeldMemory: ...

    def start(self, prompts: Sequence[PrefilledPrompt]) -> None: ...

    def propose(
        self, committed: Sequence[Sequence[int]], rooms: Sequence[int], round_index: int
    ) -> list[Proposal]:
        """Return one proposal per row.

        Each proposal equals the one that a drafter for this row alone would return.
        """
        ...

    def observe(self, observations: Sequence[Observation]) -> list[OverlappedWork]: ...

    def select(self, rows: Sequence[int]) -> None:
        """Keep only the rows that have these indices (ascending) in the batch.

        Free the memory of all other rows.
        """
        ...

    def close(self) -> None: ...


class RowDrafters:
    """A drafter for a batch. It has one drafter per row, and these run one after another."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = list(drafters)

    @property
    def feature_layers(self) -> tuple[int, ...]:
        return self._drafters[0].feature_layers

    @property
    def memory(self) -> HeldMemory:
        """Return the memory of all rows. Shared weights count once, and caches for every row."""
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
