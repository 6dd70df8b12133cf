"""What the page's form says, as a race request; refuses what breaks a rule.

Which fields there are, and how each is read, the table of settings says.
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
    """The fields of a form by name -> a request; raises InputError naming field, rule and value.

    Refused too is a method that does not take its settings, or that the pair cannot do.
    """
    unknown = sorted(set(form) - set(SETTINGS))
    if unknown:
        raise InputError(f"{unknown[0]} is not a setting of a race")
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
    """{"server", "plain_server", "key"}, addresses that may be "" -> the servers to be raced.

    They are no settings: no address, file or command of the page holds them. InputError names the
    field.
    """
    if given is None:
        return ()
    if not isinstance(given, dict) or set(given) != {"server", "plain_server", "key"}:
        raise InputError(f"servers must be server, plain_server and key, got {short(given)}")
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
    """The pair that the form names, or the two sources that it gives."""
    name = _read(form, "pair")
    if name == CUSTOM:
        return custom_pair(*(_read(form, name) for name in ("target", "draft", "eagle", "medusa")))
    return pair_named(name)


def form_method(form: Mapping[str, Any]) -> Method:
    return method_named(_read(form, "method"))


def form_demand(form: Mapping[str, Any]) -> Demand:
    """What decides the memory of the form's race; a setting that breaks a rule does not count."""
    method = form_method(form)
    try:
        config = _config(form, method)
    except InputError:
        config = method.usual(SETTINGS["draft_length"].default)
    prompt = form.get("prompt")
    known = isinstance(prompt, str) and prompt.strip()
    return demand_of(config, _prompt(form) if known else None, form.get("task") or None)


def _read(form: Mapping[str, Any], name: str) -> Any:
    """A field as its setting reads it; one that is left out has its default."""
    setting = SETTINGS[name]
    return setting.read(form[name]) if name in form else setting.default


def _config(form: Mapping[str, Any], method: Method) -> DecodingConfig:
    given = {each.name: _read(form, each.name) for each in DECODING if each.name in form}
    kind = method.kind_named(given.pop("tree_kind", ""), "tree_kind")
    return DecodingConfig(**{**given, "method": method.name, "tree_kind": kind})


def _prompt(form: Mapping[str, Any]) -> Prompt:
    """The form's text, behind its system prompt, or raw."""
    system = _text("system", _read(form, "system"))
    return Framing(system, _read(form, "raw")).of(_text("prompt", form.get("prompt", "")))


def _text(name: str, value: object) -> str:
    """The text as it is; half a surrogate pair, which no tokenizer takes, is refused."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, got {short(value)}")
    lone = next((i for i, char in enumerate(value) if "\ud800" <= char <= "\udfff"), None)
    if lone is not None:
        half = f"half a surrogate pair (U+{ord(value[lone]):04X}) at character {lone}"
        raise InputError(f"{name} must be valid Unicode, got {half}")
    return value


def refusal(pair: Pair, method: Method) -> str | None:
    """Why the pair cannot do the method, as far as that can be told without loading it.

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
    """Method name -> sentence, of all that the pair cannot do."""
    found = {name: refusal(pair, method) for name, method in DRAFTERS.items()}
    return {name: sentence for name, sentence in found.items() if sentence}


def _with_article(title: str) -> str:
    if title.endswith("s"):
        return title
    return f"{'an' if title[0] in 'AEIOU' else 'a'} {title}"
