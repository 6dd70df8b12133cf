"""The description of a verification rule: which drafted nodes the target accepts, and what follows.

A rule has two parts. `accept` (on the device) computes the acceptance probability of every node,
and the distribution of the extra token after every row. It uses no random draws. `walk` (on the
host) compares the draws with the acceptance probabilities. It decides where the accepted path ends;
a rule may look at the whole tree before it does. How the drafted tokens were drawn
(`records.Drawing`) is a fact about the draft, which `accept` receives.

In shapes, N is the number of nodes, E the number of rows up to the last row that can have children,
and V the size of the vocabulary. This module knows no particular rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from torch import Tensor

from specviz.decoding.topology import Topology
from specviz.records import Drawing, ExtraKind


@dataclass(frozen=True, slots=True, eq=False)
class Acceptance:
    """The numbers with which verification decides about every node of a tree.

    For rules that go from the root down, the probabilities of a node apply if its parent was
    accepted and its earlier siblings were rejected.
    """

    acceptance_probs: Tensor  # [N] the node passes if its draw is below this number
    target_probs: Tensor  # [N] the target's p(x) before any sibling was rejected
    residual_probs: Tensor  # [N] the target's p(x) after the earlier siblings were rejected
    draft_probs: Tensor  # [N] q(x) when the node is examined
    # [N + 1, V], the distribution of the extra token if the accepted path ends at this row
    extra_distributions: Tensor


@dataclass(frozen=True, slots=True)
class Walk:
    """The result of a verification: which nodes were accepted, and which were rejected.

    `path` has the accepted nodes, from depth 1 down.
    """

    path: tuple[int, ...]
    rejected: tuple[int, ...]

    @property
    def end(self) -> int:
        """Return the last accepted node, or -1 (the root) if no node was accepted."""
        return self.path[-1] if self.path else -1

    def cut(self, endings: Collection[int], depths: Sequence[int]) -> Walk | None:
        """Return the walk up to the first accepted node whose token ends the text.

        `endings` are the nodes with an end-of-sequence token. Return None if no accepted node is
        one of them. `depths` has the depth of each node, from 1.
        """
        for length, node in enumerate(self.path, start=1):
            if node in endings:
                rejected = tuple(each for each in self.rejected if depths[each] <= length)
                return Walk(self.path[:length], rejected)
        return None

    def extra_kind(self, children: Sequence[Sequence[int]]) -> ExtraKind:
        """Return the kind of the token that the target adds after the path.

        `children` has the child nodes of each row; row 0 is the root, row i + 1 is node i.
        """
        if len(children) == 1:
            return ExtraKind.PLAIN
        return ExtraKind.RECOVERED if children[self.end + 1] else ExtraKind.BONUS


def walk_down(
    # the child nodes of each row, in the order in which they were drawn; row 0 is the root
    children: Sequence[Sequence[int]],
    acceptance_probs: Sequence[float],
    uniforms: Sequence[float],
) -> Walk:
    """Follow the tree from the root. Node i is accepted if uniforms[i] < acceptance_probs[i].

    The path ends where all children of a node fail. The comparison is strict, so a token of
    probability 0 fails even at u = 0.

    >>> walk_down([[0, 1], [], [2], []], [0.5, 1.0, 0.0], [0.9, 0.3, 0.0])
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


# The arguments are a tree, its token ids [N], how these were drawn, p [N + 1, V] (row 0 is after
# the root), and q [E, V] (None for a point mass).
Accept = Callable[[Topology, Tensor, Drawing, Tensor, Tensor | None], Acceptance]
# The arguments are the child nodes of each row, the acceptance probabilities and the uniform draws.
WalkFunction = Callable[[Sequence[Sequence[int]], Sequence[float], Sequence[float]], Walk]


@dataclass(frozen=True, slots=True)
class Rule:
    """An entry in the registry of verification rules.

    - `title` and `summary`: its name on the page, and one sentence for the user who chooses it.
    - `drawings`: the ways of drawing that the rule can judge.
    - `needs_chain`: whether the rule judges chains only, which have one guess per position.
    - `reads_ahead`: whether the walk reads draws of nodes that are not on the accepted path or
      next to it. No other node, in this round or a later one, may be judged with these draws.
    - `is_lossless`: whether the text has exactly the target's distribution.
    """

    name: str
    title: str
    summary: str
    accept: Accept
    walk: WalkFunction = walk_down
    drawings: frozenset[Drawing] = frozenset(Drawing)
    needs_chain: bool = False
    reads_ahead: bool = False
    is_lossless: bool = True

    def draw_key(self, end: int, node: int, depth: int, rank: int) -> tuple[int, int]:
        """Return the key of the draw for a node of a tree that begins at text position `end`.

        Nodes with the same key share a draw. In a tree that is judged along one path, the nodes
        with the same depth and rank share a draw. If the next round drafts the same text position
        again, it uses the same draw again. For a rule that reads ahead, every node of every round
        has a draw of its own.
        """
        return (end, end + node) if self.reads_ahead else (end + depth - 1, rank)
