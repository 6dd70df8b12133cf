"""The bug zoo's table, from specimens.toml: wrong rules of verification, what is known of each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from specviz.errors import InputError, short

RIGHT = "right"  # the name of the rule that the decoder has
_FILE = Path(__file__).with_name("specimens.toml")


@dataclass(frozen=True, slots=True)
class Specimen:
    """One rule; the fields are explained in specimens.toml."""

    name: str
    title: str
    wrong: str
    tell: str
    seen: str
    is_exact: bool = False
    siblings: int = 1
    top_k: int = 0


@cache
def specimens() -> dict[str, Specimen]:
    """All of them by name, decoys included."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {name: Specimen(name, **fields) for name, fields in table.items()}


def specimen_named(name: str) -> Specimen:
    """InputError for a name that there is not."""
    found = specimens().get(name)
    if found is None:
        names = ", ".join((RIGHT, *specimens()))
        raise InputError(f"rule must be one of {names}, got {short(name)}")
    return found
