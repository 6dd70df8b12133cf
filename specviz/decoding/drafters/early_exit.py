"""Early exit: draft with the target's own first layers, its final norm and its output matrix.

Source: LayerSkip, arXiv 2404.16710. The keys and values of drafted tokens go into the target's own
cache. Verification continues from the hidden states after the exit layer, so no layer runs twice.

In shapes, M is the number of nodes of one level, W the hidden size and V the size of the
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.decoding.drafters.base import (
    Drafter,
    HeldMemory,
    Observation,
    Partial,
    PrefilledPrompt,
)
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.decoding.drafters.source import Level, SourceDrafter, SteppedSource
from specviz.decoding.drafters.static_tree import static_tree
from specviz.errors import InputError
from specviz.models.accelerator import upload
from specviz.models.language_model import KeyValueCache, LayeredModel
from specviz.models.parts import Need
from specviz.records import Drawing

EXIT_LAYER = Option(
    "exit_layer",
    "Exit after layer",
    0,
    0,
    200,
    "0: as in the model's self_drafting.json, otherwise a quarter of its layers",
    usual="1,2,3",
)


class EarlyExitSource(SteppedSource):
    """A source of logits that consists of the target's first `layers` layers.

    The root and the drafted nodes use the slots of the target's cache after `cache.length`.
    """

    feature_layers: tuple[int, ...] = ()
    # The source needs no memory of its own, because it uses the target's weights and the target's
    # cache.
    memory = HeldMemory()

    def __init__(self, model: LayeredModel, layers: int) -> None:
        self._model = model
        self._layers = range(layers)
        self._cache: KeyValueCache | None = None
        self._root_position = 0
        self._hidden: list[Tensor] = []  # [M, W], hidden states of the root, then of each level

    @property
    def device(self) -> torch.device:
        return self._model.device

    def start(self, prompt: PrefilledPrompt) -> None:
        self._cache = prompt.cache

    def begin(self, committed: Sequence[int]) -> Tensor:
        self._root_position = len(committed) - 1
        self._hidden = []
        root = upload(torch.tensor(committed[-1:]), self.device)
        return self._run(root, depth=0, mask=None)

    def extend(self, level: Level) -> Tensor:
        return self._run(level.token_ids, level.depth, level.mask)

    def _run(self, token_ids: Tensor, depth: int, mask: Tensor | None) -> Tensor:
        """Run the target's first layers over the nodes of one depth. [M] -> logits [M, V]"""
        assert self._cache is not None, "start was not called"
        model, start = self._model, self._cache.length + sum(map(len, self._hidden))
        positions = torch.full_like(token_ids, self._root_position + depth)
        hidden = model.run_layers(
            model.embed(token_ids), positions, self._cache, self._layers, start, mask
        )
        self._hidden.append(hidden)
        return model.output(model.norm(hidden))

    def partial(self) -> Partial:
        return Partial(len(self._layers), torch.cat(self._hidden))

    def keep(self, observation: Observation) -> None:
        """Do nothing: the target decides which slots of its cache to keep."""


def _make(setup: Setup) -> Drafter:
    layers = setup.target.info.layers
    usual = setup.parts.self_drafting
    if usual is None:
        raise setup.lacks(Need.LAYERS)
    exit_layer = METHOD.completed(setup.config)[EXIT_LAYER.name] or usual.exit_layer
    if exit_layer >= layers:
        raise InputError(
            f"exit_layer must be below {layers}, the number of layers of "
            f"{setup.target.info.name}, got {exit_layer}"
        )
    # The target is a LayeredModel, because only pairs with such a target have `self_drafting`.
    target: LayeredModel = setup.target  # type: ignore[assignment]
    return SourceDrafter(EarlyExitSource(target, exit_layer), static_tree(setup))


METHOD = Method(
    "early-exit",
    "Early exit",
    "The target's own first layers draft, in its own cache; verification runs only the rest.",
    _make,
    frozenset({Need.LAYERS}),
    drawings=tuple(Drawing),
    takes_branching=True,
    options=(EXIT_LAYER,),
    shares_cache=True,
)
