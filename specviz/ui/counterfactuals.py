"""What a round would have been with another draw, as the page asks and reads it.

A record that no run can have left is refused with one sentence.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from specviz.errors import InputError
from specviz.figures.moment_sentences import round_sentences
from specviz.figures.theme import Figure
from specviz.figures.tree import tree_drawing
from specviz.figures.tree_layout import EXTRA
from specviz.records import ExtraToken, Round
from specviz.trace_file import decode
from specviz.what_if import Counterfactual, counterfactual

MAX_FORCED = 64
MAX_TEXTS = 4096


def counterfactual_answer(question: dict[str, Any]) -> dict[str, Any]:
    """A round and other draws -> what the walk then accepts, and its tree.

    The question: {"record": of a round, "forced": {node: u}, "ends": ids, "texts": {id: its text},
    "root": the id of the last committed token or null}. The answer: {"emitted": ids, the last one
    null where the target's token is not recorded, "outcomes": …, "extra": {"kind", "parent", "prob"
    or null} or null, "differs": whether anything fared otherwise, "tree": its drawing and
    "sentences": its moments in words, both null where nothing did}.
    """
    round_ = decode(Round, question.get("record"), "round")
    forced = forced_draws(question.get("forced"))
    found = counterfactual(round_, forced, end_ids(question.get("ends")))
    is_unknown = found.extra_kind is not None and found.extra_id is None
    texts, root_id = token_texts(question.get("texts")), token_id(question.get("root"))
    return {
        "emitted": [*found.emitted_ids, *([None] if is_unknown else [])],
        "outcomes": [outcome.value for outcome in found.outcomes],
        "extra": _extra(found),
        "differs": found.differs,
        **_shown(round_, found, forced, texts, root_id),
    }


def _extra(found: Counterfactual) -> dict[str, Any] | None:
    if found.extra_kind is None:
        return None
    kind, prob = found.extra_kind.value, found.extra_prob
    return {"kind": kind, "parent": _end(found), "prob": prob}


def _end(found: Counterfactual) -> int:
    return found.path[-1] if found.path else -1


def _shown(
    round_: Round,
    found: Counterfactual,
    forced: dict[int, float],
    texts: dict[int, str],
    root_id: int | None,
) -> dict[str, Any]:
    """The round's tree, and its moments in words, as the other walk leaves it.

    The page offers other draws where there are any: above temperature 0.
    """
    if not found.differs:
        return {"tree": None, "sentences": None}
    other = _walked(round_, found, forced)
    drawing = tree_drawing(other, texts, root_id)
    knows_extra = found.extra_prob is not None
    if not knows_extra:
        _say_unknown(drawing)
    sentences = round_sentences(other, is_greedy=False, knows_extra=knows_extra)
    return {"tree": drawing, "sentences": asdict(sentences)}


def _walked(round_: Round, found: Counterfactual, forced: dict[int, float]) -> Round:
    """The round's record as if those had been its draws."""
    verdicts = tuple(
        replace(verdict, outcome=outcome, uniform_draw=forced.get(node, verdict.uniform_draw))
        for node, (verdict, outcome) in enumerate(zip(round_.verdicts, found.outcomes, strict=True))
    )
    extra = None
    if found.extra_id is not None and found.extra_kind is not None:
        prob = found.extra_prob or 0.0
        extra = ExtraToken(found.extra_id, found.extra_kind, _end(found), prob)
    return replace(round_, verdicts=verdicts, extra=extra)


def _say_unknown(drawing: Figure) -> None:
    """The card of the extra token, where the record does not keep its probability."""
    for node in drawing["layout"]["meta"]["nodes"]:
        if node["node"] == EXTRA:
            node["card"][-1] = "probability unknown: it is not in the record"


def token_texts(value: object) -> dict[int, str]:
    """{"7": " the"} -> {7: " the"}: what the tokens of the round read."""
    is_map = isinstance(value, dict) and len(value) <= MAX_TEXTS
    if not is_map or not all(isinstance(text, str) for text in value.values()):  # type: ignore[attr-defined]
        raise InputError("texts must name texts by token id, got something else")
    try:
        return {int(key): text for key, text in value.items()}  # type: ignore[attr-defined]
    except ValueError:
        raise InputError("texts must name texts by token id, got something else") from None


def token_id(value: object) -> int | None:
    if value is None or type(value) is int:
        return value
    raise InputError("root must be a token id or null, got something else")


def end_ids(value: object) -> frozenset[int]:
    """[0] -> {0}: the tokens that the trace shows to end a text."""
    if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
        raise InputError("ends must be a list of token ids, got something else")
    return frozenset(value)


def forced_draws(value: object) -> dict[int, float]:
    """{"3": 0.25} -> {3: 0.25}: uniform draws by node."""
    if not isinstance(value, dict) or len(value) > MAX_FORCED:
        raise InputError("forced must name draws by node, got something else")
    try:
        return {int(node): float(draw) for node, draw in value.items()}
    except (TypeError, ValueError):
        raise InputError("forced must name numbers by node, got something else") from None
