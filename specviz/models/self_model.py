"""Cheaper models made of a target's own weights: with layers left out, or in int8.

Each has a cache of its own and answers like any other model. Knows nothing of drafting.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from specviz.errors import InputError
from specviz.models.int8_projection import Int8Projection
from specviz.models.llama_model import LlamaModel
from specviz.models.projection import Product

_quantised: WeakKeyDictionary[LlamaModel, LlamaModel] = WeakKeyDictionary()
_lock = threading.Lock()


def layer_skipping(model: LlamaModel, skipped: Sequence[int]) -> LlamaModel:
    """The model without the layers `skipped` (from 0); takes no memory but its caches.

    Zhang et al., Draft & Verify (2309.08168). Raises InputError where `skipped` names a layer
    twice, one that does not exist, or all.
    """
    info = model.info
    kept = [i for i in range(info.layers) if i not in set(skipped)]
    if not kept or len(kept) != info.layers - len(skipped):
        raise InputError(
            f"skipped_layers must be some of 0 to {info.layers - 1}, each once, "
            f"got {list(skipped)!r}"
        )
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
