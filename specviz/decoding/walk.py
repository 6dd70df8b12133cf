"""The second part of the verification rules: from draws and acceptance to the path that is kept.

The one place where a draw meets its acceptance probability; `verification` is the first part.
Knows nothing of tensors, models or laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Walk:
    """What verification decided: the accepted path from depth 1 down, and who failed on the way."""

    path: tuple[int, ...]
    rejected: tuple[int, ...]

    @property
    def end(self) -> int:
        """The last accepted node, -1 for the root."""
        return self.path[-1] if self.path else -1

    def rejected_before(self, length: int, depths: Sequence[int]) -> tuple[int, ...]:
        """Who failed on the way to the path's first `length` nodes."""
        return tuple(node for node in self.rejected if depths[node] <= length)


def walk(
    children: Sequence[Sequence[int]],  # row -> its nodes in draw order; row 0 is the root
    acceptance_probs: Sequence[float],
    uniforms: Sequence[float],
) -> Walk:
    """Follow the tree from the root: node i is accepted iff uniforms[i] < acceptance_probs[i].

    The comparison is strict, so a token of probability 0 fails even at u = 0.

    >>> walk([[0, 1], [], [2], []], [0.5, 1.0, 0.0], [0.9, 0.3, 0.0])
    Walk(path=(1,), rejected=(0, 2))
    """
    path: list[int] = []
    rejected: list[int] = []
    node = -1
    while True:
        for child in children[node + 1]:
            if uniforms[child] < acceptance_probs[child]:
                path.append(child)
                break
            rejected.append(child)
        else:
            return Walk(tuple(path), tuple(rejected))
        node = path[-1]
