"""Checks of user input, and InputError, the only error whose text is written for users.

A check takes a value, the name that users know it by, and its limits. It returns the checked
number.
"""

from __future__ import annotations

import math
import re
import reprlib
from asyncio import CancelledError
from collections.abc import Iterable
from typing import TypeGuard

# a number with its digits in groups of three, such as 12,345
_GROUPS = r"[+-]?[1-9]\d{0,2}(,\d{3}){1,100}"
_WHOLE = re.compile(rf"[+-]?\d{{1,400}}|{_GROUPS}", re.ASCII)
_THOUSANDS = re.compile(rf"{_GROUPS}(\.\d*)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|(0|[1-9]\d*)?,\d+)", re.ASCII | re.I)


class InputError(ValueError):
    """An error in what a user entered. The message names the parameter, the rule and the value."""


def is_fault(error: BaseException) -> bool:
    """Return whether an error is a real failure, and not just a request to end the program.

    A panic of a library written in Rust is a real failure as well. It is a `BaseException`, so
    `except Exception` does not catch it.
    """
    return not isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | CancelledError)


def is_panic(error: BaseException) -> bool:
    """Return whether the error is a panic of a library written in Rust."""
    return type(error).__module__ == "pyo3_runtime"


def short(value: object) -> str:
    """Return any value as text that fits into an error message.

    The text is short even if the value is very long or deeply nested.
    """
    if isinstance(value, dict):
        return f"an object of {_counted(len(value), 'field')}"
    if isinstance(value, list):
        return f"an array of {_counted(len(value), 'item')}"
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to convert an integer with too many digits to text.
        return "a number of thousands of digits"


def sized(value: object) -> str:
    """Describe a value in an error message: a text by its length, any other value as `short` does.

    >>> sized("a" * 3000), sized(None)
    ('3,000', 'None')
    """
    return f"{len(value):,}" if isinstance(value, str) else short(value)


def first_line(error: Exception) -> str:
    r"""Return the first line of a library's message, so that it fits into one sentence.

    >>> first_line(ValueError("Validation error for 'size':\n    must be int\nat line 3"))
    "Validation error for 'size': must be int"
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # If the first line ends with a colon, the second line says what was wrong.
    count = 2 if lines and lines[0].endswith(":") else 1
    return " ".join(lines[:count])[:200] or type(error).__name__


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is an int and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is an int or a finite float."""
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def one_of(values: Iterable[str]) -> str:
    """Return a text that lists the allowed values; it follows the words "must be".

    >>> one_of(["token", "block"]), one_of(["token"])
    ('one of token, block', 'token')
    """
    names = list(values)
    return f"one of {', '.join(names)}" if len(names) > 1 else names[0]


def whole_rule(low: float = -math.inf, high: float = math.inf) -> str:
    """Return a text that says which whole numbers are allowed; it follows the words "must be".

    >>> whole_rule(1, 4096), whole_rule(0)
    ('a whole number from 1 to 4,096', 'a whole number of at least 0')
    """
    return f"a whole number{_bounds(low, high)}"


def whole_between(value: object, name: str, low: float = -math.inf, high: float = math.inf) -> int:
    """Return the value if it is an int within the limits, otherwise raise InputError. Refuse text.

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
    """Return the value if it is a finite number within the limits, otherwise raise InputError.

    Refuse text, even text such as "3".
    """
    try:
        if is_number(value) and low <= value <= high:
            return float(value)
    except OverflowError:  # An int can be larger than every float; such a number is not finite.
        pass
    raise InputError(f"{name} must be a number{_bounds(low, high)}, got {short(value)}")


def read_whole(given: object, name: str, low: float = -math.inf, high: float = math.inf) -> int:
    """Read a whole number, which may also be a text that contains the number.

    3000 and 3,000 are accepted. 3.000 is refused because in some languages it means 3000 and in
    others 3. A float such as 3.0 in a file is accepted as 3.

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
    """Read a finite number. The value may also be a text that `typed_number` accepts."""
    try:
        number = typed_number(given.strip()) if isinstance(given, str) else given
        return number_between(number, name, low, high)
    except ValueError:
        raise InputError(
            f"{name} must be a number{_bounds(low, high)}, got {short(given)}"
        ) from None


def typed_number(text: str) -> float:
    """Parse a number that a user typed, such as 10,000,000 or 1,200.5 or 0,7.

    Commas separate thousands, but a comma may also be the decimal point. Raises ValueError for
    other text, and for text such as 01,000, in which the comma is ambiguous.
    """
    if _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    if not _DECIMAL.fullmatch(text):
        raise ValueError(text)
    return float(text.replace(",", "."))


def _bounds(low: float, high: float) -> str:
    """Return a text with the limits of a number; it follows the words "a number".

    >>> _bounds(0, 1e7), _bounds(0.5, math.inf), _bounds(-math.inf, 5)
    (' from 0 to 10,000,000', ' of at least 0.5', ' of at most 5')
    """
    if math.isinf(low):
        return "" if math.isinf(high) else f" of at most {_in_digits(high)}"
    return (
        f" of at least {_in_digits(low)}"
        if math.isinf(high)
        else f" from {_in_digits(low)} to {_in_digits(high)}"
    )


def _in_digits(bound: float) -> str:
    is_long = isinstance(bound, float) and abs(bound) >= 1e16
    return f"{bound:,.10g}" if is_long or bound != int(bound) else f"{int(bound):,}"
