"""The table of the bug zoo, read from specimens.toml: facts about each wrong rule."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from specviz.errors import InputError, short

RIGHT = "right"  # name of the decoder's own rule
_FILE = Path(__file__).with_name("specimens.toml")


@dataclass(frozen=True, slots=True)
class Specimen:
    """One rule of the zoo; specimens.toml explains the fields."""

    name: str
    title: str
    wrong: str
    tell: str
    seen: str
    is_exact: bool = False
    siblings: int = 1
    top_k: int = 0
    text: str = ""


@cache
def specimens() -> dict[str, Specimen]:
    """Return all rules of the zoo, including the right ones that only look wrong."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {name: Specimen(name, **fields) for name, fields in table.items()}


def specimen_named(name: str) -> Specimen:
    """Return the rule of the zoo with this name. Raises InputError if there is none."""
    found = specimens().get(name)
    if found is None:
        names = ", ".join((RIGHT, *specimens()))
        raise InputError(f"rule must be one of {names}, got {short(name)}")
    return found
