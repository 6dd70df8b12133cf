"""What is given from outside, checked: the one error that is meant for a person, and numbers.

A check takes a value, the name that a person knows it by, and its bounds, and returns the number.
"""

from __future__ import annotations

import math
import re
import reprlib
from typing import TypeGuard

_WHOLE = re.compile(r"[+-]?\d{1,400}|[1-9]\d{0,2}(,\d{3}){1,100}", re.ASCII)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?")


class InputError(ValueError):
    """Input that breaks a rule; the message names the parameter, the rule and the value."""


def short(value: object) -> str:
    """A value as an error may quote it: hostile input can be of any length and depth."""
    if isinstance(value, dict):
        return f"an object of {_counted(len(value), 'field')}"
    if isinstance(value, list):
        return f"an array of {_counted(len(value), 'item')}"
    return reprlib.repr(value)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# ---- numbers


def is_whole(value: object) -> TypeGuard[int]:
    """A bool is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Infinity is none."""
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def whole_rule(low: float = -math.inf, high: float = math.inf) -> str:
    """What a whole number must be, to follow "must be".

    >>> whole_rule(1, 4096), whole_rule(0)
    ('a whole number from 1 to 4,096', 'a whole number of at least 0')
    """
    return f"a whole number{_bounds(low, high)}"


def whole_between(value: object, name: str, low: float = -math.inf, high: float = math.inf) -> int:
    """An int within its bounds: what came as text is none.

    >>> whole_between(0, "draft_length", 1, 32)
    Traceback (most recent call last):
    specviz.errors.InputError: draft_length must be a whole number from 1 to 32, got 0
    """
    if not is_whole(value) or not low <= value <= high:
        raise InputError(f"{name} must be {whole_rule(low, high)}, got {short(value)}")
    return value


def number_between(
    value: object, name: str, low: float = -math.inf, high: float = math.inf
) -> float:
    """A finite number within its bounds: what came as text is none."""
    try:
        if is_number(value) and low <= value <= high:
            return float(value)
    except OverflowError:  # an int beyond every float
        pass
    raise InputError(f"{name} must be a number{_bounds(low, high)}, got {short(value)}")


def read_whole(given: object, name: str, low: float = -math.inf, high: float = math.inf) -> int:
    """A whole number, also as text: 3000 or 3,000, and not 3.000, which some read as 3.

    >>> read_whole("3,000", "prompt", 1, 4096)
    3000
    """
    text = given.strip() if isinstance(given, str) else ""
    number = int(text.replace(",", "")) if _WHOLE.fullmatch(text) else given
    if not is_whole(number) or not low <= number <= high:
        raise InputError(f"{name} must be {whole_rule(low, high)}, got {short(given)}")
    return number


def read_number(given: object, name: str, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number, also as text that `typed_number` takes."""
    try:
        number = typed_number(given.strip()) if isinstance(given, str) else given
        return number_between(number, name, low, high)
    except ValueError:
        raise InputError(
            f"{name} must be a number{_bounds(low, high)}, got {short(given)}"
        ) from None


def typed_number(text: str) -> float:
    """A number as people write it: 10,000,000 and 1,200.5 have thousands, 0,7 a decimal comma.

    ValueError where it is none.
    """
    if _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    return float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)


def _bounds(low: float, high: float) -> str:
    """
    >>> _bounds(0, 1e6), _bounds(0.5, math.inf), _bounds(-math.inf, math.inf)
    (' from 0 to 1,000,000', ' of at least 0.5', '')
    """
    if math.isinf(high):
        return "" if math.isinf(low) else f" of at least {_told(low)}"
    return f" from {_told(low)} to {_told(high)}"


def _told(bound: float) -> str:
    return f"{bound:,}" if is_whole(bound) else f"{bound:,.10g}"
