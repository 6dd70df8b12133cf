"""What a load costs: machines and money per day from tokens per second and a price.

Pure arithmetic. Assumes that the load can be split over machines without loss, and that a machine
keeps its measured rate whenever it works; time to first token is bought by neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from specviz.errors import InputError

SECONDS_A_DAY = 86_400
HOURS_A_DAY = 24


def _check_positive(name: str, value: float) -> None:
    if not math.isfinite(value) or value <= 0:
        raise InputError(f"{name} must be a positive number, got {value}")


@dataclass(frozen=True, slots=True)
class Load:
    """Tokens to write a day, and how far the busiest hour lies above the mean (1: even)."""

    tokens_per_day: float
    peak_factor: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("tokens_per_day", self.tokens_per_day)
        if not math.isfinite(self.peak_factor) or self.peak_factor < 1:
            raise InputError(f"peak_factor must be a number of at least 1, got {self.peak_factor}")

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
        _check_positive("tokens_per_second", self.tokens_per_second)
        if not math.isfinite(self.price_per_hour) or self.price_per_hour < 0:
            raise InputError(
                f"price_per_hour must be a number of at least 0, got {self.price_per_hour}"
            )


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
    machines = math.ceil(needed * load.peak_factor - 1e-9)
    money = machines * HOURS_A_DAY * machine.price_per_hour
    return DailyCost(machines, money, needed / machines, money / load.tokens_per_day * 1e6)
