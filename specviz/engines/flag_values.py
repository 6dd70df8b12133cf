"""The values of flags as words of a command line, as values of a file, and as Python arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from specviz.engines.engine_facts import SPECULATIVE, EngineFacts


def folded(options: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield each flag with its value. Parts of an object (--flag.key) become one flag with a dict.

    The object for speculation comes last.
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        *within, key = name.replace(SPECULATIVE, "--speculative-config.").split(".")
        inner = found
        for each in within:
            if not isinstance(inner.get(each), dict):
                inner[each] = {}
            inner = inner[each]
        inner[key] = value
    speculative = found.pop("--speculative-config", None)
    yield from found.items()
    if speculative:
        yield "--speculative-config", speculative


def words_of_value(value: Any) -> list[str]:
    """Return the words of a command line that follow a flag. A switch has none."""
    if value is True:
        return []
    return list(map(word_of, value)) if isinstance(value, tuple) else [word_of(value)]


def word_of(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)


def literal_value(value: Any) -> Any:
    """Convert a word of a command line, or several words, to the value for a file or for Python."""
    if isinstance(value, tuple):
        return list(map(literal_value, value))
    is_number = isinstance(value, str) and re.fullmatch(r"-?\d{1,400}(\.\d+)?", value)
    return json.loads(value) if is_number else value


def python_arguments(facts: EngineFacts, options: Mapping[str, Any], indent: str) -> str:
    """Return the flags as keyword arguments, one per line."""
    named = {
        name.lstrip("-").replace("-", "_"): _argument(facts, name, value)
        for name, value in folded(options)
        if name not in facts.server
    }
    return "".join(f"{indent}{name}={value!r},\n" for name, value in named.items())


def _argument(facts: EngineFacts, name: str, value: Any) -> Any:
    """Convert the JSON text of an object to the object. Only a shell needs the text."""
    try:
        return json.loads(value) if name in facts.objects else literal_value(value)
    except (TypeError, ValueError):
        # Keep a value that is not JSON text. The engine may have a format of its own for it.
        return value
