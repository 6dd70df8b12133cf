"""An EAGLE head: a decoder layer that foretells the target's next hidden state.

EAGLE (Li et al., 2401.15077) and EAGLE-3 (2503.01840) differ in how a pair goes in and how logits
come out. Knows nothing of files, trees or sampling. Letters: N tokens, W hidden size, F feature
layers, V vocabulary, S slots that a tree mask covers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.models.cache import SlotCache, StraightSlots
from specviz.models.heads.draft_output import DraftOutput
from specviz.models.language_model import LanguageModel
from specviz.models.llama.llama_model import LlamaLayer, RootMeanSquareNorm, Rotary, attention
from specviz.models.llama.projection import Product


class PairEntry(Protocol):
    """What becomes of a pair before the first layer's attention."""

    def reduce(self, features: Tensor) -> Tensor:
        """The target's features of tokens as those that pairs take. [N, F W] -> [N, W]"""
        ...

    def join(self, embedded: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """[N, W] each -> what the attention reads, and what its result is added to, [N, W]."""
        ...


@dataclass(frozen=True, slots=True)
class FusedEntry:
    """EAGLE and EAGLE-2: one product makes both; no norm before attention."""

    fuse: Product  # [W, 2 W]

    def reduce(self, features: Tensor) -> Tensor:
        return features

    def join(self, embedded: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        fused = self.fuse(torch.cat((embedded, features), dim=-1))
        return fused, fused


@dataclass(frozen=True, slots=True)
class NormedEntry:
    """EAGLE-3: several layers' features become one; attention reads both halves side by side."""

    fuse: Product  # [W, F W]
    state_norms: tuple[RootMeanSquareNorm, ...]  # none, one of all features, or one a layer
    embedding_norm: RootMeanSquareNorm
    feature_norm: RootMeanSquareNorm
    adds_to_normed: bool

    def reduce(self, features: Tensor) -> Tensor:
        if not self.state_norms:
            return self.fuse(features)
        parts = features.chunk(len(self.state_norms), dim=-1)
        normed = [norm(part) for norm, part in zip(self.state_norms, parts, strict=True)]
        return self.fuse(torch.cat(normed, dim=-1))

    def join(self, embedded: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        normed = self.feature_norm(features)
        joined = torch.cat((self.embedding_norm(embedded), normed), dim=-1)
        return joined, normed if self.adds_to_normed else features


@dataclass(frozen=True, slots=True)
class ChoiceShares:
    """How often the head's k-th choice is the target's next token, from its first choice on."""

    greedy: tuple[float, ...]  # at temperature 0
    sampled: tuple[float, ...]  # at temperature 0.8


class EagleHead:
    """Pair t, the embedding of token t + 1 with the feature of t, gives the feature of t + 1.

    It stands at position t. The feature of a committed token is `reduce` of the target's
    `feature_layers`; below the root it is what the head foretold. What it says is a guess, so its
    matrices (a copy of the target's output among them) may be compact. A head with a draft
    vocabulary gives all other tokens probability 0: it is exact all the same, and reads a small
    part of the output matrix.
    """

    def __init__(
        self,
        target: LanguageModel,
        feature_layers: tuple[int, ...],  # as `ForwardOutput` counts them
        embed: Callable[[Tensor], Tensor],  # [N] int64 -> [N, W]
        entry: PairEntry,
        layers: Sequence[LlamaLayer],
        rotary: Rotary,
        output: DraftOutput,
        size: int,
        feeds_normed: bool = False,
        shares: ChoiceShares | None = None,
    ) -> None:
        """`size` is the memory of its weights. `feeds_normed`: features are foretold normed.

        `shares`: as measured by whoever made the head.
        """
        self.feature_layers = feature_layers
        self.bytes = size
        self.shares = shares
        self._target = target
        self._embed = embed
        self._entry = entry
        self._layers = layers
        self._rotary = rotary
        self._output = output
        self._feeds_normed = feeds_normed

    def new_cache(self, capacity: int) -> SlotCache:
        """An empty cache for at most `capacity` pairs."""
        return SlotCache(len(self._layers), capacity)

    @torch.inference_mode()
    def reduce(self, features: Tensor) -> Tensor:
        """The target's features of tokens as those that pairs take. [N, F W] -> [N, W]"""
        return self._entry.reduce(features)

    @torch.inference_mode()
    def forward(
        self,
        token_ids: Tensor,  # [N] int64, token t + 1
        features: Tensor,  # [N, W], of t
        position_ids: Tensor,  # [N] int64, t
        cache: SlotCache,
        tree_mask: Tensor | None = None,  # [N, S] bool
        last_only: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Run N pairs behind the cache; logits of t + 2 [N, V] and features of t + 1 [N, W].

        `tree_mask`, `last_only` (logits [1, V]) and errors are those of `LanguageModel.forward`;
        no position may be larger than its pair's slot.
        """
        slots = StraightSlots(cache, cache.length, 1, token_ids.shape[0])
        cache.check_room(slots.count)
        joined, residual = self._entry.join(self._embed(token_ids), features)
        angles = self._rotary.angles(position_ids, slots.end)
        first, *others = self._layers
        attend = attention(slots, first.heads, residual, tree_mask)
        hidden = first.run(joined, residual, angles, attend, 0)
        for index, layer in enumerate(others, 1):
            hidden = layer(hidden, angles, attend, index)
        cache.advance(slots.count)
        return self._foretold(hidden, last_only)

    def _foretold(self, hidden: Tensor, last_only: bool) -> tuple[Tensor, Tensor]:
        norm = self._output.norm
        if norm is not None and self._feeds_normed:
            hidden = normed = norm(hidden)
        else:
            asked = hidden[-1:] if last_only else hidden
            normed = asked if norm is None else norm(asked)
        return self._output.logits(normed[-1:] if last_only else normed, self._target), hidden
