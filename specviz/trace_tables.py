"""Convert a trace to tables: columns by name, all of the same length, as pandas.DataFrame expects.

This module needs no table library. A value that does not exist is None: the first token has no
round, and a node that was never examined has no entropy before it. A draw that the recording
program could not see is None as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from specviz.metrics import levels
from specviz.records import ExtraKind, Position, Round, Trace

Table = dict[str, list[Any]]
_ROUNDS = (
    *("round", "context_length", "drafted", "levels", "reached", "accepted", "emitted"),
    *("extra", "text", "draft_prefill_seconds", "draft_seconds", "verify_seconds"),
    *("host_seconds", "end_seconds"),
)
_NODES = (
    *("round", "node", "parent", "depth", "token_id", "text", "outcome"),
    *("target_prob", "residual_prob", "draft_prob", "acceptance_prob", "uniform_draw"),
    *("raw_target_prob", "raw_draft_prob", "entropy", "overlap", "raw_overlap"),
)
_TOKENS = ("token", "token_id", "text", "origin", "round", "node", "end_seconds")


def rounds_table(trace: Trace) -> Table:
    """Return a table with one row per round.

    `drafted` is the number of nodes. `levels`, `reached` and `accepted` are the numbers of levels
    that were drafted, reached and passed, as in `metrics.levels`. `extra` is the kind of the
    target's own token. `end_seconds` is the time since the start of the run.
    """
    return _columns(_ROUNDS, _round_rows(trace))


def nodes_table(trace: Trace) -> Table:
    """Return a table with one row per drafted token.

    Each row has the target's verdict on the token, and the entropy of the target's distribution at
    the position of the token.
    """
    texts = dict(trace.token_texts)
    return _columns(_NODES, (row for each in trace.rounds for row in _node_rows(each, texts)))


def tokens_table(trace: Trace) -> Table:
    """Return a table with one row per token that the run added to the text.

    `origin` is "accepted", or the kind of the target's own token: first, recovered, bonus or plain.
    """
    return _columns(_TOKENS, _token_rows(trace))


def _columns(names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> Table:
    table: Table = {name: [] for name in names}
    for row in rows:
        for name, value in zip(names, row, strict=True):
            table[name].append(value)
    return table


def _ends(trace: Trace) -> Iterator[float]:
    """Yield the time on the lane's own clock at the end of every round.

    The clock starts with the prefill.
    """
    passed = trace.prefill.seconds if trace.prefill else 0.0
    for each in trace.rounds:
        passed += each.seconds
        yield passed


def _round_rows(trace: Trace) -> Iterator[tuple[Any, ...]]:
    texts = dict(trace.token_texts)
    for each, end in zip(trace.rounds, _ends(trace), strict=True):
        counted, ids = levels(each), each.emitted_ids
        yield (
            each.index,
            each.context_length,
            len(each.tree.nodes),
            counted.drafted,
            counted.reached,
            counted.passed,
            len(ids),
            None if each.extra is None else each.extra.kind.value,
            "".join(texts.get(token_id, f"#{token_id}") for token_id in ids),
            each.draft_prefill_seconds,
            each.draft_seconds,
            each.verify_seconds,
            each.host_seconds,
            end,
        )


def _node_rows(round_: Round, texts: dict[int, str]) -> Iterator[tuple[Any, ...]]:
    positions: dict[int, Position] = {each.parent: each for each in round_.positions}
    pairs = zip(round_.tree.nodes, round_.verdicts, strict=True)
    for index, (node, verdict) in enumerate(pairs):
        position = positions.get(node.parent)
        yield (
            round_.index,
            index,
            node.parent,
            node.depth,
            node.token_id,
            texts.get(node.token_id, f"#{node.token_id}"),
            verdict.outcome.value,
            verdict.target_prob,
            verdict.residual_prob,
            verdict.draft_prob,
            verdict.acceptance_prob,
            verdict.uniform_draw,
            verdict.raw_target_prob,
            verdict.raw_draft_prob,
            None if position is None else position.entropy,
            None if position is None else position.overlap,
            None if position is None else position.raw_overlap,
        )


def _token_rows(trace: Trace) -> Iterator[tuple[Any, ...]]:
    texts = dict(trace.token_texts)
    for place, (token_id, *source) in enumerate(_sources(trace)):
        yield (place, token_id, texts.get(token_id, f"#{token_id}"), *source)


def _sources(trace: Trace) -> Iterator[tuple[Any, ...]]:
    """Yield the id, origin, round, node and time of every token that the run added to the text."""
    if trace.prefill is not None:
        extra = trace.prefill.extra
        yield extra.token_id, ExtraKind.FIRST.value, None, None, trace.prefill.seconds
    for each, end in zip(trace.rounds, _ends(trace), strict=True):
        for node in each.accepted:
            yield each.tree.nodes[node].token_id, "accepted", each.index, node, end
        if each.extra is not None:
            yield each.extra.token_id, each.extra.kind.value, each.index, None, end
