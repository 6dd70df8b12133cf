"""Frozen values that describe one decoding run: its setting, its rounds, its result.

Knows nothing of tensors, models, files or charts; it imports the standard library only.

Letters: p is the target's distribution of the next token, q the drafter's. *Processed*
distributions are what the run draws from (temperature, top-k, top-p applied); *raw* distributions
are the plain softmax, kept beside them because at temperature 0 every processed probability is 0
or 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from specviz.records.decoding_config import DecodingConfig
from specviz.records.fork_point import ForkPoint
from specviz.records.model_info import ModelInfo
from specviz.records.notes import Note
from specviz.records.settings import ProposalKind

FORMAT_VERSION = 3


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
    `draft_score` the drafter's own raw confidence, for display only.
    """

    token_id: int
    parent: int
    depth: int
    draft_prob: float
    draft_score: float


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Proposed continuations; every parent stands before its children, siblings in draw order."""

    kind: ProposalKind
    nodes: tuple[DraftNode, ...]

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

    target_prob: float
    residual_prob: float | None
    draft_prob: float
    acceptance_prob: float
    uniform_draw: float | None
    outcome: Outcome
    raw_target_prob: float
    raw_draft_prob: float

    @property
    def compared_prob(self) -> float:
        """The p that the rule compared; where that was not seen, p before any sibling failed."""
        return self.target_prob if self.residual_prob is None else self.residual_prob


@dataclass(frozen=True, slots=True)
class Position:
    """The distributions after one examined prefix of the tree, over its most probable tokens.

    `parent` is the node that the prefix ends in (-1: the root). The probabilities run parallel to
    `token_ids`; what is missing to 1 is the rest of the vocabulary. `residual_probs` is the
    distribution left after all children of `parent` failed (empty where it has none); draft
    distributions are empty where the drafter has no model. `entropy` is of the raw p in nats,
    `overlap` is sum min(p, q) of the processed distributions (for a point mass p of it, 0 where
    nothing was drafted), `raw_overlap` of the raw distributions (0 without a draft distribution),
    `margin` the gap of p's two best logits.
    """

    parent: int
    token_ids: tuple[int, ...]
    target_probs: tuple[float, ...]
    draft_probs: tuple[float, ...]
    residual_probs: tuple[float, ...]
    raw_target_probs: tuple[float, ...]
    raw_draft_probs: tuple[float, ...]
    entropy: float
    overlap: float
    raw_overlap: float
    margin: float


@dataclass(frozen=True, slots=True)
class ExtraToken:
    """The token that the target itself adds; `prob` is of the distribution that it was drawn
    from.
    """

    token_id: int
    kind: ExtraKind
    parent: int
    prob: float


@dataclass(frozen=True, slots=True)
class Span:
    """Who worked from when to when, in seconds of the lane's own clock."""

    who: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class CacheLengths:
    """Slots of the target's cache: committed before the round, then added, then dropped again."""

    committed: int
    speculative: int
    rolled_back: int


@dataclass(frozen=True, slots=True)
class Prefill:
    """The prompt's forward and the first token, drawn from the target."""

    prompt_length: int
    extra: ExtraToken
    position: Position
    seconds: float


@dataclass(frozen=True, slots=True)
class Round:
    """One draft-verify round.

    `context_length` counts the committed tokens before it, the root included. `positions` are the
    examined ones, from the root down. `extra` is None where the end of the sequence or the
    token limit cut the accepted path. `extra_ids` are the tokens that the target held ready behind
    the root and behind every node, drawn before it was known where the walk would end; empty where
    whoever recorded the run could not see them.
    """

    index: int
    context_length: int
    tree: DraftTree
    verdicts: tuple[Verdict, ...]
    positions: tuple[Position, ...]
    extra: ExtraToken | None
    extra_ids: tuple[int, ...]
    draft_seconds: float
    verify_seconds: float
    host_seconds: float
    spans: tuple[Span, ...]
    notes: tuple[Note, ...]
    cache: CacheLengths

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
    def seconds(self) -> float:
        return self.draft_seconds + self.verify_seconds + self.host_seconds


@dataclass(frozen=True, slots=True)
class BaselineStep:
    """One token of the plain autoregressive loop; `margin` is the gap of its two best logits."""

    index: int
    token_id: int
    raw_prob: float
    margin: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole run, both lanes; `token_texts` pairs every token id that occurs with its text.

    A lane that was not run, or not yet, has no prefill. `total_variation` is how far a lossy rule
    was found from the target's distribution when it was measured, None for a lossless one.
    `config` is the setting of the rounds behind the last of the `forks`, which stand in the order
    of their rounds.
    """

    config: DecodingConfig
    target: ModelInfo
    draft: ModelInfo | None
    device: str
    dtype: str
    prompt: str
    prompt_ids: tuple[int, ...]
    token_texts: tuple[tuple[int, str], ...]
    prefill: Prefill | None
    rounds: tuple[Round, ...]
    finish: FinishReason | None
    baseline_prefill: Prefill | None
    baseline_steps: tuple[BaselineStep, ...]
    baseline_finish: FinishReason | None
    drafter_bytes: int
    total_variation: float | None = None
    forks: tuple[ForkPoint, ...] = ()
    format_version: int = FORMAT_VERSION

    @property
    def emitted_ids(self) -> tuple[int, ...]:
        """All new tokens of the speculative lane, the first one included."""
        if self.prefill is None:
            return ()
        ids = [self.prefill.extra.token_id]
        for each in self.rounds:
            ids.extend(each.emitted_ids)
        return tuple(ids)

    @property
    def baseline_ids(self) -> tuple[int, ...]:
        """All new tokens of the baseline lane, the first one included."""
        if self.baseline_prefill is None:
            return ()
        return (
            self.baseline_prefill.extra.token_id,
            *(step.token_id for step in self.baseline_steps),
        )

    def config_of(self, round_index: int) -> DecodingConfig:
        """The setting that made a round (-1: the prefill)."""
        later = (fork.config for fork in self.forks if round_index < fork.round_index)
        return next(later, self.config)
