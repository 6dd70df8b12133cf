"""What a round would have been with another draw, as the page asks and reads it.

Trusts nothing: a record that no run can have left is refused with one sentence.
"""

from __future__ import annotations

from typing import Any

from specviz.errors import InputError
from specviz.trace_file import decode_round
from specviz.what_if import counterfactual

MAX_FORCED = 64


def told_counterfactual(question: dict[str, Any]) -> dict[str, Any]:
    """{"record": of a round, "forced": {node: u}, "ends": ids} -> what the walk then accepts.

    {"emitted": ids, the last one null where the target's token is not recorded, "outcomes": …,
    "extra": its kind or null, "differs": whether anything fared otherwise}
    """
    round_ = decode_round(question.get("record"))
    ends = end_ids(question.get("ends"))
    found = counterfactual(round_, forced_draws(question.get("forced")), ends)
    is_unknown = found.extra_kind is not None and found.extra_id is None
    return {
        "emitted": [*found.emitted_ids, *([None] if is_unknown else [])],
        "outcomes": [outcome.value for outcome in found.outcomes],
        "extra": found.extra_kind.value if found.extra_kind else None,
        "differs": found.differs,
    }


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
