"""What a drafter says about its proposal beside the tree: one frozen type per kind of remark.

Part of `records`. Knows nothing of drafters or files; it imports the standard library only. A
field is an int, a float, a bool or a tuple of ints, none negative, so that a trace file writes and
reads any of them without knowing which. `token_ids`, where there is one, needs texts on screen.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NgramMatch:
    """The last `length` tokens stood in the text before, ending before index `position`."""

    length: int
    position: int


@dataclass(frozen=True, slots=True)
class TreeBudget:
    """A dynamic tree: `nodes` of the `candidates` that were scored went to the target."""

    nodes: int
    candidates: int


Note = NgramMatch | TreeBudget
NOTE_TYPES: dict[str, type[Note]] = {
    "ngram-match": NgramMatch,
    "tree-budget": TreeBudget,
}
