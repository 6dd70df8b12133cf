"""Cheaper models made of a target's own weights: with layers left out, or rounded.

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
from specviz.models.llama.int4_projection import Int4Projection, has_int4, is_on_groups
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.llama.projection import Int8Projection, Product
from specviz.slices import check_stop

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


_quantised: WeakKeyDictionary[LlamaModel, dict[int, LlamaModel]] = WeakKeyDictionary()
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


def usual_bits(model: LlamaModel) -> int:
    """4 where the layers' weights lie on groups of four bits already, as a GGUF file's may, else 8.

    There the copy of 4 bits is as right as that of 8, and reads half as much.
    """
    product = model.layers[0].down
    return 4 if has_int4(model.device) and is_on_groups(product.weight) else 8


def quantised(model: LlamaModel, bits: int = 8) -> LlamaModel:
    """The model with rounded weights in all products; embedding and norms are the model's own.

    The output matrix stays in 8 bits beside layers of 4, as files of quantised models have it:
    it is most of what four bits would cost in acceptance. `info.bytes` is what the copy takes
    beside the model. It is made once for each model and number of bits, and lives as long. Raises
    InputError where there is no product of 4 bits.
    """
    if bits == 4 and not has_int4(model.device):
        raise InputError(
            f"bits must be 8 on {model.device.type}, where this torch multiplies no 4 bits, got 4"
        )
    with _lock:
        made = _quantised.setdefault(model, {})
        if bits not in made:
            made[bits] = _quantise(model, bits)
        return made[bits]


def _quantise(model: LlamaModel, bits: int) -> LlamaModel:
    kind = Int4Projection if bits == 4 else Int8Projection
    made: list[Int4Projection | Int8Projection] = []

    def convert(product: Product) -> Product:
        check_stop()
        made.append(kind(product.weight, product.bias))
        return made[-1]

    layers = [layer.converted(convert) for layer in model.layers]
    head = Int8Projection(model.head.weight, model.head.bias)
    taken = sum(each.bytes for each in [*made, head])
    info = replace(model.info, name=f"{model.info.name} in int{bits}", bytes=taken)
    return model.with_layers(layers, info, head)
