"""The recorded run that a page asks for: one that comes with the app, or a file of its own.

What is no trace is refused with one sentence.
"""

from __future__ import annotations

import base64
import binascii

from specviz.errors import InputError, short
from specviz.golden import golden_trace
from specviz.records import Trace
from specviz.trace_file import loads

MAX_UPLOAD_BYTES = 16_000_000  # of the file as sent, which is usually compressed


def requested_trace(question: object) -> Trace:
    """`{"golden": name}` or `{"data": base64 of a trace file}`."""
    if not isinstance(question, dict):
        raise InputError(f"run must be an object, got {short(question)}")
    if "golden" in question:
        return golden_trace(str(question["golden"]))
    return loads(_bytes(question.get("data")))


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
