"""What a term of the glossary is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """`key` is the name in code, `title` the one on screen; `formula` may be empty."""

    key: str
    title: str
    definition: str
    formula: str = ""
