"""Makes a Llama model larger without changing what it computes, so that the speed of a real size
can be measured without a download.

Writes a model folder, one layer at a time, and runs nothing. `inflation` has the arithmetic.
"""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from specviz.errors import InputError
from specviz.models.inflation import Inflation, Shape
from specviz.models.memory import free_bytes, gigabytes
from specviz.models.self_drafting import FILE as SELF_DRAFTING

_COPIED = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
_EXACT_RATIOS = 4  # scales by the root of its powers are exact in bfloat16


def read_shape(folder: Path) -> Shape:
    """Of a model's folder. InputError unless it is a plain Llama model with a tied output."""
    config = _read_config(folder)
    plain = config.get("model_type") == "llama" and config.get("tie_word_embeddings") is True
    if not plain or config.get("attention_bias") or config.get("mlp_bias"):
        raise InputError(
            f"model {str(folder)!r} must be a Llama model without biases and with a tied output "
            "matrix to be inflated"
        )
    return Shape(**{each.name: config[each.name] for each in fields(Shape)})


def inflate(source: Path, target: Path, shape: Shape) -> int:
    """Write the model of `source` in a larger shape to the new folder `target`; its weights' bytes.

    Float32 where the scales are not exact in bfloat16. Raises InputError where the shape is smaller
    in anything, or does not fit on the disk.
    """
    small = read_shape(source)
    _check_shape(small, shape)
    config = _read_config(source)
    dtype = torch.bfloat16 if _is_exact(small, shape) else torch.float32
    size = shape.weights(config["vocab_size"]) * dtype.itemsize
    _check_target(target, size)
    _check_memory(shape)
    try:
        target.mkdir(parents=True, exist_ok=True)
        _write_weights(source, target, Inflation(small, shape), dtype)
        _write_others(source, target, config, small, shape, dtype)
    except OSError as error:
        raise InputError(f"folder {str(target)!r} cannot be written: {error.strerror}") from None
    return size


def _is_exact(small: Shape, large: Shape) -> bool:
    ratios = (
        large.hidden_size / small.hidden_size,
        large.head_dim / small.head_dim,
    )
    return all(math.log(ratio, _EXACT_RATIOS).is_integer() for ratio in ratios)


def _check_shape(small: Shape, large: Shape) -> None:
    for each in fields(Shape):
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


def _check_memory(shape: Shape) -> None:
    """A layer in float32 and once more on its way to the file."""
    size, free = 2 * shape.layer_weights * torch.float32.itemsize, free_bytes(torch.device("cpu"))
    if free is not None and size > free:
        raise InputError(
            f"a layer of that shape must fit into memory with {gigabytes(size)}, "
            f"{gigabytes(free)} are free: choose a smaller shape"
        )


def _write_weights(source: Path, target: Path, way: Inflation, dtype: torch.dtype) -> None:
    """A file per layer and one for the rest, so that no more than a layer is in memory."""
    weights = _Weights(source)
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
    save("rest.safetensors", {name: make(weights.get(name)) for name, make in rest.items()})
    for index in range(layers):
        prefix = f"model.layers.{index}."
        made = way.layer(weights.below(prefix))
        save(f"layer-{index:03}.safetensors", {prefix + name: each for name, each in made})
    (target / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": files}), encoding="utf-8"
    )


class _Weights:
    """The tensors of a folder in float32, read one by one."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, Path] = {}
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, "pt") as opened:
                self._files |= dict.fromkeys(opened.keys(), file)

    def get(self, name: str) -> Tensor:
        with safe_open(self._files[name], "pt") as opened:
            found: Tensor = opened.get_tensor(name).float()
        return found

    def below(self, prefix: str) -> dict[str, Tensor]:
        """Those whose names begin so, without it."""
        names = [name for name in self._files if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.get(name) for name in names}


def _write_others(
    source: Path,
    target: Path,
    config: dict[str, Any],
    small: Shape,
    large: Shape,
    dtype: torch.dtype,
) -> None:
    """Configuration, tokenizer, and which layers may be left out: the added ones always."""
    eps = config["rms_norm_eps"]
    changed = {each.name: getattr(large, each.name) for each in fields(Shape)} | {
        "rms_norm_eps": eps * small.hidden_size / large.hidden_size,
        "dtype": str(dtype).removeprefix("torch."),
    }
    (target / "config.json").write_text(json.dumps({**config, **changed}, indent=1))
    for name in _COPIED:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    if (source / SELF_DRAFTING).is_file():
        known = json.loads((source / SELF_DRAFTING).read_text(encoding="utf-8"))
        added = range(small.num_hidden_layers, large.num_hidden_layers)
        known["skipped_layers"] += list(added)
        (target / SELF_DRAFTING).write_text(json.dumps(known))


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"model {str(folder)!r} has no config.json that can be read") from None
    return dict(content)
