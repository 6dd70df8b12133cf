"""Cheaper models made of a target's own weights: with layers left out, or in int8.

Each has a cache of its own and answers like any other model. `SelfDrafting` says which layers a
target may leave out, and after which it may stop.
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
from specviz.models.llama.projection import Int8Projection, Product

FILE = "self_drafting.json"


@dataclass(frozen=True, slots=True)
class SelfDrafting:
    """The first `exit_layer` layers draft early; all but `skipped_layers` (from 0) draft cheaply.

    Early exit: LayerSkip (2404.16710); left-out layers: Draft & Verify (2309.08168).
    """

    exit_layer: int
    skipped_layers: tuple[int, ...]


def self_drafting(folder: Path | None, layers: int) -> SelfDrafting:
    """What `self_drafting.json` of the model's folder says, or the usual choice.

    Raises InputError where the file says what a model of so many layers cannot do, or where it has
    only one.
    """
    if layers < 2:
        raise InputError(
            f"drafting with a part of the target needs at least 2 layers, got {layers}"
        )
    file = folder / FILE if folder else None
    return _read(file, layers) if file and file.is_file() else _usual(layers)


def _usual(layers: int) -> SelfDrafting:
    """A quarter of the layers; every second layer of the middle half left out.

    >>> _usual(12)
    SelfDrafting(exit_layer=3, skipped_layers=(3, 5, 7))
    """
    quarter = layers // 4
    return SelfDrafting(max(1, quarter), tuple(range(quarter, layers - quarter, 2)))


def spread_layers(count: int, layers: int) -> tuple[int, ...]:
    """So many layers to leave out, spread evenly; the first and the last one stay.

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
            f"skipped_layers in {FILE} must be some of 0 to {layers - 1}, each once, "
            f"got {list(skipped)!r}"
        )
    return SelfDrafting(exit_layer, skipped)


_quantised: WeakKeyDictionary[LlamaModel, LlamaModel] = WeakKeyDictionary()
_skipping: WeakKeyDictionary[LlamaModel, dict[tuple[int, ...], LlamaModel]] = WeakKeyDictionary()
_lock = threading.Lock()


def layer_skipping(model: LlamaModel, skipped: Sequence[int]) -> LlamaModel:
    """The model without the layers `skipped` (from 0); takes no memory but its caches.

    It is made once for each model, so that CUDA graphs of its steps stay. Zhang et al., Draft &
    Verify (2309.08168). Raises InputError where `skipped` names a layer twice, one that does not
    exist, or all.
    """
    info = model.info
    kept = [i for i in range(info.layers) if i not in set(skipped)]
    if not kept or len(kept) != info.layers - len(skipped):
        raise InputError(
            f"skipped_layers must be some of 0 to {info.layers - 1}, each once, "
            f"got {list(skipped)!r}"
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


def quantised(model: LlamaModel) -> LlamaModel:
    """The model with int8 weights in all products; embedding and norms are the model's own.

    `info.bytes` is what the copy takes beside the model. It is made once for each model, and
    lives as long.
    """
    with _lock:
        if model not in _quantised:
            _quantised[model] = _quantise(model)
        return _quantised[model]


def _quantise(model: LlamaModel) -> LlamaModel:
    made: list[Int8Projection] = []

    def convert(product: Product) -> Int8Projection:
        made.append(Int8Projection(product.weight, product.bias))
        return made[-1]

    layers = [layer.converted(convert) for layer in model.layers]
    head = convert(model.head)
    taken = sum(each.bytes for each in made)
    info = replace(model.info, name=f"{model.info.name} in int8", bytes=taken)
    return model.with_layers(layers, info, head)
