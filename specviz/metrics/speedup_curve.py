"""The speedup so far while both lanes advance: the ratio of their tokens per second.

All parts of the app use the speedup that this module computes: the curve, the large number above
it, the summary, and the replay of a recorded race (`assets/player/race/speedup_curve.js`). A lane's
tokens per second are its number of tokens so far, divided by the time of its last token on the
lane's own clock. The shown speedup therefore always equals the ratio of the shown rates. The input
is only times and token counts, so that live and recorded races use the same code.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

# Two clocks may add the same times in different orders. Their sums then differ by at most this
# share, because of rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class SpeedupPoint:
    """The state of both lanes after `seconds` on their own clocks.

    `tokens` counts the tokens of the speculative lane. `speedup` is its tokens per second so far,
    divided by the baseline's. `limit` is the largest speedup that the target's forwards allow (see
    `SpeedupCurve`). It is None if the number of forwards is unknown or 0.
    """

    seconds: float
    tokens: int
    speedup: float
    limit: float | None = None

    @property
    def is_disturbed(self) -> bool:
        """Return whether the speedup exceeds its limit.

        If it does, other work on the machine must have slowed one of the lanes.
        """
        return exceeds(self.speedup, self.limit)


def exceeds(speedup: float, limit: float | None) -> bool:
    """Return whether a speedup exceeds a limit by more than rounding errors.

    >>> exceeds(2.1, 1.9), exceeds(1.9, 1.9), exceeds(2.1, None)
    (True, False, False)
    """
    return limit is not None and speedup > limit * (1 + ROUNDING)


@dataclass(frozen=True, slots=True)
class _Reached:
    """The state of the speculative lane after one of its steps; `forwards` excludes the prefill."""

    seconds: float
    tokens: int
    forwards: int


class SpeedupCurve:
    """A curve of the speedup, built from the steps of both lanes.

    Once both lanes have a token, each further token of either lane adds a point. The time of the
    prefill counts in both lanes. The last point is the speedup so far. For complete texts of the
    same length, that speedup is the ratio of the lanes' times.

    A forward that verifies a draft takes at least as long as a plain step. The speculative lane
    therefore needs at least the time of the baseline's prefill plus one mean baseline step per
    forward, and its speedup has a limit. If both texts have the same length, the tokens per forward
    are another limit. The limit of a point is the larger of the two, so that no correct measurement
    exceeds it.
    """

    def __init__(self) -> None:
        # for token 1, 2, …, the time on the lane's own clock at which the token was complete
        self._baseline: list[float] = []
        self._speculative: list[_Reached] = []

    def add_baseline(self, seconds: float) -> None:
        """Add one token of the baseline lane, which took `seconds`."""
        before = self._baseline[-1] if self._baseline else 0.0
        self._baseline.append(before + seconds)

    def add_speculative(self, seconds: float, tokens: int, forwards: int = 0) -> None:
        """Add tokens of the speculative lane, which together took `seconds`.

        `forwards` is the number of forwards of the target that produced these tokens, without the
        prefill. It is 0 if the number is unknown.
        """
        last = self._speculative[-1] if self._speculative else _Reached(0.0, 0, 0)
        self._speculative.append(
            _Reached(last.seconds + seconds, last.tokens + tokens, last.forwards + forwards)
        )

    @property
    def last(self) -> SpeedupPoint | None:
        """Return the point for the current state of the lanes, or None until both have a token."""
        if not self._baseline or not self._speculative:
            return None
        reached = self._speculative[-1]
        moment = max(reached.seconds, self._baseline[-1])
        return self._point(moment, reached, len(self._baseline))

    @property
    def points(self) -> list[SpeedupPoint]:
        """Return all points of the curve.

        The points at the end may still change: they are final only when the clocks of both lanes
        have passed them.
        """
        ends = [each.seconds for each in self._speculative]
        found = []
        for moment in sorted({*ends, *self._baseline}):
            until = moment * (1 + ROUNDING)
            rounds, plain = bisect_right(ends, until), bisect_right(self._baseline, until)
            if rounds:
                found.append(self._point(moment, self._speculative[rounds - 1], plain))
        return [each for each in found if each is not None]

    def _point(self, moment: float, reached: _Reached, plain: int) -> SpeedupPoint | None:
        """Return the point at the time `moment`.

        `reached` is the state of the speculative lane at that time, and `plain` is the baseline's
        number of tokens. Return None if a lane has no token yet, or if no time has passed.
        """
        if not plain or not reached.tokens or not reached.seconds > 0:
            return None
        ended = self._baseline[plain - 1]
        if not ended > 0:
            return None
        rate = plain / ended
        speedup = reached.tokens / reached.seconds / rate
        return SpeedupPoint(moment, reached.tokens, speedup, self._limit(reached, plain, rate))

    def _limit(self, reached: _Reached, plain: int, rate: float) -> float | None:
        if not reached.forwards:
            return None
        tokens_per_forward = (reached.tokens - 1) / reached.forwards
        first, ended = self._baseline[0], self._baseline[plain - 1]
        step = (ended - first) / (plain - 1) if plain > 1 else 0.0
        least = first + reached.forwards * step
        return max(tokens_per_forward, reached.tokens / least / rate if least > 0 else 0.0)
