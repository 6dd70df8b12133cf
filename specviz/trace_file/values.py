"""Checks of plain values from untrusted JSON.

Every error names the path of the value, the rule and the value.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, TypeVar

from specviz.errors import InputError, number_between, short
from specviz.records.field_types import MAX_NUMBER

E = TypeVar("E", bound=Enum)
_PLAIN = re.compile(r"[\w .:+-]+")


def object_of(
    value: object, path: str, required: frozenset[str], known: frozenset[str]
) -> dict[str, Any]:
    """Check the fields of a JSON object, and return the object.

    The object must have all `required` fields, and no other fields than those in `known`.
    """
    if not isinstance(value, dict):
        raise InputError(f"{path} must be an object, got {short(value)}")
    for missing in sorted(required - value.keys()):
        raise InputError(f"{path}.{missing} is missing")
    for unknown in sorted(value.keys() - known):
        raise InputError(f"{path} must have only known fields, got {short(unknown)}")
    return value


def boolean(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{path} must be true or false, got {short(value)}")
    return value


def number(value: object, path: str, low: float, high: float) -> float:
    return number_between(value, path, low, min(high, MAX_NUMBER))


def text(value: object, path: str, most: int) -> str:
    if not isinstance(value, str) or len(value) > most or not _is_unicode(value):
        rule = f"Unicode text of at most {most} characters"
        raise InputError(f"{path} must be {rule}, got {short(value)}")
    return value


def _is_unicode(value: str) -> bool:
    """Return whether the text is valid Unicode, which has no single surrogates.

    A JSON text can contain single surrogates.
    """
    return not any("\ud800" <= character <= "\udfff" for character in value)


def plain_text(value: object, path: str, most: int) -> str:
    """Check that a text has no characters of a markup language, and return the text."""
    if not isinstance(value, str) or len(value) > most or not _PLAIN.fullmatch(value):
        rule = f"1 to {most} letters, digits, spaces or . : + - _"
        raise InputError(f"{path} must be {rule}, got {short(value)}")
    return value


def choice(value: object, path: str, kind: type[E]) -> E:
    for member in kind:
        if member.value == value:
            return member
    options = ", ".join(str(member.value) for member in kind)
    raise InputError(f"{path} must be one of {options}, got {short(value)}")


def array(value: object, path: str, most: int, count: int | None = None) -> list[object]:
    if not isinstance(value, list):
        raise InputError(f"{path} must be an array, got {short(value)}")
    if count is not None and len(value) != count:
        raise InputError(f"{path} must have {count} items, got {len(value)}")
    if len(value) > most:
        raise InputError(f"{path} must have at most {most} items, got {len(value)}")
    return value
