"""The sum of measured times without the effect of bursts of other work on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

# A time is an outlier if it is more than OUTLIER times the median. Without other work, times differ
# by less.
OUTLIER = 2.0


def calm_seconds(seconds: Sequence[float]) -> float:
    """Return the sum of the seconds, each counted as at most OUTLIER times their median.

    Other work on the machine comes in bursts, which must not decide which candidate wins.

    >>> calm_seconds([1.0, 1.5, 1.0, 9.0, 1.0])
    6.5
    """
    shares = calm_shares(seconds)
    return sum(share * each for share, each in zip(shares, seconds, strict=True))


def calm_shares(seconds: Sequence[float]) -> list[float]:
    """Return, for each time, the share of it that counts.

    The share is 1 for times up to OUTLIER medians, and less for longer ones.

    >>> calm_shares([1.0, 1.5, 1.0, 8.0, 1.0])
    [1.0, 1.0, 1.0, 0.25, 1.0]
    """
    most = OUTLIER * median(seconds) if seconds else 0.0
    return [most / each if each > most else 1.0 for each in seconds]
