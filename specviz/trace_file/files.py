"""Traces as files: JSON text, plain or gzip.

The input is not trusted: every broken file is refused with one InputError that names the field, the
rule and the value. The server sends parts of a trace to the browser in the same encoding, which
`codec` derives from the records.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from specviz.errors import InputError, is_whole, short
from specviz.records import FORMAT_VERSION, Trace
from specviz.trace_file.codec import record_codec
from specviz.whole_file import write_whole

Record = TypeVar("Record")
Json = dict[str, Any]
MAX_FILE_BYTES = 64_000_000
# Each value in a file becomes a Python object in memory, so the number of values must have a limit.
# A run of 5,000 rounds has fewer values than this.
MAX_VALUES = 5_000_000
# A number that was read from a file takes about VALUE_BYTES bytes of memory. An array takes three
# times as much, so it counts as 3 values, and an object counts as 6. _MARKS maps the characters
# that begin or separate values in JSON text to these counts.
VALUE_BYTES = 40
_MARKS = {b",": 1, b"[": 3, b"{": 6}
# Matches the bytes of characters above U+FFFF. A single such character makes a whole Python string
# four times as large.
_WIDE = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")
_PIECE_BYTES = 1_000_000
_WANTED = "trace must be the file of a run, as Save in Step through or `race --trace` writes it"
_GZIP_MAGIC = b"\x1f\x8b"
_FORMAT = "specviz-trace"


def encode(record: object) -> Json:
    """Convert one record of a run to a JSON value."""
    made: Json = record_codec(type(record)).encode(record)
    return made


def decode(kind: type[Record], value: object, path: str) -> Record:
    """Convert a JSON value to a record. Raise InputError if no run can have produced the record."""
    made: Record = record_codec(kind).decode(value, path)
    return made


def encode_trace(trace: Trace) -> Json:
    """Convert a whole trace to a JSON value, which includes the version of the format."""
    return {"format": _FORMAT, "version": FORMAT_VERSION} | encode(trace)


def decode_trace(value: object) -> Trace:
    """Convert a JSON value to a trace."""
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise InputError(f"{_WANTED}, got {_kind(value)}")
    version = value.get("version")
    if not is_whole(version) or version != FORMAT_VERSION:
        raise InputError(f"trace.version must be {FORMAT_VERSION}, got {short(version)}")
    trace = {key: each for key, each in value.items() if key not in ("format", "version")}
    return decode(Trace, trace, "trace")


def _kind(value: object) -> str:
    """Return a text for error messages that says what a file contains instead of a run."""
    if isinstance(value, dict) and isinstance(value.get("format"), str):
        return f"one in the format {short(value['format'])}"
    return f"other JSON: {short(value)}"


def dumps(trace: Trace) -> bytes:
    """Return the trace as JSON text in UTF-8."""
    value = encode_trace(trace)
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def loads(data: bytes) -> Trace:
    """Return the trace in `data`, which is JSON text or gzip of JSON text.

    `data` and the text have at most MAX_FILE_BYTES bytes.
    """
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
            f"{_WANTED}, got text that is not JSON "
            f"from line {error.lineno}, column {error.colno} on: {_beginning(error)}"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{_WANTED}, got bytes that are neither JSON nor gzip "
            f"(0x{data[error.start]:02x} at byte {error.start})"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"trace must be JSON text or gzip of it, got {_reason(error)}") from None
    return decode_trace(value)


def _beginning(error: json.JSONDecodeError) -> str:
    """Describe the characters at which a text stops being valid JSON, for an error message."""
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
    """Check the number of values in a JSON text before Python objects are made for them.

    A few kilobytes of gzip can contain millions of values.
    """
    count = _values(data)
    if count > MAX_VALUES:
        raise InputError(f"trace must hold at most {MAX_VALUES} values, got about {count}")


def _values(text: bytes) -> int:
    return sum(size * text.count(mark) for mark, size in _MARKS.items())


@dataclass(frozen=True, slots=True)
class TextMeasure:
    """The size of the text in a file.

    The text itself is measured, because the size that a gzip file states may be wrong.
    """

    bytes: int
    memory: int  # largest number of bytes of memory that `loads` needs for this text


def measure(data: bytes) -> TextMeasure:
    """Measure the text in a file; raise InputError if `loads` would refuse it.

    The text is read piece by piece, so that it never is in memory as a whole.
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
    # `loads` holds the text in memory three times: as bytes, as a string, and as parsed objects.
    return TextMeasure(size, (9 if is_wide else 3) * size + VALUE_BYTES * count)


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


def _claimed_bytes(data: bytes) -> int:
    """Return the length of a gzip file's text, as the last bytes of the file state it."""
    return min(MAX_FILE_BYTES, int.from_bytes(data[-4:], "little"))


def _unzip(data: bytes) -> bytes:
    """Unzip a file, but stop at the length that the file states, and at the limit of file sizes.

    Without these limits, a small file could become gigabytes of text.
    """
    claimed = _claimed_bytes(data)
    try:
        with gzip.open(io.BytesIO(data)) as stream:
            unpacked = stream.read(claimed + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"trace must be a whole gzip file, got {_reason(error)}") from None
    _check_size(len(unpacked))
    if len(unpacked) > claimed:
        raise InputError(
            f"trace must be a whole gzip file, got more than the {claimed} bytes that it announces"
        )
    return unpacked


def _reason(error: Exception) -> str:
    """Return an error's message in one line, shortened because it may quote the input."""
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
    """Write the trace to a file: plain JSON if the name ends in .json, otherwise gzip.

    The gzip file contains no date, so equal traces give equal files. Raise OSError, for example if
    the disk is full; an existing file then stays unchanged.
    """
    path = Path(path)
    data = dumps(trace)
    write_whole(path, data if path.suffix == ".json" else gzip.compress(data, mtime=0))


def load(path: Path | str) -> Trace:
    """Read a file that `save` wrote; raise InputError if it is missing, too large or broken."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"path must be an existing file, got {str(path)!r}")
    _check_size(path.stat().st_size)
    return loads(path.read_bytes())
