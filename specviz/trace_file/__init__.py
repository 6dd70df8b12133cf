"""Traces as files and as JSON values, both ways; broken ones are refused in one sentence."""

from specviz.trace_file.files import (
    MAX_FILE_BYTES,
    MAX_VALUES,
    decode,
    decode_trace,
    dumps,
    encode,
    encode_trace,
    load,
    loads,
    memory_bytes,
    save,
)

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_VALUES",
    "decode",
    "decode_trace",
    "dumps",
    "encode",
    "encode_trace",
    "load",
    "loads",
    "memory_bytes",
    "save",
]
