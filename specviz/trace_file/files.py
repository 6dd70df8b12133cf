"""Traces as files: JSON text, plain or gzip.

Reading trusts nothing: every broken file is refused with one InputError that names the field, the
rule and the value. The same encoding of the parts goes over the wire to the browser; `codec` makes
it from the records.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from specviz.errors import InputError, short, whole_between
from specviz.records import FORMAT_VERSION, Trace
from specviz.trace_file.codec import record_codec
from specviz.trace_file.old_versions import upgraded

Record = TypeVar("Record")
Json = dict[str, Any]
MAX_FILE_BYTES = 64_000_000
MAX_VALUES = 5_000_000  # more than a run of 5,000 rounds; each becomes an object of its own
VALUE_BYTES = 40  # that a number takes in memory; an array takes as much as three, an object as six
_MARKS = {b",": 1, b"[": 3, b"{": 6}
# what only characters beyond U+FFFF have, of which one makes all of a text four times as large
_WIDE = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")
_PIECE_BYTES = 1_000_000
_WANTED = "trace must be the file of a run, as Save in Step through or `race --trace` writes it"
_GZIP_MAGIC = b"\x1f\x8b"
_FORMAT = "specviz-trace"


def encode(record: object) -> Json:
    """One record of a run as a JSON value."""
    made: Json = record_codec(type(record)).encode(record)
    return made


def decode(kind: type[Record], value: object, path: str) -> Record:
    """The record of a JSON value; InputError for anything that no run can have left."""
    made: Record = record_codec(kind).decode(value, path)
    return made


def encode_trace(trace: Trace) -> Json:
    """The whole trace, with the version of the format."""
    return {"format": _FORMAT, "version": FORMAT_VERSION} | encode(trace)


def decode_trace(value: object) -> Trace:
    """The trace of a JSON value, of any version so far."""
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise InputError(f"{_WANTED}, got {_kind(value)}")
    version = whole_between(value.get("version"), "trace.version", 1, FORMAT_VERSION)
    trace = {key: each for key, each in value.items() if key not in ("format", "version")}
    return decode(Trace, upgraded(trace, version) if version < FORMAT_VERSION else trace, "trace")


def _kind(value: object) -> str:
    """What a file holds instead of a run, for a sentence."""
    if isinstance(value, dict) and isinstance(value.get("format"), str):
        return f"one in the format {short(value['format'])}"
    return f"other JSON: {short(value)}"


def dumps(trace: Trace) -> bytes:
    """JSON text in UTF-8."""
    value = encode_trace(trace)
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def loads(data: bytes) -> Trace:
    """The trace in `data`: JSON text or gzip of it, at most MAX_FILE_BYTES before and after."""
    _check_size(len(data))
    if data[:2] == _GZIP_MAGIC:
        data = _unzip(data)
    if not data:
        raise InputError("trace must be JSON text or gzip of it, got an empty file")
    _check_values(data)
    try:
        value = json.loads(
            data.decode(),
            parse_constant=_refuse_constant,
            object_pairs_hook=_without_repeats,
        )
    except InputError:
        raise
    except json.JSONDecodeError as error:
        raise InputError(
            f"{_WANTED}, got text that is no JSON "
            f"from line {error.lineno}, column {error.colno} on: {_beginning(error)}"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{_WANTED}, got bytes that are neither JSON nor gzip "
            f"(0x{data[error.start]:02x} at {error.start})"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"trace must be JSON text or gzip of it, got {_reason(error)}") from None
    return decode_trace(value)


def _beginning(error: json.JSONDecodeError) -> str:
    """A few characters from where it is no JSON any more."""
    rest = error.doc[error.pos :]
    if error.msg == "Extra data" and rest.startswith("{"):
        return "a second object, as in the file of a sweep, which the Lab opens"
    if rest.startswith("<"):
        return "HTML or XML; a report shows its run in the browser by itself"
    return short(rest[:20]) if rest else "the file ends there"


def _check_size(size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise InputError(f"trace must be at most {MAX_FILE_BYTES} bytes, got {size} or more")


def _check_values(data: bytes) -> None:
    """Before anything is built of them: a few kilobytes of gzip can hold millions."""
    count = _values(data)
    if count > MAX_VALUES:
        raise InputError(f"trace must hold at most {MAX_VALUES} values, got {count} or so")


def _values(text: bytes) -> int:
    return sum(size * text.count(mark) for mark, size in _MARKS.items())


def memory_bytes(data: bytes) -> int:
    """What `loads` will take of the memory, at the most; InputError where it would refuse the file.

    The text is looked through piece by piece, none of which is kept.
    """
    size = count = 0
    is_wide, last = False, b""
    for piece in _text_pieces(data):
        size += len(piece)
        _check_size(size)
        count += _values(piece)
        is_wide = is_wide or bool(_WIDE.search(last + piece))
        last = piece[-3:]
        if count > MAX_VALUES:
            raise InputError(f"trace must hold at most {MAX_VALUES} values, got {count} or more")
    # as bytes, as text, and once more in all that is made of it
    return (9 if is_wide else 3) * size + VALUE_BYTES * count


def _text_pieces(data: bytes) -> Iterator[bytes]:
    if data[:2] != _GZIP_MAGIC:
        yield data
        return
    try:
        with gzip.open(io.BytesIO(data)) as stream:
            while piece := stream.read(_PIECE_BYTES):
                yield piece
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"trace must be a whole gzip file, got {_reason(error)}") from None


def _told_bytes(data: bytes) -> int:
    """How long the text in a gzip file is, by the file's own word."""
    return min(MAX_FILE_BYTES, int.from_bytes(data[-4:], "little"))


def _unzip(data: bytes) -> bytes:
    """Reads no more than the file says and the limit allows: a small one can become gigabytes."""
    told = _told_bytes(data)
    try:
        with gzip.open(io.BytesIO(data)) as stream:
            unpacked = stream.read(told + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"trace must be a whole gzip file, got {_reason(error)}") from None
    _check_size(len(unpacked))
    if len(unpacked) > told:
        raise InputError(f"trace must be a whole gzip file, got more than the {told} bytes it says")
    return unpacked


def _reason(error: Exception) -> str:
    """What the reader said, in one line; it may quote the input, so not at any length."""
    return " ".join(str(error).split())[:100] or type(error).__name__


def _refuse_constant(name: str) -> object:
    raise InputError(f"trace must hold finite numbers only, got {name}")


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        ((repeated, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise InputError(f"trace must name each field once, got {short(repeated)} twice")
    return made


def save(trace: Trace, path: Path | str) -> None:
    """Write the trace: plain JSON where the name ends in .json, else gzip without a date."""
    path = Path(path)
    data = dumps(trace)
    path.write_bytes(data if path.suffix == ".json" else gzip.compress(data, mtime=0))


def load(path: Path | str) -> Trace:
    """Read what `save` wrote; InputError for a missing, too large or broken file."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"path must be an existing file, got {str(path)!r}")
    _check_size(path.stat().st_size)
    return loads(path.read_bytes())
