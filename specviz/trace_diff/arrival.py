"""How a token got into a trace's text: its round, and the drafted tokens at its position."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from specviz.records import ExtraToken, Outcome, Position, Prefill, Round, Trace, Verdict


class Origin(Enum):
    """The way in which a token got into the text."""

    FIRST = "first"
    ACCEPTED = "accepted"
    RECOVERED = "recovered"
    BONUS = "bonus"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Examined:
    """A drafted token that was examined at the position of an `Arrival`, and its verdict."""

    node: int
    token_id: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Arrival:
    """One token of the text. A field is None if it is unknown or does not exist.

    `round_index` is None for the first token. `target_prob` is the processed p of the token, and
    `draft_prob` its q. `residual_prob` is the token's probability in the residual of p after its
    earlier siblings were rejected. Only an accepted token has an `acceptance_prob` and a
    `uniform_draw`, because the target's own token is not judged. `examined` has the drafted tokens
    that were judged at the text position of this token, in order.
    """

    index: int  # index of the token among the new tokens
    round_index: int | None
    token_id: int
    origin: Origin
    target_prob: float | None
    residual_prob: float | None
    draft_prob: float | None
    acceptance_prob: float | None
    uniform_draw: float | None
    examined: tuple[Examined, ...]
    position: Position | None  # the recorded distributions at this position


def arrival(trace: Trace, index: int) -> Arrival | None:
    """Return the new token with this index (0 is the first), or None if the text is shorter."""
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
    """Return the new token at index `offset` (counted from 0) among the tokens of one round."""
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
    """Return the processed p of the tokens recorded at a position, by token id."""
    return dict(zip(position.token_ids, position.target_probs, strict=True))


def draft_probs(position: Position) -> dict[int, float]:
    """Return the processed q of the tokens recorded at a position, by token id.

    The result is empty if the drafter has no distribution.
    """
    return dict(zip(position.token_ids, position.draft_probs, strict=bool(position.draft_probs)))


def residual_probs(position: Position) -> dict[int, float]:
    """Return the residual after all drafted tokens at a position were rejected.

    The result is empty if nothing was drafted at the position.
    """
    kept = position.residual_probs
    return dict(zip(position.token_ids, kept, strict=bool(kept)))
