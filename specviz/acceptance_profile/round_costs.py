"""What a round of each kind costs: the median time of the rounds that drafted as many levels.

Pure; knows seconds and numbers of levels, no round. A median, so that a single slow round (another
process, a page of memory fetched) says nothing about what the others cost.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict

FEWEST = 5  # rounds of a kind that have a median of their own; fewer take that of all rounds


class RoundCosts:
    """Grows by one round at a time; asking is cheap at any time.

    >>> costs = RoundCosts()
    >>> for seconds in (0.02, 0.03, 0.02, 0.02, 9.0):
    ...     costs.add(4, seconds)
    >>> costs.typical(4), costs.typical(1)
    (0.02, 0.02)
    """

    def __init__(self) -> None:
        self._all: list[float] = []
        self._by_levels: defaultdict[int, list[float]] = defaultdict(list)

    def add(self, levels: int, seconds: float) -> None:
        insort(self._all, seconds)
        insort(self._by_levels[levels], seconds)

    def typical(self, levels: int) -> float:
        """Seconds of a round that drafted `levels` levels; 0 before any round."""
        own = self._by_levels.get(levels, [])
        return _median(own if len(own) >= FEWEST else self._all)

    @property
    def typical_sum(self) -> float:
        """Seconds of all rounds, each at what its kind costs."""
        return sum(len(own) * self.typical(levels) for levels, own in self._by_levels.items())


class Losses:
    """Rejections by kind of round and levels that failed to pass: what they cost is asked later."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()

    def add(self, drafted: int, passed: int) -> None:
        self._counts[drafted, passed] += 1

    @property
    def rounds(self) -> float:
        """The loss in rounds: of each, the share of its places that brought no token."""
        return sum(count * lost_share(*kind) for kind, count in self._counts.items())

    def seconds(self, costs: RoundCosts) -> float:
        """The same shares of what rounds of their kinds cost."""
        return sum(
            count * lost_share(*kind) * costs.typical(kind[0])
            for kind, count in self._counts.items()
        )


def lost_share(drafted: int, passed: int) -> float:
    """(D - a) / (D + 1), as `level_visits.seconds_lost` explains it.

    >>> lost_share(3, 1)
    0.5
    """
    return (drafted - passed) / (drafted + 1)


def _median(ordered: list[float]) -> float:
    """The middle one, or the mean of the two in the middle."""
    if not ordered:
        return 0.0
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
