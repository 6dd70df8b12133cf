"""The events of a lane: the prefill, draft-verify rounds, plain steps, and the reason for its end.

p is the target's distribution of the next token, and q is the drafter's. The run draws from
*processed* distributions, to which temperature and the other sampling settings were applied. *Raw*
distributions are the plain softmax. Raw distributions are recorded as well, because at temperature
0 every processed probability is 0 or 1. A grammar masks the target's logits before both.
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
from specviz.records.notes import ForcedTokens, Note
from specviz.records.settings import MAX_DRAFT_LENGTH, SETTINGS, Drawing

# how many of the most probable tokens a record keeps for each position; the target's extra token is
# kept in addition
TOP_TOKENS = 10
# The largest recorded gap between the two largest logits. It also stands for larger gaps, such as
# the infinite gap if a grammar allows only one token.
MOST_MARGIN = 100.0


class Outcome(Enum):
    """The result of verification for one drafted node."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    # the node was never examined, because an ancestor was rejected, or a sibling was accepted
    UNREACHED = "unreached"


class ExtraKind(Enum):
    """The reason why the target itself drew a token that no drafter had proposed."""

    FIRST = "first"  # drawn from the target as the first token after the prompt
    RECOVERED = "recovered"  # drawn from the residual after a drafted token was rejected
    BONUS = "bonus"  # drawn from the target after all drafted tokens were accepted
    PLAIN = "plain"  # drawn from the target in a round that drafted nothing


class TokenOrigin(Enum):
    """The way in which a token got into the answer of a serving engine."""

    FIRST = "first"  # written by the forward of the prompt
    ACCEPTED = "accepted"  # drafted by the engine's drafter, and accepted by the target
    RECOVERED = "recovered"  # added by the target after a rejected token
    BONUS = "bonus"  # added by the target after an accepted draft
    PLAIN = "plain"  # written by the target without a draft


class FinishReason(Enum):
    """The reason why a run ended."""

    END_OF_SEQUENCE = "end-of-sequence"
    LENGTH = "length"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class DraftNode:
    """One drafted token.

    `parent` is an index into the tree's nodes, -1 for the root (the last committed token); `depth`
    starts at 1. `draft_prob` is the q that the acceptance rule uses (1 if the token was chosen
    without a random draw). `draft_score` is the drafter's own confidence, which is only displayed.
    A node is recorded before the target has run. Later, a `Verdict` on the node has both numbers
    that the acceptance rule compares: p, and the same q again.
    """

    token_id: int
    parent: Annotated[int, IntRange(-1, MAX_TREE_NODES)]
    depth: Annotated[int, IntRange(1, MAX_DRAFT_LENGTH)]
    draft_prob: Probability
    draft_score: Score


@dataclass(frozen=True, slots=True)
class DraftTree:
    """The tree of drafted tokens of one round.

    Parents come before their children, and siblings are in the order in which they were drawn.
    """

    drawing: Drawing
    nodes: Annotated[tuple[DraftNode, ...], Columns(MAX_TREE_NODES)]

    def children(self, parent: int) -> tuple[int, ...]:
        """Return the indices of a node's children, in the order in which they were drawn.

        The node -1 is the root.
        """
        return tuple(i for i, node in enumerate(self.nodes) if node.parent == parent)

    def path(self, node: int) -> tuple[int, ...]:
        """Return the indices of the nodes on the path from depth 1 down to `node`."""
        above: list[int] = []
        while node >= 0:
            above.append(node)
            node = self.nodes[node].parent
        return tuple(reversed(above))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The target's verdict on one node.

    All probabilities are probabilities of the node's own token.

    `target_prob` is the processed p before any sibling was examined. The rule compared
    `residual_prob` (p after the earlier siblings were rejected) with `draft_prob` (q).
    `residual_prob` and `uniform_draw` are None if the program that recorded the run could not see
    them.
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
        """Return the p that the acceptance rule compared with q.

        If that p is unknown, return p before any rejection.
        """
        return self.target_prob if self.residual_prob is None else self.residual_prob


@dataclass(frozen=True, slots=True)
class Position:
    """The distributions of the next token after one examined prefix of the tree.

    `parent` is the node at the end of the prefix (-1 is the root). `token_ids` has the TOP_TOKENS
    most probable tokens, followed by the target's extra token if it is not one of them. Older
    recordings lack the extra token. All probabilities are in the order of `token_ids`. They sum to
    less than 1, because the rest of the vocabulary is left out. `residual_probs` is the
    distribution after all children of `parent` were rejected; it is empty if `parent` has no
    children. Draft distributions are empty if the drafter has no model.

    - `entropy`: entropy of the raw p, in nats.
    - `overlap`: sum of min(p, q) of the processed distributions; 0 without a draft, and p(x) if the
      token x was chosen without a random draw.
    - `raw_overlap`: sum of min(p, q) of the raw distributions; 0 without a draft distribution.
    - `margin`: the gap between the two largest logits of p, at most MOST_MARGIN.
    - `allowed`: how many tokens the grammar allows here; None without a grammar.
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
    allowed: Annotated[int, IntRange(1)] | None = None


@dataclass(frozen=True, slots=True)
class ExtraToken:
    """A token that the target itself adds after the accepted path.

    `prob` is the probability of the token in the distribution from which it was drawn.
    """

    token_id: int
    kind: ExtraKind
    parent: Annotated[int, IntRange(-1)]
    prob: Probability


@dataclass(frozen=True, slots=True)
class Span:
    """A period of work: which worker, and its start and end in seconds on the lane's own clock."""

    who: Name
    start: Seconds
    end: Seconds


@dataclass(frozen=True, slots=True)
class CacheLengths:
    """Three numbers of slots of the target's KV cache in one round.

    They count the slots that were committed before the round, the slots that the round added, and
    the slots that were dropped after the round.
    """

    committed: int
    speculative: int
    rolled_back: int


@dataclass(frozen=True, slots=True)
class Prefill:
    """The forward of the prompt, and the first token, which is drawn from the target."""

    prompt_length: Annotated[int, IntRange(1)]
    extra: ExtraToken
    position: Position
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class Round:
    """One draft-verify round.

    `context_length` counts the committed tokens before the round, including the root. `positions`
    are the positions that verification examined, from the root down. `extra` is None if the end of
    the sequence or the token limit cut the accepted path. `extra_ids` are the candidates for the
    extra token, one after the root and one after every node. They are drawn before verification
    walks down the tree. They are empty if the program that recorded the run could not see them.
    `draft_prefill_seconds` is the drafter's time to read the text, which it does once per run;
    `draft_seconds` does not include it. `rule` names the verification rule that judged the tree.
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
    rule: Name = SETTINGS["rule"].default

    @property
    def accepted(self) -> tuple[int, ...]:
        """Return the indices of the nodes on the accepted path, from depth 1 down."""
        verdicts = enumerate(self.verdicts)
        return tuple(i for i, verdict in verdicts if verdict.outcome is Outcome.ACCEPTED)

    @property
    def emitted_ids(self) -> tuple[int, ...]:
        """Return the tokens that the round adds to the text.

        They are the accepted path, then the extra token.
        """
        ids = tuple(self.tree.nodes[i].token_id for i in self.accepted)
        return ids if self.extra is None else (*ids, self.extra.token_id)

    @property
    def is_forced(self) -> bool:
        """Return whether the grammar forced all drafted tokens, so that no method drafted."""
        return any(isinstance(note, ForcedTokens) for note in self.notes)

    def follows_rejection(self, node: int) -> bool:
        """Return whether an earlier sibling of `node` was rejected.

        In that case the acceptance rule compared the residual with q, and not p itself.
        """
        parent = self.tree.nodes[node].parent
        earlier = (i for i in self.tree.children(parent) if i < node)
        return any(self.verdicts[i].outcome is Outcome.REJECTED for i in earlier)

    @property
    def work_seconds(self) -> float:
        """Return the seconds of the round without the drafter's prefill.

        The drafter reads the prompt only once per run, so its prefill does not belong to a single
        round.
        """
        return self.draft_seconds + self.verify_seconds + self.host_seconds

    @property
    def seconds(self) -> float:
        return self.draft_prefill_seconds + self.work_seconds


@dataclass(frozen=True, slots=True)
class TokenStep:
    """One step of plain decoding, which writes one token.

    `margin` is the gap between the two largest logits.
    """

    index: int
    token_id: int
    raw_prob: Probability
    margin: SixDigits
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class EngineToken:
    """One token of a serving engine's answer, as it arrived over the network.

    `seconds` counts from the previous token, or from the request for the first token. It includes
    the time of the network and of the engine. It is about 0 for a token that arrives together with
    the previous token. `origin` is None if the engine does not report it.
    """

    token_id: int
    seconds: Seconds
    origin: TokenOrigin | None


@dataclass(frozen=True, slots=True)
class ToldOrigins:
    """The origin of every token of an engine's answer.

    The engine reports these origins after the last token.
    """

    origins: tuple[TokenOrigin, ...]
    seconds = 0.0  # always 0, because this event takes no time


Event = Prefill | Round | TokenStep | EngineToken | ToldOrigins | FinishReason
