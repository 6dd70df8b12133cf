"""Makes a Llama model larger without changing what it computes, so that the speed of a real size
can be measured without a download.

Writes a model folder, one layer at a time, and runs nothing. `larger_shape` has the arithmetic.
"""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import asdict, fields
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from specviz.errors import InputError
from specviz.inflation.larger_shape import Inflation, LlamaShape
from specviz.inflation.source_model import SourceModel
from specviz.inflation.source_model import read_shape as read_shape
from specviz.models.llama.self_model import FILE as SELF_DRAFTING
from specviz.models.memory import free_bytes, gigabytes

_COPIED = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
_EXACT_RATIOS = 4  # scales by the root of its powers are exact in bfloat16


def inflate(source: Path, target: Path, shape: LlamaShape) -> int:
    """Write the model of `source` in a larger shape to the new folder `target`; its weights' bytes.

    Bfloat16 where the old weights are and the scales are exact in it, else float32. Raises
    InputError where the model is broken, or the shape is smaller in anything or does not fit on the
    disk.
    """
    small = SourceModel(source)
    _check_shape(small.shape, shape)
    is_exact = small.is_bfloat16 and _is_exact(small.shape, shape)
    dtype = torch.bfloat16 if is_exact else torch.float32
    size = shape.weights(small.vocabulary) * dtype.itemsize
    _check_target(target, size)
    _check_memory(shape)
    try:
        target.mkdir(parents=True, exist_ok=True)
        _write_weights(small, target, Inflation(small.shape, shape), dtype)
        _write_others(small, target, shape, dtype)
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)  # half a model is none
        if not isinstance(error, (OSError, SafetensorError)):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"folder {str(target)!r} cannot be written: {reason}") from None
    return size


def _is_exact(small: LlamaShape, large: LlamaShape) -> bool:
    ratios = (
        large.hidden_size / small.hidden_size,
        large.head_dim / small.head_dim,
    )
    return all(math.log(ratio, _EXACT_RATIOS).is_integer() for ratio in ratios)


def _check_shape(small: LlamaShape, large: LlamaShape) -> None:
    for each in fields(LlamaShape):
        least, value = getattr(small, each.name), getattr(large, each.name)
        if value < least:
            raise InputError(f"{each.name} must be at least {least}, got {value}")
    if large.head_dim % small.head_dim:
        raise InputError(f"head_dim must be a multiple of {small.head_dim}, got {large.head_dim}")
    if large.group < small.group:
        raise InputError(
            f"num_attention_heads must be at least {small.group} for each key-value head, "
            f"got {large.num_attention_heads} for {large.num_key_value_heads}"
        )


def _check_target(target: Path, size: int) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"folder {str(target)!r} must be new or empty")
    place = next(each for each in (target, *target.resolve().parents) if each.exists())
    free = shutil.disk_usage(place).free
    if size > free:
        raise InputError(
            f"folder {str(target)!r} must have room for {gigabytes(size)}, {gigabytes(free)} are "
            "free: choose a smaller shape"
        )


def _check_memory(shape: LlamaShape) -> None:
    """A layer in float32 and once more on its way to the file."""
    size, free = 2 * shape.layer_weights * torch.float32.itemsize, free_bytes(torch.device("cpu"))
    if free is not None and size > free:
        raise InputError(
            f"a layer of that shape must fit into memory with {gigabytes(size)}, "
            f"{gigabytes(free)} are free: choose a smaller shape"
        )


def _write_weights(source: SourceModel, target: Path, way: Inflation, dtype: torch.dtype) -> None:
    """A file per layer and one for the rest, so that no more than a layer is in memory."""
    layers = way.large.num_hidden_layers
    files: dict[str, str] = {}

    def save(name: str, tensors: dict[str, Tensor]) -> None:
        save_file(
            {key: tensor.to(dtype).contiguous() for key, tensor in tensors.items()},
            target / name,
            {"format": "pt"},
        )
        files.update(dict.fromkeys(tensors, name))

    rest = {"model.embed_tokens.weight": way.embedding, "model.norm.weight": way.norm}
    save("rest.safetensors", {name: make(source.get(name)) for name, make in rest.items()})
    for index in range(layers):
        prefix = f"model.layers.{index}."
        made = way.layer(source.layer(index))
        save(f"layer-{index:03}.safetensors", {prefix + name: each for name, each in made})
    (target / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": files}), encoding="utf-8"
    )


def _write_others(source: SourceModel, target: Path, large: LlamaShape, dtype: torch.dtype) -> None:
    """Configuration, tokenizer, and which layers may be left out: the added ones always."""
    small = source.shape
    changed = asdict(large) | {
        "rms_norm_eps": source.eps * small.hidden_size / large.hidden_size,
        "dtype": str(dtype).removeprefix("torch."),
    }
    (target / "config.json").write_text(json.dumps({**source.config, **changed}, indent=1))
    for name in _COPIED:
        if (source.folder / name).is_file():
            shutil.copyfile(source.folder / name, target / name)
    if (known := source.drafting) is not None:
        added = range(small.num_hidden_layers, large.num_hidden_layers)
        drafting = {
            "exit_layer": known.exit_layer,
            "skipped_layers": [*known.skipped_layers, *added],
        }
        (target / SELF_DRAFTING).write_text(json.dumps(drafting))
