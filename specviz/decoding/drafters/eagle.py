"""EAGLE: one decoder layer predicts the target's next hidden state from its last ones.

Li et al., 2401.15077; the dynamic tree is that of EAGLE-2 (2406.16858). A *feature* is the target's
last hidden state; in EAGLE-3 (2503.01840) the head makes it of several layers' states. Pair t, the
embedding of token t + 1 with the feature of token t, predicts the feature of token t + 1, and so
the distribution of token t + 2. For committed tokens the features are the target's own, below the
root they are the head's predictions. Letters: M nodes of one level, P pairs, W hidden size, F
layers whose states make a feature, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Drafter, HeldMemory, Observation, PrefilledPrompt
from specviz.decoding.drafters.dynamic_tree import LEVEL_WIDTH, Agreement, LevelCost, any_tree
from specviz.decoding.drafters.method import Method, Setup
from specviz.decoding.drafters.source import Level, SourceDrafter
from specviz.decoding.drafters.tree_budget import NODES
from specviz.models.heads.eagle_head import EagleHead
from specviz.models.parts import Need
from specviz.records import ProposalKind

# The bundled head, mean over the five tasks.
AGREEMENT = Agreement(
    (0.875, 0.065, 0.027, 0.008, 0.006, 0.005, 0.003, 0.001),
    (0.530, 0.114, 0.054, 0.034, 0.024, 0.021, 0.016, 0.013),
    0.4,
)


class EagleSource:
    """Logits of the head; its cache covers a prefix of the pairs of committed tokens."""

    def __init__(self, head: EagleHead, device: torch.device, capacity: int) -> None:
        self.feature_layers = head.feature_layers
        self._head = head
        self._device = device
        self._cache = head.new_cache(capacity)
        self._pairs = 0  # in the cache, made from the target's own features
        self._unused: list[Tensor] = []  # the target's features after them, [.., F W]
        self._guesses: list[Tensor] = []  # after the root [1, W], then after each level [M, W]

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory(self._head.bytes, self._cache.bytes)

    @property
    def device(self) -> torch.device:
        return self._device

    def start(self, prompt: PrefilledPrompt) -> None:
        """Run the prompt's own pairs; its last feature waits for the first root."""
        assert prompt.features is not None
        self._unused = [prompt.features]
        if len(prompt.prompt_ids) > 1:
            self._unused = [prompt.features[:-1]]
            self._run_pairs(prompt.prompt_ids)
            self._unused = [prompt.features[-1:]]

    def begin(self, committed: Sequence[int]) -> Tensor:
        """Run the pairs of the last round, one for each token that it committed."""
        logits, guess = self._run_pairs(committed)
        self._guesses = [guess]
        return logits

    def _run_pairs(self, committed: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The pairs that the cache lacks; logits and feature behind the last. -> [1, V], [1, W]"""
        new = torch.tensor(committed[self._pairs + 1 :]).to(self._device, non_blocking=True)
        end = self._pairs + len(new)
        positions = torch.arange(self._pairs, end, device=self._device)
        features = self._head.reduce(torch.cat(self._unused))
        logits, guesses = self._head.forward(new, features, positions, self._cache, last_only=True)
        self._pairs, self._unused = end, []
        return logits, guesses[-1:]

    def extend(self, level: Level) -> Tensor:
        above = torch.cat(self._guesses)[level.parents + 1]
        positions = torch.full_like(level.token_ids, self._pairs - 1 + level.depth)
        logits, guesses = self._head.forward(
            level.token_ids, above, positions, self._cache, level.mask
        )
        self._guesses.append(guesses)
        return logits

    def partial(self) -> None:
        """The head has a cache of its own."""

    def keep(self, observation: Observation) -> None:
        """Replace predictions by the target's own features of the committed tokens."""
        assert observation.features is not None
        rows = [0, *(node + 1 for node in observation.path)]
        chosen = torch.tensor(rows).to(self._device, non_blocking=True)
        self._unused.append(observation.features[chosen])
        self._cache.keep(self._pairs, [])


def _make(setup: Setup) -> Drafter:
    head = setup.parts.eagle
    if head is None:
        raise setup.lacks(Need.EAGLE)
    source = EagleSource(head, setup.target.device, setup.capacity)
    values = METHOD.completed(setup.config)
    one_layer = LevelCost(setup.target, 1 / setup.target.info.layers)
    return SourceDrafter(source, any_tree(setup, values, _agreement(head), one_layer))


def _agreement(head: EagleHead) -> Agreement:
    """As measured for this head, or else that of the bundled one."""
    if head.shares is None:
        return AGREEMENT
    return Agreement(head.shares.greedy, head.shares.sampled, AGREEMENT.sharpest)


METHOD = Method(
    "eagle",
    "EAGLE head",
    "One layer foretells the target's hidden states; its surest paths make the tree.",
    (ProposalKind.DETERMINISTIC, ProposalKind.IID, ProposalKind.WITHOUT_REPLACEMENT),
    _make,
    frozenset({Need.EAGLE}),
    takes_branching=True,
    options=(LEVEL_WIDTH, NODES),
)
