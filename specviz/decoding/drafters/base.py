"""The drafter protocol: each round a drafter proposes a tree, then learns which nodes were kept.

Between rounds all committed tokens but the last, the *root*, are in the target's cache. Letters: N
nodes, R = N + 1 rows (the root, then the nodes), E leading rows up to the last one that may have
children, Q extra queries, P tokens of the prompt, W the target's hidden size, F layers whose
features are asked for, V the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.decoding.topology import Topology, topology
from specviz.models.language_model import KeyValueCache
from specviz.records import Note, ProposalKind, Span


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """The first M rows have already run through the target's first layers, in the target's cache.

    Their keys and values are in the slots from `cache.length` on, in row order. Verification runs
    the other rows through these layers, then all rows through the rest: nothing runs twice.
    """

    layers: int  # how many of the target's layers
    hidden: Tensor  # [M, W], M >= 1, the output of the last of them


@dataclass(frozen=True, slots=True, eq=False)
class ExtraQueries:
    """Tokens that the drafter adds to the target's forward, behind the tree.

    The drafter gets the likeliest successor of each in `observe`. Their slots are always dropped.
    """

    token_ids: Tensor  # [Q] int64
    offsets: Tensor  # [Q] int64, text position less that of the root
    mask: Tensor  # [Q, R + Q] bool, which rows and queries each one sees


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """A draft tree on the device.

    `distributions` are the q of the verification rule: exactly the distributions from which the
    tokens were drawn, or None if nothing was drawn (each token is then a point mass).
    `raw_distributions` are the drafter's distributions before the sampling settings, for
    display only, or None if it has none. The distribution of a row without children is never read.
    """

    kind: ProposalKind
    topology: Topology
    token_ids: Tensor  # [N] int64
    distributions: Tensor | None = None  # [E, V] float32
    raw_distributions: Tensor | None = None  # [E, V] float32
    origins: Tensor | None = None  # [N] int64, the drafter's own number of each node, -1 if none
    partial: Partial | None = None
    queries: ExtraQueries | None = None
    notes: tuple[Note, ...] = ()

    @property
    def query_count(self) -> int:
        return 0 if self.queries is None else len(self.queries.token_ids)

    @property
    def node_origins(self) -> Tensor:
        """`origins`, or the order of the tree where the drafter has no numbers of its own. [N]"""
        if self.origins is not None:
            return self.origins
        return torch.arange(self.topology.size, device=self.token_ids.device)


def empty_proposal(device: torch.device, notes: tuple[Note, ...] = ()) -> Proposal:
    """A tree without nodes: verification then just draws the next token from the target."""
    no_tokens = torch.empty(0, dtype=torch.int64, device=device)
    return Proposal(ProposalKind.DETERMINISTIC, topology((), device), no_tokens, notes=notes)


def host_chain(
    token_ids: Sequence[int], device: torch.device, notes: tuple[Note, ...] = ()
) -> Proposal:
    """A DETERMINISTIC chain of tokens that were chosen on the host; it may be empty."""
    return host_tree(token_ids, tuple(range(-1, len(token_ids) - 1)), device, notes)


def host_tree(
    token_ids: Sequence[int],
    parents: tuple[int, ...],
    device: torch.device,
    notes: tuple[Note, ...] = (),
    queries: ExtraQueries | None = None,
) -> Proposal:
    """A DETERMINISTIC tree of tokens that were chosen on the host; the copy does not block.

    `parents` gives each node's parent, -1 = root.
    """
    return Proposal(
        ProposalKind.DETERMINISTIC,
        topology(parents, device),
        torch.tensor(token_ids, dtype=torch.int64).to(device, non_blocking=True),
        queries=queries,
        notes=notes,
    )


class HostTransfer:
    """Copies tensors to the host and counts how often the host had to wait.

    Every blocking copy of a run goes through it.
    """

    def __init__(self) -> None:
        self.count = 0

    def to_host(self, tensor: Tensor) -> list[float]:
        """A 1-D tensor as a list; blocks until the device has computed it."""
        self.count += 1
        values: list[float] = tensor.tolist()
        return values


@dataclass(frozen=True, slots=True, eq=False)
class PrefilledPrompt:
    """What a drafter may use of the run once the prompt is in the target's cache.

    `keys_values` gives, layer by layer, the target's keys and values of the prompt itself, without
    what a departure has written behind it: views, [1, 2 G, P, D]. Only a target whose layers can be
    run one by one has them.
    """

    prompt_ids: tuple[int, ...]
    cache: KeyValueCache | None  # the target's; None if the rows of a batch share one
    features: Tensor | None  # [P, F W], if the drafter asked for them
    transfer: HostTransfer  # for every blocking copy that the drafter makes
    keys_values: Callable[[], Sequence[Tensor]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """What the target accepted of the last proposal."""

    path: tuple[int, ...]  # accepted nodes, from depth 1 down
    origins: tuple[int, ...]  # the same nodes in the drafter's own numbers
    token_ids: tuple[int, ...]  # newly committed: the path, then the extra token if there is one
    features: Tensor | None  # [R, F W], if the drafter asked for them
    query_ids: tuple[int, ...]  # the likeliest token after each extra query

    @property
    def end_row(self) -> int:
        """Row of the last accepted node, 0 for the root."""
        return self.path[-1] + 1 if self.path else 0


@dataclass(frozen=True, slots=True)
class OverlappedWork:
    """What a drafter did while the target verified, in seconds of `time.perf_counter`.

    `waited_seconds` is how long the round waited for it; the wait counts as drafting. `notes` are
    those that could be written only once the round was decided.
    """

    spans: tuple[Span, ...] = ()
    waited_seconds: float = 0.0
    notes: tuple[Note, ...] = ()


NOTHING_OVERLAPPED = OverlappedWork()


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """Bytes that drafting holds besides the target and its cache."""

    weights: int = 0
    caches: int | None = 0  # as they are now; None where they are in another process

    @property
    def has_caches(self) -> bool:
        """Whether the drafter reads the text into a cache of its own."""
        return self.caches != 0


class Drafter(Protocol):
    """Proposes the trees of one run."""

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Which features of the target it asks for, as `ForwardOutput` counts them; () if none."""
        ...

    @property
    def memory(self) -> HeldMemory:
        """What it holds at this moment."""
        ...

    def start(self, prompt: PrefilledPrompt) -> None:
        """Called once, before the first `propose`, to read the prompt: a cost of its own."""
        ...

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        """A tree of depth at most `room` (>= 0) behind `committed`; an empty one is valid.

        The call starts work on the device and does not wait for it, except for the blocking
        copies that the method's registry entry declares.
        """
        ...

    def observe(self, observation: Observation) -> OverlappedWork:
        """Called once the round is decided; its time counts towards the round."""
        ...

    def close(self) -> None:
        """Free what outlives a round, such as a process; may be called twice."""
        ...


class QuietDrafter:
    """Defaults for a drafter that keeps nothing between rounds."""

    feature_layers: tuple[int, ...] = ()

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory()

    def start(self, prompt: PrefilledPrompt) -> None:
        """The prompt is not needed."""

    def observe(self, observation: Observation) -> OverlappedWork:
        """The next `propose` gets the committed tokens, which is all it needs."""
        return NOTHING_OVERLAPPED

    def close(self) -> None:
        """There is nothing to free."""
