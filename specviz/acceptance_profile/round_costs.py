"""The cost of a round: the median time of the rounds with the same number of drafted levels.

The median is used because a single slow round hardly changes it. A round can be slow because of
another process or a page fault.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict

FEWEST = 5  # if fewer rounds have the same number of levels, the median of all rounds is used


class RoundCosts:
    """The median seconds of the rounds that were added so far, for each number of drafted levels.

    Adding a round and reading a median are cheap.

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
        """Return the seconds of a round that drafted `levels` levels; 0 if no round was added."""
        own = self._by_levels.get(levels, [])
        return _median(own if len(own) >= FEWEST else self._all)

    @property
    def typical_sum(self) -> float:
        """Return the sum of the seconds of all rounds, without the effect of unusually slow rounds.

        Each round counts with the median time of the rounds that drafted the same number of levels.
        """
        return sum(len(own) * self.typical(levels) for levels, own in self._by_levels.items())


class Losses:
    """The number of rejections for each pair (drafted levels, passed levels).

    `rounds` and `seconds` return what these rejections cost in all.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()

    def add(self, drafted: int, passed: int) -> None:
        self._counts[drafted, passed] += 1

    @property
    def rounds(self) -> float:
        """Return the loss in units of a round: the sum of `lost_share` over all rejections."""
        return sum(count * lost_share(*kind) for kind, count in self._counts.items())

    def seconds(self, costs: RoundCosts) -> float:
        """Return the seconds that all rejections cost.

        Each rejection counts with the median time of the rounds that drafted the same number of
        levels.
        """
        return sum(
            count * lost_share(*kind) * costs.typical(kind[0])
            for kind, count in self._counts.items()
        )


def lost_share(drafted: int, passed: int) -> float:
    """Return the share (D - a) / (D + 1) of a round that its rejection costs.

    D is `drafted` and a is `passed`. `level_visits.seconds_lost` explains the formula.

    >>> lost_share(3, 1)
    0.5
    """
    return (drafted - passed) / (drafted + 1)


def _median(ordered: list[float]) -> float:
    if not ordered:
        return 0.0
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
