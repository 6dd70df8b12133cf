"""Traces as files and as JSON values. A broken trace raises InputError with one sentence."""

from specviz.trace_file.files import (
    MAX_FILE_BYTES,
    MAX_VALUES,
    TextMeasure,
    decode,
    decode_trace,
    dumps,
    encode,
    encode_trace,
    load,
    loads,
    measure,
    save,
)

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_VALUES",
    "TextMeasure",
    "decode",
    "decode_trace",
    "dumps",
    "encode",
    "encode_trace",
    "load",
    "loads",
    "measure",
    "save",
]
