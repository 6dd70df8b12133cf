"""Upper limits for the numbers in a model's config.json, checked before anything is built.

A config.json may come from an untrusted author. transformers builds lists and modules with the
sizes in it, so a billion layers would use up all memory. Each limit is several times the value of
the largest published model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specviz.errors import InputError, short

MAX_CONFIG_BYTES = 10_000_000
# Largest number of values in a configuration. transformers needs 20 seconds to read ten times as
# many.
MAX_CONFIG_VALUES = 20_000
# Each pattern matches the ends of the names of similar fields, in config.json and in GGUF headers.
# `_LIMITS` has the largest value of such fields.
_LAYERS = re.compile(r"(layers?|block_count)$")
_EXPERTS = re.compile(r"experts?(_count)?$")
_HEADS = re.compile(r"(heads?|head_count(_kv)?)$")
_WIDTHS = re.compile(r"(_size|_dim|_rank|n_embd|n_inner|d_model|embedding_length|forward_length)$")
_LIMITS = ((_LAYERS, 512), (_EXPERTS, 4096), (_HEADS, 4096), (_WIDTHS, 2**24))
_MOST = 10**12  # limit for all other numbers, such as lengths, token ids and bases of rotary angles
_MOST_MODULES = 2**16  # limit for the number of layers times the number of experts


def read_config_file(source: str, file: Path) -> dict[str, Any]:
    """Read a model's config.json, after checks of its size and its numbers.

    Raises InputError if the file is missing, unreadable or beyond a limit.
    """
    try:
        # A pipe would make the reader wait forever, so refuse it.
        if file.exists() and not file.is_file():
            raise InputError(f"model {source!r} must have a config.json that can be read")
        check_config_bytes(source, file.stat().st_size)
        return bounded_config(source, file.read_bytes())
    except FileNotFoundError:
        raise InputError(f"model {source!r} has no config.json: it is not a model folder") from None
    except OSError:
        raise InputError(f"model {source!r} must have a config.json that can be read") from None


def check_config_bytes(source: str, size: int) -> None:
    if size > MAX_CONFIG_BYTES:
        raise InputError(
            f"model {source!r} must have a config.json of at most {MAX_CONFIG_BYTES} bytes, "
            f"got {size}"
        )


def bounded_config(source: str, text: str | bytes) -> dict[str, Any]:
    """Parse the text of a config.json and check its numbers.

    Raises InputError if the text is not a JSON object, or if a number is beyond its limit.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError(f"model {source!r} has a broken config.json: it is not a JSON object")
    check_numbers(source, content)
    return content


def check_numbers(source: str, content: Mapping[str, Any]) -> None:
    """Raise InputError if the configuration has too many values or a number beyond its limit."""
    layers = experts = 1
    count = _count(content)
    if count > MAX_CONFIG_VALUES:
        raise InputError(
            f"model {source!r} must have a config.json of at most {MAX_CONFIG_VALUES} values, "
            f"got {count}"
        )
    for name, value in _integers(content):
        limit = next((most for pattern, most in _LIMITS if pattern.search(name)), _MOST)
        if abs(value) > limit:
            raise InputError(
                f"model {source!r} must have {name[:60]} of at most {limit}, got {short(value)}"
            )
        layers = max(layers, value) if _LAYERS.search(name) else layers
        experts = max(experts, value) if _EXPERTS.search(name) else experts
    if layers * experts > _MOST_MODULES:
        raise InputError(
            f"model {source!r} must have at most {_MOST_MODULES} experts in all layers, "
            f"got {layers * experts}"
        )


def _count(content: Mapping[str, Any]) -> int:
    left: list[Any] = [content]
    count = 0
    while left:
        each = left.pop()
        inner: Any = each.values() if isinstance(each, Mapping) else each
        count += len(inner)
        left.extend(value for value in inner if isinstance(value, Mapping | list))
    return count


def _integers(content: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield every whole number in a configuration, with the name of the field that contains it."""
    left: list[tuple[str, Any]] = list(content.items())
    while left:
        name, value = left.pop()
        if isinstance(value, Mapping):
            left.extend((str(key), each) for key, each in value.items())
        elif isinstance(value, list):
            left.extend((name, each) for each in value)
        elif isinstance(value, float) and value.is_integer():
            yield name, int(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            yield name, value
