"""A fork as the page asks for it: which run, where to leave it, what to change.

Trusts nothing; refuses what breaks a rule in one sentence. Knows nothing of Gradio.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError
from specviz.experiments.run.forking import ForkRequest
from specviz.records import DecodingConfig
from specviz.trace_file.fields import short
from specviz.ui.counterfactuals import forced_draws
from specviz.ui.opening import asked_trace
from specviz.ui.settings_form import form_pair

CHANGES = ("method", "draft_length", "temperature")


def fork_request(question: Mapping[str, Any]) -> ForkRequest:
    """{"data" or "golden": the run, "round", "forced", "changes", "form": models and device}."""
    parent, index = asked_trace(dict(question)), _round(question.get("round"))
    form = question.get("form") or {}
    return ForkRequest(
        parent=parent,
        round_index=index,
        pair=form_pair(form),
        config=_changed(parent.config_of(index), question.get("changes") or {}),
        forced=tuple(forced_draws(question.get("forced") or {}).items()),
        device=str(form.get("device", "auto")),
        dtype=str(form.get("dtype", "float32")),
    )


def _round(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"round must be a whole number, got {short(value)}")
    return value


def _changed(config: DecodingConfig, changes: Mapping[str, Any]) -> DecodingConfig:
    """What is left empty stays as it was; another method has its own usual tree and options."""
    unknown = sorted(set(changes) - set(CHANGES))
    if unknown:
        raise InputError(f"{unknown[0]} cannot be changed by a fork")
    given = {name: text for name, text in changes.items() if str(text).strip()}
    changed: dict[str, Any] = {}
    if "draft_length" in given:
        changed["draft_length"] = _number(given, "draft_length", int)
        changed["branching"] = config.branching[: changed["draft_length"]]
    if "temperature" in given:
        changed["temperature"] = _number(given, "temperature", float)
    if given.get("method", config.method) != config.method:
        changed |= _usual(method_named(str(given["method"])))
    made = replace(config, **changed)
    method_named(made.method).check(made)
    return made


def _usual(method: Method) -> dict[str, Any]:
    return {"method": method.name, "tree_kind": method.kinds[0], "branching": (), "options": ()}


def _number(given: Mapping[str, Any], name: str, kind: type[int] | type[float]) -> float:
    try:
        return kind(given[name])
    except (TypeError, ValueError, OverflowError):
        rule = "a whole number" if kind is int else "a number"
        raise InputError(f"{name} must be {rule}, got {short(given[name])}") from None
