"""A recorded run, the same run with one forced draw, and variants that differ at that draw."""

import dataclasses

from specviz.records import ExtraToken, Outcome
from specviz.what_if import counterfactual
from tests.random_traces import changed, random_trace


def followed(trace, number, forced):
    """Return `trace` up to the end of round `number`, with the draws in `forced` in that round.

    `forced` maps a node to its draw.
    """
    walked = counterfactual(trace.rounds[number], forced)
    here = trace.rounds[number]
    verdicts = tuple(
        dataclasses.replace(old, outcome=outcome, uniform_draw=forced.get(node, old.uniform_draw))
        for node, (old, outcome) in enumerate(zip(here.verdicts, walked.outcomes, strict=True))
    )
    extra = ExtraToken(
        walked.extra_id, walked.extra_kind, walked.path[-1] if walked.path else -1, 0.5
    )
    other = dataclasses.replace(here, verdicts=verdicts, extra=extra)
    return changed(trace, rounds=(*trace.rounds[:number], other), finish=None)


def rejected_in(trace):
    """Return the first rejection after round 0 that another draw would accept.

    Returns: its round, its node, and the index of its token among the new tokens.
    """
    start = 1
    for each in trace.rounds:
        for node, verdict in enumerate(each.verdicts):
            if verdict.outcome is Outcome.REJECTED and verdict.acceptance_prob > 0:
                if each.index and each.extra.token_id != each.tree.nodes[node].token_id:
                    return each.index, node, start + each.tree.nodes[node].depth - 1
        start += len(each.emitted_ids)
    raise AssertionError("choose another seed")


TRACE = random_trace(3, rounds=8)
ROUND, NODE, INDEX = rejected_in(TRACE)
FORCED = followed(TRACE, ROUND, {NODE: 0.0})


def changed_place(trace, change):
    """Return `trace` with another extra token in ROUND.

    `change` is a function that replaces the record of the extra token's position.
    """
    here = trace.rounds[ROUND]
    place = here.extra.parent
    token_id = next(i for i in range(40) if i not in (here.extra.token_id, *trace.emitted_ids))
    positions = tuple(change(each) if each.parent == place else each for each in here.positions)
    extra = dataclasses.replace(here.extra, token_id=token_id)
    other = dataclasses.replace(here, positions=positions, extra=extra, extra_ids=())
    return changed(trace, rounds=(*trace.rounds[:ROUND], other))


def halved(field):
    """Return a function that halves all probabilities in one field of a position."""
    return lambda position: dataclasses.replace(
        position, **{field: tuple(prob / 2 for prob in getattr(position, field))}
    )


def a_hair_less(position):
    """Return the position with target probabilities that are changed as little as by rounding."""
    probs = tuple(prob * (1 - 1e-6) for prob in position.target_probs)
    return dataclasses.replace(position, target_probs=probs)


def with_verdict(trace, token_id=None, **changes):
    """Return `trace` with another drafted token at NODE, or with changed fields of its verdict."""
    here = trace.rounds[ROUND]
    nodes, verdicts = list(here.tree.nodes), list(here.verdicts)
    if token_id is not None:
        nodes[NODE] = dataclasses.replace(nodes[NODE], token_id=token_id)
    verdicts[NODE] = dataclasses.replace(verdicts[NODE], **changes)
    tree = dataclasses.replace(here.tree, nodes=tuple(nodes))
    other = dataclasses.replace(here, tree=tree, verdicts=tuple(verdicts))
    rounds = (*trace.rounds[:ROUND], other, *trace.rounds[ROUND + 1 :])
    return changed(trace, rounds=rounds)
