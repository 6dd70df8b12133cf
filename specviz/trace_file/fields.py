"""Reads one JSON object field by field and refuses what breaks a rule, naming field and value.

Knows no record: it turns untrusted JSON into plain checked values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TypeVar

from specviz.errors import InputError, short

E = TypeVar("E", bound=Enum)
T = TypeVar("T")

MAX_INTEGER = 2**53 - 1  # the largest that JSON readers hold exactly
MAX_NUMBER = 1e300  # beyond it lies infinity
MAX_TEXT = 1_000_000
MAX_ITEMS = 1 << 20


class Fields:
    """An object at `path` that has exactly the fields `names`."""

    def __init__(self, value: object, path: str, names: Iterable[str]) -> None:
        if not isinstance(value, dict):
            raise InputError(f"{path} must be an object, got {short(value)}")
        known = frozenset(names)
        for missing in sorted(known - value.keys()):
            raise InputError(f"{path}.{missing} is missing")
        for unknown in sorted(value.keys() - known):
            raise InputError(f"{path} has no field {short(unknown)}")
        self._value = value
        self.path = path

    def __getitem__(self, name: str) -> object:
        return self._value[name]

    def at(self, name: str) -> str:
        return f"{self.path}.{name}"

    def integer(self, name: str, low: int = 0, high: int = MAX_INTEGER) -> int:
        return integer(self[name], self.at(name), low, high)

    def boolean(self, name: str) -> bool:
        value = self[name]
        if not isinstance(value, bool):
            raise InputError(f"{self.at(name)} must be true or false, got {short(value)}")
        return value

    def number(self, name: str, low: float = 0.0, high: float = math.inf) -> float:
        return number(self[name], self.at(name), low, high)

    def text(self, name: str, most: int = MAX_TEXT) -> str:
        return text(self[name], self.at(name), most)

    def choice(self, name: str, kind: type[E]) -> E:
        return choice(self[name], self.at(name), kind)

    def array(self, name: str, most: int = MAX_ITEMS, count: int | None = None) -> list[object]:
        return array(self[name], self.at(name), most, count)

    def integers(
        self,
        name: str,
        low: int = 0,
        high: int = MAX_INTEGER,
        count: int | None = None,
        most: int = MAX_ITEMS,
    ) -> tuple[int, ...]:
        items = enumerate(self.array(name, most, count))
        return tuple(integer(each, f"{self.at(name)}[{i}]", low, high) for i, each in items)

    def numbers(
        self, name: str, low: float = 0.0, high: float = math.inf, count: int | None = None
    ) -> tuple[float, ...]:
        items = enumerate(self.array(name, count=count))
        return tuple(number(each, f"{self.at(name)}[{i}]", low, high) for i, each in items)

    def optional(self, name: str, decode: Callable[[object, str], T]) -> T | None:
        """null is None; anything else goes to `decode` with its path."""
        return None if self[name] is None else decode(self[name], self.at(name))

    def each(self, name: str, decode: Callable[[object, str], T], most: int) -> tuple[T, ...]:
        """Every item of an array, decoded with its path."""
        items = enumerate(self.array(name, most))
        return tuple(decode(item, f"{self.at(name)}[{i}]") for i, item in items)


def integer(value: object, path: str, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InputError(f"{path} must be an integer from {low} to {high}, got {short(value)}")
    return value


def number(value: object, path: str, low: float, high: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= min(high, MAX_NUMBER):  # type: ignore[operator]
        raise InputError(f"{path} must be a number {_span(low, high)}, got {short(value)}")
    return float(value)  # type: ignore[arg-type]


def _span(low: float, high: float) -> str:
    return f"of at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"


def text(value: object, path: str, most: int) -> str:
    if not isinstance(value, str) or len(value) > most or not _is_unicode(value):
        rule = f"Unicode text of at most {most} characters"
        raise InputError(f"{path} must be {rule}, got {short(value)}")
    return value


def _is_unicode(value: str) -> bool:
    """JSON can spell half of a surrogate pair, which no page can show."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def choice(value: object, path: str, kind: type[E]) -> E:
    for member in kind:
        if member.value == value:
            return member
    options = ", ".join(str(member.value) for member in kind)
    raise InputError(f"{path} must be one of {options}, got {short(value)}")


def array(value: object, path: str, most: int, count: int | None) -> list[object]:
    if not isinstance(value, list):
        raise InputError(f"{path} must be an array, got {short(value)}")
    if count is not None and len(value) != count:
        raise InputError(f"{path} must have {count} items, got {len(value)}")
    if len(value) > most:
        raise InputError(f"{path} must have at most {most} items, got {len(value)}")
    return value
