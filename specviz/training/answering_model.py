"""A chat model that processes many conversations at once on a CPU.

Matrix multiplications run in bfloat16; the residual stream and the norms stay in float32.
`AnsweringModel` contains the weights, and runs one forward over whole conversations.
`ConversationRows` contains a KV cache, and decodes the conversations token by token.

In shapes, B is the number of rows (one conversation each), T the number of tokens per row, V the
size of the vocabulary, W the hidden size, G the number of key-value heads, and d the head size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

from specviz.training.network import rotate, rotation

# A function that computes the attention of one layer. The arguments are the layer's index, the
# query [B, heads, T, d], and key and value [B, G, T, d], where G is the number of key-value heads.
# The result has the shape of the query.
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
# The number that is added to the attention scores of masked tokens. It is finite: if all scores of
# a row were minus infinity, the row would become NaN.
MASKED = -1e30


class _Layer(NamedTuple):
    input_norm: Tensor  # [W]
    qkv: Tensor
    out: Tensor
    mlp_norm: Tensor  # [W]
    gate_up: Tensor
    down: Tensor


class AnsweringModel:
    """The weights of a Llama model whose output matrix is its embedding, and its forward pass."""

    def __init__(self, model: LlamaForCausalLM, dtype: torch.dtype = torch.bfloat16) -> None:
        self.config = model.config
        self.dtype = dtype
        weights = {name: weight.detach() for name, weight in model.named_parameters()}
        self.table = weights["model.embed_tokens.weight"].to(dtype)  # [V, W]
        self.norm = weights["model.norm.weight"].float()
        self.layers = []
        for index in range(self.config.num_hidden_layers):
            start = f"model.layers.{index}."
            layer = {
                name.removeprefix(start): weight
                for name, weight in weights.items()
                if name.startswith(start)
            }
            qkv = [layer[f"self_attn.{name}_proj.weight"] for name in "qkv"]
            gate_up = [layer[f"mlp.{name}_proj.weight"] for name in ("gate", "up")]
            self.layers.append(
                _Layer(
                    layer["input_layernorm.weight"].float(),
                    torch.cat(qkv).to(dtype),
                    layer["self_attn.o_proj.weight"].to(dtype),
                    layer["post_attention_layernorm.weight"].float(),
                    torch.cat(gate_up).to(dtype),
                    layer["mlp.down_proj.weight"].to(dtype),
                )
            )

    @torch.inference_mode()
    def features(self, tokens: Tensor) -> Tensor:
        """Return the hidden states [B, T, W] after the final norm.

        `tokens` [B, T] contains one conversation per row. Shorter conversations have padding at
        their end.
        """
        angles = self.angles(tokens.shape[1])
        queries_per_key = self.config.num_attention_heads // self.config.num_key_value_heads

        def attend(_: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            key, value = (each.repeat_interleave(queries_per_key, dim=1) for each in (key, value))
            return F.scaled_dot_product_attention(query, key, value, is_causal=True)

        *_, last = self.walk(tokens, angles, attend)
        return self.normed(last)

    def logits(self, normed: Tensor) -> Tensor:
        """Return the logits [..., V] for hidden states [..., W] after the final norm."""
        return F.linear(normed.to(self.dtype), self.table).float()

    def normed(self, hidden: Tensor) -> Tensor:
        """Return hidden states [..., W] after the model's final norm is applied to them."""
        return self._norm(hidden, self.norm)

    def angles(self, length: int) -> tuple[Tensor, Tensor]:
        """Return the cosines and the sines of the rotary positions, each [length, d]."""
        return rotation(length, self.config, self.table.device, torch.float32)

    def walk(
        self, tokens: Tensor, angles: tuple[Tensor, Tensor], attend: Attend
    ) -> Iterator[Tensor]:
        """Run `tokens` [B, T] through the layers; yield the residual stream [B, T, W] after each.

        `attend` computes the attention of a layer. It may also store keys and values in a cache.
        """
        config, (rows, width) = self.config, tokens.shape
        queries, groups = config.num_attention_heads, config.num_key_value_heads
        hidden = F.embedding(tokens, self.table).float()
        for index, layer in enumerate(self.layers):
            packed = F.linear(self._norm(hidden, layer.input_norm).to(self.dtype), layer.qkv)
            heads = packed.view(rows, width, -1, config.head_dim).transpose(1, 2)
            query, key, value = torch.split(heads, [queries, groups, groups], dim=1)
            query, key = (rotate(each, *angles).to(self.dtype) for each in (query, key))
            mixed = attend(index, query, key, value)
            hidden = hidden + F.linear(mixed.transpose(1, 2).reshape(rows, width, -1), layer.out)
            normed = self._norm(hidden, layer.mlp_norm).to(self.dtype)
            gate, up = F.linear(normed, layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + F.linear(F.silu(gate) * up, layer.down)
            yield hidden

    def _norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(hidden, hidden.shape[-1:], weight, self.config.rms_norm_eps)


class ConversationRows:
    """The KV cache of a fixed number of rows; each row contains one conversation.

    All conversations begin with the same tokens `opening`, which the model processes only once.
    The rows are divided into blocks of `block_rows` rows. The attention of a block covers as many
    tokens as the block's longest conversation has.
    """

    def __init__(
        self,
        model: AnsweringModel,
        opening: Sequence[int],
        blocks: int,
        block_rows: int,
        slots: int,
    ) -> None:
        config, count = model.config, blocks * block_rows
        self.model = model
        self.block_rows = block_rows
        self.lengths = torch.zeros(count, dtype=torch.int64)  # number of cached tokens in every row
        shape = (count, config.num_key_value_heads, slots, config.head_dim)
        self.keys = [torch.zeros(shape, dtype=model.dtype) for _ in model.layers]
        self.values = [torch.zeros(shape, dtype=model.dtype) for _ in model.layers]
        self.cos, self.sin = model.angles(slots)
        self.opening = len(opening)
        self._read(torch.arange(1), torch.tensor([opening]), 0)
        for states in (*self.keys, *self.values):
            states[:, :, : self.opening] = states[:1, :, : self.opening].clone()

    @torch.inference_mode()
    def begin(self, rows: Sequence[int], conversations: Sequence[Sequence[int]]) -> None:
        """Replace the content of the given rows of the cache by new conversations.

        The last token of each conversation is not cached, because `step` appends it.
        """
        picked = torch.tensor(rows)
        self.lengths[picked] = torch.tensor([len(tokens) - 1 for tokens in conversations])
        rest = [tokens[self.opening : -1] for tokens in conversations]
        longest = max(map(len, rest))
        if longest:
            padded = [[*tokens, *[0] * (longest - len(tokens))] for tokens in rest]
            self._read(picked, torch.tensor(padded), self.opening)

    @torch.inference_mode()
    def empty(self, rows: Sequence[int]) -> None:
        """Forget the conversations of these rows.

        Rows of length 0 do not make attention slower.
        """
        self.lengths[list(rows)] = 0

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Append one token to every row; return the hidden states [B, W] after the final norm.

        `tokens` [B] contains the token of each row.
        """
        rows, lengths, model = torch.arange(len(tokens)), self.lengths, self.model
        angles = self.cos[lengths, None, None], self.sin[lengths, None, None]
        groups, shared = self.keys[0].shape[1], model.config.num_attention_heads
        shared //= groups  # number of query heads that share a key-value head
        blocks = []
        for start in range(0, len(tokens), self.block_rows):
            block = slice(start, start + self.block_rows)
            end = int(lengths[block].max()) + 1
            hidden = torch.arange(end) > lengths[block, None]  # [block rows, end]
            mask = torch.zeros(hidden.shape, dtype=model.dtype).masked_fill(hidden, MASKED)
            blocks.append((block, end, mask[:, None, None].expand(-1, -1, shared, -1)))

        def attend(index: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            keys, values = self.keys[index], self.values[index]
            keys[rows, :, lengths] = key[:, :, 0]
            values[rows, :, lengths] = value[:, :, 0]
            # The query heads that share a key-value head become queries of one head, so that the
            # keys need not be copied for each query head.
            grouped = query.view(len(rows), groups, shared, -1)
            mixed = [
                F.scaled_dot_product_attention(
                    grouped[block], keys[block, :, :end], values[block, :, :end], mask
                )
                for block, end, mask in blocks
            ]
            return torch.cat(mixed).view(query.shape)

        *_, last = model.walk(tokens[:, None], angles, attend)
        # A row that has no conversation also grows by one token per step, but its length never
        # exceeds that of the cache.
        self.lengths = (lengths + 1).clamp_max(len(self.cos) - 1)
        return model.normed(last[:, 0])

    def _read(self, rows: Tensor, tokens: Tensor, start: int) -> None:
        """Cache `tokens` [B, T] at the positions from `start` on.

        The tokens of shorter rows are padded at their end.
        """
        end = start + tokens.shape[1]
        past = torch.ones(end - start, end, dtype=torch.bool).tril(start)
        mask = torch.zeros(past.shape, dtype=self.model.dtype).masked_fill(~past, MASKED)
        angles = self.cos[start:end], self.sin[start:end]

        def attend(index: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            self.keys[index][rows, :, start:end] = key
            self.values[index][rows, :, start:end] = value
            shared = query.shape[1] // key.shape[1]
            keys, values = (
                states[index][rows, :, :end].repeat_interleave(shared, dim=1)
                for states in (self.keys, self.values)
            )
            return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)

        for _ in self.model.walk(tokens, angles, attend):
            pass
