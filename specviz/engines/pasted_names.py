"""A sentence about a deployment in the names of the text that it was read from."""

from __future__ import annotations

import re
from collections.abc import Mapping

from specviz.engines.dialects import DEPLOYMENT_FIELDS
from specviz.engines.engine_facts import EngineFacts
from specviz.engines.model_deployment import EngineMethod


def in_names_of(text: str, typed: Mapping[str, str], facts: EngineFacts) -> str:
    """`typed` is field -> the flag that gave it; methods are called as the engine calls them."""
    fields = {name.replace("_", "-"): name for name in DEPLOYMENT_FIELDS}
    methods = {each.value: served.name for each, served in facts.methods.items()}

    def named(match: re.Match[str]) -> str:
        word = match[0]
        return methods.get(word, word) if word in _METHODS else typed.get(fields[word], word)

    # a field of one word is English elsewhere than at the beginning of a rule
    begin = rf"^(?:{'|'.join(fields)})(?= must| has)"
    inside = "|".join(name for name in (*fields, *_METHODS) if "-" in name)
    pattern = rf"{begin}|(?<=method )(?:{'|'.join(_METHODS)})\b|(?<![\w-])(?:{inside})(?![\w-])"
    return re.sub(pattern, named, text)


_METHODS = tuple(each.value for each in EngineMethod)
