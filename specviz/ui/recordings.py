"""The recorded run that a page asks for: one that comes with the app, or a file of its own.

What is no trace is refused with one sentence.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from specviz.errors import InputError, short
from specviz.golden import golden_trace
from specviz.records import Trace
from specviz.trace_file import loads, memory_bytes

MAX_UPLOAD_BYTES = 16_000_000  # of the file as sent, which is usually compressed
# Of memory, for all files that are read at once; one that needs more is read alone.
MAX_READING_BYTES = 400_000_000
READING_OF_ADDRESS = 130_000_000  # the rest is for others; one file of any size is always read
READING_SECONDS = 20.0  # that a file waits for its turn
MAX_WAITING = 8  # files: each takes one of the threads that answer
WAITING_OF_ADDRESS = 4


class Readings:
    """Room for what is unpacked and read at once, whatever asks for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken: Counter[str] = Counter()  # bytes, by address
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def room(self, size: int, address: str) -> Iterator[None]:
        """For so many bytes of memory; InputError where none is free in time."""
        size = min(size, MAX_READING_BYTES)
        with self._changed:
            if not self._is_given(size, address):
                raise InputError("other files are being read: try again in a moment")
            self._taken[address] += size
        try:
            yield
        finally:
            with self._changed:
                self._taken = +(self._taken - Counter({address: size}))
                self._changed.notify_all()

    def _is_given(self, size: int, address: str) -> bool:
        """At once, or after a wait, for which there are only so many places."""

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


def requested_trace(question: object, address: str = "") -> Trace:
    """`{"golden": name}` or `{"data": base64 of a trace file}`; `address` is that of who asks."""
    if not isinstance(question, dict):
        raise InputError(f"run must be an object, got {short(question)}")
    if "golden" in question:
        return golden_trace(str(question["golden"]))
    data = _bytes(question.get("data"))
    with _readings.room(memory_bytes(data), address):
        return loads(data)


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
