"""Where a token of a trace's text came from: its round, and what was examined in its place.

Knows nothing of models or of other traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from specviz.records import ExtraToken, Outcome, Position, Prefill, Round, Trace, Verdict


class Origin(Enum):
    """How a token got into the text."""

    FIRST = "first"
    ACCEPTED = "accepted"
    RECOVERED = "recovered"
    BONUS = "bonus"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Examined:
    """A drafted token that stood in the place, with what the target made of it."""

    node: int
    token_id: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Arrival:
    """One token of the text; what is not known of it, or does not exist, is None.

    `round_index` is None for the first token. `target_prob` is the processed p of the token before
    any sibling failed; `residual_prob` the p that it was compared by or drawn from after that,
    `draft_prob` its q. Only an accepted token has been compared with a draw. `examined` are the
    drafted tokens that were looked at in its place, in order.
    """

    index: int  # among the new tokens
    round_index: int | None
    token_id: int
    origin: Origin
    target_prob: float | None
    residual_prob: float | None
    draft_prob: float | None
    acceptance_prob: float | None
    uniform_draw: float | None
    examined: tuple[Examined, ...]
    position: Position | None  # the distributions in that place


def arrival(trace: Trace, index: int) -> Arrival | None:
    """The new token of that index (0: the first), None where the text is shorter."""
    if trace.prefill is None:
        return None
    if index == 0:
        return _first(trace.prefill)
    start = 1
    for each in trace.rounds:
        if index < start + len(each.emitted_ids):
            return _in_round(each, index - start, index)
        start += len(each.emitted_ids)
    return None


def _first(prefill: Prefill) -> Arrival:
    return _extra(prefill.extra, Origin.FIRST, 0, None, (), prefill.position)


def _in_round(round_: Round, offset: int, index: int) -> Arrival:
    """The round's token number `offset`."""
    path = round_.accepted
    parent = path[offset - 1] if offset else -1
    position = next((each for each in round_.positions if each.parent == parent), None)
    examined = tuple(
        Examined(node, round_.tree.nodes[node].token_id, round_.verdicts[node])
        for node in round_.tree.children(parent)
        if round_.verdicts[node].outcome is not Outcome.UNREACHED
    )
    if offset < len(path):
        return _accepted(round_, path[offset], index, examined, position)
    assert round_.extra is not None
    origin = Origin(round_.extra.kind.value)
    return _extra(round_.extra, origin, index, round_.index, examined, position)


def _accepted(
    round_: Round,
    node: int,
    index: int,
    examined: tuple[Examined, ...],
    position: Position | None,
) -> Arrival:
    verdict = round_.verdicts[node]
    return Arrival(
        index=index,
        round_index=round_.index,
        token_id=round_.tree.nodes[node].token_id,
        origin=Origin.ACCEPTED,
        target_prob=verdict.target_prob,
        residual_prob=verdict.residual_prob,
        draft_prob=verdict.draft_prob,
        acceptance_prob=verdict.acceptance_prob,
        uniform_draw=verdict.uniform_draw,
        examined=examined,
        position=position,
    )


def _extra(
    extra: ExtraToken,
    origin: Origin,
    index: int,
    round_index: int | None,
    examined: tuple[Examined, ...],
    position: Position | None,
) -> Arrival:
    is_recovered = origin is Origin.RECOVERED
    p, q = (target_probs(position), draft_probs(position)) if position else ({}, {})
    return Arrival(
        index=index,
        round_index=round_index,
        token_id=extra.token_id,
        origin=origin,
        target_prob=p.get(extra.token_id) if is_recovered else extra.prob,
        residual_prob=extra.prob if is_recovered else None,
        draft_prob=q.get(extra.token_id),
        acceptance_prob=None,
        uniform_draw=None,
        examined=examined,
        position=position,
    )


def target_probs(position: Position) -> dict[int, float]:
    """Processed p of the tokens that were kept."""
    return dict(zip(position.token_ids, position.target_probs, strict=True))


def draft_probs(position: Position) -> dict[int, float]:
    """Processed q of the tokens that were kept; empty where the drafter has no distribution."""
    return dict(zip(position.token_ids, position.draft_probs, strict=bool(position.draft_probs)))


def residual_probs(position: Position) -> dict[int, float]:
    """What was left of p after all drafted tokens failed; empty where none was drafted."""
    kept = position.residual_probs
    return dict(zip(position.token_ids, kept, strict=bool(kept)))
