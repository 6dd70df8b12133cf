"""What a drafter is: it proposes a tree, and is told what became of it.

Knows nothing of how the target verifies. Between rounds the committed tokens are known on the
host; all but the last, the *root*, are in the target's cache. Letters: N nodes, R = N + 1 rows (the
root, then nodes), E leading rows up to the last one that may have children, Q extra queries, P
committed tokens but the root, W the target's hidden size, V its vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.decoding.topology import Topology, topology
from specviz.decoding.transfer import HostTransfer
from specviz.models.language_model import KeyValueCache
from specviz.records import Note, ProposalKind, Span


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """The leading M rows have run through the target's first layers, in the target's own cache.

    They stand in its slots from `cache.length` on, in row order. Verification runs the other rows
    through these layers, then all rows through the rest: nothing runs twice.
    """

    layers: int  # how many of the target's layers
    hidden: Tensor  # [M, W], M >= 1, what came out of them


@dataclass(frozen=True, slots=True, eq=False)
class ExtraQueries:
    """Tokens that ride in the target's forward behind the tree, to be seen by the drafter only.

    Their likeliest successors come back through `observe`; their slots are always dropped.
    """

    token_ids: Tensor  # [Q] int64
    offsets: Tensor  # [Q] int64, text position less that of the root
    mask: Tensor  # [Q, R + Q] bool, which rows and queries each one sees


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """A draft tree on the device.

    `distributions` are the q of the verification rule, exactly the distributions that the tokens
    were drawn from; None for a point mass. `raw_distributions` are the drafter's unprocessed
    distributions, for display only; None for a drafter without any. A row without children may
    have any distribution.
    """

    kind: ProposalKind
    topology: Topology
    token_ids: Tensor  # [N] int64
    distributions: Tensor | None = None  # [E, V] float32
    raw_distributions: Tensor | None = None  # [E, V] float32
    origins: Tensor | None = None  # [N] int64, the drafter's own index of each node, -1: none
    partial: Partial | None = None
    queries: ExtraQueries | None = None
    notes: tuple[Note, ...] = ()

    @property
    def query_count(self) -> int:
        return 0 if self.queries is None else len(self.queries.token_ids)

    @property
    def node_origins(self) -> Tensor:
        """[N]; a drafter that names none counts as the tree does."""
        if self.origins is not None:
            return self.origins
        return torch.arange(self.topology.size, device=self.token_ids.device)


def empty_proposal(device: torch.device, notes: tuple[Note, ...] = ()) -> Proposal:
    """A tree of no nodes: verification then just draws from the target."""
    no_tokens = torch.empty(0, dtype=torch.int64, device=device)
    return Proposal(ProposalKind.DETERMINISTIC, topology((), device), no_tokens, notes=notes)


@dataclass(frozen=True, slots=True, eq=False)
class Opening:
    """What a drafter may use of the run, once the prompt is in the target's cache.

    Every blocking copy from the device has to go through `transfer`.
    """

    prompt_ids: tuple[int, ...]
    cache: KeyValueCache | None  # the target's; None where rows of a batch share one
    features: Tensor | None  # [P, W], if the method asked for them
    transfer: HostTransfer


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """What became of the last proposal."""

    path: tuple[int, ...]  # accepted nodes, from depth 1 down
    origins: tuple[int, ...]  # the same nodes as the drafter counts them
    token_ids: tuple[int, ...]  # newly committed: the path's, then the extra token if there is one
    features: Tensor | None  # [R, W], hidden states after the final norm, if asked for
    query_ids: tuple[int, ...]  # the likeliest token after each extra query

    @property
    def end_row(self) -> int:
        """Row of the last accepted node, 0 for the root."""
        return self.path[-1] + 1 if self.path else 0


@dataclass(frozen=True, slots=True)
class Beside:
    """Work that ran beside the round: when, in seconds of `time.perf_counter`, and the wait for it.

    The wait counts as drafting. `notes` are what only the round's end could tell.
    """

    spans: tuple[Span, ...] = ()
    waited_seconds: float = 0.0
    notes: tuple[Note, ...] = ()


NOTHING_BESIDE = Beside()


class Drafter(Protocol):
    """One run's proposer."""

    @property
    def needs_features(self) -> bool:
        """Whether it wants the target's hidden states after the final norm."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Weights that it holds beside the target's; its cache is not counted."""
        ...

    def start(self, opening: Opening) -> None:
        """Called once, before the first `propose`; its time counts as drafting."""
        ...

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        """A tree of depth at most `room` (>= 0) behind `committed`; an empty one is valid.

        The call starts work on the device and does not wait for it, but for copies that its
        registry entry counts.
        """
        ...

    def observe(self, observation: Observation) -> Beside:
        """The round is decided; called while its clock still runs."""
        ...

    def close(self) -> None:
        """Free what outlives a round, such as workers; may be called twice."""
        ...


class QuietDrafter:
    """Answers for a drafter that keeps nothing between rounds."""

    needs_features = False
    memory_bytes = 0

    def start(self, opening: Opening) -> None:
        """Nothing is needed of the run."""

    def observe(self, observation: Observation) -> Beside:
        """The committed tokens already say all there is to know."""
        return NOTHING_BESIDE

    def close(self) -> None:
        """Nothing outlives the run."""
