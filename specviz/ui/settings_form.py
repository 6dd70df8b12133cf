"""Convert the page's form to a race request; refuse a value that breaks a rule.

The table of settings defines the fields of the form and how each of them is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import DRAFTERS, method_named
from specviz.errors import InputError, short
from specviz.experiments.run.engine_lane import RacedServer
from specviz.experiments.run.racing import RaceRequest, demand_of
from specviz.models.memory_estimate import Demand
from specviz.models.pair_catalog import Pair, custom_pair, pair_named
from specviz.models.pair_check import needs_missing
from specviz.models.parts import Need
from specviz.prompts import Framing
from specviz.records import DECODING, PLAIN_SERVER, SERVER, SETTINGS, DecodingConfig, Prompt
from specviz.serving.engine_permission import permitted

CUSTOM = "custom"


def race_request(form: Mapping[str, Any]) -> RaceRequest:
    """Return the race request for a form: name of a setting -> value.

    Raises InputError that names the field, the rule and the value. Also raises InputError if the
    method rejects its settings or cannot run on the pair.
    """
    unknown = sorted(set(form) - set(SETTINGS))
    if unknown:
        raise InputError(
            "form must have only settings of a race (docs/reference/settings.md lists them), "
            f"got {short(unknown[0])}"
        )
    method = form_method(form)
    request = RaceRequest(
        pair=form_pair(form),
        prompt=_prompt(form),
        task=form.get("task") or None,
        config=_config(form, method),
        device=_read(form, "device"),
        dtype=_read(form, "dtype"),
    )
    method.check(request.config)
    if sentence := refusal(request.pair, method):
        raise InputError(f"method {sentence}")
    return request


def raced_servers(given: object) -> tuple[RacedServer, ...]:
    """Return the servers to race from {"server", "plain_server", "key"}; an address may be "".

    The addresses and the key are no settings, so no link, file or command of the page stores them.
    Raises InputError that names the field.
    """
    if given is None:
        return ()
    if not isinstance(given, dict) or set(given) != {"server", "plain_server", "key"}:
        raise InputError(
            f"servers must be an object with 'server', 'plain_server' and 'key', got {short(given)}"
        )
    servers = []
    for name, lane in (("server", SERVER), ("plain_server", PLAIN_SERVER)):
        if given[name] == "":
            continue
        try:
            servers.append(RacedServer(lane, permitted(given[name], given["key"])))
        except InputError as error:
            raise InputError(re.sub("^url", name, str(error))) from None
    return tuple(servers)


def form_pair(form: Mapping[str, Any]) -> Pair:
    """Return the pair that the form names.

    If the form gives sources instead, return a pair of them.
    """
    name = _read(form, "pair")
    if name == CUSTOM:
        return custom_pair(*(_read(form, name) for name in ("target", "draft", "eagle", "medusa")))
    return pair_named(name)


def form_method(form: Mapping[str, Any]) -> Method:
    return method_named(_read(form, "method"))


def form_demand(form: Mapping[str, Any]) -> Demand:
    """Return the settings of the form's race that decide how much memory it needs.

    If a setting is invalid, the method's defaults replace all settings.
    """
    method = form_method(form)
    try:
        config = _config(form, method)
    except InputError:
        config = method.usual(SETTINGS["draft_length"].default)
    prompt = form.get("prompt")
    known = isinstance(prompt, str) and prompt.strip()
    return demand_of(config, _prompt(form) if known else None, form.get("task") or None)


def _read(form: Mapping[str, Any], name: str) -> Any:
    """Read a field by the rules of its setting; a missing field has the default value."""
    setting = SETTINGS[name]
    return setting.read(form[name]) if name in form else setting.default


def _config(form: Mapping[str, Any], method: Method) -> DecodingConfig:
    given = {each.name: _read(form, each.name) for each in DECODING if each.name in form}
    drawing = method.drawing_named(given.pop("drawing", ""))
    return DecodingConfig(**{**given, "method": method.name, "drawing": drawing})


def _prompt(form: Mapping[str, Any]) -> Prompt:
    system = _text("system", _read(form, "system"))
    return Framing(system, _read(form, "raw")).of(_text("prompt", form.get("prompt", "")))


def _text(name: str, value: object) -> str:
    """Return the text. Raises InputError for half a surrogate pair, which no tokenizer accepts."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, got {short(value)}")
    lone = next((i for i, char in enumerate(value) if "\ud800" <= char <= "\udfff"), None)
    if lone is not None:
        half = f"half a surrogate pair (U+{ord(value[lone]):04X}) at character {lone}"
        raise InputError(f"{name} must be valid Unicode, got {half}")
    return value


def refusal(pair: Pair, method: Method) -> str | None:
    """Return why the pair cannot run the method, as far as this is known without loading it.

    >>> refusal(Pair("own", "of my own", "target", draft=""), method_named("draft-model"))
    'needs a draft model; the pair of my own has none'
    """
    missing = needs_missing(pair, method.needs)
    things = [_with_article(need.title) for need in missing if need is not Need.LAYERS]
    clauses = [f"needs {' and '.join(things)}; the pair {pair.title} has none"] if things else []
    if Need.LAYERS in missing:
        architecture = pair.model_type or pair.target
        clauses.append(f"needs a target of the Llama family; {architecture} is not")
    return ", and ".join(clauses) or None


def refusals(pair: Pair) -> dict[str, str]:
    """Return the methods that the pair cannot run: method name -> a sentence with the reason."""
    found = {name: refusal(pair, method) for name, method in DRAFTERS.items()}
    return {name: sentence for name, sentence in found.items() if sentence}


def _with_article(title: str) -> str:
    if title.endswith("s"):
        return title
    return f"{'an' if title[0] in 'AEIOU' else 'a'} {title}"
