"""The answer to a question of the page: what would this round be with other random draws?

A record that no real run can have produced gets an error of one sentence.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from specviz.errors import InputError, short
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
    """Return which tokens a round would accept with other random draws, and its tree with them.

    The fields of the question:

    - "record": the round's record
    - "forced": {node: the draw u that the user typed}
    - "ends": ids of the tokens that end a text
    - "texts": {token id: text}
    - "root": id of the last committed token, or null

    The fields of the answer:

    - "emitted": ids of the emitted tokens; the last one is null if the target would add a token
      that the record does not contain
    - "outcomes": the outcome of every node
    - "extra": {"kind", "parent", "prob"} of the token that the target adds, or null; "prob" is null
      if it is unknown
    - "differs": whether any outcome changed
    - "tree", "sentences": the tree's drawing and the debugger's sentences; null if no outcome
      changed
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
    """Return the tree and the sentences of the round with the draws that the user forced.

    The temperature is above 0, because only then can a user of the page change draws.
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
    """Return the record that the round would have with the random draws that the user forced."""
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
    """State in the extra token's hover text that the record does not contain its probability."""
    for node in drawing["layout"]["meta"]["nodes"]:
        if node["node"] == EXTRA:
            node["card"][-1] = "probability unknown: it is not in the record"


def token_texts(value: object) -> dict[int, str]:
    """Return the texts of the round's tokens: {"7": " the"} -> {7: " the"}."""
    is_map = isinstance(value, dict) and len(value) <= MAX_TEXTS
    if not is_map or not all(isinstance(text, str) for text in value.values()):  # type: ignore[attr-defined]
        raise InputError(f"texts must be an object from token id to text, got {short(value)}")
    try:
        return {int(key): text for key, text in value.items()}  # type: ignore[attr-defined]
    except ValueError:
        raise InputError(
            f"texts must be an object from token id to text, got {short(value)}"
        ) from None


def token_id(value: object) -> int | None:
    if value is None or type(value) is int:
        return value
    raise InputError(f"root must be a token id or null, got {short(value)}")


def end_ids(value: object) -> frozenset[int]:
    """Return the ids of the tokens that end a text: [0] -> {0}."""
    if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
        raise InputError(f"'ends' must be a list of token ids, got {short(value)}")
    return frozenset(value)


def forced_draws(value: object) -> dict[int, float]:
    """Return the uniform draws by node: {"3": 0.25} -> {3: 0.25}."""
    if not isinstance(value, dict) or len(value) > MAX_FORCED:
        raise InputError(f"'forced' must be an object from node to draw, got {short(value)}")
    try:
        return {int(node): float(draw) for node, draw in value.items()}
    # Python raises OverflowError for an integer that is too large for a float.
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"'forced' must have only numbers as nodes and draws, got {short(value)}"
        ) from None
