"""One decoder layer of the Llama family, and its weights.

In shapes, T is the number of tokens, W the hidden size, I the number of inputs of attention or of
the MLP's last matrix, A the number of query heads, G the number of key-value heads and D the head
size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.models.llama import row_kernels
from specviz.models.llama.attention import Attending, Heads
from specviz.models.llama.rotary import rotate
from specviz.models.matrix_kernels.projection import Projection


def gated(both: Tensor) -> Tensor:  # [T, 2 I] -> [T, I]
    """Return silu(gate) * up. The first half of each row is gate, the second is up."""
    compiled = row_kernels.gated(both)
    if compiled is not None:
        return compiled
    gate, up = both.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


class RootMeanSquareNorm:
    """The norm x / sqrt(mean(x^2) + eps) * weight, over the last dimension."""

    def __init__(self, weight: Tensor, eps: float) -> None:  # [..., W]
        self.weight = weight
        self.eps = eps
        self._width = weight.shape[-1]
        self._by_hand = weight.device.type == "cpu" and weight.dtype is torch.float32
        # With |x|^2 = W mean(x^2), the norm is x / sqrt(|x|^2 + W eps) * sqrt(W) * weight.
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
        # on a CPU, F.rms_norm takes twice as long as these three operations
        length: Tensor = torch.linalg.vector_norm(x, 2, -1, True)
        return (x / length.hypot_(self._least)).mul_(self._scaled)


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """The weights of one layer and its computation."""

    heads: Heads
    input_norm: RootMeanSquareNorm | None  # the first layer of an EAGLE head has no input norm
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
        """Apply the norm of heads, if any, and the rotation to queries and keys, in place."""
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
        """Return the norms before attention and the MLP; None if the layer has more norms."""
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
