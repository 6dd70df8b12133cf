"""How large the numbers of a model's configuration may be, before anything is built of them.

A configuration comes from anywhere, and what reads it makes lists and modules by its numbers: a
claim of a billion layers would take all memory. Each limit is some times that of the largest model
that is published.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specviz.errors import InputError, short

MAX_CONFIG_BYTES = 10_000_000
# of how a name ends, in configurations and in GGUF headers
_LAYERS = re.compile(r"(layers?|block_count)$")
_EXPERTS = re.compile(r"experts?(_count)?$")
_HEADS = re.compile(r"(heads?|head_count(_kv)?)$")
_WIDTHS = re.compile(r"(_size|_dim|_rank|n_embd|n_inner|d_model|embedding_length|forward_length)$")
_LIMITS = ((_LAYERS, 512), (_EXPERTS, 4096), (_HEADS, 4096), (_WIDTHS, 2**24))
_MOST = 10**12  # of any other: lengths, ids, bases of angles
_MOST_MODULES = 2**16  # layers times experts


def read_config_file(source: str, file: Path) -> dict[str, Any]:
    """What a model's config.json holds, its size and numbers bounded; InputError for another."""
    try:
        check_config_bytes(source, file.stat().st_size)
        return bounded_config(source, file.read_bytes())
    except FileNotFoundError:
        raise InputError(f"model {source!r} has no config.json: it is no model folder") from None
    except OSError:
        raise InputError(f"model {source!r} must have a config.json that can be read") from None


def check_config_bytes(source: str, size: int) -> None:
    if size > MAX_CONFIG_BYTES:
        raise InputError(
            f"model {source!r} must have a config.json of at most {MAX_CONFIG_BYTES} bytes, "
            f"got {size}"
        )


def bounded_config(source: str, text: str | bytes) -> dict[str, Any]:
    """The object that a config.json is, its numbers bounded; InputError for any other text."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError(f"model {source!r} has a broken config.json: it is no JSON object")
    check_numbers(source, content)
    return content


def check_numbers(source: str, content: Mapping[str, Any]) -> None:
    """Raise InputError for a number that no model has, however deep it stands."""
    layers = experts = 1
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


def _integers(content: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Every whole number with the name of its field; one in a list has the list's name."""
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
