"""What is given from outside, checked: the one error that is meant for a person, and numbers.

A check takes a value, the name that a person knows it by, and its bounds, and returns the number.
"""

from __future__ import annotations

import math
import re
import reprlib
from typing import TypeGuard

_GROUPS = r"[+-]?[1-9]\d{0,2}(,\d{3}){1,100}"  # of thousands
_WHOLE = re.compile(rf"[+-]?\d{{1,400}}|{_GROUPS}", re.ASCII)
_THOUSANDS = re.compile(rf"{_GROUPS}(\.\d*)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|(0|[1-9]\d*)?,\d+)", re.ASCII | re.I)


class InputError(ValueError):
    """Input that breaks a rule; the message names the parameter, the rule and the value."""


def short(value: object) -> str:
    """A value as an error may quote it: hostile input can be of any length and depth."""
    if isinstance(value, dict):
        return f"an object of {_counted(len(value), 'field')}"
    if isinstance(value, list):
        return f"an array of {_counted(len(value), 'item')}"
    try:
        return reprlib.repr(value)
    except ValueError:  # an int whose digits Python does not write
        return "a number of thousands of digits"


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
    """A whole number, also as text: 3000 or 3,000, and not 3.000, which some read as 3. The float
    3.0 of a file is 3.

    >>> read_whole("3,000", "prompt", 1, 4096)
    3000
    """
    text = given.strip() if isinstance(given, str) else ""
    number = int(text.replace(",", "")) if _WHOLE.fullmatch(text) else given
    if isinstance(number, float) and number.is_integer():
        number = int(number)
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

    ValueError where it is none, or where a comma may be either, as in 01,000.
    """
    if _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    if not _DECIMAL.fullmatch(text):
        raise ValueError(text)
    return float(text.replace(",", "."))


def _bounds(low: float, high: float) -> str:
    """
    >>> _bounds(0, 1e7), _bounds(0.5, math.inf), _bounds(-math.inf, 5)
    (' from 0 to 10,000,000', ' of at least 0.5', ' of at most 5')
    """
    if math.isinf(low):
        return "" if math.isinf(high) else f" of at most {_told(high)}"
    return (
        f" of at least {_told(low)}" if math.isinf(high) else f" from {_told(low)} to {_told(high)}"
    )


def _told(bound: float) -> str:
    is_long = isinstance(bound, float) and abs(bound) >= 1e16
    return f"{bound:,.10g}" if is_long or bound != int(bound) else f"{int(bound):,}"
