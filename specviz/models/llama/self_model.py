"""Cheaper models made from a target's own weights: with fewer layers, or with rounded weights.

Each has its own KV cache and works like any other model. `SelfDrafting` says after which layer a
target may stop, and which layers it may skip.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakKeyDictionary

from specviz.errors import InputError
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.matrix_kernels.projection import Projection, has_int4, int4, int8
from specviz.models.matrix_kernels.settling import settle
from specviz.models.matrix_kernels.weights import is_on_groups
from specviz.slices import check_stop

FILE = "self_drafting.json"


@dataclass(frozen=True, slots=True)
class SelfDrafting:
    """The layers of the target that draft, for two drafting methods.

    Early exit runs only the first `exit_layer` layers (LayerSkip, arXiv 2404.16710). Layer skipping
    runs all layers except `skipped_layers`, numbered from 0 (Draft & Verify, arXiv 2309.08168).
    """

    exit_layer: int
    skipped_layers: tuple[int, ...]


def self_drafting(folder: Path | None, layers: int) -> SelfDrafting:
    """Return the layers named in the folder's `self_drafting.json`, or default layers.

    Raises InputError if the file does not fit a model with that many layers, or if the model has
    only one layer.
    """
    if layers < 2:
        raise InputError(
            f"drafting with a part of the target needs at least 2 layers, got {layers}"
        )
    file = folder / FILE if folder else None
    return _read(file, layers) if file and file.is_file() else _usual(layers)


def _usual(layers: int) -> SelfDrafting:
    """Return the default layers for early exit and for layer skipping.

    Early exit stops after a quarter of the layers. Layer skipping leaves out every second layer of
    the middle half.

    >>> _usual(12)
    SelfDrafting(exit_layer=3, skipped_layers=(3, 5, 7))
    """
    quarter = layers // 4
    return SelfDrafting(max(1, quarter), tuple(range(quarter, layers - quarter, 2)))


def spread_layers(count: int, layers: int) -> tuple[int, ...]:
    """Return `count` layers to skip, evenly spread. The first and the last layer are never skipped.

    >>> spread_layers(3, 12), spread_layers(2, 4)
    ((2, 6, 9), (1, 2))
    """
    if not 1 <= count <= layers - 2:
        raise InputError(
            f"skipped must be from 1 to {layers - 2} of the target's {layers} layers, got {count}"
        )
    inner = layers - 2
    return tuple(1 + (2 * at + 1) * inner // (2 * count) for at in range(count))


def _read(file: Path, layers: int) -> SelfDrafting:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        exit_layer, skipped = content["exit_layer"], tuple(content["skipped_layers"])
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        raise InputError(
            f"{FILE} must have exit_layer and skipped_layers, got a broken {file}"
        ) from None
    if type(exit_layer) is not int or not 1 <= exit_layer < layers:
        raise InputError(f"exit_layer in {FILE} must be from 1 to {layers - 1}, got {exit_layer!r}")
    allowed = set(range(layers))
    is_plain = all(type(layer) is int for layer in skipped)
    if not is_plain or len(set(skipped)) < len(skipped) or not set(skipped) < allowed:
        raise InputError(
            f"skipped_layers in {FILE} must be different layer numbers from 0 to {layers - 1} and "
            f"leave at least one layer, got {list(skipped)!r}"
        )
    return SelfDrafting(exit_layer, skipped)


_quantised: WeakKeyDictionary[LlamaModel, dict[int, LlamaModel]] = WeakKeyDictionary()
_skipping: WeakKeyDictionary[LlamaModel, dict[tuple[int, ...], LlamaModel]] = WeakKeyDictionary()
_lock = threading.Lock()


def layer_skipping(model: LlamaModel, skipped: Sequence[int]) -> LlamaModel:
    """Return a model that runs all layers except `skipped` (numbered from 0).

    It shares the weights of `model`, so only its caches need memory.

    The smaller model is made once for each model and choice of layers, so that its CUDA graphs stay
    valid. Source: Zhang et al., Draft & Verify (arXiv 2309.08168). Raises InputError if `skipped`
    contains a layer twice, a layer that does not exist, or all layers.
    """
    info = model.info
    kept = [i for i in range(info.layers) if i not in set(skipped)]
    if not kept or len(kept) != info.layers - len(skipped):
        raise InputError(
            f"skipped_layers must be different layer numbers from 0 to {info.layers - 1} and leave "
            f"at least one layer, got {list(skipped)!r}"
        )
    with _lock:
        made = _skipping.setdefault(model, {})
        if tuple(skipped) not in made:
            made[tuple(skipped)] = _without(model, kept)
        return made[tuple(skipped)]


def _without(model: LlamaModel, kept: Sequence[int]) -> LlamaModel:
    info = model.info
    layers = [model.layers[i] for i in kept]
    left_out = sum(layer.parameters for i, layer in enumerate(model.layers) if i not in kept)
    smaller = replace(
        info,
        name=f"{info.name}, {len(layers)} of {info.layers} layers",
        parameters=info.parameters - left_out,
        bytes=0,
        layers=len(layers),
    )
    return model.with_layers(layers, smaller)


def usual_bits(model: LlamaModel) -> int:
    """Return how many bits a quantised copy should have: 4 or 8.

    The weights of some GGUF files are already in 4-bit groups. For such weights, the result is 4: a
    4-bit copy is as exact as one with 8 bits, and half as many bytes are read.
    """
    down = model.layers[0].down
    return 4 if has_int4(model.device) and is_on_groups(down.weight) else 8


def quantised(model: LlamaModel, bits: int = 8) -> LlamaModel:
    """Return a copy of the model with rounded weights in all matrices.

    Embedding and norms are shared with the model. The output matrix has 8 bits even if the layers
    have 4, as in published quantised models: rounding it to 4 bits would cost most of the
    acceptance. `info.bytes` is the memory that the copy needs in addition. The copy is made once
    for each model and number of bits, and lives as long as the model. Raises InputError if `bits`
    is 4 and the device has no kernel for 4-bit weights.
    """
    if bits == 4 and not has_int4(model.device):
        raise InputError(
            f"bits must be 8 on {model.device.type}, where torch has no 4-bit kernel, got 4"
        )
    with _lock:
        made = _quantised.setdefault(model, {})
        if bits not in made:
            made[bits] = _quantise(model, bits)
        return made[bits]


def _quantise(model: LlamaModel, bits: int) -> LlamaModel:
    rounded = int4 if bits == 4 else int8
    made: list[Projection] = []

    def convert(projection: Projection) -> Projection:
        check_stop()
        made.append(rounded(projection.weight, projection.bias))
        return made[-1]

    layers = [layer.converted(convert) for layer in model.layers]
    head = int8(model.head.weight, model.head.bias)
    settle([*made, head])
    taken = sum(each.bytes for each in [*made, head])
    info = replace(model.info, name=f"{model.info.name} in int{bits}", bytes=taken)
    return model.with_layers(layers, info, head)
