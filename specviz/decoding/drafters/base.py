"""The protocol of drafters: propose a tree in each round, then learn which nodes were accepted.

The *root* is the last committed token. Between rounds the target's cache holds all committed tokens
except the root.

In shapes, N is the number of nodes, R = N + 1 the number of rows (the root, then the nodes), E the
number of rows up to the last row that can have children, Q the number of extra queries, P the
number of tokens of the prompt, W the target's hidden size, F the number of layers whose features
the drafter needs and V the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.decoding.topology import Topology, topology
from specviz.models.accelerator import upload
from specviz.models.language_model import KeyValueCache
from specviz.records import Drawing, Note, Span


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """The first M rows of a draft tree, which have already run through the target's first layers.

    Their keys and values are in the target's cache, in the slots from `cache.length` on.
    Verification runs only the remaining rows through these layers, and then all rows through the
    remaining layers. So no layer runs twice for the same token.
    """

    layers: int  # how many of the target's first layers have run
    hidden: Tensor  # [M, W], M >= 1, the hidden states after these layers


@dataclass(frozen=True, slots=True, eq=False)
class ExtraQueries:
    """Tokens that the drafter adds to the target's forward, after the tree.

    The target's most probable next token after each of them is passed to `Drafter.observe`. The
    cache slots of extra queries are never kept.
    """

    token_ids: Tensor  # [Q] int64
    offsets: Tensor  # [Q] int64, text positions relative to the root
    # [Q, R + Q] bool, True where a query (a row of the mask) sees a row of the tree or a query
    mask: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """A draft tree on the device.

    `distributions` are the q of the verification rule: exactly the distributions from which the
    tokens were drawn, in the way that `drawing` says. None means that the tokens were chosen
    without random draws; the q of each node is then a point mass at its token. `raw_distributions`
    are the draft's distributions without the sampling settings. They are only shown to users, and
    can be None. The distribution of a row without children is never read.

    `is_whole` is True if the tree has the same size as in most rounds of this run. Capturing its
    verification as a CUDA graph is then worth the time.
    """

    topology: Topology
    token_ids: Tensor  # [N] int64
    distributions: Tensor | None = None  # [E, V] float32
    raw_distributions: Tensor | None = None  # [E, V] float32
    # [N] int64, the number that the drafter itself uses for each node; -1 if it has none
    origins: Tensor | None = None
    partial: Partial | None = None
    queries: ExtraQueries | None = None
    notes: tuple[Note, ...] = ()
    is_whole: bool = False
    drawing: Drawing = Drawing.CHOSEN

    @property
    def query_count(self) -> int:
        return 0 if self.queries is None else len(self.queries.token_ids)

    @property
    def node_origins(self) -> Tensor:
        """Return `origins`, or 0, 1, … if the drafter does not number its nodes. -> [N]"""
        if self.origins is not None:
            return self.origins
        return torch.arange(self.topology.size, device=self.token_ids.device)


def empty_proposal(device: torch.device, notes: tuple[Note, ...] = ()) -> Proposal:
    """Return a proposal without nodes: verification then only draws a token from the target."""
    no_tokens = torch.empty(0, dtype=torch.int64, device=device)
    return Proposal(topology((), device), no_tokens, notes=notes)


def host_chain(
    token_ids: Sequence[int], device: torch.device, notes: tuple[Note, ...] = ()
) -> Proposal:
    """Return a proposal: a chain of tokens that the host chose without random draws.

    The chain can be empty.
    """
    return host_tree(token_ids, tuple(range(-1, len(token_ids) - 1)), device, notes)


def host_tree(
    token_ids: Sequence[int],
    parents: tuple[int, ...],
    device: torch.device,
    notes: tuple[Note, ...] = (),
    queries: ExtraQueries | None = None,
) -> Proposal:
    """Return a proposal: a tree of tokens that the host chose without random draws.

    The copy to the device does not block. `parents` has the index of each node's parent; -1 is the
    root.
    """
    return Proposal(
        topology(parents, device),
        upload(torch.tensor(token_ids, dtype=torch.int64), device),
        queries=queries,
        notes=notes,
    )


class HostTransfer:
    """Make and count the blocking copies of one run from the device to the host.

    All blocking copies of a run must use this object.
    """

    def __init__(self) -> None:
        self.count = 0

    def to_host(self, tensor: Tensor) -> list[float]:
        """Copy a 1-D tensor to a list. This blocks until the device has computed the tensor."""
        self.count += 1
        values: list[float] = tensor.tolist()
        return values


@dataclass(frozen=True, slots=True, eq=False)
class PrefilledPrompt:
    """The data that a drafter may use after the target has read the prompt.

    `keys_values` returns the target's keys and values of the prompt, one view [1, 2 G, P, D] per
    layer (G key-value heads, head size D). The views leave out tokens that were written after the
    prompt. `keys_values` is None unless the target's layers can run one by one.
    """

    prompt_ids: tuple[int, ...]
    cache: KeyValueCache | None  # the target's cache; None if the rows of a batch share one cache
    features: Tensor | None  # [P, F W], or None if the drafter needs no features
    transfer: HostTransfer  # an object that makes and counts the drafter's blocking copies
    keys_values: Callable[[], Sequence[Tensor]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """The target's decision about the last proposal."""

    path: tuple[int, ...]  # the accepted nodes, from depth 1 down
    origins: tuple[int, ...]  # the numbers that the drafter itself gave to the accepted nodes
    # the newly committed tokens: the tokens of the path, then the target's extra token if there is
    # one
    token_ids: tuple[int, ...]
    features: Tensor | None  # [R, F W], or None if the drafter needs no features
    query_ids: tuple[int, ...]  # the target's most probable token after each extra query
    # Returns the target's most probable next tokens after each of the R rows, best first. They are
    # part of the round's one copy to the host.
    best_ids: Callable[[], tuple[tuple[int, ...], ...]] = tuple

    @property
    def end_row(self) -> int:
        """Return the row of the tree's tables that belongs to the last accepted node.

        If no node was accepted, return 0, the row of the root.
        """
        return self.path[-1] + 1 if self.path else 0


@dataclass(frozen=True, slots=True)
class OverlappedWork:
    """The drafter's work during verification, with times in seconds of `time.perf_counter`.

    `waited_seconds` is the time that the round waited for this work. This waiting time counts as
    drafting. `notes` are remarks for the record of the round that depend on the target's decision.
    """

    spans: tuple[Span, ...] = ()
    waited_seconds: float = 0.0
    notes: tuple[Note, ...] = ()


NOTHING_OVERLAPPED = OverlappedWork()


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """The bytes that the drafter uses, not counting the target and its cache."""

    weights: int = 0
    # current size of the drafter's KV caches; None if they are in another process
    caches: int | None = 0

    @property
    def has_caches(self) -> bool:
        """Return whether the drafter keeps the text in a KV cache of its own."""
        return self.caches != 0


class Drafter(Protocol):
    """An object that proposes the draft trees of one run."""

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Return the target's layers whose hidden states the drafter needs, or ().

        The number i means the input of layer i (from 0). The number of layers means the result of
        the final norm.
        """
        ...

    @property
    def memory(self) -> HeldMemory:
        """Return how much memory the drafter uses now."""
        ...

    def start(self, prompt: PrefilledPrompt) -> None:
        """Read the prompt.

        The decoder calls this method once, before the first `propose`. It does not count the time
        of this call as drafting.
        """
        ...

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        """Return a draft tree that continues `committed`. Its depth is at most `room`.

        The tree can be empty.

        The call starts work on the device and does not wait for it. If a drafting method must wait
        for the device, its registry entry says how many blocking copies it makes.
        """
        ...

    def observe(self, observation: Observation) -> OverlappedWork:
        """Learn what the target decided. The time of this call counts as part of the round."""
        ...

    def close(self) -> None:
        """End or free everything that would outlive the run, such as a process.

        A second call does nothing.
        """
        ...


class QuietDrafter:
    """A base class whose methods do nothing, for drafters that need only some of the methods."""

    feature_layers: tuple[int, ...] = ()

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory()

    def start(self, prompt: PrefilledPrompt) -> None:
        """Do nothing: this drafter does not read the prompt."""

    def observe(self, observation: Observation) -> OverlappedWork:
        """Do nothing: the drafter needs only the committed tokens, which `propose` receives."""
        return NOTHING_OVERLAPPED

    def close(self) -> None:
        """Do nothing: this drafter holds no resources."""
