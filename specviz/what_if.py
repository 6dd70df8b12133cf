"""Compute what a round would have accepted if some of its draws had been other numbers.

Verification computes, before it looks at any draw, the acceptance probability of every node and the
token that the target would add after every node. The record has these numbers, so no model is
needed to walk the same tree again with other draws; `decoding.rules` has the rules. The
record does not show which text would have followed the round. To find that out,
`experiments.run.forking` decodes the rest.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from specviz.decoding.rules.rule import Walk
from specviz.decoding.rules.rule_table import rule_named
from specviz.decoding.topology import tree_shape
from specviz.errors import InputError
from specviz.records import ExtraKind, FinishReason, Outcome, Round, Trace


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The round as it would have ended with other draws.

    - `outcomes`: the outcome of each node.
    - `path`: the accepted nodes from depth 1 down.
    - `extra_id`: the token that the target would have added; None if the path ends the text, or if
      the record lacks this token.
    - `extra_kind`: the kind of this token; None only if the path ends the text.
    - `extra_prob`: the probability of this token in the distribution from which it would have been
      drawn. It is None if the record lacks it, because a record keeps only the most probable
      tokens, and only at examined nodes.
    - `emitted_ids`: the tokens of the path, then the extra token if it is known.
    - `differs`: True if any node has another outcome than in the record.
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
    """Walk the round's tree again: node i gets the draw `forced[i]`, any other node its old draw.

    A record does not say which tokens end a text, so `end_ids` lists them; `known_end_ids` finds
    some. Without `end_ids`, a path continues after a token that ends the text. A path that was cut
    in the record is cut at the same node again. Raises InputError for a draw outside [0, 1), a node
    that does not exist, and a round whose draws were not recorded.
    """
    check_draws(round_, forced)
    nodes = round_.tree.nodes
    shape = tree_shape(tuple(node.parent for node in nodes))
    acceptance_probs = [verdict.acceptance_prob for verdict in round_.verdicts]
    recorded = _recorded_draws(round_, shape.groups, acceptance_probs)
    draws = [forced.get(i, draw) for i, draw in enumerate(recorded)]
    walked = rule_named(round_.rule).walk(shape.groups, acceptance_probs, draws)
    endings = [i for i, node in enumerate(nodes) if node.token_id in end_ids]
    cut = walked.cut([*endings, *_recorded_ending(round_)], shape.depths)
    kind = None if cut else walked.extra_kind(shape.groups)
    extra_id = None if cut or not round_.extra_ids else round_.extra_ids[walked.end + 1]
    return _counterfactual(round_, cut or walked, extra_id, kind)


def check_draws(round_: Round, forced: Mapping[int, float]) -> None:
    """Raise InputError if the round cannot be walked again with these draws."""
    count = len(round_.tree.nodes)
    if any(verdict.uniform_draw is None for verdict in round_.verdicts):
        raise InputError(
            f"round {round_.index + 1} must be recorded with its uniform draws, got one without"
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
    """Return the tokens that are known from the trace to end a text.

    They are the last tokens of lanes that ended with an end-of-sequence token. The tokenizer may
    have other such tokens.
    """
    ended = (lane for lane in trace.lanes if lane.finish is FinishReason.END_OF_SEQUENCE)
    return frozenset(lane.emitted_ids[-1] for lane in ended if lane.prefill is not None)


def _recorded_draws(
    round_: Round, children: Sequence[Sequence[int]], acceptance_probs: Sequence[float]
) -> list[float]:
    """Return the recorded draws of all nodes, those of accepted nodes lowered a little if needed.

    A file keeps 6 significant digits of draws and of acceptance probabilities, so nearly equal
    numbers can be equal in the file. An accepted node would then fail. Draws that lead to the
    recorded path are not changed, because some rules accept nodes whose own draw fails.
    """
    draws = [verdict.uniform_draw for verdict in round_.verdicts]
    known = [draw for draw in draws if draw is not None]
    path = rule_named(round_.rule).walk(children, acceptance_probs, known).path
    if path[: len(round_.accepted)] == round_.accepted:
        return known
    lowered = [math.nextafter(each, -math.inf) for each in acceptance_probs]
    for node in round_.accepted:
        known[node] = min(known[node], lowered[node])
    return known


def _recorded_ending(round_: Round) -> tuple[int, ...]:
    """Return the node at which the path in the record was cut, as a tuple; () if it was not cut."""
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
    """Return the probability of the extra token after node `parent`, or None if it is not recorded.

    After a rejection, the extra token is drawn from the residual, otherwise from p.
    """
    extra = round_.extra
    if extra is not None and (extra.parent, extra.token_id, extra.kind) == (parent, token_id, kind):
        return extra.prob
    position = next((each for each in round_.positions if each.parent == parent), None)
    if position is None or token_id not in position.token_ids:
        return None
    is_residual = kind is ExtraKind.RECOVERED and rule_named(round_.rule).is_lossless
    distribution = position.residual_probs if is_residual else position.target_probs
    return distribution[position.token_ids.index(token_id)] if distribution else None
