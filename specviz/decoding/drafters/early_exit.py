"""Early exit: the target's first layers, its final norm and its head draft for the whole target.

LayerSkip 2404.16710. The keys and values of drafted tokens are in the target's own cache, and
verification continues from the hidden states of the exit layer, so no layer runs twice. Letters: M
nodes of one level, W hidden size, V vocabulary.
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
from specviz.decoding.drafters.source import Level, SourceDrafter
from specviz.decoding.drafters.static_tree import static_tree
from specviz.errors import InputError
from specviz.models.language_model import KeyValueCache, LayeredModel
from specviz.models.parts import Need
from specviz.records import ProposalKind

EXIT_LAYER = Option(
    "exit_layer",
    "Exit after layer",
    0,
    0,
    200,
    "0: the one that the model's self_drafting.json names, else a quarter of its layers",
    usual="1,2,3",
)


class EarlyExitSource:
    """Logits after the first `layers` layers; root and nodes use the slots after `cache.length`."""

    feature_layers: tuple[int, ...] = ()
    memory = HeldMemory()  # it has no weights of its own, and drafts in the target's cache

    def __init__(self, model: LayeredModel, layers: int) -> None:
        self._model = model
        self._layers = range(layers)
        self._cache: KeyValueCache | None = None
        self._root_position = 0
        self._hidden: list[Tensor] = []  # of the root, then of each level, [M, W]

    @property
    def device(self) -> torch.device:
        return self._model.device

    def start(self, prompt: PrefilledPrompt) -> None:
        self._cache = prompt.cache

    def begin(self, committed: Sequence[int]) -> Tensor:
        self._root_position = len(committed) - 1
        self._hidden = []
        root = torch.tensor(committed[-1:]).to(self.device, non_blocking=True)
        return self._run(root, depth=0, mask=None)

    def extend(self, level: Level) -> Tensor:
        return self._run(level.token_ids, level.depth, level.mask)

    def _run(self, token_ids: Tensor, depth: int, mask: Tensor | None) -> Tensor:
        """Run the first layers over tokens of one depth. [M] -> [M, V]"""
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
        """The target keeps the slots of its own cache."""


def _make(setup: Setup) -> Drafter:
    layers = setup.target.info.layers
    usual = setup.parts.self_drafting
    if usual is None:
        raise setup.lacks(Need.LAYERS)
    exit_layer = METHOD.completed(setup.config)[EXIT_LAYER.name] or usual.exit_layer
    if exit_layer >= layers:
        raise InputError(
            f"exit_layer must be below {layers}, the layers of {setup.target.info.name}, "
            f"got {exit_layer}"
        )
    target: LayeredModel = setup.target  # type: ignore[assignment] # that is what LAYERS means
    return SourceDrafter(EarlyExitSource(target, exit_layer), static_tree(setup))


METHOD = Method(
    "early-exit",
    "Early exit",
    "The target's own first layers draft, in its own cache; verification runs only the rest.",
    (ProposalKind.IID, ProposalKind.WITHOUT_REPLACEMENT, ProposalKind.DETERMINISTIC),
    _make,
    frozenset({Need.LAYERS}),
    takes_branching=True,
    options=(EXIT_LAYER,),
    shares_cache=True,
)
