"""Sampling from a `Network` in batches of equal length, with a cache of keys and values.

Made for throughput over many rows, and for nothing that a user sees decoded: the app has its own
decoder. Knows nothing of tasks or files.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.training.network import Block, Network, linear, rotate, rotation


class CachedNetwork:
    """A network that remembers keys and values of the tokens it has seen, up to `length`."""

    def __init__(self, network: Network, rows: int, length: int) -> None:
        config = network.config
        device = network.model.embed_tokens.weight.device
        self.network = network
        self.length = 0
        shape = (rows, config.num_attention_heads, length, config.head_dim)
        self.keys = [
            torch.zeros(shape, dtype=network.dtype, device=device) for _ in network.model.layers
        ]
        self.values = [torch.zeros_like(keys) for keys in self.keys]
        self.cos, self.sin = rotation(length, config, device, network.dtype)

    @torch.no_grad()
    def feed(self, token_ids: Tensor) -> Tensor:
        """token_ids [B, T] that follow those fed before -> logits [B, V] after the last one."""
        end = self.length + token_ids.shape[1]
        hidden = self.network.model.embed_tokens(token_ids)
        for index, layer in enumerate(self.network.model.layers):
            assert isinstance(layer, Block)
            normed = layer.input_layernorm(hidden, self.network.dtype)
            hidden = hidden + self._attend(index, layer, normed, end)
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden, self.network.dtype))
        self.length = end
        return self.network.logits(hidden[:, -1]).float()

    def _attend(self, index: int, layer: Block, hidden: Tensor, end: int) -> Tensor:
        """hidden [B, T, D] -> [B, T, D]; one query sees the whole cache, several see causally."""
        rows, width, _ = hidden.shape
        attention = layer.self_attn
        query, key, value = (
            linear(hidden, product).view(rows, width, -1, attention.head_dim).transpose(1, 2)
            for product in (attention.q_proj, attention.k_proj, attention.v_proj)
        )  # [B, H, T, d]
        cos, sin = self.cos[self.length : end], self.sin[self.length : end]
        self.keys[index][:, :, self.length : end] = rotate(key, cos, sin)
        self.values[index][:, :, self.length : end] = value
        assert width == 1 or self.length == 0, "several tokens may only be fed first"
        mixed = F.scaled_dot_product_attention(
            rotate(query, cos, sin),
            self.keys[index][:, :, :end],
            self.values[index][:, :, :end],
            is_causal=width > 1,
        )
        return linear(mixed.transpose(1, 2).reshape(rows, width, -1), attention.o_proj)


def sample(network: Network, prefix: Tensor, total: int, temperatures: Tensor) -> Tensor:
    """prefix [B, P] continued to [B, total]; temperatures [B], 0 means the most likely token.

    A row goes on after the end of a document, as the training text does.
    """
    cache = CachedNetwork(network, prefix.shape[0], total)
    tokens = [prefix]
    latest = prefix
    for _ in range(total - prefix.shape[1]):
        latest = draw(cache.feed(latest), temperatures)[:, None]
        tokens.append(latest)
    return torch.cat(tokens, dim=1)


def draw(logits: Tensor, temperatures: Tensor) -> Tensor:
    """logits [B, V], temperatures [B] -> token ids [B] (Gumbel: argmax of logits + t * noise)."""
    noise = -torch.empty_like(logits).exponential_().log()
    return (logits + noise * temperatures[:, None]).argmax(-1)
