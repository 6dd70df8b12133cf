"""The speedup so far as both lanes advance: how much sooner as many tokens were there.

The only place that says what the speedup of a race is: of its curve, of the big number, of the
summary, and of a replay (`assets/player/race/speedup_curve.js` shows the points that a moment has).
Knows only moments and token counts, so it serves a live race and a recorded one alike.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeedupPoint:
    """The speculative lane had `tokens` after `seconds` of its own time.

    `speedup`: the baseline's own time for as many tokens over that time.
    """

    seconds: float
    tokens: int
    speedup: float


class SpeedupCurve:
    """Collects the lanes' steps and compares the times that both took for as many tokens.

    A point stands at the end of the speculative prefill and of each round; it waits until the
    baseline has as many tokens, and one that the baseline never gets to is left out. Prefill time
    counts on both lanes. The last point is the speedup so far. Where both texts have the same
    length, it is in the end the ratio of both lanes' tokens per second.
    """

    def __init__(self) -> None:
        self.points: list[SpeedupPoint] = []
        self._baseline_ends: list[float] = []  # own time when token 1, 2, … was done
        self._waiting: deque[tuple[float, int]] = deque()
        self._speculative_seconds = 0.0
        self._speculative_tokens = 0

    def add_baseline(self, seconds: float) -> None:
        """One more baseline token, which took `seconds`."""
        before = self._baseline_ends[-1] if self._baseline_ends else 0.0
        self._baseline_ends.append(before + seconds)
        self._pair()

    def add_speculative(self, seconds: float, tokens: int) -> None:
        """`tokens` more speculative tokens, which took `seconds` together."""
        self._speculative_seconds += seconds
        self._speculative_tokens += tokens
        self._waiting.append((self._speculative_seconds, self._speculative_tokens))
        self._pair()

    def _pair(self) -> None:
        ends = self._baseline_ends
        while self._waiting and self._waiting[0][1] <= len(ends):
            moment, tokens = self._waiting.popleft()
            if tokens and moment > 0 and ends[tokens - 1] > 0:
                self.points.append(SpeedupPoint(moment, tokens, ends[tokens - 1] / moment))
