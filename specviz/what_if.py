"""What a round would have kept if some of its draws had been other numbers.

Verification judged every node of the tree before any draw was looked at: each has its acceptance
probability, and behind each the target held its own token ready. So another walk over the same
tree needs no model; it follows the one rule of `decoding.walk`. What would have come after the
round is not in the record: `experiments.forking` decodes on from there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from specviz.decoding.topology import tree_shape
from specviz.decoding.verification import Walk, walk
from specviz.errors import InputError
from specviz.records import ExtraKind, FinishReason, Outcome, Round, Trace, Verdict


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The round as it would have ended.

    `outcomes` stand for the nodes in their order, `path` is the accepted one from depth 1 down.
    `extra_id` is the token that the target would have added behind it: None where the record does
    not hold it, or where the path ends the text, which then has no `extra_kind` either. Its
    `extra_prob` is of the distribution that it would have been drawn from, None where the record
    does not keep it: a distribution is kept behind examined nodes only, and of that its most
    probable tokens. `emitted_ids` are the tokens of the path, then the extra one as far as it is
    known. `differs` tells whether any node fared otherwise than in the record.
    """

    outcomes: tuple[Outcome, ...]
    path: tuple[int, ...]
    rejected: tuple[int, ...]
    emitted_ids: tuple[int, ...]
    extra_id: int | None
    extra_kind: ExtraKind | None
    extra_prob: float | None
    differs: bool


def counterfactual(
    round_: Round, forced: Mapping[int, float], end_ids: Collection[int] = ()
) -> Counterfactual:
    """Walk the round again with the uniform draw `forced[i]` for node i, all others as they were.

    A record does not say which tokens end a sequence: `end_ids` does, see `known_end_ids`. Without
    them a path goes on behind such a token. A path that the record itself cut is cut there again.

    Raises InputError for a draw outside [0, 1), a node that does not exist, and a round of which
    the draws were not seen.
    """
    check_draws(round_, forced)
    nodes = round_.tree.nodes
    shape = tree_shape(tuple(node.parent for node in nodes))
    acceptance_probs = [verdict.acceptance_prob for verdict in round_.verdicts]
    verdicts = enumerate(round_.verdicts)
    draws = [forced[i] if i in forced else _recorded_draw(verdict) for i, verdict in verdicts]
    walked = walk(shape.groups, acceptance_probs, draws)
    endings = [i for i, node in enumerate(nodes) if node.token_id in end_ids]
    cut = walked.cut([*endings, *_recorded_ending(round_)], shape.depths)
    kind = None if cut else walked.extra_kind(shape.groups)
    extra_id = None if cut or not round_.extra_ids else round_.extra_ids[walked.end + 1]
    return _counterfactual(round_, cut or walked, extra_id, kind)


def check_draws(round_: Round, forced: Mapping[int, float]) -> None:
    """Raise InputError unless these draws can be forced upon the round."""
    count = len(round_.tree.nodes)
    if any(verdict.uniform_draw is None for verdict in round_.verdicts):
        raise InputError(
            f"round {round_.index + 1} must have known uniform draws, got a recording without them"
        )
    for node, draw in forced.items():
        if not 0 <= node < count:
            rule = f"from 0 to {count - 1}" if count else "left out: nothing was drafted"
            raise InputError(f"node must be {rule} in round {round_.index + 1}, got {node}")
        if not 0 <= draw < 1:
            raise InputError(
                f"forced draw of node {node} must be from 0 to below 1, got {draw:.12g}"
            )


def known_end_ids(trace: Trace) -> frozenset[int]:
    """The tokens that the trace itself shows to end a sequence: the last of a lane that so ended.

    A tokenizer may have others; a lane that ended otherwise shows none.
    """
    ended = (lane for lane in trace.lanes if lane.finish is FinishReason.END_OF_SEQUENCE)
    return frozenset(lane.emitted_ids[-1] for lane in ended if lane.prefill is not None)


def _recorded_draw(verdict: Verdict) -> float:
    """The node's own draw; of an accepted one always below its acceptance probability.

    A file keeps 6 digits of either number, which can make two neighbours equal.
    """
    draw = verdict.uniform_draw
    assert draw is not None
    if verdict.outcome is Outcome.ACCEPTED:
        return min(draw, math.nextafter(verdict.acceptance_prob, -math.inf))
    return draw


def _recorded_ending(round_: Round) -> tuple[int, ...]:
    """The node behind which the record's path was cut, if it was."""
    return round_.accepted[-1:] if round_.extra is None else ()


def _counterfactual(
    round_: Round, walked: Walk, extra_id: int | None, kind: ExtraKind | None
) -> Counterfactual:
    fates = dict.fromkeys(walked.rejected, Outcome.REJECTED)
    fates.update(dict.fromkeys(walked.path, Outcome.ACCEPTED))
    outcomes = tuple(fates.get(i, Outcome.UNREACHED) for i in range(len(round_.verdicts)))
    accepted = tuple(round_.tree.nodes[i].token_id for i in walked.path)
    return Counterfactual(
        outcomes=outcomes,
        path=walked.path,
        rejected=walked.rejected,
        emitted_ids=accepted if extra_id is None else (*accepted, extra_id),
        extra_id=extra_id,
        extra_kind=kind,
        extra_prob=_extra_prob(round_, walked.end, extra_id, kind),
        differs=outcomes != tuple(verdict.outcome for verdict in round_.verdicts),
    )


def _extra_prob(
    round_: Round, parent: int, token_id: int | None, kind: ExtraKind | None
) -> float | None:
    """Behind `parent`, in the residual after a rejection or in p itself."""
    extra = round_.extra
    if extra is not None and (extra.parent, extra.token_id, extra.kind) == (parent, token_id, kind):
        return extra.prob
    position = next((each for each in round_.positions if each.parent == parent), None)
    if position is None or token_id not in position.token_ids:
        return None
    is_residual = kind is ExtraKind.RECOVERED and round_.tree.kind.is_lossless
    distribution = position.residual_probs if is_residual else position.target_probs
    return distribution[position.token_ids.index(token_id)] if distribution else None
