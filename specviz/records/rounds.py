"""What happens in a lane: the prefill, draft-verify rounds, plain steps, and why it ended.

Letters: p is the target's distribution of the next token, q the drafter's. *Processed*
distributions are what the run draws from (temperature and the other sampling settings applied);
*raw* distributions are the plain softmax, kept as well because at temperature 0 every processed
probability is 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from specviz.records.decoding_config import MAX_TREE_NODES
from specviz.records.field_types import (
    Columns,
    IntRange,
    Most,
    Name,
    Probability,
    Score,
    Seconds,
    SixDigits,
    TopIds,
    TopProbs,
)
from specviz.records.notes import Note
from specviz.records.settings import MAX_DRAFT_LENGTH, ProposalKind

TOP_TOKENS = 10  # of a position's distributions, beside the target's own token there


class Outcome(Enum):
    """What became of a drafted node."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNREACHED = "unreached"  # drafted but never examined


class ExtraKind(Enum):
    """Where a token that no drafter proposed came from."""

    FIRST = "first"  # drawn from the target after the prompt
    RECOVERED = "recovered"  # drawn from the residual after a rejection
    BONUS = "bonus"  # drawn from the target after full acceptance
    PLAIN = "plain"  # drawn from the target in a round that drafted nothing


class TokenOrigin(Enum):
    """What wrote a token of a serving engine's answer."""

    FIRST = "first"  # the prompt's forward
    ACCEPTED = "accepted"  # the drafter, and the target kept it
    RECOVERED = "recovered"  # the target, behind a rejected guess
    BONUS = "bonus"  # the target, behind a draft that was kept whole
    PLAIN = "plain"  # the target, where nothing was drafted


class FinishReason(Enum):
    """Why a run ended."""

    END_OF_SEQUENCE = "end-of-sequence"
    LENGTH = "length"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class DraftNode:
    """One proposed token.

    `parent` is an index into the tree's nodes, -1 for the root (the last committed token);
    `depth` starts at 1. `draft_prob` is the q of the verification rule (1 for a point mass),
    `draft_score` the drafter's own raw confidence, for display only. The node is what was proposed
    before the target was asked; a verdict repeats its q beside the p that it was compared with.
    """

    token_id: int
    parent: Annotated[int, IntRange(-1, MAX_TREE_NODES)]
    depth: Annotated[int, IntRange(1, MAX_DRAFT_LENGTH)]
    draft_prob: Probability
    draft_score: Score


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Proposed continuations; every parent stands before its children, siblings in draw order."""

    kind: ProposalKind
    nodes: Annotated[tuple[DraftNode, ...], Columns(MAX_TREE_NODES)]

    def children(self, parent: int) -> tuple[int, ...]:
        """Indices of the nodes under `parent` (-1: the root), in draw order."""
        return tuple(i for i, node in enumerate(self.nodes) if node.parent == parent)

    def path(self, node: int) -> tuple[int, ...]:
        """Indices from depth 1 down to `node`."""
        above: list[int] = []
        while node >= 0:
            above.append(node)
            node = self.nodes[node].parent
        return tuple(reversed(above))


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the target judged one node. All probabilities are of the node's own token.

    `target_prob` is the processed p before any sibling was examined, `residual_prob` the p that
    the rule compared (after the earlier siblings failed), `draft_prob` the q that it compared.
    `residual_prob` and `uniform_draw` are None where whoever recorded the run could not see them.
    """

    target_prob: Probability
    residual_prob: Probability | None
    draft_prob: Probability
    acceptance_prob: Probability
    uniform_draw: Probability | None
    outcome: Outcome
    raw_target_prob: Probability
    raw_draft_prob: Probability

    @property
    def compared_prob(self) -> float:
        """The p that the rule compared; where that was not seen, p before any sibling failed."""
        return self.target_prob if self.residual_prob is None else self.residual_prob


@dataclass(frozen=True, slots=True)
class Position:
    """The distributions after one examined prefix of the tree, over its most probable tokens.

    Where the token that the target held ready there is none of TOP_TOKENS, it stands behind them;
    in older recordings it is missing. `parent` is the node that the prefix ends in (-1: the root).
    The probabilities run parallel to `token_ids`; what is missing to 1 is the rest of the
    vocabulary. `residual_probs` is the distribution left after all children of `parent` failed
    (empty where it has none); draft distributions are empty where the drafter has no model.
    `entropy` is of the raw p in nats,
    `overlap` is sum min(p, q) of the processed distributions (for a point mass p of it, 0 where
    nothing was drafted), `raw_overlap` of the raw distributions (0 without a draft distribution),
    `margin` the gap of p's two best logits.
    """

    parent: Annotated[int, IntRange(-1)]
    token_ids: TopIds
    target_probs: TopProbs
    draft_probs: TopProbs
    residual_probs: TopProbs
    raw_target_probs: TopProbs
    raw_draft_probs: TopProbs
    entropy: SixDigits
    overlap: Probability
    raw_overlap: Probability
    margin: SixDigits


@dataclass(frozen=True, slots=True)
class ExtraToken:
    """The token that the target itself adds; `prob` is of the distribution that it was drawn
    from.
    """

    token_id: int
    kind: ExtraKind
    parent: Annotated[int, IntRange(-1)]
    prob: Probability


@dataclass(frozen=True, slots=True)
class Span:
    """Who worked from when to when, in seconds of the lane's own clock."""

    who: Name
    start: Seconds
    end: Seconds


@dataclass(frozen=True, slots=True)
class CacheLengths:
    """Slots of the target's cache: committed before the round, then added, then dropped again."""

    committed: int
    speculative: int
    rolled_back: int


@dataclass(frozen=True, slots=True)
class Prefill:
    """The prompt's forward and the first token, drawn from the target."""

    prompt_length: Annotated[int, IntRange(1)]
    extra: ExtraToken
    position: Position
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class Round:
    """One draft-verify round.

    `context_length` counts the committed tokens before it, the root included. `positions` are the
    examined ones, from the root down. `extra` is None where the end of the sequence or the
    token limit cut the accepted path. `extra_ids` are the tokens that the target held ready behind
    the root and behind every node, drawn before it was known where the walk would end; empty where
    whoever recorded the run could not see them. `draft_prefill_seconds` is what the drafter took to
    read the text before it, once in a run; `draft_seconds` are without it.
    """

    index: int
    context_length: Annotated[int, IntRange(1)]
    tree: DraftTree
    verdicts: Annotated[tuple[Verdict, ...], Columns(MAX_TREE_NODES)]
    positions: Annotated[tuple[Position, ...], Most(1 + MAX_TREE_NODES)]
    extra: ExtraToken | None
    extra_ids: Annotated[tuple[int, ...], Most(1 + MAX_TREE_NODES)]
    draft_seconds: Seconds
    verify_seconds: Seconds
    host_seconds: Seconds
    spans: Annotated[tuple[Span, ...], Columns(256)]
    notes: tuple[Note, ...]
    cache: CacheLengths
    draft_prefill_seconds: Seconds = 0.0

    @property
    def accepted(self) -> tuple[int, ...]:
        """Node indices of the accepted path, from depth 1 down."""
        verdicts = enumerate(self.verdicts)
        return tuple(i for i, verdict in verdicts if verdict.outcome is Outcome.ACCEPTED)

    @property
    def emitted_ids(self) -> tuple[int, ...]:
        """The round's new tokens: the accepted path, then the extra token."""
        ids = tuple(self.tree.nodes[i].token_id for i in self.accepted)
        return ids if self.extra is None else (*ids, self.extra.token_id)

    def follows_rejection(self, node: int) -> bool:
        """Whether an earlier sibling of `node` failed, so that the rule compared a residual."""
        parent = self.tree.nodes[node].parent
        earlier = (i for i in self.tree.children(parent) if i < node)
        return any(self.verdicts[i].outcome is Outcome.REJECTED for i in earlier)

    @property
    def work_seconds(self) -> float:
        """Without the drafter's reading of the text, which no later round has."""
        return self.draft_seconds + self.verify_seconds + self.host_seconds

    @property
    def seconds(self) -> float:
        return self.draft_prefill_seconds + self.work_seconds


@dataclass(frozen=True, slots=True)
class TokenStep:
    """One token of a plain autoregressive loop; `margin` is the gap of its two best logits."""

    index: int
    token_id: int
    raw_prob: Probability
    margin: SixDigits
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class EngineToken:
    """One token of a serving engine's answer, as it came over the network.

    `seconds` since the token before it, of the first one since the request was sent: network and
    engine together. Tokens that were sent together have 0 between them, or nearly. `origin` is None
    where the engine does not tell it.
    """

    token_id: int
    seconds: Seconds
    origin: TokenOrigin | None


@dataclass(frozen=True, slots=True)
class ToldOrigins:
    """Where each token of an engine's answer came from, which it says behind the last one."""

    origins: tuple[TokenOrigin, ...]
    seconds = 0.0  # not a moment of its own


Event = Prefill | Round | TokenStep | EngineToken | ToldOrigins | FinishReason
