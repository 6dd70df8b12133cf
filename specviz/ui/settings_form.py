"""What the page's form says, as a race request; refuses what breaks a rule.

Knows the names of the form's fields, nothing of models or Gradio. Bounds live in `records`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.errors import InputError
from specviz.experiments.racing import RaceRequest
from specviz.models.catalog import BUNDLED, Pair, custom_pair, pair_named
from specviz.records import DecodingConfig, ProposalKind

CUSTOM = "custom"
FIELDS = (
    "task",
    "prompt",
    "pair",
    "target",
    "draft",
    "method",
    "draft_length",
    "branching",
    "tree_kind",
    "temperature",
    "top_k",
    "top_p",
    "seed",
    "max_new_tokens",
    "device",
    "dtype",
)


def race_request(form: Mapping[str, Any]) -> RaceRequest:
    """Every field of FIELDS -> a request; raises InputError naming field, rule and value."""
    unknown = sorted(set(form) - set(FIELDS))
    if unknown:
        raise InputError(f"{unknown[0]} is not a setting of a race")
    return RaceRequest(
        pair=_pair(form),
        prompt=_prompt(form.get("prompt", "")),
        task=form.get("task") or None,
        config=_config(form),
        device=_text(form, "device", "auto"),
        dtype=_text(form, "dtype", "float32"),
    )


def _pair(form: Mapping[str, Any]) -> Pair:
    name = _text(form, "pair", BUNDLED)
    if name == CUSTOM:
        return custom_pair(_text(form, "target", ""), _text(form, "draft", ""))
    return pair_named(name)


def _config(form: Mapping[str, Any]) -> DecodingConfig:
    default = DecodingConfig()
    return DecodingConfig(
        method=_text(form, "method", default.method),
        draft_length=_integer(form, "draft_length", default.draft_length),
        branching=_branching(_text(form, "branching", "")),
        tree_kind=_kind(_text(form, "tree_kind", default.tree_kind.value)),
        temperature=_number(form, "temperature", default.temperature),
        top_k=_integer(form, "top_k", default.top_k),
        top_p=_number(form, "top_p", default.top_p),
        seed=_integer(form, "seed", default.seed),
        max_new_tokens=_integer(form, "max_new_tokens", default.max_new_tokens),
    )


def _text(form: Mapping[str, Any], name: str, default: str) -> str:
    value = form.get(name, default)
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, got {value!r}")
    return value.strip()


def _number(form: Mapping[str, Any], name: str, default: float) -> float:
    """A field as typed: numbers arrive as text, so that '', 'abc' and '1e999' can be named."""
    value = form.get(name, default)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number, got {value!r}") from None


def _integer(form: Mapping[str, Any], name: str, default: int) -> int:
    value = form.get(name, default)
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a whole number, got {value!r}") from None


def _branching(text: str) -> tuple[int, ...]:
    """'3, 2' -> (3, 2); '' -> ()."""
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        rule = "whole numbers with commas between, such as 3,2"
        raise InputError(f"branching must be {rule}, got {text!r}") from None


def _kind(name: str) -> ProposalKind:
    try:
        return ProposalKind(name)
    except ValueError:
        kinds = ", ".join(kind.value for kind in ProposalKind)
        raise InputError(f"tree_kind must be one of {kinds}, got {name!r}") from None


def _prompt(value: object) -> str:
    """The text as it is; half a surrogate pair, which no tokenizer takes, is refused."""
    if not isinstance(value, str):
        raise InputError(f"prompt must be text, got {value!r}")
    lone = next((i for i, char in enumerate(value) if "\ud800" <= char <= "\udfff"), None)
    if lone is not None:
        half = f"half a surrogate pair (U+{ord(value[lone]):04X}) at character {lone}"
        raise InputError(f"prompt must be valid Unicode, got {half}")
    return value
