"""Plain JSON values -> records of a run, each rule checked; the keys stand in `encoding`.

Knows no file. What it returns is as well formed as what a decoder records: parents before children,
one accepted path, probabilities within 0 and 1, nothing beyond the bounds of `records`.
"""

from __future__ import annotations

from specviz.errors import InputError
from specviz.records import (
    MAX_DRAFT_LENGTH,
    MAX_TREE_NODES,
    BaselineStep,
    CacheLengths,
    DraftNode,
    DraftTree,
    ExtraKind,
    ExtraToken,
    Outcome,
    Position,
    Prefill,
    ProposalKind,
    Round,
    Span,
    Verdict,
)
from specviz.trace_file.encoding import LETTERS
from specviz.trace_file.fields import MAX_NUMBER, Fields, array, number, text
from specviz.trace_file.note_fields import decode_note

MAX_TOP_TOKENS = 256
MAX_SPANS = 256
MAX_NOTES = 64
_OUTCOMES = {letter: outcome for outcome, letter in LETTERS.items()}


def decode_prefill(value: object, path: str = "prefill") -> Prefill:
    fields = Fields(value, path, ("prompt", "extra", "position", "seconds"))
    return Prefill(
        prompt_length=fields.integer("prompt", 1),
        extra=_decode_extra(fields["extra"], fields.at("extra"), nodes=0),
        position=_decode_position(fields["position"], fields.at("position"), nodes=0),
        seconds=fields.number("seconds"),
    )


def decode_step(value: object, path: str = "step") -> BaselineStep:
    fields = Fields(value, path, ("i", "id", "prob", "margin", "seconds"))
    return BaselineStep(
        index=fields.integer("i"),
        token_id=fields.integer("id"),
        raw_prob=fields.number("prob", 0, 1),
        margin=fields.number("margin"),
        seconds=fields.number("seconds"),
    )


_ROUND_KEYS = (
    *("i", "context", "kind", "nodes", "verdicts", "positions", "extra", "extras", "seconds"),
    *("spans", "notes", "cache"),
)


def decode_round(value: object, path: str = "round") -> Round:
    """Refuses, with an InputError that names the field, whatever no run can have left."""
    fields = Fields(value, path, _ROUND_KEYS)
    nodes = _decode_nodes(fields["nodes"], fields.at("nodes"))
    count = len(nodes)
    draft, verify, host = fields.numbers("seconds", count=3)
    extra = fields.optional("extra", lambda item, at: _decode_extra(item, at, count))
    return Round(
        index=fields.integer("i"),
        context_length=fields.integer("context", 1),
        tree=DraftTree(fields.choice("kind", ProposalKind), nodes),
        verdicts=_decode_verdicts(fields["verdicts"], fields.at("verdicts"), nodes),
        positions=fields.each(
            "positions", lambda item, at: _decode_position(item, at, count), count + 1
        ),
        extra=extra,
        extra_ids=_decode_extras(fields, count + 1, extra),
        draft_seconds=draft,
        verify_seconds=verify,
        host_seconds=host,
        spans=fields.each("spans", _decode_span, MAX_SPANS),
        notes=fields.each("notes", decode_note, MAX_NOTES),
        cache=CacheLengths(*fields.integers("cache", count=3)),
    )


def _decode_extras(fields: Fields, rows: int, extra: ExtraToken | None) -> tuple[int, ...]:
    if fields["extras"] == []:
        return ()
    ids = fields.integers("extras", count=rows)
    if extra is not None and ids[extra.parent + 1] != extra.token_id:
        path = f"{fields.at('extras')}[{extra.parent + 1}]"
        rule = f"{extra.token_id}, the extra token's id"
        raise InputError(f"{path} must be {rule}, got {ids[extra.parent + 1]}")
    return ids


def _decode_nodes(value: object, path: str) -> tuple[DraftNode, ...]:
    fields = Fields(value, path, ("id", "parent", "depth", "q", "score"))
    ids = fields.integers("id", most=MAX_TREE_NODES)
    count = len(ids)
    parents = fields.integers("parent", -1, MAX_TREE_NODES, count)
    depths = fields.integers("depth", 1, MAX_DRAFT_LENGTH, count)
    for index, parent in enumerate(parents):
        if parent >= index:
            rule = f"below its own index {index}: parents stand before their children"
            raise InputError(f"{path}.parent[{index}] must be {rule}, got {parent}")
        expected = 1 if parent < 0 else depths[parent] + 1
        if depths[index] != expected:
            rule = f"{expected}, one more than its parent's"
            raise InputError(f"{path}.depth[{index}] must be {rule}, got {depths[index]}")
    columns = (ids, parents, depths, fields.numbers("q", 0, 1, count))
    scores = fields.numbers("score", -MAX_NUMBER, count=count)
    return tuple(DraftNode(*row) for row in zip(*columns, scores, strict=True))


_VERDICT_COLUMNS = ("p", "residual", "q", "accept", "u")
_MAY_BE_UNSEEN = ("residual", "u")


def _decode_verdicts(value: object, path: str, nodes: tuple[DraftNode, ...]) -> tuple[Verdict, ...]:
    fields = Fields(value, path, (*_VERDICT_COLUMNS, "outcome", "raw_p", "raw_q"))
    count = len(nodes)
    columns = [_decode_column(fields, name, count) for name in _VERDICT_COLUMNS]
    raws = [fields.numbers(name, 0, 1, count) for name in ("raw_p", "raw_q")]
    outcomes = _decode_outcomes(fields.text("outcome", MAX_TREE_NODES), fields.at("outcome"), nodes)
    return tuple(Verdict(*row) for row in zip(*columns, outcomes, *raws, strict=True))


def _decode_column(fields: Fields, name: str, count: int) -> tuple[float | None, ...]:
    if name in _MAY_BE_UNSEEN and fields[name] == [None] * count:
        return (None,) * count
    return fields.numbers(name, 0, 1, count)


def _decode_outcomes(letters: str, path: str, nodes: tuple[DraftNode, ...]) -> list[Outcome]:
    if len(letters) != len(nodes) or not set(letters) <= _OUTCOMES.keys():
        rule = f"{len(nodes)} letters of a, r, u"
        raise InputError(f"{path} must be {rule}, got {letters!r}")
    end = -1
    for index, node in enumerate(nodes):
        if letters[index] == "a":
            if node.parent != end:
                rule = "accept one path from the root down"
                raise InputError(f"{path} must {rule}, got node {index} under {node.parent}")
            end = index
    return [_OUTCOMES[letter] for letter in letters]


_DISTRIBUTIONS = ("p", "q", "residual", "raw_p", "raw_q")


def _decode_position(value: object, path: str, nodes: int) -> Position:
    names = ("parent", "id", *_DISTRIBUTIONS, "entropy", "overlap", "raw_overlap", "margin")
    fields = Fields(value, path, names)
    ids = fields.integers("id", most=MAX_TOP_TOKENS)
    p, q, residual, raw_p, raw_q = (
        _decode_distribution(fields, name, len(ids)) for name in _DISTRIBUTIONS
    )
    return Position(
        parent=fields.integer("parent", -1, nodes - 1),
        token_ids=ids,
        target_probs=p,
        draft_probs=q,
        residual_probs=residual,
        raw_target_probs=raw_p,
        raw_draft_probs=raw_q,
        entropy=fields.number("entropy"),
        overlap=fields.number("overlap", 0, 1),
        raw_overlap=fields.number("raw_overlap", 0, 1),
        margin=fields.number("margin"),
    )


def _decode_distribution(fields: Fields, name: str, count: int) -> tuple[float, ...]:
    """p stands for every token; the others may be empty where there is no such distribution."""
    may_be_empty = name not in ("p", "raw_p")
    return () if may_be_empty and fields[name] == [] else fields.numbers(name, 0, 1, count)


def _decode_extra(value: object, path: str, nodes: int) -> ExtraToken:
    fields = Fields(value, path, ("id", "kind", "parent", "prob"))
    kind = fields.choice("kind", ExtraKind)
    parent = fields.integer("parent", -1, nodes - 1)
    return ExtraToken(fields.integer("id"), kind, parent, fields.number("prob", 0, 1))


def _decode_span(value: object, path: str) -> Span:
    who, start, end = array(value, path, 3, 3)
    begun = number(start, f"{path}[1]", 0, float("inf"))
    return Span(text(who, f"{path}[0]", 100), begun, number(end, f"{path}[2]", begun, float("inf")))
