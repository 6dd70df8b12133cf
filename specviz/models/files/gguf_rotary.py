"""Read from a GGUF file the rotary positions that transformers does not read from it.

transformers uses only the base of the rotary angles. Without this module, a Llama 3.1 model would
run with other angles than in its training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from specviz.errors import InputError, short
from specviz.models.files.gguf_reader import QuickReader

FACTORS = "rope_freqs.weight"
# The settings of all published models whose GGUF files contain factors of rotary angles. Only the
# largest factor differs between these models, so it is left out.
_LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
# The largest relative difference between two factors that count as equal, because of rounding.
_CLOSE = 1e-3


def read_rotary(source: str, file: Path, header: Mapping[str, Any], config: Any) -> None:
    """Read the rotary positions of a GGUF file into the configuration.

    `config` is the configuration that transformers read from the file. Raises InputError if the
    file has a kind of rotary positions that this function cannot read.
    """
    kind = header["general.architecture"]
    scaling = header.get(f"{kind}.rope.scaling.type")
    factor = header.get(f"{kind}.rope.scaling.factor", header.get(f"{kind}.rope.scale_linear", 1))
    # The rotary positions of gpt-oss need no check, because transformers reads them itself.
    if kind != "gpt-oss" and scaling != "none" and factor not in (0, 1):
        named = short(scaling or "linear")
        raise InputError(
            f"model {source!r} is a GGUF file with rotary positions of type {named} and factor "
            f"{factor:g}, which specviz does not read from GGUF files: choose the model's "
            "safetensors"
        )
    factors = _factors(file)
    if factors is None or np.allclose(factors, 1, rtol=_CLOSE):
        return
    rope = getattr(config, "rope_parameters", None)
    base = rope.get("rope_theta") if isinstance(rope, Mapping) else None
    found = {**_LLAMA3, "rope_theta": base, "factor": float(factors.max())}
    if base is None or not np.allclose(factors, _llama3(found, len(factors)), rtol=_CLOSE):
        raise InputError(
            f"model {source!r} is a GGUF file whose {FACTORS} are not those of Llama 3.1, the only "
            "ones that specviz reads from GGUF files: choose the model's safetensors"
        )
    config.rope_parameters = found


def _factors(file: Path) -> np.ndarray | None:
    for tensor in QuickReader(str(file)).tensors:
        if tensor.name == FACTORS:
            return np.asarray(tensor.data, np.float32)
    return None


def _llama3(rope: Mapping[str, Any], count: int) -> np.ndarray:
    """Return the factors by which Llama 3.1 divides `count` frequencies of its rotary angles."""
    lengths = 2 * math.pi * rope["rope_theta"] ** (np.arange(count) / count)
    turns = rope["original_max_position_embeddings"] / lengths
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    share = np.clip((turns - low) / (high - low), 0, 1)
    return np.asarray(1 / ((1 - share) / rope["factor"] + share))
