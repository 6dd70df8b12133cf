"""The second part of the verification rules: from draws and acceptance to the path that is kept.

The one place where a draw meets its acceptance probability; `verification` is the first part.
Knows nothing of tensors, models or distributions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from specviz.records import ExtraKind


@dataclass(frozen=True, slots=True)
class Walk:
    """What verification decided: the accepted path from depth 1 down, and who failed on the way."""

    path: tuple[int, ...]
    rejected: tuple[int, ...]

    @property
    def end(self) -> int:
        """The last accepted node, -1 for the root."""
        return self.path[-1] if self.path else -1

    def cut(self, endings: Collection[int], depths: Sequence[int]) -> Walk | None:
        """The walk up to the first of `endings` on its path; None where it meets none of them.

        `endings` are nodes behind which the text ends, `depths` those of all nodes, from 1.
        """
        for length, node in enumerate(self.path, start=1):
            if node in endings:
                rejected = tuple(each for each in self.rejected if depths[each] <= length)
                return Walk(self.path[:length], rejected)
        return None

    def extra_kind(self, children: Sequence[Sequence[int]]) -> ExtraKind:
        """What the target adds behind the path; `children` as for `walk`."""
        return ExtraKind.RECOVERED if children[self.end + 1] else ExtraKind.BONUS


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
