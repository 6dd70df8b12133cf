"""Rotary positions: a table of angles, and the rotation of heads.

In shapes, T is the number of tokens, P the number of positions in a table, A the number of heads
and D the head size.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

FIRST_POSITIONS = 1024
# Kinds of rotary positions whose angles depend only on the position.
FIXED_KINDS = ("default", "linear", "llama3", "yarn")
# Kinds of rotary positions whose angles depend only on the position, if all positions are within
# the context length that `specviz.models.files.context` allows.
FIXED_WITHIN_CONTEXT = ("longrope", "dynamic")


def is_fixed(config: Any, is_within_context: bool = False) -> bool:
    """Return whether the rotary angles of a configuration can be kept in a table.

    `is_within_context` is True if no position exceeds the model's context length. Angles that
    change only beyond this length can then be kept as well. For a drafting head, which has no such
    limit, it is False.
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
