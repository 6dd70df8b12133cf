"""An EAGLE head: a decoder layer that predicts the target's next hidden state.

EAGLE (Li et al., arXiv 2401.15077) and EAGLE-3 (arXiv 2503.01840) differ in how the first layer
gets its input and in how the logits are computed. The input at each position is a pair: a token's
embedding and the feature of the token before. This module knows nothing about files, trees or
sampling. In shapes, N is the number of tokens, W the hidden size, I the number of inputs of
attention, F the number of feature layers, R the size of the draft vocabulary, which is the target's
whole vocabulary for a head without one, and S the number of slots that a tree mask covers.
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
from specviz.models.llama.attention import additive, attention
from specviz.models.llama.few_row_layers import FewRowLayers
from specviz.models.llama.layer import LlamaLayer, RootMeanSquareNorm
from specviz.models.llama.rotary import Rotary
from specviz.models.llama.row_kernels import prepare
from specviz.models.matrix_kernels.projection import Projection


class PairEntry(Protocol):
    """The first step of a head, which turns a pair (embedding, feature) into attention's input."""

    def reduce(self, features: Tensor) -> Tensor:
        """Reduce the hidden states of F layers of the target to one feature per token.

        The feature becomes a part of the head's input. [N, F W] -> [N, W]
        """
        ...

    def join(self, embedded: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Combine embeddings and features.

        Return the input of attention, and the residual stream [N, W], to which the layer adds the
        result of attention.
        """
        ...


@dataclass(frozen=True, slots=True)
class FusedEntry:
    """The first step of EAGLE and EAGLE-2 heads: one matrix multiplication, without a norm.

    Its result is both the attention's input and the residual stream.
    """

    fuse: Projection  # [W, 2 W]

    def reduce(self, features: Tensor) -> Tensor:
        return features

    def join(self, embedded: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        fused = self.fuse(torch.cat((embedded, features), dim=-1))
        return fused, fused


@dataclass(frozen=True, slots=True)
class NormedEntry:
    """The first step of EAGLE-3 heads.

    One matrix multiplication fuses the hidden states of several layers into a feature. Attention
    reads the embedding and the feature, concatenated.
    """

    fuse: Projection  # [W, F W]
    # The norms for the hidden states of the target's layers: none, one for all layers together, or
    # one per layer.
    state_norms: tuple[RootMeanSquareNorm, ...]
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
    """How often the head's k-th most probable token is the target's next token, for k = 1, 2, …"""

    greedy: tuple[float, ...]  # with the target at temperature 0
    sampled: tuple[float, ...]  # with the target at temperature 0.8


class EagleHead:
    """A head that predicts the feature of token t + 1 from a pair.

    The pair at position t is the embedding of token t + 1 and the feature of token t. The features
    of committed tokens come from the target: `reduce` of the hidden states of `feature_layers`.
    Below the root, the features are the head's own predictions. The head only guesses, so its
    matrices may be stored in fewer bits. A head with a draft vocabulary (`drafted`) never proposes
    other tokens, so it reads only a small part of the output matrix. Decoding stays exact in both
    cases.
    """

    def __init__(
        self,
        target: LanguageModel,
        # layers of the target whose hidden states make a feature; i means the input of layer i
        feature_layers: tuple[int, ...],
        embed: Callable[[Tensor], Tensor],  # [N] int64 -> [N, W]
        entry: PairEntry,
        layers: Sequence[LlamaLayer],
        rotary: Rotary,
        output: DraftOutput,
        size: int,
        feeds_normed: bool = False,
        shares: ChoiceShares | None = None,
    ) -> None:
        """Create a head from its parts. `size` is the memory of its weights in bytes.

        With `feeds_normed`, the head applies its norm to a predicted feature before the next level
        reads the feature. `shares` were measured after training; None if they were not measured.
        """
        self.feature_layers = feature_layers
        self.bytes = size
        self.shares = shares
        self.drafted = output.drafted
        self._target = target
        self._embed = embed
        self._entry = entry
        self._layers = layers
        prepare(layers[0].heads.size, layers[0].mlp_norm.weight[None])
        self._few_rows = FewRowLayers()
        self._rotary = rotary
        self._output = output
        self._feeds_normed = feeds_normed

    def new_cache(self, capacity: int) -> SlotCache:
        """Return an empty cache for at most `capacity` pairs."""
        return SlotCache(len(self._layers), capacity)

    @torch.inference_mode()
    def reduce(self, features: Tensor) -> Tensor:
        """Reduce the hidden states of F layers of the target to one feature per token.

        The feature becomes a part of the head's input. [N, F W] -> [N, W]
        """
        return self._entry.reduce(features)

    @torch.inference_mode()
    def forward(
        self,
        token_ids: Tensor,  # [N] int64, the tokens t + 1 of the pairs
        features: Tensor,  # [N, W], the features of the tokens t
        position_ids: Tensor,  # [N] int64, the positions t of the pairs
        cache: SlotCache,
        tree_mask: Tensor | None = None,  # [N, S] bool
        last_only: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Run N pairs of a token and a feature, which take the next N slots of the head's cache.

        Return logits of tokens t + 2 [N, R] and features of tokens t + 1 [N, W]. With `last_only`,
        the logits are only those of the last pair, [1, R]. `tree_mask` and the errors are those of
        `LanguageModel.forward`. No position may be larger than the slot of its pair, because the
        table of rotary angles covers only as many positions as there are slots.
        """
        slots = StraightSlots(cache, cache.length, 1, token_ids.shape[0])
        cache.check_room(slots.count)
        joined, residual = self._entry.join(self._embed(token_ids), features)
        hidden = self._run(joined, residual, position_ids, slots, tree_mask)
        cache.advance(slots.count)
        return self._foretold(hidden, last_only)

    def _run(
        self,
        joined: Tensor,  # [N, I]
        residual: Tensor,  # [N, W]
        position_ids: Tensor,
        slots: StraightSlots,
        tree_mask: Tensor | None,
    ) -> Tensor:  # [N, W]
        program, every = self._few_rows.program(self._layers, residual), range(len(self._layers))
        if program is not None:
            rows, mask = self._rotary.rows(position_ids, slots.end), additive(slots, tree_mask)
            return program.run(every, residual, rows, slots, mask, normed=joined)
        angles = self._rotary.angles(position_ids, slots.end)
        attend = attention(slots, self._layers[0].heads, residual, tree_mask)
        first, *others = self._layers
        hidden = first.run(joined, residual, angles, attend, 0)
        for index, layer in enumerate(others, 1):
            hidden = layer(hidden, angles, attend, index)
        return hidden

    def _foretold(self, hidden: Tensor, last_only: bool) -> tuple[Tensor, Tensor]:
        norm = self._output.norm
        if norm is not None and self._feeds_normed:
            hidden = normed = norm(hidden)
        else:
            asked = hidden[-1:] if last_only else hidden
            normed = asked if norm is None else norm(asked)
        return self._output.logits(normed[-1:] if last_only else normed, self._target), hidden
