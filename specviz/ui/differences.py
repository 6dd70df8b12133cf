"""Where two runs first differ, as the page asks and reads it. Knows nothing of Gradio."""

from __future__ import annotations

from typing import Any

from specviz.errors import InputError
from specviz.trace_diff import difference, shared_texts
from specviz.trace_diff.sentence import sentence
from specviz.ui.opening import asked_trace

NAMES = ("this run", "the other")


def told_difference(question: dict[str, Any]) -> dict[str, Any]:
    """{"a": a run, "b": another} -> {"sentence", "index": of the first other token, or null}."""
    a, b = (asked_trace(_run(question.get(name))) for name in ("a", "b"))
    found = difference(a, b)
    index = None if found is None else found.index
    return {"sentence": sentence(found, shared_texts(a, b), NAMES), "index": index}


def _run(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError("a and b must be runs, got something else")
    return value
