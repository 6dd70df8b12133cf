"""The cost of a load: how many machines it needs and how much money per day.

The estimate assumes that the load can be divided over machines without loss, and that a machine
always reaches its measured tokens per second. More machines do not shorten the time to first token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from specviz.errors import number_between

SECONDS_A_DAY = 86_400
HOURS_A_DAY = 24
# Every number of a load or a machine must be between these two limits, so that no result overflows.
# Only a price may also be 0.
SMALLEST, LARGEST = 1e-9, 1e15


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a service in tokens per day.

    `peak_factor` is the load of the busiest hour divided by the mean load of an hour.
    """

    tokens_per_day: float
    peak_factor: float = 1.0

    def __post_init__(self) -> None:
        number_between(self.tokens_per_day, "tokens_per_day", SMALLEST, LARGEST)
        number_between(self.peak_factor, "peak_factor", 1, LARGEST)

    @property
    def tokens_per_second(self) -> float:
        """Return how many tokens per second the load has on average.

        >>> round(Load(10e6).tokens_per_second)
        116
        """
        return self.tokens_per_day / SECONDS_A_DAY


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine: its tokens per second in all requests together, and its price per hour."""

    tokens_per_second: float
    price_per_hour: float

    def __post_init__(self) -> None:
        number_between(self.tokens_per_second, "tokens_per_second", SMALLEST, LARGEST)
        number_between(self.price_per_hour, "price_per_hour", 0, LARGEST)


@dataclass(frozen=True, slots=True)
class DailyCost:
    """The number of machines that the busiest hour needs, and what they cost.

    `money` is the price of all machines per day. `utilisation` is the share of the day in which
    they work.
    """

    machines: int
    money: float
    utilisation: float
    money_per_million_tokens: float


def daily_cost(load: Load, machine: Machine) -> DailyCost:
    """Return the cost of a load on machines of one kind, which are rented for the whole day.

    >>> daily_cost(Load(10e6), Machine(125, 8.0)).machines
    1
    >>> daily_cost(Load(10e6, peak_factor=3), Machine(125, 8.0)).machines
    3
    """
    needed = load.tokens_per_second / machine.tokens_per_second
    # A rounding error must not add a machine, so a tiny number is subtracted. Even the smallest
    # load needs one machine.
    machines = max(1, math.ceil(needed * load.peak_factor - 1e-9))
    money = machines * HOURS_A_DAY * machine.price_per_hour
    return DailyCost(machines, money, needed / machines, money / load.tokens_per_day * 1e6)
