"""What a drafter says about its proposal beside the tree: one frozen type per kind of remark.

`token_ids`, where there is one, needs texts on screen.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.records.field_types import TopIds


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


@dataclass(frozen=True, slots=True)
class LookaheadState:
    """Lookahead: the pool at the start of the round, and the window that rides in its forward.

    `hits` n-grams were known behind the last token; `added` ones are new since the round before.
    `token_ids` are the window's, level after level, `level_sizes` of each; empty where the window
    rests.
    """

    pool: int
    hits: int
    added: int
    level_sizes: tuple[int, ...]
    token_ids: TopIds


@dataclass(frozen=True, slots=True)
class Prepared:
    """Pre-speculation: whether this round's draft was ready before the round began.

    It was looked for among `outcomes`, prepared beside the verification of the round before, so
    many for 0, 1, … accepted tokens. Preparing them took `hidden_seconds` while the target was at
    work, for nothing where none came true, and `waited_seconds` for which it stood still.
    """

    hit: bool
    outcomes: tuple[int, ...]
    hidden_seconds: float
    waited_seconds: float


@dataclass(frozen=True, slots=True)
class SharedVocabulary:
    """A draft with another vocabulary: how much of it the target has too, and what it wrote.

    `shared` tokens are a share of either vocabulary; `mass` is the probability that the draft gave
    to them, on average over the places where it wrote in this round. Of its `draft_tokens` came
    `target_tokens` of the proposal.
    """

    shared: int
    target_share: float
    draft_share: float
    mass: float
    draft_tokens: int
    target_tokens: int


@dataclass(frozen=True, slots=True)
class BatchRound:
    """This round was one of a batch: of its `row`, counted from 0, beside others, `rows` in all.

    The target ran `tokens` of theirs in one forward, and `padding` slots that held none because
    another row was longer. Speculation goes on up to `limit` rows; of more, none drafts.
    """

    row: int
    rows: int
    tokens: int
    padding: int
    limit: int


Note = NgramMatch | TreeBudget | LookaheadState | Prepared | SharedVocabulary | BatchRound
NOTE_TYPES: dict[str, type[Note]] = {
    "ngram-match": NgramMatch,
    "tree-budget": TreeBudget,
    "lookahead-state": LookaheadState,
    "prepared": Prepared,
    "shared-vocabulary": SharedVocabulary,
    "batch-round": BatchRound,
}
