"""Seconds of like things, without the bursts of what else runs on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

OUTLIER = 2.0  # times the median; rounds of one kind of a method differ by less


def calm_seconds(seconds: Sequence[float]) -> float:
    """The sum of the seconds, none counted for more than OUTLIER times the median.

    What else runs on the machine comes in bursts; it must not choose between candidates.

    >>> calm_seconds([1.0, 1.5, 1.0, 9.0, 1.0])
    6.5
    """
    shares = calm_shares(seconds)
    return sum(share * each for share, each in zip(shares, seconds, strict=True))


def calm_shares(seconds: Sequence[float]) -> list[float]:
    """The share of each that counts: 1 up to OUTLIER times the median.

    >>> calm_shares([1.0, 1.5, 1.0, 8.0, 1.0])
    [1.0, 1.0, 1.0, 0.25, 1.0]
    """
    most = OUTLIER * median(seconds) if seconds else 0.0
    return [most / each if each > most else 1.0 for each in seconds]
