"""Drafting with a small language model of the target's vocabulary, as a chain or a static tree.

Chain: Leviathan 2211.17192, Chen 2302.01318. Tree: SpecInfer 2305.09781.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.decoding.drafters.base import Proposal
from specviz.decoding.drafters.shapes import StaticTree
from specviz.decoding.drafters.source import Source


class SourceDrafter:
    """Any source combined with any shape."""

    def __init__(self, source: Source, shape: StaticTree, memory_bytes: int) -> None:
        self._source = source
        self._shape = shape
        self.memory_bytes = memory_bytes

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        return self._shape.grow(self._source, committed, room, round_index)

    def observe(self, path: Sequence[int]) -> None:
        self._source.keep(path)

    def close(self) -> None:
        """Nothing outlives the run."""
