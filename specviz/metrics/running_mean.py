"""The mean of numbers that are added one at a time, with its standard error."""

from __future__ import annotations

import math


class RunningMean:
    """The mean and standard error of the numbers added so far (Welford's recurrence).

    >>> seen = RunningMean()
    >>> for each in (2.0, 4.0, 6.0):
    ...     seen.add(each)
    >>> seen.mean, round(seen.standard_error, 3)
    (4.0, 1.155)
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0  # sum of the squared distances of all numbers from their mean

    def add(self, value: float) -> None:
        self.count += 1
        distance = value - self.mean
        self.mean += distance / self.count
        self.squares += distance * (value - self.mean)

    @property
    def total(self) -> float:
        return self.mean * self.count

    @property
    def standard_error(self) -> float:
        """Return the standard error of the mean; it is 0 for fewer than two numbers."""
        if self.count < 2:
            return 0.0
        return math.sqrt(self.squares / (self.count - 1) / self.count)
