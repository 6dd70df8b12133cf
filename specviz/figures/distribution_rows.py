"""Which tokens a picture of p and q shows after one prefix: the probable ones and the drafted ones.

Knows no chart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from specviz.records import TOP_TOKENS, Position, ProposalKind, Round

SHOWN_TOKENS = 8
MOST_DRAFTED = 12
OWN_TOKENS = 4  # of the draft's most probable ones
_WITH_OWN_Q = (ProposalKind.IID, ProposalKind.WITHOUT_REPLACEMENT)  # their rule compares q


@dataclass(frozen=True, slots=True)
class DistributionRow:
    """One token with its p and q; token_id None is all others together, draft None is no
    distribution.

    `node` is the drafted node with this token, None where it was not drafted here. `is_own`: the
    draft names it, so it may show before the target has looked.
    """

    token_id: int | None
    target: float
    draft: float | None
    node: int | None = None
    is_examined: bool = False
    is_own: bool = False


def distribution_rows(
    position: Position | None, round_: Round, child: int | None, is_raw: bool
) -> tuple[DistributionRow, ...]:
    """Rows by falling p: about 8 tokens, then the others.

    The drafted ones are always among them, and behind the root the draft's own favourites: what
    shows before p is known depends neither on p nor on how far the walk will come, for other
    prefixes have distributions only once they are examined. Without a child the target's own token
    is among them; else it is but one of p's tokens, for it is drawn later.
    """
    known: dict[int | None, DistributionRow]
    known = {row.token_id: row for row in _drafted_rows(position, round_, child, is_raw)}
    if position is None:
        return tuple(sorted(known.values(), key=_by_target))
    top = _top_rows(position, has_raw_q=_has_raw_q(round_, is_raw), is_raw=is_raw)
    if child is None and round_.extra is not None:
        known |= _own_row(round_.extra.token_id, top, known)
    else:
        top = top[:TOP_TOKENS]
    favourites = _favourites(top) if position.parent < 0 else []
    for row in [*favourites, *sorted(top, key=_by_target)]:
        is_nothing = row.target == 0 and not row.draft
        if row.token_id in known:
            known[row.token_id] = replace(known[row.token_id], target=row.target, draft=row.draft)
        elif len(known) < SHOWN_TOKENS and not is_nothing:
            known[row.token_id] = row
    shown = sorted(known.values(), key=_by_target)
    return (*shown, _others(shown))


def _own_row(
    token_id: int, top: Sequence[DistributionRow], known: Mapping[int | None, DistributionRow]
) -> dict[int | None, DistributionRow]:
    """The row of the target's own token, as far as the record keeps it."""
    row = known.get(token_id) or next((each for each in top if each.token_id == token_id), None)
    return {} if row is None else {token_id: replace(row, is_examined=True)}


def has_own_distribution(round_: Round) -> bool:
    """Whether the drafter knows how probable its guesses are; one that copies does not."""
    return any(position.draft_probs or position.raw_draft_probs for position in round_.positions)


def _has_raw_q(round_: Round, is_raw: bool) -> bool:
    """Whether q is the drafter's own, unprocessed: the rule compares none, or only 0 and 1."""
    return is_raw or round_.tree.kind not in _WITH_OWN_Q


def _by_target(row: DistributionRow) -> float:
    return -row.target


def _favourites(top: Sequence[DistributionRow]) -> list[DistributionRow]:
    drafted = [(row.draft, row) for row in top if row.draft]
    drafted.sort(key=lambda pair: -pair[0])
    return [replace(row, is_own=True) for _, row in drafted[:OWN_TOKENS]]


def _top_rows(position: Position, *, has_raw_q: bool, is_raw: bool) -> tuple[DistributionRow, ...]:
    targets = position.raw_target_probs if is_raw else position.target_probs
    drafts: Sequence[float | None]
    drafts = position.raw_draft_probs if has_raw_q else position.draft_probs
    drafts = drafts or [None] * len(targets)
    rows = zip(position.token_ids, targets, drafts, strict=True)
    return tuple(DistributionRow(token, p, q) for token, p, q in rows)


def _drafted_rows(
    position: Position | None, round_: Round, child: int | None, is_raw: bool
) -> tuple[DistributionRow, ...]:
    """The children here; the examined one first, so that a repeat of its token is marked too."""
    parent = _parent(position, round_, child)
    children = [i for i in round_.tree.children(parent) if i != child][:MOST_DRAFTED]
    ordered = children if child is None else [*children, child]
    has_distribution = _has_distribution(position, round_, is_raw)
    return tuple(_drafted_row(round_, i, i == child, is_raw, has_distribution) for i in ordered)


def _has_distribution(position: Position | None, round_: Round, is_raw: bool) -> bool:
    if position is None:
        return has_own_distribution(round_)
    has_raw_q = _has_raw_q(round_, is_raw)
    return bool(position.raw_draft_probs if has_raw_q else position.draft_probs)


def _parent(position: Position | None, round_: Round, child: int | None) -> int:
    if position is not None:
        return position.parent
    return -1 if child is None else round_.tree.nodes[child].parent


def _drafted_row(
    round_: Round, index: int, is_examined: bool, is_raw: bool, has_distribution: bool
) -> DistributionRow:
    verdict, node = round_.verdicts[index], round_.tree.nodes[index]
    p = verdict.raw_target_prob if is_raw else verdict.target_prob
    q = verdict.raw_draft_prob if _has_raw_q(round_, is_raw) else first_q(round_, index)
    return DistributionRow(
        node.token_id, p, q if has_distribution else None, index, is_examined, is_own=True
    )


def first_q(round_: Round, index: int) -> float:
    """q of a node before any sibling was drawn.

    Without replacement each sibling's own q is scaled to what the ones before it had left.
    """
    nodes, left = round_.tree.nodes, 1.0
    if round_.tree.kind is not ProposalKind.WITHOUT_REPLACEMENT:
        return nodes[index].draft_prob
    for sibling in round_.tree.children(nodes[index].parent):
        q = nodes[sibling].draft_prob * left
        if sibling == index:
            return q
        left -= q
    raise AssertionError(index)


def _others(shown: Sequence[DistributionRow]) -> DistributionRow:
    drafts = [row.draft for row in shown if row.draft is not None]
    rest = max(0.0, 1 - sum(drafts)) if drafts else None
    return DistributionRow(None, max(0.0, 1 - sum(row.target for row in shown)), rest)
