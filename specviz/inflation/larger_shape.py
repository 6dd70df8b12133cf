"""The tensors of a Llama model in a larger shape that computes the same function.

The old weights fill a corner of larger matrices. All other weights cannot change the output,
because the new entries of the residual stream stay zero. Weights that are multiplied by those zeros
are small random numbers, because a GPU would run faster with zeros than with the weights of a real
model.

In shapes, V is the size of the vocabulary, d the hidden size and D the head size of the old model.
The larger model has the sizes d' and D', and r = D'/D.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from specviz.errors import InputError, whole_between

FILL = 0.02  # standard deviation of the weights that do not change the output
MAX_SIZE = 1 << 20  # largest allowed size of one dimension


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """The sizes of a Llama model, named as in its configuration."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        for each in fields(self):
            whole_between(getattr(self, each.name), each.name, 1, MAX_SIZE)
        if self.num_attention_heads % self.num_key_value_heads:
            raise InputError(
                f"num_attention_heads must be a multiple of num_key_value_heads "
                f"{self.num_key_value_heads}, got {self.num_attention_heads}"
            )
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                f"hidden_size must be a multiple of num_attention_heads "
                f"{self.num_attention_heads}, got {self.hidden_size}"
            )

    @property
    def group(self) -> int:
        """Return the number of query heads per key-value head."""
        return self.num_attention_heads // self.num_key_value_heads

    @property
    def layer_weights(self) -> int:
        """Return the number of parameters of one layer."""
        heads = 2 * self.num_attention_heads + 2 * self.num_key_value_heads
        return self.hidden_size * (heads * self.head_dim + 3 * self.intermediate_size + 2)

    def weights(self, vocabulary: int) -> int:
        """Return the number of parameters of the model, whose output matrix is its embedding."""
        return self.num_hidden_layers * self.layer_weights + self.hidden_size * (vocabulary + 1)

    def with_sizes(self, sizes: dict[str, int]) -> LlamaShape:
        """Return the shape with some sizes changed.

        If the hidden size grows, the number of query heads and the size of the MLP grow by the same
        factor, unless `sizes` names them. Raise InputError for an unknown name.
        """
        for name in sizes:
            if name not in SIZES:
                raise InputError(f"shape must name sizes among {', '.join(SIZES)}, got {name!r}")
        ratio = max(1, sizes.get("hidden_size", self.hidden_size) // self.hidden_size)
        grown = {
            "num_attention_heads": self.num_attention_heads * ratio,
            "intermediate_size": self.intermediate_size * ratio,
        }
        return replace(self, **{**grown, **sizes})


SIZES = tuple(each.name for each in fields(LlamaShape))


class Inflation:
    """A conversion of the tensors of a small model to a larger shape."""

    def __init__(self, small: LlamaShape, large: LlamaShape) -> None:
        self._small, self.large = small, large
        # The weights of norms are multiplied by this factor. In the longer vectors, the new entries
        # are zero, so their mean square is smaller.
        self._widening = math.sqrt(small.hidden_size / large.hidden_size)
        # The weights of queries are multiplied by this factor, because attention divides the scores
        # by the square root of the head size, which is now larger.
        self._sharpening = math.sqrt(large.head_dim / small.head_dim)
        places = range(small.num_key_value_heads)
        self._kv_rows = self._rows(list(places))
        self._q_rows = self._rows(
            [head * large.group + index for head in places for index in range(small.group)]
        )
        self._random = torch.Generator().manual_seed(0)

    def embedding(self, weight: Tensor) -> Tensor:  # [V, d] -> [V, d']
        return self._zeros(weight.shape[0], self.large.hidden_size, weight)

    def norm(self, weight: Tensor) -> Tensor:  # [d] -> [d']
        out = torch.zeros(self.large.hidden_size)
        out[: len(weight)] = weight * self._widening
        return out

    def layer(self, weights: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Yield all tensors of a layer, named as in `weights`.

        If `weights` is empty, the result is an additional layer, whose outputs are zero. Such a
        layer leaves the residual stream unchanged.
        """
        big, d = self.large, self._small.hidden_size
        queries, keys = (
            heads * big.head_dim for heads in (big.num_attention_heads, big.num_key_value_heads)
        )
        for name in ("input_layernorm", "post_attention_layernorm"):
            known = weights.get(f"{name}.weight")
            yield (
                f"{name}.weight",
                torch.ones(big.hidden_size) if known is None else self.norm(known),
            )
        rows = {
            "self_attn.q_proj": (queries, self._q_rows, self._sharpening),
            "self_attn.k_proj": (keys, self._kv_rows, 1.0),
            "self_attn.v_proj": (keys, self._kv_rows, 1.0),
            "mlp.gate_proj": (big.intermediate_size, None, 1.0),
            "mlp.up_proj": (big.intermediate_size, None, 1.0),
        }
        for name, (count, places, scale) in rows.items():
            out = self._noise(count, big.hidden_size)
            if (known := weights.get(f"{name}.weight")) is not None:
                if places is not None:
                    out[self._idle_rows(places)] = 0
                at = torch.arange(known.shape[0]) if places is None else places
                out[at[:, None], torch.arange(d)] = known * scale
            yield f"{name}.weight", out
        columns = {
            "self_attn.o_proj": (queries, self._q_rows),
            "mlp.down_proj": (big.intermediate_size, None),
        }
        for name, (count, places) in columns.items():
            out = torch.zeros(big.hidden_size, count)
            if (known := weights.get(f"{name}.weight")) is not None:
                at = torch.arange(known.shape[1]) if places is None else places
                out[torch.arange(d)[:, None], at] = known
            yield f"{name}.weight", out

    def _rows(self, heads: list[int]) -> Tensor:
        """Return, for each row of the old heads, the index of its row in the larger matrix.

        `heads` has the new index of each old head. In each head, dimension j < D/2 moves to r j,
        and dimension j + D/2 moves to r j + D'/2.
        """
        old, new = self._small.head_dim, self.large.head_dim
        half = torch.arange(old // 2) * (new // old)
        within = torch.cat((half, half + new // 2))
        return torch.cat([head * new + within for head in heads])

    def _idle_rows(self, places: Tensor) -> Tensor:
        """Return the indices of the rows that must be zero, so that attention scores stay the same.

        `places` has the indices of the old rows in the larger matrix. Some heads of that matrix
        contain old rows. All other rows of these heads must be zero.
        """
        size = self.large.head_dim
        rows = (torch.unique(places // size)[:, None] * size + torch.arange(size)).flatten()
        idle: Tensor = rows[~torch.isin(rows, places)]
        return idle

    def _noise(self, rows: int, columns: int) -> Tensor:
        out = torch.empty(rows, columns)
        out.normal_(0, FILL, generator=self._random)
        return out

    @staticmethod
    def _zeros(rows: int, columns: int, corner: Tensor) -> Tensor:
        out = torch.zeros(rows, columns)
        out[: corner.shape[0], : corner.shape[1]] = corner
        return out
