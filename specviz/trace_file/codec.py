"""Conversion between records and plain JSON values, derived from the types of the records' fields.

A record becomes an object with one field per field of the dataclass. A field with a default may be
missing, because older files lack it. `Columns` become one array per field. The input is not
trusted: a value that breaks a rule raises an InputError with field, rule and value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from specviz.errors import InputError, short, whole_between
from specviz.records import NOTE_TYPES, DecodingConfig
from specviz.records.field_types import (
    MAX_ITEMS,
    MAX_TEXT,
    Columns,
    FloatRange,
    IntRange,
    Plain,
)
from specviz.trace_file.checks import CHECKS
from specviz.trace_file.config_fields import decode_settings, encode_settings
from specviz.trace_file.values import (
    array,
    boolean,
    choice,
    number,
    object_of,
    plain_text,
    text,
)

# The largest distance by which a sum of probabilities may be outside 0 to 1, because of rounding in
# float32.
_TOLERANCE = 1e-4
# If a value can have one of several record types, its JSON object has an extra field, such as
# "note", that contains the name of the type. _TAGS maps the name of this field to the possible
# types by their names.
_TAGS = {"note": NOTE_TYPES}

# A trace repeats these fields in every round, so the file uses short names for them. All other
# fields keep their own names.
SHORT_KEYS = {
    "DraftNode": {"token_id": "id", "draft_prob": "q", "draft_score": "score"},
    "Verdict": {
        "target_prob": "p",
        "residual_prob": "residual",
        "draft_prob": "q",
        "acceptance_prob": "accept",
        "uniform_draw": "u",
        "raw_target_prob": "raw_p",
        "raw_draft_prob": "raw_q",
    },
    "Position": {
        "token_ids": "id",
        "target_probs": "p",
        "draft_probs": "q",
        "residual_probs": "residual",
        "raw_target_probs": "raw_p",
        "raw_draft_probs": "raw_q",
    },
    "ExtraToken": {"token_id": "id"},
    "Prefill": {"prompt_length": "prompt"},
    "Round": {"index": "i", "context_length": "context", "extra_ids": "extras"},
    "TokenStep": {"index": "i", "token_id": "id", "raw_prob": "prob"},
    "EngineToken": {"token_id": "id"},
    "ForkPoint": {"round_index": "round"},
    "Trace": {"token_texts": "tokens"},
}


@dataclass(frozen=True, slots=True)
class Codec:
    """Two functions for values of one type: one converts them to JSON, the other from JSON.

    `decode` also takes the path of the value in the file, for its error messages.
    """

    encode: Callable[[Any], Any]
    decode: Callable[[object, str], Any]


def record_codec(record: type) -> Codec:
    """Return the codec of a frozen dataclass. The codec is made once and then reused."""
    if record not in _CODECS:
        _CODECS[record] = _record(record)
    return _CODECS[record]


_CODECS: dict[type, Codec] = {DecodingConfig: Codec(encode_settings, decode_settings)}


def _record(record: type) -> Codec:
    parts = _parts(record)
    required = frozenset(part.key for part in parts if not part.has_default)
    known = frozenset(part.key for part in parts)
    check = CHECKS.get(record)

    def encode(value: Any) -> dict[str, Any]:
        return {part.key: part.codec.encode(part.get(value)) for part in parts}

    def decode(value: object, path: str) -> Any:
        given = object_of(value, path, required, known)
        made = record(
            **{
                part.name: part.codec.decode(given[part.key], f"{path}.{part.key}")
                for part in parts
                if part.key in given
            }
        )
        if check is not None:
            check(made, path)
        return made

    return Codec(encode, decode)


@dataclass(frozen=True, slots=True)
class _Part:
    """One field of a record, with the codec of its value."""

    name: str
    key: str
    codec: Codec
    seen: Codec | None  # the codec for values other than None, if the type allows None
    has_default: bool
    get: Callable[[Any], Any]


def _parts(record: type) -> tuple[_Part, ...]:
    hints = get_type_hints(record, include_extras=True)
    short_keys = SHORT_KEYS.get(record.__name__, {})
    return tuple(
        _Part(
            name=field.name,
            key=short_keys.get(field.name, field.name),
            codec=_codec(hints[field.name]),
            seen=_seen(hints[field.name]),
            has_default=field.default is not MISSING,
            get=attrgetter(field.name),
        )
        for field in fields(record)
    )


def _seen(hint: Any) -> Codec | None:
    kinds = get_args(hint)
    return _codec(kinds[0]) if len(kinds) == 2 and kinds[1] is NoneType else None


def _codec(hint: Any) -> Codec:
    """Return the codec for the type of a record's field."""
    marker = None
    if get_origin(hint) is Annotated:
        hint, marker = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return _union([each for each in get_args(hint) if each is not NoneType])
    if get_origin(hint) is tuple:
        return _tuple(get_args(hint), marker)
    if hint is float:
        return _number(marker or FloatRange())
    if hint is int:
        bounds = marker or IntRange()
        return Codec(_same, lambda value, path: whole_between(value, path, bounds.low, bounds.high))
    if hint is bool:
        return Codec(_same, boolean)
    if hint is str and isinstance(marker, Plain):
        return Codec(_same, lambda value, path: plain_text(value, path, marker.count))
    if hint is str:
        most = marker.count if marker else MAX_TEXT
        return Codec(_same, lambda value, path: text(value, path, most))
    if issubclass(hint, Enum):
        return Codec(attrgetter("value"), lambda value, path: choice(value, path, hint))
    return record_codec(hint)


def _same(value: Any) -> Any:
    return value


def _number(bounds: FloatRange) -> Codec:
    low, high = bounds.low, bounds.high
    return Codec(_rounding(bounds), lambda value, path: number(value, path, low, high))


def _rounding(bounds: FloatRange) -> Callable[[float], float]:
    """Return the function that rounds the numbers of a field for a file.

    The type of the field says how many significant digits or decimals a file keeps; if it says
    neither, the file keeps all digits. A number that is slightly outside the limits of its field,
    because of rounding in float32, is replaced by the limit.
    """
    if bounds.decimals is not None:
        return lambda value: round(value, bounds.decimals)
    if bounds.digits is None:
        return _same
    form, low, high = f".{bounds.digits}g", bounds.low, bounds.high

    def rounded(value: float) -> float:
        kept = float(format(value, form))
        near = low - _TOLERANCE < kept < high + _TOLERANCE
        return min(high, max(low, kept)) if near else kept

    return rounded


def _union(kinds: list[Any]) -> Codec:
    """Return the codec of a union: a type or None, or several record types.

    A JSON object of one of several record types names its type in a tag field.
    """
    if len(kinds) > 1:
        return _tagged(kinds)
    inner = _codec(kinds[0])
    return Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda value, path: None if value is None else inner.decode(value, path),
    )


def _tagged(kinds: list[Any]) -> Codec:
    tag, types = next(each for each in _TAGS.items() if {*each[1].values()} == {*kinds})
    names = {kind: name for name, kind in types.items()}

    def encode(value: Any) -> Any:
        return {tag: names[type(value)]} | record_codec(type(value)).encode(value)

    def decode(value: object, path: str) -> Any:
        name = value.get(tag) if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(name, str) or name not in types:
            raise InputError(f"{path}.{tag} must be one of {', '.join(types)}, got {short(name)}")
        rest = {key: each for key, each in value.items() if key != tag}
        return record_codec(types[name]).decode(rest, path)

    return Codec(encode, decode)


def _tuple(kinds: tuple[Any, ...], marker: Any) -> Codec:
    if len(kinds) == 2 and kinds[1] is not Ellipsis:
        return _pair(*map(_codec, kinds))
    if isinstance(marker, Columns):
        return _columns(kinds[0], marker.count)
    inner, most = _codec(kinds[0]), marker.count if marker else MAX_ITEMS
    return Codec(
        lambda value: [inner.encode(each) for each in value],
        lambda value, path: _each(inner, array(value, path, most), path),
    )


def _each(codec: Codec, items: list[object], path: str) -> tuple[Any, ...]:
    return tuple([codec.decode(item, f"{path}[{i}]") for i, item in enumerate(items)])


def _pair(first: Codec, second: Codec) -> Codec:
    def decode(value: object, path: str) -> tuple[Any, Any]:
        one, other = array(value, path, 2, 2)
        return first.decode(one, f"{path}[0]"), second.decode(other, f"{path}[1]")

    return Codec(lambda pair: [first.encode(pair[0]), second.encode(pair[1])], decode)


def _columns(record: type, most: int) -> Codec:
    """Return the codec that stores several records as one array per field, all of equal length."""
    parts = _parts(record)
    keys = frozenset(part.key for part in parts)
    required = frozenset(part.key for part in parts if not part.has_default)

    def encode(records: tuple[Any, ...]) -> dict[str, list[Any]]:
        return {
            part.key: [part.codec.encode(value) for value in map(part.get, records)]
            for part in parts
        }

    def decode(value: object, path: str) -> tuple[Any, ...]:
        given = object_of(value, path, required, keys)
        count = len(array(given[parts[0].key], f"{path}.{parts[0].key}", most))
        columns = {
            part.name: _column(part, given[part.key], count, f"{path}.{part.key}")
            for part in parts
            if part.key in given
        }
        rows = zip(*columns.values(), strict=True)
        return tuple([record(**dict(zip(columns, row, strict=True))) for row in rows])

    return Codec(encode, decode)


def _column(part: _Part, value: object, count: int, path: str) -> tuple[Any, ...]:
    """Decode the array that has the values of one field of several records.

    If the recording program could not see the values of this field, all of them are null. Otherwise
    none of them is null.
    """
    items = array(value, path, count, count)
    if part.seen is not None and items.count(None) != count:
        return _each(part.seen, items, path)
    return _each(part.codec, items, path)
