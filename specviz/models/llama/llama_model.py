"""Models of the Llama family, layer by layer, with as few tensor operations as possible.

The family is Llama, SmolLM2, Mistral with full attention, Qwen2 and Qwen3. The model here computes
the same as `library_model`. The parts of the file are, in this order: rotary positions, attention
over a cache, one layer, the model. In shapes, B is the number of rows, N the number of query
tokens, T = B * N, E the number of slots up to the last query token, S the number of slots that a
tree mask covers, P the number of positions in a table, W the hidden size, I the number of inputs of
attention, A the number of query heads, G the number of key-value heads, R = A / G, D the head size
and V the size of the vocabulary.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.environment import Environment
from specviz.models.accelerator import upload
from specviz.models.cache import RaggedCache, RaggedSlots, SlotCache, Slots, StraightSlots
from specviz.models.draft_vocabulary import DraftVocabulary
from specviz.models.feature_taps import FeatureTaps
from specviz.models.language_model import ForwardOutput, KeyValueCache, RaggedKeyValueCache
from specviz.models.llama import row_kernels
from specviz.models.llama.few_row_layers import FewRowLayers
from specviz.models.llama.row_kernels import FewRowAttention, head_kernels, prepare
from specviz.models.local_model import LocalModel
from specviz.models.matrix_kernels.choice import by_rule
from specviz.models.matrix_kernels.kernel_candidates import PLAIN
from specviz.models.matrix_kernels.projection import Projection
from specviz.models.matrix_kernels.settling import expected, settle
from specviz.models.matrix_kernels.weights import MatrixShape
from specviz.models.windows import Windows
from specviz.records import ModelInfo

FAMILY = ("llama", "mistral", "qwen2", "qwen3")
# The size in bytes up to which a tied output matrix may be kept in a second layout.
TIED_COPY_BYTES = 256 << 20
FIRST_POSITIONS = 1024
# Kinds of rotary positions whose angles depend only on the position.
FIXED_KINDS = ("default", "linear", "llama3", "yarn")
# Kinds of rotary positions whose angles depend only on the position, if all positions are within
# the context length that `specviz.models.files.context` allows.
FIXED_WITHIN_CONTEXT = ("longrope", "dynamic")


def is_fixed(config: Any, is_within_context: bool = False) -> bool:
    """Return whether the rotary angles of a configuration can be kept in a table.

    A drafting head has no limit on its context, so its angles must never change.
    """
    kind = config.rope_parameters.get("rope_type", "default")
    return kind in FIXED_KINDS or is_within_context and kind in FIXED_WITHIN_CONTEXT


class Rotary:
    """The rotary angles of a loaded model, in a table, so that no step computes them.

    The frequencies are copied from the model's `embedding`, so this object can be pickled without
    the transformers library.
    """

    def __init__(self, embedding: Any, dtype: torch.dtype, device: torch.device) -> None:
        self._frequencies = embedding.inv_freq.to(device, torch.float32)  # [D / 2]
        self._scaling = float(embedding.attention_scaling)
        self._dtype = dtype
        self._table = self._build(FIRST_POSITIONS)

    def angles(self, position_ids: Tensor, reach: int) -> tuple[Tensor, Tensor]:
        """Return cosines and sines [T, 1, D] of the positions [T], which must be below `reach`."""
        cosines, sines = self.rows(position_ids, reach).unsqueeze(1).chunk(2, -1)
        return cosines, sines

    def rows(self, position_ids: Tensor, reach: int) -> Tensor:  # [T, 2 D]
        """Return the rows of the table for the positions [T], which must be below `reach`."""
        return F.embedding(position_ids, self.reach(reach))

    def reach(self, count: int) -> Tensor:  # [P, 2 D]
        """Return the table of angles. Extend it first if it has fewer than `count` positions."""
        if count > self._table.shape[0]:
            self._table = self._build(1 << (count - 1).bit_length())
        return self._table

    def _build(self, count: int) -> Tensor:  # [P, 2 D]
        positions = torch.arange(count, device=self._frequencies.device)[:, None].float()
        angles = positions * self._frequencies  # [P, D / 2]
        cosines, sines = angles.cos() * self._scaling, angles.sin() * self._scaling
        return torch.cat((cosines, cosines, -sines, sines), dim=-1).to(self._dtype)


def rotate(heads: Tensor, angles: tuple[Tensor, Tensor], out: Tensor) -> None:
    """Rotate each pair (j, j + D/2) of `heads` [T, A, D] by its angle. The result goes to `out`."""
    cosines, sines = angles  # in the table, the sines of the first half already have a minus sign
    swapped = heads.roll(heads.shape[-1] // 2, -1)
    torch.addcmul(heads * cosines, swapped, sines, out=out)


def gated(both: Tensor) -> Tensor:  # [T, 2 I] -> [T, I]
    """Return silu(gate) * up. The first half of each row is gate, the second is up."""
    compiled = row_kernels.gated(both)
    if compiled is not None:
        return compiled
    gate, up = both.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


@dataclass(frozen=True, slots=True)
class Heads:
    """The numbers of heads in a layer's joined queries, keys and values, and the size of a head."""

    queries: int  # A
    keys: int  # G
    size: int  # D

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.queries, self.keys, self.size

    @property
    def group(self) -> int:  # R
        """Return how many query heads share one key-value head."""
        return self.queries // self.keys


class Attending(Protocol):
    """The attention of a layer, as a function of its joined projection.

    It maps [T, A + 2 G, D] to [T, A * D].
    """

    def __call__(self, layer: int, joined: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class CachedAttention:
    """Attention that writes a layer's keys and values to the cache and reads what tokens may see.

    `mask` is added to the attention scores. Without a mask, every token sees all slots. If
    `is_causal` is set (a prompt in an empty cache), every token sees only the slots up to its own.
    """

    slots: Slots
    heads: Heads
    mask: Tensor | None  # [R * N, E] or [B, 1, R * N, E]
    is_causal: bool

    def __call__(self, layer: int, joined: Tensor) -> Tensor:
        """Return the attention's result [T, A * D].

        In `joined`, queries come before keys and values.
        """
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
        """Compute attention with a mask.

        The R query heads that share a key-value head become R * N queries of one head, so that the
        keys need not be copied for each query head.
        """
        heads, rows, count = self.heads, self.slots.rows, self.slots.count
        packed = queries.reshape(rows, heads.keys, -1, heads.size)  # [B, G, R * N, D]
        mixed = F.scaled_dot_product_attention(packed, keys, values, self.mask)
        if count == 1:
            return mixed
        unpacked = mixed.view(rows, heads.keys, -1, count, heads.size)
        return unpacked.permute(0, 3, 1, 2, 4)  # [B, N, G, R, D]


def attention(
    slots: Slots, heads: Heads, like: Tensor, tree_mask: Tensor | None
) -> CachedAttention | FewRowAttention:
    """Return the attention for the tokens in `slots`, with the device and dtype of `like`.

    `tree_mask` is [N, S], or [B, N, S] for rows of different lengths.
    """
    if is_single(slots):
        kernels = head_kernels(like, heads.size)
        if kernels is not None:
            mask = additive(slots, tree_mask)
            return FewRowAttention(kernels, slots, heads.sizes, mask, like)
    if slots.is_free(tree_mask):
        return CachedAttention(slots, heads, None, slots.count > 1)
    mask = _additive(slots, like, tree_mask)
    if heads.group > 1:
        mask = torch.cat([mask] * heads.group, dim=-2)
    return CachedAttention(slots, heads, mask, is_causal=False)


def is_single(slots: Slots) -> TypeGuard[StraightSlots]:
    """Return whether the slots belong to one sequence."""
    return isinstance(slots, StraightSlots) and slots.rows == 1


def additive(slots: StraightSlots, tree_mask: Tensor | None) -> Tensor | None:
    """Return the mask [N, E] in float32 for compiled attention, or None without `tree_mask`."""
    return None if tree_mask is None else _additive(slots, torch.empty(0), tree_mask)


def _additive(slots: Slots, like: Tensor, tree_mask: Tensor | None) -> Tensor:
    """Return the mask that is added to attention scores.

    It is 0 for slots that a token sees, and minus infinity for all other slots.
    """
    hidden = ~slots.visible(tree_mask, like.device)
    return like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)


@dataclass(frozen=True, slots=True)
class AttentionApart:
    """Attention over several sequences, each with its own cache.

    Every sequence gets exactly the result that it would get alone.
    """

    parts: Sequence[CachedAttention | FewRowAttention]

    def __call__(self, layer: int, joined: Tensor) -> Tensor:
        """Divide the tokens into sequences and compute the attention of each sequence alone."""
        pairs = zip(self.parts, self._of_each(joined), strict=True)
        return torch.cat([part(layer, each) for part, each in pairs])

    def _of_each(self, joined: Tensor) -> tuple[Tensor, ...]:
        counts = [part.slots.count for part in self.parts]
        return torch.split_with_sizes(joined, counts)


class RootMeanSquareNorm:
    """The norm x / sqrt(mean(x^2) + eps) * weight, over the last dimension."""

    def __init__(self, weight: Tensor, eps: float) -> None:  # [..., W]
        self.weight = weight
        self.eps = eps
        self._width = weight.shape[-1]
        self._by_hand = weight.device.type == "cpu" and weight.dtype is torch.float32
        # If |x| is the length: x / sqrt(|x|^2 / W + eps) = x / sqrt(|x|^2 + W eps) * sqrt(W).
        self._least = torch.full((1,), math.sqrt(self._width * eps))
        self._scaled = weight * math.sqrt(self._width)

    def __call__(self, x: Tensor) -> Tensor:
        is_flat = self._by_hand and x.ndim == 2 and x.shape[1] == self._width
        compiled = row_kernels.norm(x, self.weight, self.eps) if is_flat else None
        if compiled is not None:
            return compiled
        if not self._by_hand and self.weight.ndim == 1:
            return F.rms_norm(x, (self._width,), self.weight, self.eps)
        if not self._by_hand:
            return F.rms_norm(x, (self._width,), None, self.eps) * self.weight
        # on a CPU, F.rms_norm takes twice as long as these operations
        length: Tensor = torch.linalg.vector_norm(x, 2, -1, True)
        return (x / length.hypot_(self._least)).mul_(self._scaled)


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """The weights of one layer and its computation."""

    heads: Heads
    # The first layer of an EAGLE head has None.
    input_norm: RootMeanSquareNorm | None
    qkv: Projection  # queries, keys and values joined
    head_norm: RootMeanSquareNorm | None  # only Qwen3 norms queries and keys
    out: Projection
    mlp_norm: RootMeanSquareNorm
    gate_up: Projection
    down: Projection
    parameters: int

    def __call__(
        self, hidden: Tensor, angles: tuple[Tensor, Tensor], attend: Attending, index: int
    ) -> Tensor:  # [T, W] -> [T, W]
        normed = hidden if self.input_norm is None else self.input_norm(hidden)
        return self.run(normed, hidden, angles, attend, index)

    def run(
        self,
        normed: Tensor,  # [T, I], the input of attention
        hidden: Tensor,  # [T, W], the residual stream
        angles: tuple[Tensor, Tensor],
        attend: Attending,
        index: int,
    ) -> Tensor:  # [T, W]
        """Compute everything that follows the layer's input norm."""
        heads = self.heads
        joined = self.qkv(normed).view(hidden.shape[0], -1, heads.size)
        self._rotate(joined, angles)
        hidden = self.out.add_to(hidden, attend(index, joined))
        return self.down.add_to(hidden, gated(self.gate_up(self.mlp_norm(hidden))))

    def _rotate(self, joined: Tensor, angles: tuple[Tensor, Tensor]) -> None:
        """Apply the norm of heads and the rotation to queries and keys, in place."""
        if self.head_norm is None and row_kernels.rotate(joined, angles[0], self.heads.sizes):
            return
        turned = joined.narrow(1, 0, self.heads.queries + self.heads.keys)
        rotate(turned if self.head_norm is None else self.head_norm(turned), angles, out=turned)

    @property
    def projections(self) -> tuple[Projection, Projection, Projection, Projection]:
        return self.qkv, self.out, self.gate_up, self.down

    @property
    def sizes(self) -> tuple[int, int, int]:  # (A, G, D)
        return self.heads.sizes

    @property
    def norms(self) -> tuple[RootMeanSquareNorm | None, RootMeanSquareNorm] | None:
        """Return the norms before attention and before the MLP, if the layer has no other norm."""
        return None if self.head_norm is not None else (self.input_norm, self.mlp_norm)

    def converted(self, convert: Callable[[Projection], Projection]) -> LlamaLayer:
        """Return a copy of the layer in which `convert` has replaced each projection."""
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
    """Take a layer's weights out of the transformers module, so that no second copy exists."""
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
    """Join linear layers that have the same input, and delete the originals."""
    linears = [getattr(owner, name) for name in names]
    weight = torch.cat([linear.weight.detach() for linear in linears])
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    for name in names:
        setattr(owner, name, None)
    return Projection(weight, torch.cat(biases) if biases else None)


def is_supported(config: Any) -> bool:
    """Return whether this code can run the model of a configuration."""
    is_family = (
        config.model_type in FAMILY and config.hidden_act == "silu" and is_fixed(config, True)
    )
    return is_family and Windows.of(config).size is None


def second_layout_bytes(config: Any, device: torch.device, dtype: torch.dtype) -> int:
    """Return the memory of the second layouts in a model, computed from its configuration.

    The layout of a tied output matrix for the kernels counts as a second one, because the plain
    matrix is needed as the embedding.
    """
    if not is_supported(config):
        return 0
    environment = Environment.read()
    shapes = _layer_shapes(config, device, dtype)
    choices = expected(shapes, dtype, environment)
    layers = sum(
        (len(choice.layouts) - 1) * shape.bytes * shapes[shape] for shape, choice in choices.items()
    )
    return layers + tied_copy_bytes(config, device, dtype)


def _layer_shapes(config: Any, device: torch.device, dtype: torch.dtype) -> dict[MatrixShape, int]:
    """Return the shapes of all layers' matrices, and the number of matrices of each shape."""
    heads, width, inner = take_heads(config), config.hidden_size, config.intermediate_size
    joined = (heads.queries + 2 * heads.keys) * heads.size
    sizes = (
        (joined, width),
        (width, heads.queries * heads.size),
        (2 * inner, width),
        (width, inner),
    )
    form, count = str(dtype).removeprefix("torch."), config.num_hidden_layers
    shapes = Counter[MatrixShape]()
    for rows, columns in sizes:
        size = rows * columns * dtype.itemsize
        shapes[MatrixShape(form, rows, columns, device.type, size)] += count
    return shapes


def tied_copy_bytes(config: Any, device: torch.device, dtype: torch.dtype) -> int:
    """Return the size of a tied output matrix's second layout, or 0 if there is none."""
    if not (is_supported(config) and config.tie_word_embeddings):
        return 0
    width, rows = config.hidden_size, config.vocab_size
    size: int = rows * width * dtype.itemsize
    if size > TIED_COPY_BYTES or Environment.read().small_memory:
        return 0
    shape = MatrixShape(str(dtype).removeprefix("torch."), rows, width, device.type, size)
    return 0 if by_rule(shape, dtype, only_plain=False).layouts == (PLAIN,) else size


class LlamaModel(LocalModel):
    """A model of the Llama family. It takes the weights out of a transformers module."""

    def __init__(self, module: Any, info: ModelInfo) -> None:
        body = module.model
        table = body.embed_tokens.weight.detach()
        copied = tied_copy_bytes(module.config, table.device, table.dtype)
        super().__init__(replace(info, bytes=info.bytes + copied), module)
        # The bytes of all weights in their first layout, and of the output matrix in its second.
        self._weight_bytes, self._copied_bytes = info.bytes, copied
        self._heads = take_heads(module.config)
        prepare(self._heads.size, table)
        self._rotary = Rotary(body.rotary_emb, self.dtype, self.device)
        self.layers = [take_layer(body.layers, i, self._heads) for i in range(info.layers)]
        self._norm = take_norm(body.norm)
        self.head: Projection = _take_head(module, info.vocab_size)
        self._few_rows = FewRowLayers()
        self._drafted: DraftVocabulary | None = None
        # [V], the embedding row of each token. None means that the row number equals the token id.
        self._rows: Tensor | None = None

    @property
    def projections(self) -> list[Projection]:
        """Return all weight matrices of a forward pass, each with its kernels."""
        return [each for layer in self.layers for each in layer.projections] + [self.head]

    def settle(self) -> bool:
        """Choose the fastest matrix kernels for the current number of threads.

        The memory of second layouts is added to `info.bytes`. Return False if the kernels were
        already chosen.
        """
        threads = torch.get_num_threads()
        is_new = any(each.threads != threads for each in self.projections)
        settle(self.projections)
        second = sum(each.second_bytes for layer in self.layers for each in layer.projections)
        second += self._copied_bytes if self.head.second_bytes else 0
        self._info = replace(self._info, bytes=self._weight_bytes + second)
        return is_new

    def with_layers(
        self, layers: Sequence[LlamaLayer], info: ModelInfo, head: Projection | None = None
    ) -> LlamaModel:
        """Return a model with other layers and another output matrix.

        The new model shares everything else with this model.
        """
        other = copy.copy(self)
        other._info, other.layers, other.head = info, list(layers), head or self.head
        other._few_rows = FewRowLayers()
        return other

    def with_vocabulary(self, drafted: DraftVocabulary) -> LlamaModel:
        """Return a model of the target's whole vocabulary; this model knows only a part of it.

        Row i of the embedding belongs to the token `drafted.ids[i]`. All other tokens share one row
        of the embedding, the row after these, and their logits are minus infinity.
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
        tree_mask: Tensor | None = None,  # [N, S], the same for all sequences
        last_only: bool = False,
    ) -> Tensor:  # [T, V], or only the last token of each sequence
        """Return the logits of several sequences, each with its tokens after its own cache.

        Matrix multiplications are done for all tokens together, and attention for each sequence
        alone. If the rows of a matrix multiplication do not affect each other, every logit has
        exactly the same bits as in `forward` of its sequence alone.
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
            hidden = hidden[upload(ends, hidden.device)]
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
        if layers and is_single(slots):
            program = self._few_rows.program(self.layers, hidden)
            if program is not None:
                rows, mask = self._rotary.rows(position_ids, slots.end), additive(slots, tree_mask)
                return program.run(layers, hidden, rows, slots, mask, taps)
        angles = self._rotary.angles(position_ids, slots.end)
        attend = attention(slots, self._heads, hidden, tree_mask)
        for index in layers:
            taps.offer(index, hidden)
            hidden = self.layers[index](hidden, angles, attend, index)
        return hidden

    def _finish(
        self, hidden: Tensor, rows: int, last: slice | Tensor | None, taps: FeatureTaps
    ) -> ForwardOutput:
        """Apply the final norm and the output matrix.

        `last` selects the tokens whose logits are needed (None: all T).
        """
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
        logits = self.head.in_float32(features)
        if self._drafted is None:
            return logits
        return self._drafted.spread(logits[:, : len(self._drafted.ids)])


def _take_head(module: Any, vocab_size: int) -> Projection:
    """Return the output matrix without the rows that only pad the vocabulary."""
    weight: Tensor = module.lm_head.weight.detach()
    is_tied = module.config.tie_word_embeddings
    may_copy = not is_tied or tied_copy_bytes(module.config, weight.device, weight.dtype) > 0
    return Projection(weight[:vocab_size], is_shared=is_tied, may_copy=may_copy)
