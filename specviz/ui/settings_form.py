"""What the page's form says, as a race request; refuses what breaks a rule.

Knows the names of the form's fields, nothing of models or Gradio. Bounds live in `records`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError
from specviz.experiments.run.racing import RaceRequest
from specviz.models.pair_catalog import BUNDLED, Pair, custom_pair, pair_named
from specviz.records import DecodingConfig
from specviz.trace_file.fields import short
from specviz.typed_settings import parse_integers, parse_kind
from specviz.ui.method_offer import refusal

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
    "options",
    "temperature",
    "top_k",
    "top_p",
    "seed",
    "max_new_tokens",
    "device",
    "dtype",
)


def race_request(form: Mapping[str, Any]) -> RaceRequest:
    """Every field of FIELDS -> a request; raises InputError naming field, rule and value.

    Refused too is a method that does not take its settings, or that the pair cannot do.
    """
    unknown = sorted(set(form) - set(FIELDS))
    if unknown:
        raise InputError(f"{unknown[0]} is not a setting of a race")
    method = form_method(form)
    request = RaceRequest(
        pair=form_pair(form),
        prompt=_prompt(form.get("prompt", "")),
        task=form.get("task") or None,
        config=_config(form, method),
        device=_text(form, "device", "auto"),
        dtype=_text(form, "dtype", "float32"),
    )
    method.check(request.config)
    if sentence := refusal(request.pair, method):
        raise InputError(f"method {sentence}")
    return request


def form_pair(form: Mapping[str, Any]) -> Pair:
    """The pair that the form names, or the two sources that it gives."""
    name = _text(form, "pair", BUNDLED)
    if name == CUSTOM:
        return custom_pair(_text(form, "target", ""), _text(form, "draft", ""))
    return pair_named(name)


def form_method(form: Mapping[str, Any]) -> Method:
    return method_named(_text(form, "method", DecodingConfig().method))


def _config(form: Mapping[str, Any], method: Method) -> DecodingConfig:
    default = DecodingConfig()
    return DecodingConfig(
        method=method.name,
        draft_length=_integer(form, "draft_length", default.draft_length),
        branching=parse_integers("branching", _text(form, "branching", "")),
        tree_kind=parse_kind("tree_kind", _text(form, "tree_kind", ""), method.kinds),
        temperature=_number(form, "temperature", default.temperature),
        top_k=_integer(form, "top_k", default.top_k),
        top_p=_number(form, "top_p", default.top_p),
        seed=_integer(form, "seed", default.seed),
        max_new_tokens=_integer(form, "max_new_tokens", default.max_new_tokens),
        options=_options(form.get("options", {})),
    )


def _options(given: object) -> tuple[tuple[str, int], ...]:
    """{"nodes": "16"} -> (("nodes", 16),); which names there are the method says."""
    if not isinstance(given, Mapping):
        raise InputError(f"options must be values by name, got {short(given)}")
    return tuple((str(name), _integer(given, name, 0)) for name in given)


def _text(form: Mapping[str, Any], name: str, default: str) -> str:
    value = form.get(name, default)
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, got {short(value)}")
    return value.strip()


def _number(form: Mapping[str, Any], name: str, default: float) -> float:
    """A field as typed: numbers arrive as text, so that '', 'abc' and '1e999' can be named."""
    value = form.get(name, default)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number, got {short(value)}") from None


def _integer(form: Mapping[str, Any], name: str, default: int) -> int:
    value = form.get(name, default)
    try:
        return int(str(value))
    except ValueError:
        raise InputError(f"{name} must be a whole number, got {short(value)}") from None


def _prompt(value: object) -> str:
    """The text as it is; half a surrogate pair, which no tokenizer takes, is refused."""
    if not isinstance(value, str):
        raise InputError(f"prompt must be text, got {short(value)}")
    lone = next((i for i, char in enumerate(value) if "\ud800" <= char <= "\udfff"), None)
    if lone is not None:
        half = f"half a surrogate pair (U+{ord(value[lone]):04X}) at character {lone}"
        raise InputError(f"prompt must be valid Unicode, got {half}")
    return value
