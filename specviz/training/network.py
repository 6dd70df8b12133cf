"""The training forward of a Llama: the same function as `LlamaForCausalLM`, written for speed.

Parameter names equal the library's, so that a state dict moves between the two unchanged. Knows
nothing of data, optimisers or files.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig


class Attention(nn.Module):
    """Causal attention with rotary positions; q, k and v in one product."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.head_dim = config.head_dim
        inner = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(width, inner, bias=False)
        self.k_proj = nn.Linear(width, inner, bias=False)
        self.v_proj = nn.Linear(width, inner, bias=False)
        self.o_proj = nn.Linear(inner, width, bias=False)

    def forward(self, hidden: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """hidden [B, T, D] -> [B, T, D]."""
        return self.write(attend(*self.project(hidden, cos, sin)))

    def project(self, hidden: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """hidden [B, T, D] -> query and key, both turned, and value, each [B, H, T, d]."""
        rows, length, _ = hidden.shape
        weight = torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight)).to(
            hidden.dtype
        )
        packed = F.linear(hidden, weight).view(
            rows, length, 3, -1, self.head_dim
        )  # [B, T, 3, H, d]
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)  # [B, H, T, d]
        return rotate(query, cos, sin), rotate(key, cos, sin), value

    def write(self, mixed: Tensor) -> Tensor:
        """What the heads found [B, H, T, d] -> [B, T, D]."""
        return linear(mixed.transpose(1, 2).flatten(2), self.o_proj)


class FeedForward(nn.Module):
    """SwiGLU; gate and up in one product."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden [B, T, D] -> [B, T, D]."""
        weight = torch.cat((self.gate_proj.weight, self.up_proj.weight)).to(hidden.dtype)
        gate, up = F.linear(hidden, weight).chunk(2, dim=-1)
        return linear(F.silu(gate) * up, self.down_proj)


class Norm(nn.Module):
    """RMSNorm, in float32 like the library's."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, hidden: Tensor, dtype: torch.dtype) -> Tensor:
        """hidden [B, T, D] float32 -> [B, T, D] in `dtype`."""
        wide = hidden.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (wide * scale * self.weight).to(dtype)


class Block(nn.Module):
    """One decoder layer."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config)
        self.input_layernorm = Norm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = Norm(config.hidden_size, config.rms_norm_eps)

    def forward(self, hidden: Tensor, cos: Tensor, sin: Tensor, dtype: torch.dtype) -> Tensor:
        """The residual stream [B, T, D] keeps its own dtype; products run in `dtype`."""
        hidden = hidden + self.self_attn(self.input_layernorm(hidden, dtype), cos, sin)
        written: Tensor = self.mlp(self.post_attention_layernorm(hidden, dtype))
        return hidden + written


class Body(nn.Module):
    """Embedding, layers and final norm (the library's `model.` names)."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = Norm(config.hidden_size, config.rms_norm_eps)


class Network(nn.Module):
    """A Llama with a tied head. `dtype` is that of the products; weights stay float32."""

    def __init__(self, config: LlamaConfig, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.config = config
        self.dtype = dtype
        self.model = Body(config)
        self._initialise()

    def _initialise(self) -> None:
        """Small embeddings, fan-in scaled products, zeros for what writes to the stream."""
        for name, parameter in self.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(parameter)
            elif "embed_tokens" in name:
                nn.init.normal_(parameter, std=0.02)
            elif parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.5 * parameter.shape[1] ** -0.5)

    def states(self, token_ids: Tensor) -> Iterator[Tensor]:
        """The residual stream after each layer, each [B, T, D]; token_ids [B, T]."""
        cos, sin = rotation(token_ids.shape[1], self.config, token_ids.device, self.dtype)
        hidden = self.model.embed_tokens(token_ids)
        for layer in self.model.layers:
            hidden = layer(hidden, cos, sin, self.dtype)
            yield hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Final norm and tied head: [..., D] -> [..., V] in `dtype`."""
        normed = self.model.norm(hidden, self.dtype)
        logits: Tensor = F.linear(normed, self.model.embed_tokens.weight.to(self.dtype))
        return logits

    def forward(self, token_ids: Tensor) -> Tensor:
        """token_ids [B, T] -> logits [B, T, V]."""
        *_, last = self.states(token_ids)
        return self.logits(last)


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention, each [B, H, T, d]; spelled out on CPU, where that compiles faster."""
    if query.is_cuda:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    length = query.shape[2]
    scores = (query * query.shape[3] ** -0.5) @ key.transpose(2, 3)  # [B, H, T, T]
    causal = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    weights = scores.float().masked_fill(~causal, float("-inf")).softmax(-1)
    mixed: Tensor = weights.to(value.dtype) @ value
    return mixed


def linear(hidden: Tensor, layer: nn.Linear) -> Tensor:
    """A product in the dtype of its input, whatever the weight's."""
    return F.linear(hidden, layer.weight.to(hidden.dtype))


def rotation(
    length: int, config: LlamaConfig, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """cos and sin, each [T, d]; both halves of a head turn by the same angles."""
    theta = float(config.rope_parameters["rope_theta"])
    exponent = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
    angle = torch.outer(torch.arange(length, device=device).float(), theta**-exponent)  # [T, d/2]
    both = torch.cat((angle, angle), dim=-1)
    return both.cos().to(dtype), both.sin().to(dtype)


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """heads [B, H, T, d]: halves (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin)."""
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat((-second, first), dim=-1) * sin
