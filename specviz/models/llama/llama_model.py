"""Models of the Llama family, layer by layer, with as few tensor operations as possible.

Llama, SmolLM2, Mistral with full attention, Qwen2 and Qwen3; `library_model` is the reference that
it equals. Top to bottom: rotary positions, attention over a cache, one layer, the model. Letters:
B rows, N query tokens, T = B * N, E = the slots up to the last of them, S slots that a tree mask
covers, P positions in a table, W hidden size, I inputs of attention, A query heads, G key-value
heads, R = A / G, D head size, V vocabulary.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.models.cache import RaggedCache, RaggedSlots, SlotCache, Slots, StraightSlots
from specviz.models.draft_vocabulary import DraftVocabulary
from specviz.models.feature_taps import FeatureTaps
from specviz.models.language_model import ForwardOutput, KeyValueCache, RaggedKeyValueCache
from specviz.models.llama.projection import Product, Projection, has_onednn
from specviz.models.local_model import LocalModel
from specviz.models.windows import Windows
from specviz.records import ModelInfo

FAMILY = ("llama", "mistral", "qwen2", "qwen3")
TIED_COPY_BYTES = 256 << 20  # a tied output matrix up to this size is copied to be packed
FIRST_POSITIONS = 1024
FIXED_KINDS = ("default", "linear", "llama3", "yarn")  # their angles depend on the position alone


def is_fixed(config: Any) -> bool:
    """Whether the angles of that configuration can be looked up."""
    return config.rope_parameters.get("rope_type", "default") in FIXED_KINDS


class Rotary:
    """The rotation of a loaded model, looked up instead of computed at each step.

    Takes the frequencies over from the model's own `embedding`, so it needs no library to be
    pickled or read again.
    """

    def __init__(self, embedding: Any, dtype: torch.dtype, device: torch.device) -> None:
        self._frequencies = embedding.inv_freq.to(device, torch.float32)  # [D / 2]
        self._scaling = float(embedding.attention_scaling)
        self._dtype = dtype
        self._table = self._build(FIRST_POSITIONS)

    def angles(self, position_ids: Tensor, reach: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines [T, 1, D] of the positions [T], all of them below `reach`."""
        found = F.embedding(position_ids, self.reach(reach)).unsqueeze(1)
        cosines, sines = found.chunk(2, -1)
        return cosines, sines

    def reach(self, count: int) -> Tensor:  # [P, 2 D]
        """The table, made larger where it has fewer than `count` positions."""
        if count > self._table.shape[0]:
            self._table = self._build(1 << (count - 1).bit_length())
        return self._table

    def _build(self, count: int) -> Tensor:  # [P, 2 D]
        positions = torch.arange(count, device=self._frequencies.device)[:, None].float()
        angles = positions * self._frequencies  # [P, D / 2]
        cosines, sines = angles.cos() * self._scaling, angles.sin() * self._scaling
        return torch.cat((cosines, cosines, -sines, sines), dim=-1).to(self._dtype)


def rotate(heads: Tensor, angles: tuple[Tensor, Tensor], out: Tensor) -> None:
    """Turn each pair (j, j + D/2) of `heads` [T, A, D] by its angle, into `out` (or in place)."""
    cosines, sines = angles  # the sign of the first half is in the table
    swapped = heads.roll(heads.shape[-1] // 2, -1)
    torch.addcmul(heads * cosines, swapped, sines, out=out)


@dataclass(frozen=True, slots=True)
class Heads:
    """How a layer's joined projection splits into heads."""

    queries: int  # A
    keys: int  # G
    size: int  # D

    @property
    def group(self) -> int:  # R
        """Query heads that share one key-value head."""
        return self.queries // self.keys


class Attending(Protocol):
    """What a layer's joined projection goes through: [T, A + 2 G, D] -> [T, A * D]."""

    def __call__(self, layer: int, joined: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class CachedAttention:
    """Writes a layer's keys and values into the cache and mixes the values that each token sees.

    `mask` is additive; without one every token sees all slots, or the tokens before it where
    `is_causal` says so (a prompt into an empty cache).
    """

    slots: Slots
    heads: Heads
    mask: Tensor | None  # [R * N, E] or [B, 1, R * N, E]
    is_causal: bool

    def __call__(self, layer: int, joined: Tensor) -> Tensor:
        """[T, A + 2 G, D], queries before keys before values -> [T, A * D]."""
        heads, rows, count = self.heads, self.slots.rows, self.slots.count
        split = joined.view(rows, count, -1, heads.size).transpose(1, 2)  # [B, A + 2 G, N, D]
        queries, keys_values = split.tensor_split((heads.queries,), 1)
        keys, values = self.slots.write(layer, keys_values)
        mixed = (self._causal if self.is_causal else self._masked)(queries, keys, values)
        return mixed.reshape(rows * count, heads.queries * heads.size)

    def _causal(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        mixed = F.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, enable_gqa=self.heads.group > 1
        )
        return mixed.transpose(1, 2)  # [B, N, A, D]

    def _masked(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The R query heads of a group become R * N queries of one head: nothing is repeated."""
        heads, rows, count = self.heads, self.slots.rows, self.slots.count
        packed = queries.reshape(rows, heads.keys, -1, heads.size)  # [B, G, R * N, D]
        mixed = F.scaled_dot_product_attention(packed, keys, values, self.mask)
        if count == 1:
            return mixed
        unpacked = mixed.view(rows, heads.keys, -1, count, heads.size)
        return unpacked.permute(0, 3, 1, 2, 4)  # [B, N, G, R, D]


def attention(
    slots: Slots, heads: Heads, like: Tensor, tree_mask: Tensor | None
) -> CachedAttention:
    """CachedAttention of the tokens at `slots`, on the device and in the dtype of `like`.

    `tree_mask` is [N, S], or [B, N, S] for rows of different lengths.
    """
    if slots.is_free(tree_mask):
        return CachedAttention(slots, heads, None, slots.count > 1)
    hidden = ~slots.visible(tree_mask, like.device)
    mask = like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
    if heads.group > 1:
        mask = torch.cat([mask] * heads.group, dim=-2)
    return CachedAttention(slots, heads, mask, is_causal=False)


@dataclass(frozen=True, slots=True)
class AttentionApart:
    """Several sequences, each in a cache of its own and computed as it would be alone."""

    parts: Sequence[CachedAttention]

    def __call__(self, layer: int, joined: Tensor) -> Tensor:
        """As `CachedAttention`, for the tokens of one sequence after the other."""
        pairs = zip(self.parts, self._of_each(joined), strict=True)
        return torch.cat([part(layer, each) for part, each in pairs])

    def _of_each(self, joined: Tensor) -> tuple[Tensor, ...]:
        counts = [part.slots.count for part in self.parts]
        return torch.split_with_sizes(joined, counts)


class RootMeanSquareNorm:
    """x / sqrt(mean(x^2) + eps) * weight, over the last dimension."""

    def __init__(self, weight: Tensor, eps: float) -> None:  # [..., W]
        self._weight = weight
        self._eps = eps
        self._width = weight.shape[-1]
        self._by_hand = weight.device.type == "cpu" and weight.dtype is torch.float32
        # for |x|: x / sqrt(|x|^2 / W + eps) = x / sqrt(|x|^2 + W eps) * sqrt(W)
        self._least = torch.full((1,), math.sqrt(self._width * eps))
        self._scaled = weight * math.sqrt(self._width)

    def __call__(self, x: Tensor) -> Tensor:
        if not self._by_hand and self._weight.ndim == 1:
            return F.rms_norm(x, (self._width,), self._weight, self._eps)
        if not self._by_hand:
            return F.rms_norm(x, (self._width,), None, self._eps) * self._weight
        # on CPU F.rms_norm takes twice the time of these kernels
        length: Tensor = torch.linalg.vector_norm(x, 2, -1, True)
        return (x / length.hypot_(self._least)).mul_(self._scaled)


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """Weights and forward of one layer."""

    heads: Heads
    input_norm: RootMeanSquareNorm | None  # none in the first of an EAGLE head
    qkv: Product  # queries, keys and values joined
    head_norm: RootMeanSquareNorm | None  # of queries and keys (Qwen3)
    out: Product
    mlp_norm: RootMeanSquareNorm
    gate_up: Product
    down: Product
    parameters: int

    def __call__(
        self, hidden: Tensor, angles: tuple[Tensor, Tensor], attend: Attending, index: int
    ) -> Tensor:  # [T, W] -> [T, W]
        normed = hidden if self.input_norm is None else self.input_norm(hidden)
        return self.run(normed, hidden, angles, attend, index)

    def run(
        self,
        normed: Tensor,  # [T, I], what attention reads
        hidden: Tensor,  # [T, W], what its result is added to
        angles: tuple[Tensor, Tensor],
        attend: Attending,
        index: int,
    ) -> Tensor:  # [T, W]
        """The layer behind its input norm."""
        heads = self.heads
        joined = self.qkv(normed).view(hidden.shape[0], -1, heads.size)
        turned = joined.narrow(1, 0, heads.queries + heads.keys)
        rotate(turned if self.head_norm is None else self.head_norm(turned), angles, out=turned)
        hidden = self.out.add_to(hidden, attend(index, joined))
        gate, up = self.gate_up(self.mlp_norm(hidden)).chunk(2, dim=-1)
        return self.down.add_to(hidden, F.silu(gate).mul_(up))

    def converted(self, convert: Callable[[Product], Product]) -> LlamaLayer:
        """The same layer with each product held in another way."""
        return replace(
            self,
            qkv=convert(self.qkv),
            out=convert(self.out),
            gate_up=convert(self.gate_up),
            down=convert(self.down),
        )


def take_heads(config: Any) -> Heads:
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return Heads(config.num_attention_heads, config.num_key_value_heads, size)


def take_layer(layers: nn.ModuleList, index: int, heads: Heads) -> LlamaLayer:
    """Move a layer's weights out of the transformers module, so that none is held twice."""
    layer: Any = layers[index]
    layers[index] = nn.Identity()
    attention, mlp = layer.self_attn, layer.mlp
    parameters = sum(weight.numel() for weight in layer.parameters())
    return LlamaLayer(
        heads=heads,
        input_norm=take_norm(layer.input_layernorm),
        qkv=_fuse(attention, ("q_proj", "k_proj", "v_proj")),
        head_norm=_take_head_norm(attention, heads),
        out=_fuse(attention, ("o_proj",)),
        mlp_norm=take_norm(layer.post_attention_layernorm),
        gate_up=_fuse(mlp, ("gate_proj", "up_proj")),
        down=_fuse(mlp, ("down_proj",)),
        parameters=parameters,
    )


def take_norm(norm: Any) -> RootMeanSquareNorm:
    return RootMeanSquareNorm(norm.weight.detach(), norm.variance_epsilon)


def _take_head_norm(attention: Any, heads: Heads) -> RootMeanSquareNorm | None:
    if not hasattr(attention, "q_norm"):
        return None
    query, key = attention.q_norm.weight.detach(), attention.k_norm.weight.detach()
    weight = torch.cat((query.expand(heads.queries, -1), key.expand(heads.keys, -1)))  # [A + G, D]
    return RootMeanSquareNorm(weight, attention.q_norm.variance_epsilon)


def _fuse(owner: Any, names: tuple[str, ...]) -> Projection:
    """Join linear layers of one input and drop the originals."""
    linears = [getattr(owner, name) for name in names]
    weight = torch.cat([linear.weight.detach() for linear in linears])
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    for name in names:
        setattr(owner, name, None)
    return Projection(weight, torch.cat(biases) if biases else None)


def is_supported(config: Any) -> bool:
    """Whether this loop computes what the model of that configuration computes."""
    is_family = config.model_type in FAMILY and config.hidden_act == "silu" and is_fixed(config)
    return is_family and Windows.of(config).size is None


def tied_copy_bytes(config: Any, device: torch.device, dtype: torch.dtype) -> int:
    """What a packed copy of the output matrix takes beside the embedding that it is tied to."""
    if not (is_supported(config) and config.tie_word_embeddings and has_onednn(device, dtype)):
        return 0
    size: int = config.vocab_size * config.hidden_size * dtype.itemsize
    return size if size <= TIED_COPY_BYTES else 0


class LlamaModel(LocalModel):
    """Takes the weights over from a transformers module, which is empty afterwards."""

    def __init__(self, module: Any, info: ModelInfo) -> None:
        body = module.model
        table = body.embed_tokens.weight.detach()
        copied = tied_copy_bytes(module.config, table.device, table.dtype)
        super().__init__(replace(info, bytes=info.bytes + copied), table)
        self._heads = take_heads(module.config)
        self._rotary = Rotary(body.rotary_emb, self.dtype, self.device)
        self.layers = [take_layer(body.layers, i, self._heads) for i in range(info.layers)]
        self._norm = take_norm(body.norm)
        self.head: Product = _take_head(module, info.vocab_size)
        self._drafted: DraftVocabulary | None = None
        self._rows: Tensor | None = None  # of each token, [V]; None: its id

    def with_layers(
        self, layers: Sequence[LlamaLayer], info: ModelInfo, head: Product | None = None
    ) -> LlamaModel:
        """A model of these layers, and this output matrix, that shares all else with this one."""
        other = copy.copy(self)
        other._info, other.layers, other.head = info, list(layers), head or self.head
        return other

    def with_vocabulary(self, drafted: DraftVocabulary) -> LlamaModel:
        """This model over the whole vocabulary of which its rows are a part.

        Row i is that of the token `drafted.ids[i]`; all others are read as the row behind those,
        and never named.
        """
        other = self.with_layers(self.layers, replace(self._info, vocab_size=drafted.whole))
        other._drafted, other._rows = drafted, drafted.rows()
        return other

    @torch.inference_mode()
    def forward(
        self,
        token_ids: Tensor,  # [B, N]
        position_ids: Tensor,  # [B, N]
        cache: KeyValueCache,
        tree_mask: Tensor | None = None,  # [N, S]
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        """See `LanguageModel.forward`."""
        assert isinstance(cache, SlotCache)
        rows, count = token_ids.shape
        self._check(cache, count, tree_mask)
        slots = StraightSlots(cache, cache.length, rows, count)
        taps = FeatureTaps(feature_layers)
        hidden = self._run_all(token_ids, position_ids, slots, tree_mask, taps)
        cache.advance(count)
        last = slice(count - 1, None, count) if last_only else None
        return self._finish(hidden, rows, last, taps)

    @torch.inference_mode()
    def forward_rows(
        self,
        token_ids: Tensor,  # [B, N]
        counts: Sequence[int],
        position_ids: Tensor,  # [B, N]
        cache: RaggedKeyValueCache,
        tree_mask: Tensor | None = None,  # [B, N, S]
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        """See `BatchedModel.forward_rows`."""
        assert isinstance(cache, RaggedCache)
        rows, count = token_ids.shape
        self._check_rows(cache, counts, count, tree_mask)
        slots = RaggedSlots(cache, counts, count, self.device)
        taps = FeatureTaps(feature_layers)
        hidden = self._run_all(token_ids, position_ids, slots, tree_mask, taps)
        cache.advance(counts)
        last = slots.last + count * torch.arange(rows, device=self.device) if last_only else None
        return self._finish(hidden, rows, last, taps)

    @torch.inference_mode()
    def forward_apart(
        self,
        token_ids: Tensor,  # [T]
        position_ids: Tensor,  # [T]
        caches: Sequence[SlotCache],
        counts: Sequence[int],
        tree_mask: Tensor | None = None,  # [N, S], the same for all
        last_only: bool = False,
    ) -> Tensor:  # [T, V], or of each sequence's last token
        """Logits of several sequences, each with its tokens behind its own cache.

        Products are of all tokens at once, attention is each sequence's own, so that its logits are
        to the bit those of its own `forward` wherever the products' rows do not touch each other.
        """
        for cache, count in zip(caches, counts, strict=True):
            self._check(cache, count, tree_mask)
        pairs = zip(caches, counts, strict=True)
        slots = [StraightSlots(cache, cache.length, 1, count) for cache, count in pairs]
        hidden = self.embed(token_ids)
        angles = self._rotary.angles(position_ids, max(each.end for each in slots))
        attend = AttentionApart([attention(s, self._heads, hidden, tree_mask) for s in slots])
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden, angles, attend, index)
        for cache, count in zip(caches, counts, strict=True):
            cache.advance(count)
        if last_only:
            ends = torch.tensor(counts).cumsum(0) - 1
            hidden = hidden[ends.to(hidden.device, non_blocking=True)]
        return self.output(self.norm(hidden))

    @torch.inference_mode()
    def run_layers(
        self,
        hidden: Tensor,  # [N, W]
        position_ids: Tensor,  # [N]
        cache: KeyValueCache,
        layers: range,
        start: int,
        tree_mask: Tensor | None = None,  # [N, S]
    ) -> Tensor:  # [N, W]
        """See `LayeredModel.run_layers`."""
        assert isinstance(cache, SlotCache)
        slots = StraightSlots(cache, start, 1, hidden.shape[0])
        return self._run(hidden, position_ids, slots, layers, tree_mask, FeatureTaps(()))

    def _run_all(
        self,
        token_ids: Tensor,
        position_ids: Tensor,
        slots: Slots,
        tree_mask: Tensor | None,
        taps: FeatureTaps,
    ) -> Tensor:  # [B, N] -> [T, W]
        hidden, layers = self.embed(token_ids.reshape(-1)), range(self._info.layers)
        return self._run(hidden, position_ids.reshape(-1), slots, layers, tree_mask, taps)

    def _run(
        self,
        hidden: Tensor,
        position_ids: Tensor,
        slots: Slots,
        layers: range,
        tree_mask: Tensor | None,
        taps: FeatureTaps,
    ) -> Tensor:  # [T, W]
        angles = self._rotary.angles(position_ids, slots.end)
        attend = attention(slots, self._heads, hidden, tree_mask)
        for index in layers:
            taps.offer(index, hidden)
            hidden = self.layers[index](hidden, angles, attend, index)
        return hidden

    def _finish(
        self, hidden: Tensor, rows: int, last: slice | Tensor | None, taps: FeatureTaps
    ) -> ForwardOutput:
        """Norm and output matrix; `last` picks the tokens [B] of T that get logits, None all."""
        if last is not None and self._info.layers not in taps:
            hidden, last = hidden[last], None
        normed = self.norm(hidden)
        taps.offer(self._info.layers, normed)
        logits, features = self.output(normed if last is None else normed[last]), taps.joined()
        return ForwardOutput(
            logits.view(rows, -1, self._info.vocab_size),
            None if features is None else features.view(rows, -1, features.shape[-1]),
        )

    def embed(self, token_ids: Tensor) -> Tensor:  # [T] -> [T, W]
        rows = token_ids if self._rows is None else self._rows[token_ids]
        return F.embedding(rows, self._embedding)

    def norm(self, hidden: Tensor) -> Tensor:  # [T, W] -> [T, W]
        return self._norm(hidden)

    def output(self, features: Tensor) -> Tensor:  # [T, W] -> [T, V]
        logits = self.head(features)
        if self._drafted is None:
            return logits
        return self._drafted.spread(logits[:, : len(self._drafted.ids)])


def _take_head(module: Any, vocab_size: int) -> Projection:
    """The output matrix over the real vocabulary."""
    weight: Tensor = module.lm_head.weight.detach()
    copied = tied_copy_bytes(module.config, weight.device, weight.dtype)
    may_copy = not module.config.tie_word_embeddings or copied > 0
    return Projection(weight[:vocab_size], may_copy=may_copy)
