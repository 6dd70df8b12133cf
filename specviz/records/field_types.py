"""Types of record fields that carry their bounds and precision; `trace_file` reads them.

`Annotated[float, FloatRange(0, 1, digits=6)]` is a plain float for everybody else. A bare `int` or
`float` field is at least 0, a bare `str` has at most MAX_TEXT characters and a bare tuple at most
MAX_ITEMS items.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

MAX_INTEGER = 2**53 - 1  # the largest integer that JSON readers hold exactly
MAX_NUMBER = 1e300  # beyond it lies infinity
MAX_TEXT = 200
MAX_ITEMS = 64
MAX_PROMPT = 1 << 20  # characters or tokens of a text


@dataclass(frozen=True, slots=True)
class FloatRange:
    """Bounds of a number, and what a file keeps of it: significant digits or decimals, else all."""

    low: float = 0.0
    high: float = math.inf
    digits: int | None = None
    decimals: int | None = None


@dataclass(frozen=True, slots=True)
class IntRange:
    """Bounds of an integer."""

    low: int = 0
    high: int = MAX_INTEGER


@dataclass(frozen=True, slots=True)
class Most:
    """The most characters of a text, or items of a tuple."""

    count: int


@dataclass(frozen=True, slots=True)
class Plain:
    """A text of letters, digits, spaces and . : + - _ only, with at most `count` characters."""

    count: int


@dataclass(frozen=True, slots=True)
class Columns:
    """A tuple of at most `count` records that is written as one array per field."""

    count: int


Probability = Annotated[float, FloatRange(0, 1, digits=6)]
Seconds = Annotated[float, FloatRange(decimals=9)]
SixDigits = Annotated[float, FloatRange(digits=6)]
Score = Annotated[float, FloatRange(low=-MAX_NUMBER, digits=6)]
TopIds = Annotated[tuple[int, ...], Most(256)]
TopProbs = Annotated[tuple[Probability, ...], Most(256)]
Name = Annotated[str, Plain(40)]
LongText = Annotated[str, Most(MAX_PROMPT)]
