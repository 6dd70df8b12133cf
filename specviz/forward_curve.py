"""The time of a forward for each number of tokens: measured points, joined by straight lines.

This curve serves the roofline formulas, draft trees that choose their size, and the choice of the
batch size above which drafting stops.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

from specviz.errors import InputError


@dataclass(frozen=True, slots=True)
class ForwardCurve:
    """The seconds of one forward as a function of the number of its new tokens.

    If the forward runs several sequences, this number counts the new tokens of all of them.

    `token_counts` starts at 1 and rises. `seconds` are positive and never fall. Between two points
    the curve is a straight line, and beyond the last point it continues with the same slope.
    """

    token_counts: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        counts, seconds = self.token_counts, self.seconds
        if len(counts) < 2 or len(counts) != len(seconds):
            raise InputError(
                "token_counts and seconds must have the same length, at least two,"
                f" got {len(counts)} and {len(seconds)}"
            )
        if counts[0] != 1 or any(low >= high for low, high in pairwise(counts)):
            raise InputError(f"token_counts must rise from 1, got {counts}")
        is_positive = all(math.isfinite(each) and each > 0 for each in seconds)
        if not is_positive or any(low > high for low, high in pairwise(seconds)):
            raise InputError(f"seconds must be positive and must not fall, got {seconds}")

    def at(self, count: float) -> float:
        """Return the seconds of a forward over `count` (>= 1) tokens.

        >>> ForwardCurve((1, 4, 8), (2.0, 2.0, 4.0)).at(6)
        3.0
        """
        if not count >= 1:
            raise InputError(f"count must be at least 1, got {count}")
        right = min(max(1, bisect_left(self.token_counts, count)), len(self.token_counts) - 1)
        low, high = self.token_counts[right - 1 : right + 1]
        before, after = self.seconds[right - 1 : right + 1]
        return before + (after - before) * (count - low) / (high - low)
