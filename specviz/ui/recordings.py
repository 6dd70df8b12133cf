"""The recorded run that a page asks for: one that comes with the app, or an uploaded file.

A file that holds no trace raises InputError with one sentence.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from specviz.errors import InputError, short
from specviz.golden import golden_trace
from specviz.records import Trace
from specviz.trace_file import loads, measure

# Largest size in bytes of an uploaded file, which is usually compressed.
MAX_UPLOAD_BYTES = 16_000_000
# The largest memory in bytes for all files that are read at the same time. A file that needs more
# is read while no other file is.
MAX_READING_BYTES = 400_000_000
# The largest memory in bytes for the files of one visitor. A single file of any size is always
# read.
READING_OF_ADDRESS = 130_000_000
READING_SECONDS = 20.0  # longest time that a file waits until it may be read
RECORD_BYTES = 5  # bytes of memory that a trace needs, per byte of its text
MAX_WAITING = 8  # largest number of files that wait; each occupies one thread
WAITING_OF_ADDRESS = 4


class Readings:
    """The memory budget for unpacking and reading files, shared by all requests."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken: Counter[str] = Counter()  # visitor's address -> number of reserved bytes
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def room(self, size: int, address: str) -> Iterator[None]:
        """Reserve `size` bytes of the budget for a visitor until the `with` block ends.

        Raises InputError if they are not free within READING_SECONDS.
        """
        size = min(size, MAX_READING_BYTES)
        with self._changed:
            if not self._becomes_free(size, address):
                raise InputError("other files are being read: try again in a moment")
            self._taken[address] += size
        try:
            yield
        finally:
            with self._changed:
                self._taken = +(self._taken - Counter({address: size}))
                self._changed.notify_all()

    def _becomes_free(self, size: int, address: str) -> bool:
        """Return whether `size` bytes of the budget are free for the visitor at `address`.

        If they are not free, wait up to READING_SECONDS for them, and return False if they are
        still not free then. If too many files are waiting already, return False at once.
        """

        def is_free() -> bool:
            near = self._taken[address]
            is_fair = not near or near + size <= READING_OF_ADDRESS
            return is_fair and self._taken.total() + size <= MAX_READING_BYTES

        waiting = self._waiting
        is_full = waiting.total() >= MAX_WAITING or waiting[address] >= WAITING_OF_ADDRESS
        if is_free() or is_full:
            return is_free()
        waiting[address] += 1
        try:
            return self._changed.wait_for(is_free, READING_SECONDS)
        finally:
            waiting.subtract([address])
            if not waiting[address]:
                del waiting[address]


_readings = Readings()


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run read from a file, and the number of bytes of its text (0 for a run of the app)."""

    trace: Trace
    bytes: int

    @property
    def weight(self) -> int:
        """Return how many bytes the run's records take in memory."""
        return RECORD_BYTES * self.bytes


def requested_recording(question: object, address: str = "") -> ReadRun:
    """Read a run: `{"golden": name}`, or `{"data": base64 of a trace file}`.

    `address` is the visitor's address. The memory for reading counts towards this visitor's limit.
    """
    if not isinstance(question, dict):
        raise InputError(f"run must be an object, got {short(question)}")
    if "golden" in question:
        return ReadRun(golden_trace(str(question["golden"])), 0)
    data = _bytes(question.get("data"))
    found = measure(data)
    with _readings.room(found.memory, address):
        return ReadRun(loads(data), found.bytes)


def requested_trace(question: object, address: str = "") -> Trace:
    """Read a run as `requested_recording` does, and return only its trace."""
    return requested_recording(question, address).trace


def _bytes(data: object) -> bytes:
    if not isinstance(data, str):
        raise InputError("trace must be a file in base64, got none")
    size = len(data) * 3 // 4
    if size > MAX_UPLOAD_BYTES:
        raise InputError(
            f"trace must be a file of at most {MAX_UPLOAD_BYTES // 10**6} MB, "
            f"got {size / 10**6:.0f} MB"
        )
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InputError("trace must be a file in base64, got other text") from None
