"""The tokens that a picture of p and q shows: the most probable ones and the drafted ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from specviz.records import TOP_TOKENS, Position, Round

SHOWN_TOKENS = 8
MOST_DRAFTED = 12
OWN_TOKENS = 4  # number of the draft's most probable tokens that are shown


@dataclass(frozen=True, slots=True)
class DistributionRow:
    """One token with its p and q. A token_id of None means all other tokens together.

    `target` is p, and `draft` is q, or None if the drafter has no distribution. `node` is the index
    of the drafted node with this token, or None if the token was not drafted at this position.
    `is_examined` marks the row whose token the rule judged or the target drew, to which the picture
    draws attention. `is_own` says that the token is drafted or among the draft's most probable
    ones. Such a row may be shown before the target has run.
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
    """Return the rows of a position: about 8 tokens sorted by decreasing p, then all others as one.

    The drafted tokens always have a row. At the position after the root, the draft's most probable
    tokens have a row as well. If `child` is None, the target's own token also has one.

    The page can show the rows of the draft's tokens before the user knows what the target decided,
    so these rows must not reveal it. Therefore their choice does not depend on p. At later
    positions, the draft's most probable tokens have no rows of their own: the record has a later
    position only if the walk reached it, so such rows would reveal how far the walk gets.
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
    """Return {token id: row} for the target's own token, or {} if its p is not recorded."""
    row = known.get(token_id) or next((each for each in top if each.token_id == token_id), None)
    return {} if row is None else {token_id: replace(row, is_examined=True)}


def has_own_distribution(round_: Round) -> bool:
    """Return whether the drafter knows the probabilities of its tokens.

    A drafter that copies tokens does not.
    """
    return any(position.draft_probs or position.raw_draft_probs for position in round_.positions)


def _has_raw_q(round_: Round, is_raw: bool) -> bool:
    """Return whether the bars must show the raw q.

    The raw q is shown if the acceptance rule does not use q, or uses only the values 0 and 1.
    """
    return is_raw or not round_.tree.drawing.is_drawn


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
    """Return the rows of the drafted tokens at this position.

    The row of `child` is last. The caller stores the rows by token, so this row replaces that of a
    sibling with the same token.
    """
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
    """Return the draft's probability of a node's token before any of its siblings was drawn.

    Without replacement, the recorded q of a sibling is relative to the mass that earlier siblings
    left.
    """
    nodes, left = round_.tree.nodes, 1.0
    if not round_.tree.drawing.removes:
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
