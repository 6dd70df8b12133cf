"""Numbers of a lesson's question, checked: nothing in it is trusted."""

from __future__ import annotations

import math

from specviz.errors import InputError, short


def number_between(value: object, name: str, low: float, high: float) -> float:
    """A finite number; InputError names it, the rule and the value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or not math.isfinite(value):  # type: ignore[operator, arg-type]
        raise InputError(f"{name} must be a number from {low:g} to {high:g}, got {short(value)}")
    return float(value)  # type: ignore[arg-type]


def whole_between(value: object, name: str, low: int, high: int) -> int:
    """A whole number; a bool is none."""
    if type(value) is not int or not low <= value <= high:
        raise InputError(f"{name} must be an integer from {low} to {high}, got {short(value)}")
    return value
