"""Traces as files and as JSON values, both ways; broken ones are refused in one sentence."""

from specviz.trace_file.decoding import decode_prefill, decode_round, decode_step
from specviz.trace_file.encoding import encode_prefill, encode_round, encode_step
from specviz.trace_file.files import MAX_FILE_BYTES, MAX_VALUES, dumps, load, loads, save
from specviz.trace_file.whole_trace import decode_trace, encode_trace

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_VALUES",
    "decode_prefill",
    "decode_round",
    "decode_step",
    "decode_trace",
    "dumps",
    "encode_prefill",
    "encode_round",
    "encode_step",
    "encode_trace",
    "load",
    "loads",
    "save",
]
