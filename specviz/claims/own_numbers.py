"""A user's own numbers in place of a claim's: the fields for them, and their rules."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.claims.sentences import Values, value_at
from specviz.errors import InputError, read_number, read_whole, short

MOST_OF_A_LIST = 8
_TOTAL = 1e-6  # largest allowed difference between 1 and the sum of a typed distribution
_DIGITS = 12  # significant digits that a field shows of a value
_STEP = re.compile(r"\[(\w+)\]")


@dataclass(frozen=True, slots=True)
class OwnNumber:
    """A field for one number of a claim.

    `name` is the path of the number among the claim's numbers, such as `runs[0][1]`. `low` and
    `high` are limits in the unit of the field. `scale` is the factor from this unit to the claim's
    unit (1e9 for billions). A user separates the items of a list by commas. A distribution must
    sum to 1.
    """

    name: str
    title: str
    low: float
    high: float
    whole: bool = False
    scale: float = 1.0
    list: bool = False
    distribution: bool = False

    def text(self, numbers: Values) -> str:
        """Return the text that the field shows for these numbers of a claim."""
        value = value_at(self.name, numbers)
        values = value if self.is_many else (value,)
        return ", ".join(f"{each / self.scale:.{_DIGITS}g}" for each in values)

    def value(self, text: str) -> Any:
        """Return the typed value in the claim's unit. Raises InputError if it breaks a rule."""
        if not self.is_many:
            return self._number(text)
        parts = [part for part in text.replace(";", ",").split(",") if part.strip()]
        if not 1 <= len(parts) <= MOST_OF_A_LIST:
            raise InputError(
                f"{self.title} must be 1 to {MOST_OF_A_LIST} numbers separated by commas, got "
                f"{short(text)}"
            )
        values = tuple(map(self._number, parts))
        if self.distribution and abs(math.fsum(values) - 1) > _TOTAL:
            raise InputError(f"{self.title} must sum to 1, got {math.fsum(values):g}")
        return values

    @property
    def is_many(self) -> bool:
        return self.list or self.distribution

    def _number(self, text: str) -> float | int:
        plain = text.strip().replace("\u2212", "-")
        if self.whole:
            return read_whole(plain, self.title, self.low, self.high)
        return read_number(plain, self.title, self.low, self.high) * self.scale


def with_own(
    numbers: Values, fields: Sequence[OwnNumber], typed: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `numbers` with a user's own values, which are the texts in `typed` by field name.

    Raises InputError for the first value that breaks a rule, for an unknown field, and for lists
    that belong together but differ in length.
    """
    known = {field.name: field for field in fields}
    found = dict(numbers)
    lengths: dict[int, str] = {}
    for name, text in typed.items():
        if name not in known:
            raise InputError(f"number must be one of {', '.join(known)}, got {short(name)}")
        found = placed(found, name, known[name].value(str(text)))
    for field in fields:
        if field.is_many:
            lengths.setdefault(len(value_at(field.name, found)), field.title)
    if len(lengths) > 1:
        (right, one), (wrong, other) = list(lengths.items())[:2]
        raise InputError(f"{other} must have as many numbers as {one} ({right}), got {wrong}")
    return found


def placed(numbers: Values, path: str, value: Any) -> dict[str, Any]:
    """Return `numbers` with `value` at a path; all other values are shared, not copied.

    >>> placed({"runs": ((5, 89.0), (8, 104.0)), "K": 5}, "runs[0][1]", 70.0)
    {'runs': ((5, 70.0), (8, 104.0)), 'K': 5}
    """
    name = path.partition("[")[0]
    return {**numbers, name: _replaced(numbers.get(name), _STEP.findall(path), value)}


def _replaced(whole: Any, steps: Sequence[str], value: Any) -> Any:
    if not steps:
        return value
    step, *others = steps
    if isinstance(whole, Mapping):
        return {**whole, step: _replaced(whole[step], others, value)}
    place = int(step)
    return (*whole[:place], _replaced(whole[place], others, value), *whole[place + 1 :])
