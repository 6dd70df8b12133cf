"""The context length of a model: how many tokens it can run with unambiguous results.

With two kinds of rotary positions, the last position of a forward pass changes the angles of all
positions. LongRoPE changes its factors when a text becomes longer than its original length. Dynamic
NTK changes its base beyond the configured length. But keys that are already cached keep their old
angles. A draft tree that crosses such a length would use other angles than decoding token by token,
so no method could be exact. Up to that length, the angles depend on the position alone, as in any
other model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from specviz.errors import InputError, is_whole, short

DEFAULT_CONTEXT = 2048  # context length that is used if config.json contains none


@dataclass(frozen=True, slots=True)
class Context:
    """The largest number of prompt and output tokens together.

    If that number is below the configured length, `reason` explains why; otherwise it is empty.
    """

    length: int
    reason: str = ""


def context_of(name: str, config: Any) -> Context:
    """Return the `Context` that a transformers configuration allows.

    Raises InputError if a length at which the rotary angles change is not a whole number >= 1.
    """
    configured = configured_length(config) or DEFAULT_CONTEXT
    lengths = list(_lengths_of_long_rope(name, config))
    if not lengths or min(lengths) >= configured:
        return Context(configured)
    return Context(
        min(lengths),
        f"beyond {min(lengths):,} tokens LongRoPE changes the angles of all positions, and a text "
        "would depend on how many tokens are verified at once",
    )


def context_of_folder(source: str) -> int | None:
    """Return the context length of a model in a folder, or None if there is no readable config."""
    try:
        content = json.loads((Path(source) / "config.json").read_text(encoding="utf-8"))
        return context_of(source, SimpleNamespace(**content)).length
    except (OSError, ValueError, TypeError):
        return None


def configured_length(config: Any) -> Any:
    """Return the maximum length in a configuration, unchecked, or None if there is none.

    The class for XLNet has a property that always returns -1. That value does not come from a file,
    so it is ignored.
    """
    if isinstance(getattr(type(config), _LENGTH, None), property):
        return None
    return getattr(config, _LENGTH, None)


def rope_kinds(config: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the parameters of rotary positions in a configuration, a mapping per kind of layer."""
    found = getattr(config, "rope_parameters", None)
    if not isinstance(found, Mapping):
        return
    nested = [each for each in found.values() if isinstance(each, Mapping)]
    yield from nested or [found]


def _lengths_of_long_rope(name: str, config: Any) -> Iterator[int]:
    for each in rope_kinds(config):
        if each.get("rope_type") != "longrope":
            continue
        length = each.get(_ORIGINAL) or getattr(config, _ORIGINAL, None)
        if length is None:
            # transformers then uses the maximum length, which is a limit anyway.
            continue
        if not is_whole(length) or length < 1:
            raise InputError(f"model {name!r} must have {_ORIGINAL} >= 1, got {short(length)}")
        yield length


_LENGTH = "max_position_embeddings"
_ORIGINAL = "original_max_position_embeddings"
