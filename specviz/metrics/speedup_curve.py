"""The cumulative speedup as both lanes advance: tokens against tokens at equal own time.

Knows only moments and token counts, so it serves a live race and a recorded one alike.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeedupPoint:
    """Both lanes at `seconds` of their own time; baseline tokens are interpolated in a step."""

    seconds: float
    speculative_tokens: int
    baseline_tokens: float
    speedup: float


class SpeedupCurve:
    """Collects the lanes' steps and pairs each speculative moment with the baseline's count.

    A point stands at the end of the speculative prefill and of each round. Its baseline count is
    linear inside a step (0 to 1 over the prefill): a step half done counts as half a token, so the
    curve does not jump by whole tokens. A moment waits until the baseline's clock has passed it;
    moments after the baseline's end have no point. Prefill time counts on both lanes.
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
        while ends and self._waiting and self._waiting[0][0] <= ends[-1]:
            moment, tokens = self._waiting.popleft()
            baseline = self._baseline_tokens(moment)
            if baseline > 0:
                self.points.append(SpeedupPoint(moment, tokens, baseline, tokens / baseline))

    def _baseline_tokens(self, moment: float) -> float:
        ends = self._baseline_ends
        done = bisect_left(ends, moment)  # tokens complete before this moment
        start = ends[done - 1] if done else 0.0
        length = ends[done] - start
        return done + ((moment - start) / length if length > 0 else 0.0)
