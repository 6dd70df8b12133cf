"""Types of record fields that include their bounds and their precision in files.

The package `trace_file` reads them. For all other code, `Annotated[float, FloatRange(0, 1,
digits=6)]` is a plain float. A bare `int` or `float` field is at least 0, a bare `str` has at most
MAX_TEXT characters, and a bare tuple has at most MAX_ITEMS items.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

MAX_INTEGER = 2**53 - 1  # the largest integer that JSON readers represent exactly
# largest float that a file may contain; calculations with larger floats could overflow
MAX_NUMBER = 1e300
MAX_TEXT = 200
MAX_ITEMS = 64
MAX_PROMPT = 1 << 20  # largest number of characters or tokens of a prompt


@dataclass(frozen=True, slots=True)
class FloatRange:
    """The bounds of a number, and the significant digits or decimals that a file keeps.

    If `digits` and `decimals` are both None, a file keeps the number without rounding.
    """

    low: float = 0.0
    high: float = math.inf
    digits: int | None = None
    decimals: int | None = None


@dataclass(frozen=True, slots=True)
class IntRange:
    """The lowest and the highest allowed value of an integer."""

    low: int = 0
    high: int = MAX_INTEGER


@dataclass(frozen=True, slots=True)
class Most:
    """The largest number of characters that a text may have, or of items that a tuple may have."""

    count: int


@dataclass(frozen=True, slots=True)
class Plain:
    """A text of at most `count` characters: letters, digits, spaces and . : + - _ only."""

    count: int


@dataclass(frozen=True, slots=True)
class Columns:
    """A tuple of at most `count` records, which a file stores as one array per field."""

    count: int


Probability = Annotated[float, FloatRange(0, 1, digits=6)]
Seconds = Annotated[float, FloatRange(decimals=9)]
SixDigits = Annotated[float, FloatRange(digits=6)]
Score = Annotated[float, FloatRange(low=-MAX_NUMBER, digits=6)]
TopIds = Annotated[tuple[int, ...], Most(256)]
TopProbs = Annotated[tuple[Probability, ...], Most(256)]
Name = Annotated[str, Plain(40)]
LongText = Annotated[str, Most(MAX_PROMPT)]
