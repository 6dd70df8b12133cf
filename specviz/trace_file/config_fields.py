"""A DecodingConfig as one JSON object, with the fields of the table of settings."""

from __future__ import annotations

import math
from dataclasses import fields
from enum import Enum
from typing import Any

from specviz.errors import whole_between
from specviz.records import SETTINGS, DecodingConfig, Drawing, RunSetting, ValueType
from specviz.records.field_types import MAX_INTEGER
from specviz.trace_file.values import array, boolean, choice, number, object_of, text

MAX_NAME = 200  # largest number of characters of a name
MAX_LEVELS = 64
MAX_OPTIONS = 16
_SETTINGS = tuple(SETTINGS[field.name] for field in fields(DecodingConfig))
# Settings that older files lack. They then have their defaults.
_ADDED = frozenset(("length_policy", "entropy_threshold", "grammar", "draft_forced"))


def encode_settings(config: DecodingConfig) -> dict[str, Any]:
    """Return a JSON object that maps the name of each setting to its value."""
    return {each.name: _encode(getattr(config, each.name)) for each in _SETTINGS}


def _encode(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return [_encode(each) for each in value] if isinstance(value, tuple) else value


def decode_settings(value: object, path: str) -> DecodingConfig:
    """Return the DecodingConfig of a JSON object.

    This function checks the types, so that the InputError names the path in the file.
    DecodingConfig itself checks the bounds.
    """
    names = frozenset(each.name for each in _SETTINGS)
    given = object_of(value, path, names - _ADDED, names)
    known = [each for each in _SETTINGS if each.name in given]
    return DecodingConfig(
        **{each.name: _decode(each, given[each.name], f"{path}.{each.name}") for each in known}
    )


def _decode(setting: RunSetting, value: object, path: str) -> Any:
    match setting.type:
        case ValueType.INTEGER:
            return whole_between(value, path, 0, MAX_INTEGER)
        case ValueType.NUMBER:
            return number(value, path, 0, math.inf)
        case ValueType.INTEGERS:
            levels = enumerate(array(value, path, MAX_LEVELS))
            return tuple(whole_between(each, f"{path}[{i}]", 1, MAX_INTEGER) for i, each in levels)
        case ValueType.DRAWING:
            return choice(value, path, Drawing)
        case ValueType.OPTIONS:
            options = enumerate(array(value, path, MAX_OPTIONS))
            return tuple(_decode_option(each, f"{path}[{i}]") for i, each in options)
        case ValueType.SWITCH:
            return boolean(value, path)
    return text(value, path, int(setting.high) if setting.type is ValueType.TEXT else MAX_NAME)


def _decode_option(value: object, path: str) -> tuple[str, int]:
    name, number = array(value, path, 2, 2)
    return text(name, f"{path}[0]", 100), whole_between(number, f"{path}[1]", 0, MAX_INTEGER)
