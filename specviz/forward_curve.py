"""How long a forward takes over its number of tokens: measured points, straight lines between.

Used by the roofline's closed forms, the trees that choose their size, and the limit of a batch.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

from specviz.errors import InputError


@dataclass(frozen=True, slots=True)
class ForwardCurve:
    """Seconds of one forward over so many new tokens, of all rows together.

    Counts rise and begin with 1; seconds are positive and do not fall. Between the counts, and
    beyond the last by its slope, the curve is taken as straight.
    """

    token_counts: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        counts, seconds = self.token_counts, self.seconds
        if len(counts) < 2 or len(counts) != len(seconds):
            raise InputError(
                "token_counts and seconds must be two or more each and as many,"
                f" got {len(counts)} and {len(seconds)}"
            )
        if counts[0] != 1 or any(low >= high for low, high in pairwise(counts)):
            raise InputError(f"token_counts must rise from 1, got {counts}")
        is_positive = all(math.isfinite(each) and each > 0 for each in seconds)
        if not is_positive or any(low > high for low, high in pairwise(seconds)):
            raise InputError(f"seconds must be positive and must not fall, got {seconds}")

    def at(self, count: float) -> float:
        """Seconds for `count` (>= 1) tokens.

        >>> ForwardCurve((1, 4, 8), (2.0, 2.0, 4.0)).at(6)
        3.0
        """
        if not count >= 1:
            raise InputError(f"count must be at least 1, got {count}")
        right = min(max(1, bisect_left(self.token_counts, count)), len(self.token_counts) - 1)
        low, high = self.token_counts[right - 1 : right + 1]
        before, after = self.seconds[right - 1 : right + 1]
        return before + (after - before) * (count - low) / (high - low)
