"""The format of a model's published weights, from the `quantization_config` of its configuration.

Each method of quantisation has its own fields for the number of bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# A method of quantisation without a field for the number of bits -> its format in shape.PRECISIONS.
_METHODS = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4", "nvfp4": "nvfp4"}
_INTEGERS = {4: "int4", 8: "int8"}
_BITS = ("bits", "w_bit", "nbits", "num_bits")
# Matches the names of fields about activations, caches or computation, which do not describe
# weights.
_OTHER = re.compile("input|output|activation|kv_cache|cache|compute|storage|scale")
# Finds the number of bits of the weights in a name: it is 4 both in
# Int8DynamicActivationInt4WeightConfig and in W4A16_AWQ.
_NAMED_WEIGHT = re.compile(r"(float|int)(\d)weight|(w)(\d+)a\d")


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """The format of weights and the method that quantised them.

    The format is one of `PRECISIONS`, or "" if it is unknown.
    """

    precision: str
    method: str = ""


def stored_format(config: Mapping[str, Any]) -> StoredFormat:
    """Return the format of the weights of a configuration; bf16 if nothing is quantised.

    >>> stored_format({"quantization_config": {"quant_method": "awq", "bits": 4}}).precision
    'int4'
    """
    given = quantisation(config)
    if not given:
        return StoredFormat("bf16")
    method = str(given.get("quant_method", "")).lower()
    found = set(_formats(given, method))
    return StoredFormat(found.pop() if len(found) == 1 else "", method or "an unnamed method")


def quantisation(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the mapping that describes how the weights are quantised, or {} if there is none."""
    for name in ("quantization_config", "compression_config"):
        if isinstance(given := config.get(name), Mapping):
            return given
    return {}


def _formats(given: Mapping[str, Any], method: str) -> Iterator[str]:
    """Yield the format of each group of weights, or "" for an unknown format."""
    if groups := _groups(given):
        whole = str(given.get("format", "")) + str(given.get("quant_algo", ""))
        for group in groups:
            name = f"{group.get('format') or ''}{whole}"
            yield _of_weights(group.get("weights") or {}, name)
    elif method in _METHODS:
        yield _METHODS[method]
    elif method == "bitsandbytes" or "load_in_4bit" in given or "load_in_8bit" in given:
        yield "int4" if given.get("load_in_4bit") else "int8"
    elif "quant_algo" in given:
        yield _of_name(str(given["quant_algo"]))
    else:
        yield _of_weights(given)


def _groups(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the groups of weights in a configuration of compressed-tensors or Quark.

    Each group has its "weights".
    """
    groups = given.get("config_groups")
    if isinstance(groups, Mapping):
        return [each for each in groups.values() if isinstance(each, Mapping)]
    whole = given.get("global_quant_config")
    if isinstance(whole, Mapping):
        return [{"weights": whole.get("weight")}]
    return []


def _of_weights(weights: Any, name: str = "") -> str:
    """Return the format in a description of weights, or "" if the description names no format."""
    kind = str(weights.get("type", "")) if isinstance(weights, Mapping) else ""
    if found := _of_name(name):
        return found
    for each in _values(weights):
        if isinstance(each, str) and (found := _of_name(each)):
            return found
    bits = next(_bits(weights), None)
    if kind == "float":
        return "fp8" if bits == 8 else ""
    return _INTEGERS.get(bits, "") if bits is not None else ""


def _of_name(name: str) -> str:
    """Return the format of weights in the name of a quantisation, or "" if the name contains none.

    >>> [_of_name(each) for each in ("fp8_e4m3", "W4A16_AWQ", "int8_weight_only", "MIXED")]
    ['fp8', 'int4', 'int8', '']
    """
    plain = name.lower().replace("_", "").replace("-", "")
    if "nvfp4" in plain:
        return "nvfp4"
    if "mxfp4" in plain or plain == "fp4":
        return "mxfp4"
    if found := _NAMED_WEIGHT.search(plain):
        kind, bits = (found[1], int(found[2])) if found[1] else ("int", int(found[4]))
        return "fp8" if (kind, bits) == ("float", 8) else _INTEGERS.get(bits, "")
    if plain.startswith(("fp8", "float8")):
        return "fp8"
    found = re.match(r"u?int(\d)", plain)
    return _INTEGERS.get(int(found[1]), "") if found else ""


def _bits(value: Any) -> Iterator[int]:
    """Yield every number of bits in a description of weights, however deeply it is nested."""
    for name, each in value.items() if isinstance(value, Mapping) else ():
        if name in _BITS and re.fullmatch(r"\d+", str(each)):
            yield int(each)
    for each in value.values() if isinstance(value, Mapping) else ():
        yield from _bits(each)


def _values(value: Any) -> Iterator[Any]:
    """Yield all values in a description of weights, however deeply they are nested.

    Values of fields about activations, caches or computation (`_OTHER`) are left out.
    """
    for name, each in value.items() if isinstance(value, Mapping) else ():
        if _OTHER.search(str(name)) or name in ("quant_method", "packing_format"):
            continue
        yield each
        yield from _values(each)
