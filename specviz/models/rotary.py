"""Rotary position embedding: tables of cosines and sines, and the rotation itself.

Knows nothing of attention. Letters: P positions in the table, T tokens, A heads, D head size.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

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
