"""A drafter made of two parts: a source of distributions, and a shape that grows a tree from them.

Knows neither which source nor which shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from specviz.decoding.drafters.base import (
    NOTHING_BESIDE,
    Beside,
    Observation,
    Opening,
    Proposal,
)
from specviz.decoding.drafters.source import Source


class Shape(Protocol):
    """How a tree is grown."""

    def grow(
        self, source: Source, committed: Sequence[int], room: int, round_index: int
    ) -> Proposal:
        """A tree of at most `room` levels behind the committed tokens."""
        ...


class SourceDrafter:
    """Any source combined with any shape."""

    def __init__(self, source: Source, shape: Shape) -> None:
        self._source = source
        self._shape = shape

    @property
    def needs_features(self) -> bool:
        return self._source.needs_features

    @property
    def memory_bytes(self) -> int:
        return self._source.memory_bytes

    def start(self, opening: Opening) -> None:
        self._source.start(opening)

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        return self._shape.grow(self._source, committed, room, round_index)

    def observe(self, observation: Observation) -> Beside:
        self._source.keep(observation)
        return NOTHING_BESIDE

    def close(self) -> None:
        """Nothing outlives the run."""
