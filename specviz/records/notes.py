"""The notes of a drafter about its proposal, with one frozen type per kind of note.

A note may have `token_ids`; the page shows the texts of these tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.records.field_types import TopIds


@dataclass(frozen=True, slots=True)
class NgramMatch:
    """A match that prompt lookup found.

    The last `length` tokens also occur earlier in the text. The drafter copies the tokens that
    follow this earlier occurrence, from index `position` on.
    """

    length: int
    position: int


def match_score(counts: Sequence[int]) -> float:
    """Return the score of a match in suffix decoding, 0 if `counts` is empty.

    The score is the expected number of right tokens among those that follow the match: the sum of
    their counts divided by `counts[0]`, the count of the match. The sum is computed before the
    division, so that rounding does not make equal scores different.
    """
    return sum(counts[1:]) / counts[0] if counts else 0.0


@dataclass(frozen=True, slots=True)
class SuffixMatch:
    """The match that suffix decoding chose: the last tokens, which occur `counts[0]` times.

    `token_ids` are these tokens; the end of the text counts as one occurrence. `counts[i]` says how
    many of the occurrences are followed by the first i tokens of the draft. This match has the best
    score among the matches of 1 to `longest` tokens. The occurrences are in the text itself, or in
    earlier outputs if `is_earlier` is True.
    """

    longest: int
    counts: tuple[int, ...]
    is_earlier: bool
    token_ids: TopIds

    @property
    def score(self) -> float:
        """Return how many of the copied tokens are expected to be right."""
        return match_score(self.counts)


@dataclass(frozen=True, slots=True)
class HybridChoice:
    """The two numbers that decided whether a hybrid round copies tokens.

    The round copies if `score` is at least `least_score`. `score` is the score of the best match of
    suffix decoding. It is 0 if there was nothing to copy; then the draft model drafts, even if
    `least_score` is 0.
    """

    score: float
    least_score: float


@dataclass(frozen=True, slots=True)
class ForcedTokens:
    """The draft of a round whose next tokens the grammar forces: all `count` nodes of its chain.

    The drafting method itself drafted nothing in this round.
    """

    count: int


@dataclass(frozen=True, slots=True)
class TreeBudget:
    """The size of a dynamic tree: of `candidates` scored nodes, the drafter kept `nodes` nodes."""

    nodes: int
    candidates: int


@dataclass(frozen=True, slots=True)
class LookaheadState:
    """The state of lookahead decoding in one round: the pool of n-grams, and the window.

    The pool has `pool` n-grams. At the start of the round, `hits` of them began with the last
    token, and `added` were new since the previous round. `token_ids` are the window's tokens, level
    after level, and `level_sizes` has the number of these tokens per level. These two fields are
    empty if the round has no window.
    """

    pool: int
    hits: int
    added: int
    level_sizes: tuple[int, ...]
    token_ids: TopIds


@dataclass(frozen=True, slots=True)
class RecycledTokens:
    """The state of token recycling before one round: its table, and how good it has been so far.

    The table has the target's most probable next tokens after `known` different tokens. `rates`
    says how often the most probable of them was right in this run, how often the second, and so on.
    """

    known: int
    rates: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The state of pre-speculation; `hit` is True if the draft was ready before the round began.

    While the target verified the previous round, the drafter prepared drafts for possible results
    of that verification. `outcomes[i]` is the number of drafts for the result that i tokens are
    accepted. The drafter worked for `hidden_seconds` while the target worked, and for
    `waited_seconds` while the target was idle. If `hit` is False, this work was useless.
    """

    hit: bool
    outcomes: tuple[int, ...]
    hidden_seconds: float
    waited_seconds: float


@dataclass(frozen=True, slots=True)
class SharedVocabulary:
    """How a draft model with another vocabulary was used in this round.

    The two vocabularies share `shared` tokens; `target_share` and `draft_share` are the shares of
    these tokens in the vocabularies of target and draft. `mass` is the draft's probability of
    shared tokens, averaged over the positions of this round. The draft model's `draft_tokens`
    tokens became `target_tokens` tokens of the proposal.
    """

    shared: int
    target_share: float
    draft_share: float
    mass: float
    draft_tokens: int
    target_tokens: int


@dataclass(frozen=True, slots=True)
class BatchRound:
    """The round's part in a batch: it belongs to sequence `row` (from 0) of `rows` sequences.

    One forward of the target processed the sequences together. That forward had `tokens` input
    positions with a token, and `padding` empty positions, because some sequences had fewer new
    tokens than others. If there are more than `limit` sequences, none of them drafts.
    """

    row: int
    rows: int
    tokens: int
    padding: int
    limit: int


Note = (
    NgramMatch
    | SuffixMatch
    | HybridChoice
    | ForcedTokens
    | TreeBudget
    | LookaheadState
    | RecycledTokens
    | Prepared
    | SharedVocabulary
    | BatchRound
)
NOTE_TYPES: dict[str, type[Note]] = {
    "ngram-match": NgramMatch,
    "suffix-match": SuffixMatch,
    "hybrid-choice": HybridChoice,
    "forced-tokens": ForcedTokens,
    "tree-budget": TreeBudget,
    "lookahead-state": LookaheadState,
    "recycled-tokens": RecycledTokens,
    "prepared": Prepared,
    "shared-vocabulary": SharedVocabulary,
    "batch-round": BatchRound,
}
