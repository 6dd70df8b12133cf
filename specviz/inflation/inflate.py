"""Make a Llama model larger, but keep the function that it computes.

Such a model runs at the speed of a really large model, but needs no download. This module writes a
model folder, one layer at a time, and does not run the model. `larger_shape` computes the tensors.
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

from specviz.errors import InputError, short
from specviz.inflation.larger_shape import Inflation, LlamaShape
from specviz.inflation.source_model import SourceModel
from specviz.inflation.source_model import read_shape as read_shape
from specviz.models.llama.self_model import FILE as SELF_DRAFTING
from specviz.models.memory import free_bytes, gigabytes

_COPIED = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
# If a size grows by a power of this number, weights are scaled by a power of 2, which bfloat16
# represents exactly.
_EXACT_RATIOS = 4


def inflate(source: Path, target: Path, shape: LlamaShape) -> int:
    """Write the model of `source` in a larger shape to the new folder `target`.

    Return the size of the new weights in bytes. They are bfloat16 if the old weights are bfloat16,
    and if bfloat16 can represent exactly the factors by which weights are scaled. Otherwise they
    are float32. Raise InputError if the model is broken, if any size would become smaller, or if
    the free disk space or memory is too small.
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
        # After an error, delete the incomplete model, because nobody can use it.
        shutil.rmtree(target, ignore_errors=True)
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
            raise InputError(f"{each.name} must be at least {least}, got {short(value)}")
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
            f"folder {str(target)!r} must have {gigabytes(size)} of free disk space, but "
            f"{gigabytes(free)} are free: choose a smaller shape"
        )


def _check_memory(shape: LlamaShape) -> None:
    """Check that memory can hold a layer in float32 twice: writing the layer makes a copy of it."""
    size, free = 2 * shape.layer_weights * torch.float32.itemsize, free_bytes(torch.device("cpu"))
    if free is not None and size > free:
        raise InputError(
            f"a layer of that shape needs {gigabytes(size)} of memory, but {gigabytes(free)} are "
            "free: choose a smaller shape"
        )


def _write_weights(source: SourceModel, target: Path, way: Inflation, dtype: torch.dtype) -> None:
    """Write one file per layer and one for all other weights; memory holds one layer at a time."""
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
    """Write the configuration, the tokenizer and, if the model has one, `self_drafting.json`.

    That file lists the layers that layer skipping leaves out, among them all added layers.
    """
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
