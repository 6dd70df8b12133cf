"""An EAGLE head: one decoder layer that foretells the target's next hidden state.

Li et al., EAGLE (2401.15077); the smaller draft vocabulary is that of FR-Spec (2502.14856), in the
layout of EAGLE-3 (2503.01840). Knows nothing of trees or sampling. Letters: N tokens, W hidden
size, V vocabulary, F draft vocabulary, S slots that a tree mask covers, D head size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from specviz.models.cache import SlotCache, StraightSlots
from specviz.models.heads.head_weights import HeadWeights
from specviz.models.language_model import LanguageModel
from specviz.models.llama.llama_model import (
    LlamaLayer,
    RootMeanSquareNorm,
    Rotary,
    attention,
    is_fixed,
    take_heads,
)
from specviz.models.llama.projection import CompactProjection, Product, compact

MOST_COPIED_BYTES = 64 << 20  # of an output matrix


class EagleHead:
    """Pair t, [embedding of token t + 1 ; feature of t] at position t, gives the feature of t + 1.

    A feature is the hidden state after the final norm; the target's own output matrix turns the
    foretold one into the distribution of token t + 2. No norm before attention, none at the end.
    What it says is a guess, so its matrices (a copy of the target's output among them) may be
    compact. A head with a draft vocabulary gives all other tokens probability 0: it is exact all
    the same, and reads a small part of the output matrix.
    """

    def __init__(
        self,
        target: LanguageModel,
        fuse: Product,
        layer: LlamaLayer,
        rotary: Rotary,
        drafted_ids: Tensor | None = None,  # [F] int64; None: the whole vocabulary
    ) -> None:
        self._target = target
        self._fuse = fuse  # [W, 2 W]
        self._layer = layer
        self._rotary = rotary
        self._drafted_ids = drafted_ids
        self._output = _compact_output(target, drafted_ids)
        norm = target.info.hidden_size * target.dtype.itemsize
        self.bytes = _bytes(fuse, layer, self._output, norm)

    @classmethod
    def open(cls, folder: Path, target: LanguageModel) -> EagleHead:
        """Raises InputError where the folder is broken or made for another kind of target."""
        source = HeadWeights("EAGLE head", folder)
        source.fit_width(target.info)
        source.number("vocab_size", least=target.info.vocab_size)
        config, width = _config(source), target.info.hidden_size

        def matrix(name: str, *shape: int) -> Tensor:
            return source.tensor(name, shape, target.dtype, target.device)

        fuse = compact(matrix("fc.weight", width, 2 * width))
        layer, drafted_ids = _layer(config, matrix), _drafted_ids(source, target)
        source.finish()
        rotary = Rotary(LlamaRotaryEmbedding(config).to(target.device), target.dtype, target.device)
        return cls(target, fuse, layer, rotary, drafted_ids)

    def new_cache(self, capacity: int) -> SlotCache:
        """An empty cache for at most `capacity` pairs."""
        return SlotCache(1, capacity)

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
        hidden = self._fuse(torch.cat((self._target.embed(token_ids), features), dim=-1))
        angles = self._rotary.angles(position_ids, slots.end)
        attend = attention(slots, self._layer.heads, hidden, tree_mask)
        foretold = self._layer(hidden, angles, attend, 0)
        cache.advance(slots.count)
        return self._logits(foretold[-1:] if last_only else foretold), foretold

    def _logits(self, foretold: Tensor) -> Tensor:  # [N, W] -> [N, V]
        """Of the next token; minus infinity outside the draft vocabulary."""
        if self._output is None:
            return self._target.output(foretold)
        logits = self._output(foretold)
        if self._drafted_ids is None:
            return logits
        whole = logits.new_full((len(logits), self._target.info.vocab_size), -torch.inf)
        return whole.index_copy_(1, self._drafted_ids, logits)


@torch.inference_mode()
def _compact_output(target: LanguageModel, drafted_ids: Tensor | None) -> Product | None:
    """A copy of the target's output matrix, where that can be read faster than the original.

    With a draft vocabulary it has the rows of those tokens alone.
    """
    width, vocabulary = target.info.hidden_size, target.info.vocab_size
    size = width * vocabulary * target.dtype.itemsize
    if drafted_ids is None and size > MOST_COPIED_BYTES:
        return None
    identity = torch.eye(width, dtype=target.dtype, device=target.device)
    matrix = target.output(identity).t()  # [V, W]
    if drafted_ids is not None:
        return compact(matrix[drafted_ids])
    copy = compact(matrix)
    return copy if isinstance(copy, CompactProjection) else None


def _drafted_ids(source: HeadWeights, target: LanguageModel) -> Tensor | None:
    """The draft vocabulary [F] if the head has one: `d2t` holds token id minus row."""
    if "draft_vocab_size" not in source.config:
        return None
    size, vocabulary = source.number("draft_vocab_size"), target.info.vocab_size
    offsets = source.tensor("d2t", (size,), torch.int64, target.device)
    ids = offsets + torch.arange(size, device=target.device)
    given = {*ids.tolist()}
    if len(given) < size or min(given) < 0 or max(given) >= vocabulary:
        raise source.error(f"must have {size} different tokens below {vocabulary} in d2t")
    return ids


def _bytes(fuse: Product, layer: LlamaLayer, output: Product | None, norm: int) -> int:
    """Memory of all matrices that the head holds, and of its one norm."""
    products = [fuse, layer.qkv, layer.out, layer.gate_up, layer.down, output]
    return norm + sum(each.weight.nbytes for each in products if each is not None)


def _config(source: HeadWeights) -> Any:
    for key in ("num_attention_heads", "num_key_value_heads", "intermediate_size"):
        source.number(key)
    try:
        config = LlamaConfig.from_dict(source.config)
        heads = take_heads(config)
        is_known = config.hidden_act == "silu" and is_fixed(config)
    except Exception as error:  # a configuration class may raise anything for odd values
        raise source.error(f"has a bad config.json: {' '.join(str(error).split())[:200]}") from None
    if not is_known or heads.queries % heads.keys:
        raise source.error(
            "must be a layer of the Llama family: silu, fixed rotary angles, and "
            "num_attention_heads a multiple of num_key_value_heads"
        )
    return config


def _layer(config: Any, matrix: Any) -> LlamaLayer:
    heads, width, inner = take_heads(config), config.hidden_size, config.intermediate_size
    queries, keys = heads.queries * heads.size, heads.keys * heads.size
    attention, mlp = "layers.0.self_attn", "layers.0.mlp"
    joined = [
        matrix(f"{attention}.{name}_proj.weight", size, width)
        for name, size in (("q", queries), ("k", keys), ("v", keys))
    ]
    gate_up = [matrix(f"{mlp}.{name}_proj.weight", inner, width) for name in ("gate", "up")]
    out = matrix(f"{attention}.o_proj.weight", width, queries)
    down = matrix(f"{mlp}.down_proj.weight", width, inner)
    norm = matrix("layers.0.post_attention_layernorm.weight", width)
    return LlamaLayer(
        heads=heads,
        input_norm=None,
        qkv=compact(torch.cat(joined)),
        head_norm=None,
        out=compact(out),
        mlp_norm=RootMeanSquareNorm(norm, config.rms_norm_eps),
        gate_up=compact(torch.cat(gate_up)),
        down=compact(down),
        parameters=sum(weight.numel() for weight in (*joined, *gate_up, out, down, norm)),
    )
