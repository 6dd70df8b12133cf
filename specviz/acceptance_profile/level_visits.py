"""The levels of draft trees that the target examined in a run, and the cost of each rejection.

A level is reached and passed as `round_totals` defines it. A round whose walk ended in a rejection
has exactly one failed level, which is the last level that was examined. A round has no failed level
if it was cut short (no extra token), or if all its levels were accepted.
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
    """One examined level, and the token that the text has at its position.

    `node` is the accepted node, or the first rejected one if none passed; `drafted_id` is its
    token. `wanted_id` is the token in the text: the accepted one, or the target's own token after a
    rejection. `token_class` is the class of that token, and `quarter` (1 to 4) the quarter of the
    run's new text that contains it. Class and quarter depend only on the text, so runs with
    different trees can be compared.

    `entropy` and `overlap` use the raw distributions, which are those before temperature and other
    sampling settings: p of the target and q of the draft. `entropy` is that of p in nats, and
    `overlap` the mass that p and q share. For a drafter without a distribution, `overlap` is p of
    the drafted token. Entropy and overlap are None if the position was not recorded.
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
    """Yield every level that the target examined in a run: round by round, from the root down."""
    texts = dict(trace.token_texts)
    ids = trace.emitted_ids
    written = 1  # the prefill has written the first token
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
    """Return how many drafted tokens a rejection discarded, from the rejected level down.

    For a chain of 5 whose second token was rejected this is 4. Siblings of accepted nodes do not
    count, because no verdict could have accepted all siblings. The result is 0 if no level failed.
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
    """Return the cost of the round's rejection, compared with a draft that is always right.

    It is (draft + verify + host seconds) * (D - a) / (D + 1), for D drafted and a accepted levels,
    and 0 if no level failed. If all D levels had passed, the same round would have produced D + 1
    tokens, and each would have cost 1 / (D + 1) of its time. The round produced a + 1 tokens,
    including the target's own. The rest of its time is lost: for discarded drafts, and for the part
    of the target's forward that judged them. The drafter's prefill does not count.

    This assumes that a round costs the same however many tokens pass. Summed over rounds, it is the
    time that perfect drafts would have saved. For a chain of 3 with 1 accepted in 0.14 s it is 0.14
    * 2 / 4 = 0.07 s.
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
    """Return the first rejected child of a node, or its first child if none was rejected."""
    children = round_.tree.children(parent)
    rejected = (i for i in children if round_.verdicts[i].outcome is Outcome.REJECTED)
    return next(rejected, children[0])


def _overlap(round_: Round, position: Position) -> float:
    if position.raw_draft_probs:
        return position.raw_overlap
    first = round_.tree.children(position.parent)[0]
    return round_.verdicts[first].raw_target_prob
