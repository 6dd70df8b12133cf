"""Rules between the fields of a record, as a table with one check for each type of record.

A record that passes its check is as valid as one that a decoder made. For example, parents come
before children, there is one accepted path, and each round continues from tokens that exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from specviz.errors import InputError, short, whole_between
from specviz.records import (
    DraftTree,
    ExtraToken,
    Lane,
    LaneKind,
    Outcome,
    Position,
    Prefill,
    Round,
    Trace,
)
from specviz.trace_file.values import array, number


def _check_tree(tree: DraftTree, path: str) -> None:
    for index, node in enumerate(tree.nodes):
        if node.parent >= index:
            rule = f"below its own index {index}, because parents come before their children"
            raise InputError(f"{path}.nodes.parent[{index}] must be {rule}, got {node.parent}")
        expected = 1 if node.parent < 0 else tree.nodes[node.parent].depth + 1
        if node.depth != expected:
            rule = f"{expected}, one more than its parent's"
            raise InputError(f"{path}.nodes.depth[{index}] must be {rule}, got {node.depth}")


def _check_position(position: Position, path: str) -> None:
    """Check that every distribution of a position has one value per recorded token.

    All distributions except p may be empty instead.
    """
    count = len(position.token_ids)
    for key, probs, may_be_empty in (
        ("p", position.target_probs, False),
        ("q", position.draft_probs, True),
        ("residual", position.residual_probs, True),
        ("raw_p", position.raw_target_probs, False),
        ("raw_q", position.raw_draft_probs, True),
    ):
        if probs or not may_be_empty:
            array(list(probs), f"{path}.{key}", count, count)


def _check_prefill(prefill: Prefill, path: str) -> None:
    _check_parent(prefill.extra, f"{path}.extra", 0)
    _check_parent(prefill.position, f"{path}.position", 0)


def _check_parent(record: ExtraToken | Position, path: str, nodes: int) -> None:
    whole_between(record.parent, f"{path}.parent", -1, nodes - 1)


def _check_round(round_: Round, path: str) -> None:
    count = len(round_.tree.nodes)
    array(list(round_.verdicts), f"{path}.verdicts.p", count, count)
    _check_outcomes(round_, f"{path}.verdicts.outcome")
    for index, position in enumerate(round_.positions):
        _check_parent(position, f"{path}.positions[{index}]", count)
    if round_.extra is not None:
        _check_parent(round_.extra, f"{path}.extra", count)
    _check_extra_ids(round_, f"{path}.extras")
    for index, span in enumerate(round_.spans):
        number(span.end, f"{path}.spans.end[{index}]", span.start, float("inf"))


def _check_outcomes(round_: Round, path: str) -> None:
    end = -1
    for index, (node, verdict) in enumerate(zip(round_.tree.nodes, round_.verdicts, strict=True)):
        if verdict.outcome is Outcome.ACCEPTED:
            if node.parent != end:
                rule = "accept one path from the root down"
                raise InputError(f"{path} must {rule}, got node {index} under {node.parent}")
            end = index


def _check_extra_ids(round_: Round, path: str) -> None:
    extra, ids, count = round_.extra, round_.extra_ids, 1 + len(round_.tree.nodes)
    if not ids:
        return
    array(list(ids), path, count, count)
    if extra is not None and ids[extra.parent + 1] != extra.token_id:
        rule = f"{extra.token_id}, the extra token's id"
        raise InputError(f"{path}[{extra.parent + 1}] must be {rule}, got {ids[extra.parent + 1]}")


def _check_lane(lane: Lane, path: str) -> None:
    """Check that rounds and steps have a prefill before them, and that forks are sorted by round.

    Rounds must be numbered from 0.
    """
    for count, noun in ((len(lane.rounds), "rounds"), (len(lane.steps), "steps")):
        if count and lane.prefill is None:
            raise InputError(f"{path}.prefill must exist before {count} {noun}, got null")
    if lane.rounds and lane.steps:
        raise InputError(f"{path} must have rounds or steps, got both")
    if lane.arrivals and (lane.kind is not LaneKind.ENGINE or lane.prefill is not None):
        raise InputError(
            f"{path}.arrivals must be given only in an engine's lane without a prefill"
        )
    places = [fork.round_index for fork in lane.forks]
    if places != sorted(set(places)):
        raise InputError(f"{path}.forks must be in the order of their rounds, got {short(places)}")
    for index, each in enumerate(lane.rounds):
        if each.index != index:
            raise InputError(f"{path}.rounds[{index}].i must be {index}, got {each.index}")


def _repeated(values: Sequence[Hashable]) -> object:
    """Return the value that occurs most often."""
    return Counter(values).most_common(1)[0][0]


def _check_trace(trace: Trace, path: str) -> None:
    ids = [token_id for token_id, _ in trace.token_texts]
    if len(set(ids)) != len(ids):
        raise InputError(f"{path}.tokens must name each token once, got {_repeated(ids)} twice")
    if not trace.lanes:
        raise InputError(f"{path}.lanes must have at least one lane, got none")
    names = [lane.name for lane in trace.lanes]
    if len(set(names)) != len(names):
        raise InputError(
            f"{path}.lanes must have unique names, got {short(_repeated(names))} twice"
        )
    for index, lane in enumerate(trace.lanes):
        _check_contexts(lane, len(trace.prompt_ids), f"{path}.lanes[{index}]")


def _check_contexts(lane: Lane, prompt_length: int, path: str) -> None:
    """Check that the context length of each round is the number of tokens before the round."""
    known = prompt_length + 1
    for index, each in enumerate(lane.rounds):
        if each.context_length != known:
            rule = f"{known}, the tokens before the round"
            got = each.context_length
            raise InputError(f"{path}.rounds[{index}].context must be {rule}, got {got}")
        known += len(each.emitted_ids)


CHECKS: dict[type, Callable[[Any, str], None]] = {
    DraftTree: _check_tree,
    Position: _check_position,
    Prefill: _check_prefill,
    Round: _check_round,
    Lane: _check_lane,
    Trace: _check_trace,
}
