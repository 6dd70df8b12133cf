"""Records of a run -> plain JSON values; files and the wire to the browser use the same ones.

Knows no file and no chart. Keys are short, for a trace repeats them every round:

prefill   prompt (its length), extra, position, seconds
round     i (index), context (tokens before it), kind (of the proposal), nodes, verdicts,
          positions, extra or null, extras (the token held ready behind the root and every
          node), seconds [draft, verify, host], spans [[who, start, end]],
          notes, cache [committed, speculative, rolled back]
nodes     columns id, parent, depth, q (of the rule), score
verdicts  columns p, residual, q, accept, u, raw_p, raw_q (residual and u may be null: unseen);
          outcome: one letter per node, a(ccepted) r(ejected) u(nreached)
position  parent, then columns over its top tokens: id, p, q, residual, raw_p, raw_q; then
          entropy, overlap, raw_overlap, margin
extra     id, kind, parent, prob
step      i, id, prob, margin, seconds

Probabilities and margins keep 6 significant digits, seconds 9 decimals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from specviz.records import (
    BaselineStep,
    DraftNode,
    ExtraToken,
    Outcome,
    Position,
    Prefill,
    Round,
    Verdict,
)
from specviz.trace_file.note_fields import encode_note

Json = dict[str, Any]

LETTERS = {Outcome.ACCEPTED: "a", Outcome.REJECTED: "r", Outcome.UNREACHED: "u"}
_TOLERANCE = 1e-4  # float32 sums of probabilities end this near to 0 or 1 at the worst


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def _probability(value: float) -> float:
    """6 digits; a hair beyond 0 or 1, which float32 sums leave, becomes 0 or 1."""
    rounded = _digits(value)
    return min(1.0, max(0.0, rounded)) if -_TOLERANCE < rounded < 1 + _TOLERANCE else rounded


def _probabilities(values: Iterable[float]) -> list[float]:
    return [_probability(value) for value in values]


def _seen(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else _probability(value) for value in values]


def _seconds(value: float) -> float:
    return round(value, 9)


def encode_prefill(prefill: Prefill) -> Json:
    return {
        "prompt": prefill.prompt_length,
        "extra": _encode_extra(prefill.extra),
        "position": _encode_position(prefill.position),
        "seconds": _seconds(prefill.seconds),
    }


def encode_step(step: BaselineStep) -> Json:
    return {
        "i": step.index,
        "id": step.token_id,
        "prob": _probability(step.raw_prob),
        "margin": _digits(step.margin),
        "seconds": _seconds(step.seconds),
    }


def encode_round(round_: Round) -> Json:
    cache = round_.cache
    parts = (round_.draft_seconds, round_.verify_seconds, round_.host_seconds)
    return {
        "i": round_.index,
        "context": round_.context_length,
        "kind": round_.tree.kind.value,
        "nodes": _encode_nodes(round_.tree.nodes),
        "verdicts": _encode_verdicts(round_.verdicts),
        "positions": [_encode_position(each) for each in round_.positions],
        "extra": None if round_.extra is None else _encode_extra(round_.extra),
        "extras": list(round_.extra_ids),
        "seconds": [_seconds(each) for each in parts],
        "spans": [[s.who, _seconds(s.start), _seconds(s.end)] for s in round_.spans],
        "notes": [encode_note(each) for each in round_.notes],
        "cache": [cache.committed, cache.speculative, cache.rolled_back],
    }


def _encode_nodes(nodes: tuple[DraftNode, ...]) -> Json:
    return {
        "id": [node.token_id for node in nodes],
        "parent": [node.parent for node in nodes],
        "depth": [node.depth for node in nodes],
        "q": _probabilities(node.draft_prob for node in nodes),
        "score": [_digits(node.draft_score) for node in nodes],
    }


def _encode_verdicts(verdicts: tuple[Verdict, ...]) -> Json:
    return {
        "p": _probabilities(each.target_prob for each in verdicts),
        "residual": _seen(each.residual_prob for each in verdicts),
        "q": _probabilities(each.draft_prob for each in verdicts),
        "accept": _probabilities(each.acceptance_prob for each in verdicts),
        "u": _seen(each.uniform_draw for each in verdicts),
        "raw_p": _probabilities(each.raw_target_prob for each in verdicts),
        "raw_q": _probabilities(each.raw_draft_prob for each in verdicts),
        "outcome": "".join(LETTERS[each.outcome] for each in verdicts),
    }


def _encode_position(position: Position) -> Json:
    return {
        "parent": position.parent,
        "id": list(position.token_ids),
        "p": _probabilities(position.target_probs),
        "q": _probabilities(position.draft_probs),
        "residual": _probabilities(position.residual_probs),
        "raw_p": _probabilities(position.raw_target_probs),
        "raw_q": _probabilities(position.raw_draft_probs),
        "entropy": _digits(position.entropy),
        "overlap": _probability(position.overlap),
        "raw_overlap": _probability(position.raw_overlap),
        "margin": _digits(position.margin),
    }


def _encode_extra(extra: ExtraToken) -> Json:
    prob = _probability(extra.prob)
    return {"id": extra.token_id, "kind": extra.kind.value, "parent": extra.parent, "prob": prob}
