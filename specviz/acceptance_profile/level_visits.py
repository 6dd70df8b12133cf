"""Every level of a draft tree that the target looked at in a run, and what its rejection cost.

Pure: a trace to `LevelVisit`s. Knows nothing of how they are grouped or shown.

A level is visited (reached) and passed as in `round_totals`. A round whose walk failed has exactly
one failed level, its last; a round that was cut (no extra token) or accepted in full has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from specviz.acceptance_profile.token_classes import TokenClass, token_class
from specviz.metrics import levels
from specviz.records import Outcome, Position, Round, Trace

QUARTERS = 4


@dataclass(frozen=True, slots=True)
class LevelVisit:
    """One level that was reached, and what stood in the text afterwards.

    `node` is the accepted node, or the first that was rejected where none passed; `drafted_id` is
    its token. `wanted_id` is the token that was written at this place: the accepted one, or the
    target's own after a rejection; `token_class` and `quarter` (1 to 4, of the run's own text) are
    of that token, so they do not depend on the shape of the tree. `entropy` of the raw p in nats
    and `overlap` of the raw distributions are None where the position was not recorded; for a
    drafter without a distribution, `overlap` is the raw p of its token.
    """

    round: int
    depth: int
    node: int
    is_passed: bool
    drafted_id: int
    wanted_id: int
    token_class: TokenClass
    quarter: int
    entropy: float | None
    overlap: float | None
    tokens_lost: int
    seconds_lost: float


def level_visits(trace: Trace) -> Iterator[LevelVisit]:
    """All visits of a run, in order."""
    texts = dict(trace.token_texts)
    ids = trace.emitted_ids
    written = 1  # the first token is the prefill's
    for each in trace.rounds:
        path = each.accepted
        for depth in range(1, levels(each).reached + 1):
            place = written + depth - 1
            before = ids[place - 1] if place else (trace.prompt_ids or (-1,))[-1]
            kind = token_class(texts.get(ids[place], ""), texts.get(before, ""))
            quarter = 1 + QUARTERS * place // len(ids)
            yield _visit(each, path, depth, ids[place], kind, quarter)
        written += len(each.emitted_ids)


def tokens_lost(round_: Round) -> int:
    """Drafted tokens that a rejection threw away: the rejected level and all that hung below it.

    A chain of 5 whose second token was rejected: 4. Siblings of accepted nodes do not count: they
    are the width of the tree, and no verdict could have kept all of them. 0 where nothing failed.
    """
    counted = levels(round_)
    if counted.reached == counted.passed:
        return 0
    path = round_.accepted
    below = {path[-1] if path else -1}
    for index, node in enumerate(round_.tree.nodes):
        if node.parent in below:
            below.add(index)
    return len(below) - 1


def seconds_lost(round_: Round) -> float:
    """What the round's rejection cost, against a draft that is always right.

    (draft + verify + host seconds) * (D - a) / (D + 1), for D drafted and a accepted levels; 0
    where nothing failed. Had all D levels passed, the same round would have written D + 1 tokens,
    so each would have cost 1 / (D + 1) of it; it wrote a + 1 (the target's own token included), and
    the rest of its time is lost: drafting that was thrown away, and the part of the target's
    forward that judged it. The drafter's reading of the prompt is no part of it. Assumes that a
    round costs the same however many of its tokens pass. Summed over rounds it is how much sooner
    the same text would have come from perfect drafts.

    A chain of 3 with 1 accepted in 0.14 s: 0.14 * 2 / 4 = 0.07 s.
    """
    counted = levels(round_)
    if counted.reached == counted.passed:
        return 0.0
    return round_.work_seconds * (counted.drafted - counted.passed) / (counted.drafted + 1)


def _visit(
    round_: Round,
    path: tuple[int, ...],
    depth: int,
    wanted_id: int,
    kind: TokenClass,
    quarter: int,
) -> LevelVisit:
    parent = path[depth - 2] if depth > 1 else -1
    is_passed = depth <= len(path)
    node = path[depth - 1] if is_passed else _first_rejected(round_, parent)
    position = next((each for each in round_.positions if each.parent == parent), None)
    return LevelVisit(
        round=round_.index,
        depth=depth,
        node=node,
        is_passed=is_passed,
        drafted_id=round_.tree.nodes[node].token_id,
        wanted_id=wanted_id,
        token_class=kind,
        quarter=quarter,
        entropy=None if position is None else position.entropy,
        overlap=None if position is None else _overlap(round_, position),
        tokens_lost=0 if is_passed else tokens_lost(round_),
        seconds_lost=0.0 if is_passed else seconds_lost(round_),
    )


def _first_rejected(round_: Round, parent: int) -> int:
    """The sibling that was tried first; a recorder that marked none leaves the first child."""
    children = round_.tree.children(parent)
    rejected = (i for i in children if round_.verdicts[i].outcome is Outcome.REJECTED)
    return next(rejected, children[0])


def _overlap(round_: Round, position: Position) -> float:
    if position.raw_draft_probs:
        return position.raw_overlap
    first = round_.tree.children(position.parent)[0]
    return round_.verdicts[first].raw_target_prob
