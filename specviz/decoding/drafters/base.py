"""What a drafter is: it proposes a tree, and is told what became of it.

Knows nothing of how the target verifies. Between rounds the committed tokens are known on the
host; all but the last, the *root*, are in the target's cache. Letters: N nodes, E leading rows
(the root, then nodes) up to the last one with children, V the target's vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from specviz.decoding.topology import Topology
from specviz.records import Note, ProposalKind


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """A draft tree on the device.

    `laws` are the q of the verification rule, exactly the laws that the tokens were drawn from;
    None for a point mass. `raw_laws` are the drafter's unprocessed laws, for display only; None
    for a drafter without a model.
    """

    kind: ProposalKind
    topology: Topology
    token_ids: Tensor  # [N] int64
    laws: Tensor | None = None  # [E, V] float32
    raw_laws: Tensor | None = None  # [E, V] float32
    notes: tuple[Note, ...] = ()


class Drafter(Protocol):
    """One run's proposer."""

    @property
    def memory_bytes(self) -> int:
        """Weights that it holds beside the target's; its cache is not counted."""
        ...

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        """A tree of depth at most `room` (>= 0) behind `committed`; an empty one is valid.

        The call starts work on the device and does not wait for it.
        """
        ...

    def observe(self, path: Sequence[int]) -> None:
        """Nodes of the last proposal that were accepted, from depth 1 down."""
        ...

    def close(self) -> None:
        """Free what outlives a round, such as workers; may be called twice."""
        ...
