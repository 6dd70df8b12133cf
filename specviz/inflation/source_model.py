"""The folder of the model that is to be made larger. Everything in it is checked before use.

The content of the folder is not trusted, and this module writes nothing to the folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from specviz.errors import InputError, whole_between
from specviz.inflation.larger_shape import LlamaShape
from specviz.models.llama.self_model import FILE as SELF_DRAFTING
from specviz.models.llama.self_model import self_drafting

# The defaults of transformers for values that a configuration leaves out.
_VOCABULARY, _EPS = 32_000, 1e-6
# Types of rotary positions whose angles stay the same in a larger head. Other types depend on the
# size of the head.
_ROTATIONS = ("default", "linear", "llama3")
_DTYPES = ("F32", "BF16", "F16")


def read_shape(folder: Path) -> LlamaShape:
    """Return the shape of the model in a folder.

    Raise InputError unless it is a plain Llama model whose output matrix is its embedding.
    """
    config = _read_config(folder)
    plain = config.get("model_type") == "llama" and config.get("tie_word_embeddings") is True
    if not plain or config.get("attention_bias") or config.get("mlp_bias"):
        raise InputError(
            f"model {str(folder)!r} cannot be made larger: it must be a Llama model without "
            "biases whose output matrix is its embedding (tie_word_embeddings)"
        )
    _check_rotation(folder, config)
    width, heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
    usual = {"num_key_value_heads": heads, "head_dim": width // heads}
    shape = LlamaShape(
        **{each.name: _size(config, each.name, usual) for each in fields(LlamaShape)}
    )
    if shape.head_dim % 2:
        raise InputError(f"head_dim in config.json must be even, got {shape.head_dim}")
    return shape


class SourceModel:
    """A reader for the folder of a complete model. It reads the tensors in float32, one by one."""

    def __init__(self, folder: Path) -> None:
        """Open the folder; raise InputError if a part is missing, broken or has another size."""
        self.folder = folder
        self.shape = read_shape(folder)
        self.config = _read_config(folder)
        self.vocabulary = _size(self.config, "vocab_size", {"vocab_size": _VOCABULARY})
        self.eps = _eps(self.config)
        has_file = (folder / SELF_DRAFTING).is_file()
        self.drafting = self_drafting(folder, self.shape.num_hidden_layers) if has_file else None
        self._files: dict[str, Path] = {}
        self._kinds: dict[str, tuple[tuple[int, ...], str]] = {}
        for file in sorted(folder.glob("*.safetensors")):
            self._open(file)
        dtypes = {self._checked_dtype(name, sizes) for name, sizes in self._expected()}
        self.is_bfloat16 = dtypes == {"BF16"}

    def get(self, name: str) -> Tensor:
        with safe_open(self._files[name], "pt") as opened:
            found: Tensor = opened.get_tensor(name).float()
        return found

    def layer(self, index: int) -> dict[str, Tensor]:
        """Return the tensors of a layer, by their names within the layer.

        The result is empty for a number beyond the last layer.
        """
        if index >= self.shape.num_hidden_layers:
            return {}
        return {name: self.get(f"model.layers.{index}.{name}") for name in _layer(self.shape)}

    def _open(self, file: Path) -> None:
        try:
            with safe_open(file, "pt") as opened:
                for name in opened.keys():
                    part = opened.get_slice(name)
                    self._files[name] = file
                    self._kinds[name] = tuple(part.get_shape()), part.get_dtype()
        except (SafetensorError, OSError):
            raise InputError(
                f"weights of {str(file)!r} cannot be read: the file is broken"
            ) from None

    def _expected(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the name and the size that each tensor of the model must have.

        They are yielded one by one, because config.json may name far more layers than exist.
        """
        width = self.shape.hidden_size
        yield "model.embed_tokens.weight", (self.vocabulary, width)
        yield "model.norm.weight", (width,)
        for index in range(self.shape.num_hidden_layers):
            for name, sizes in _layer(self.shape).items():
                yield f"model.layers.{index}.{name}", sizes

    def _checked_dtype(self, name: str, sizes: tuple[int, ...]) -> str:
        found, dtype = self._kinds.get(name, ((), "nothing"))
        if found != sizes or dtype not in _DTYPES:
            raise InputError(
                f"model {str(self.folder)!r} must have {name} of {sizes} in safetensors of "
                f"{', '.join(_DTYPES)}, got {dtype} {found or ''}".rstrip()
            )
        return dtype


def _layer(shape: LlamaShape) -> dict[str, tuple[int, ...]]:
    """Return the sizes that the tensors of one layer must have, by name."""
    width, inner = shape.hidden_size, shape.intermediate_size
    queries = shape.num_attention_heads * shape.head_dim
    keys = shape.num_key_value_heads * shape.head_dim
    sizes: dict[str, tuple[int, ...]] = {
        "input_layernorm": (width,),
        "post_attention_layernorm": (width,),
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (width, queries),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }
    return {f"{name}.weight": each for name, each in sizes.items()}


def _check_rotation(folder: Path, config: dict[str, Any]) -> None:
    for key in ("rope_parameters", "rope_scaling"):
        given = config.get(key) or {}
        rotation = given if isinstance(given, dict) else {"rope_type": given}
        kind = rotation.get("rope_type", rotation.get("type", "default"))
        if kind not in _ROTATIONS or rotation.get("partial_rotary_factor", 1) != 1:
            raise InputError(
                f"model {str(folder)!r} cannot be made larger: it must have rotary positions of "
                f"type {', '.join(_ROTATIONS)} that rotate whole heads, got {kind!r}"
            )


def _size(config: dict[str, Any], name: str, usual: dict[str, int] | None = None) -> int:
    value = config.get(name)
    found = (usual or {}).get(name) if value is None else value
    return whole_between(found, f"{name} in config.json", 1)


def _eps(config: dict[str, Any]) -> float:
    value = config.get("rms_norm_eps")
    found = _EPS if value is None else value
    if type(found) not in (int, float) or not 0 <= found < 1:
        raise InputError(f"rms_norm_eps in config.json must be from 0 to below 1, got {value!r}")
    return float(found)


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError(f"model {str(folder)!r} has no config.json that can be read")
    return content
