"""What a load costs: machines and money per day from tokens per second and a price.

Assumes that the load can be split over machines without loss, and that a machine
keeps its measured rate whenever it works; neither buys a shorter time to the first token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from specviz.errors import number_between

SECONDS_A_DAY = 86_400
HOURS_A_DAY = 24
SMALLEST, LARGEST = 1e-9, 1e15  # of any number but a price of 0, so that no result overflows


@dataclass(frozen=True, slots=True)
class Load:
    """Tokens to write a day, and how far the busiest hour lies above the mean (1: even)."""

    tokens_per_day: float
    peak_factor: float = 1.0

    def __post_init__(self) -> None:
        number_between(self.tokens_per_day, "tokens_per_day", SMALLEST, LARGEST)
        number_between(self.peak_factor, "peak_factor", 1, LARGEST)

    @property
    def tokens_per_second(self) -> float:
        """At the mean.

        >>> round(Load(10e6).tokens_per_second)
        116
        """
        return self.tokens_per_day / SECONDS_A_DAY


@dataclass(frozen=True, slots=True)
class Machine:
    """Tokens per second of all its streams together, and what an hour of it costs."""

    tokens_per_second: float
    price_per_hour: float

    def __post_init__(self) -> None:
        number_between(self.tokens_per_second, "tokens_per_second", SMALLEST, LARGEST)
        number_between(self.price_per_hour, "price_per_hour", 0, LARGEST)


@dataclass(frozen=True, slots=True)
class DailyCost:
    """Whole machines for the busiest hour, their price per day, the share of the day they work."""

    machines: int
    money: float
    utilisation: float
    money_per_million_tokens: float


def daily_cost(load: Load, machine: Machine) -> DailyCost:
    """What serving the load takes with machines of this kind, all of them rented the whole day.

    >>> daily_cost(Load(10e6), Machine(125, 8.0)).machines
    1
    >>> daily_cost(Load(10e6, peak_factor=3), Machine(125, 8.0)).machines
    3
    """
    needed = load.tokens_per_second / machine.tokens_per_second
    # what rounding adds to a whole number buys no machine, and the least load needs one
    machines = max(1, math.ceil(needed * load.peak_factor - 1e-9))
    money = machines * HOURS_A_DAY * machine.price_per_hour
    return DailyCost(machines, money, needed / machines, money / load.tokens_per_day * 1e6)
