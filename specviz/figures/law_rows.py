"""Which tokens a picture of p and q shows after one prefix: the probable ones and the drafted ones.

Knows no chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.records import Position, Round

SHOWN_TOKENS = 8
MOST_DRAFTED = 12


@dataclass(frozen=True, slots=True)
class LawRow:
    """One token with its p and q; token_id None is all others together, draft None is no law.

    `node` is the drafted node with this token, None where it was not drafted here.
    """

    token_id: int | None
    target: float
    draft: float | None
    node: int | None = None
    is_examined: bool = False


def law_rows(
    position: Position | None, round_: Round, child: int | None, is_raw: bool
) -> tuple[LawRow, ...]:
    """Rows by falling p: about 8 tokens, the drafted ones always among them, then the others."""
    known = {row.token_id: row for row in _drafted_rows(position, round_, child, is_raw)}
    if position is None:
        return tuple(sorted(known.values(), key=_by_target))
    for row in sorted(_top_rows(position, is_raw), key=_by_target):
        is_nothing = row.target == 0 and not row.draft
        if row.token_id in known:
            drafted = known[row.token_id]
            known[row.token_id] = LawRow(
                row.token_id, row.target, row.draft, drafted.node, drafted.is_examined
            )
        elif len(known) < SHOWN_TOKENS and not is_nothing:
            known[row.token_id] = row
    shown = sorted(known.values(), key=_by_target)
    return (*shown, _others(shown))


def _by_target(row: LawRow) -> float:
    return -row.target


def _top_rows(position: Position, is_raw: bool) -> tuple[LawRow, ...]:
    targets = position.raw_target_probs if is_raw else position.target_probs
    drafts: Sequence[float | None]
    drafts = position.raw_draft_probs if is_raw else position.draft_probs
    drafts = drafts or [None] * len(targets)
    rows = zip(position.token_ids, targets, drafts, strict=True)
    return tuple(LawRow(token, p, q) for token, p, q in rows)


def _drafted_rows(
    position: Position | None, round_: Round, child: int | None, is_raw: bool
) -> tuple[LawRow, ...]:
    """The children here; the examined one first, so that a repeat of its token is marked too."""
    parent = _parent(position, round_, child)
    children = [i for i in round_.tree.children(parent) if i != child][:MOST_DRAFTED]
    ordered = children if child is None else [*children, child]
    has_law = position is None or bool(position.raw_draft_probs if is_raw else position.draft_probs)
    return tuple(_drafted_row(round_, i, i == child, is_raw, has_law) for i in ordered)


def _parent(position: Position | None, round_: Round, child: int | None) -> int:
    if position is not None:
        return position.parent
    return -1 if child is None else round_.tree.nodes[child].parent


def _drafted_row(
    round_: Round, index: int, is_examined: bool, is_raw: bool, has_law: bool
) -> LawRow:
    verdict = round_.verdicts[index]
    p = verdict.raw_target_prob if is_raw else verdict.target_prob
    q = verdict.raw_draft_prob if is_raw else round_.tree.nodes[index].draft_prob
    return LawRow(round_.tree.nodes[index].token_id, p, q if has_law else None, index, is_examined)


def _others(shown: Sequence[LawRow]) -> LawRow:
    drafts = [row.draft for row in shown if row.draft is not None]
    rest = max(0.0, 1 - sum(drafts)) if drafts else None
    return LawRow(None, max(0.0, 1 - sum(row.target for row in shown)), rest)
