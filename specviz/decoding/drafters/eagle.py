"""EAGLE: one decoder layer predicts the target's next hidden state from earlier hidden states.

Source: Li et al., arXiv 2401.15077; the dynamic tree is from EAGLE-2 (arXiv 2406.16858). A
*feature* is the target's last hidden state. In EAGLE-3 (arXiv 2503.01840) the head computes the
feature from the hidden states of several layers.

The input at position t is a pair: the embedding of token t + 1 and the feature of token t. From
this pair the head predicts the feature of token t + 1, and from that feature the distribution of
token t + 2. Committed tokens have features of the target itself. Nodes below the root have features
that the head predicted.

In shapes, M is the number of nodes of one level, P the number of pairs, W the hidden size, F the
number of layers whose states make a feature and R the number of tokens that the head can draft.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Drafter, HeldMemory, Observation, PrefilledPrompt
from specviz.decoding.drafters.dynamic_tree import LEVEL_WIDTH, Agreement, LevelCost, any_tree
from specviz.decoding.drafters.method import Method, Setup
from specviz.decoding.drafters.source import Level, SourceDrafter, SteppedSource
from specviz.decoding.drafters.tree_budget import NODES
from specviz.models.accelerator import upload
from specviz.models.heads.eagle_head import EagleHead
from specviz.models.parts import Need
from specviz.records import Drawing

# How often the bundled head predicts the target's next token. Each rate is the mean over the five
# tasks for which the models were trained.
AGREEMENT = Agreement(
    (0.875, 0.065, 0.027, 0.008, 0.006, 0.005, 0.003, 0.001),
    (0.530, 0.114, 0.054, 0.034, 0.024, 0.021, 0.016, 0.013),
    0.4,
)


class EagleSource(SteppedSource):
    """A source of logits that is an EAGLE head.

    A pair is the embedding of a token and the feature of the token before. The head's KV cache
    holds the pairs of a prefix of the committed tokens.
    """

    def __init__(self, head: EagleHead, device: torch.device, capacity: int) -> None:
        self.feature_layers = head.feature_layers
        self.drafted = head.drafted
        self._head = head
        self._device = device
        self._cache = head.new_cache(capacity)
        self._pairs = 0  # number of cached pairs that were made from the target's own features
        # [.., F W], features of the target that the head has not run yet.
        self._unused: list[Tensor] = []
        # The features that the head predicted: one for the root [1, W], then those of each level
        # [M, W].
        self._guesses: list[Tensor] = []

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory(self._head.bytes, self._cache.bytes)

    @property
    def device(self) -> torch.device:
        return self._device

    def start(self, prompt: PrefilledPrompt) -> None:
        """Run the pairs (next token, feature) of the prompt through the head.

        The last feature has no pair yet. The source keeps it until the token after it is known.
        """
        assert prompt.features is not None
        self._unused = [prompt.features]
        if len(prompt.prompt_ids) > 1:
            self._unused = [prompt.features[:-1]]
            self._run_pairs(prompt.prompt_ids)
            self._unused = [prompt.features[-1:]]

    def begin(self, committed: Sequence[int]) -> Tensor:
        """Run the pair (token, feature of the token before) of each newly committed token.

        Return the logits after the last pair.
        """
        logits, guess = self._run_pairs(committed)
        self._guesses = [guess]
        return logits

    def _run_pairs(self, committed: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Run the pairs that the cache lacks.

        Return the logits and the feature after the last pair. -> [1, R], [1, W]
        """
        new = upload(torch.tensor(committed[self._pairs + 1 :]), self._device)
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
        """Return None, because drafting with the head runs no layer of the target."""

    def keep(self, observation: Observation) -> None:
        """Replace the features that the head predicted by features of the target.

        The target has computed exact features of all committed tokens, while the head only guesses
        features.
        """
        assert observation.features is not None
        rows = [0, *(node + 1 for node in observation.path)]
        chosen = upload(torch.tensor(rows), self._device)
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
    """Return the measured rates at which this head's choices are the target's next token.

    If nothing was measured for the head, return the rates of the bundled head.
    """
    if head.shares is None:
        return AGREEMENT
    return Agreement(head.shares.greedy, head.shares.sampled, AGREEMENT.sharpest)


METHOD = Method(
    "eagle",
    "EAGLE head",
    "One layer predicts the target's hidden states; its most probable paths form the tree.",
    _make,
    frozenset({Need.EAGLE}),
    drawings=(Drawing.CHOSEN, Drawing.INDEPENDENT, Drawing.WITHOUT_REPLACEMENT),
    takes_branching=True,
    options=(LEVEL_WIDTH, NODES),
)
