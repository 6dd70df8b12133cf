"""One decoder layer of the Llama family, with its projections fused.

Knows nothing of its neighbours, the cache's layout or the device. Letters: T tokens, W hidden
size, A query heads, G key-value heads, D head size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.models.attention import Attention, Heads
from specviz.models.projection import Product, Projection
from specviz.models.rotary import rotate


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
    input_norm: RootMeanSquareNorm | None  # none in an EAGLE head
    qkv: Product  # queries, keys and values joined
    head_norm: RootMeanSquareNorm | None  # of queries and keys (Qwen3)
    out: Product
    mlp_norm: RootMeanSquareNorm
    gate_up: Product
    down: Product
    parameters: int

    def __call__(
        self, hidden: Tensor, angles: tuple[Tensor, Tensor], attend: Attention, index: int
    ) -> Tensor:  # [T, W] -> [T, W]
        heads = self.heads
        normed = hidden if self.input_norm is None else self.input_norm(hidden)
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
