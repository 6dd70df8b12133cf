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
    """The rotation of a loaded model, looked up instead of computed at each step."""

    def __init__(self, embedding: Any, dtype: torch.dtype, device: torch.device) -> None:
        self._embedding = embedding  # the model's own module: (x, positions) -> (cos, sin)
        self._like = torch.empty(0, dtype=dtype, device=device)
        self._table = self._build(FIRST_POSITIONS)

    def angles(self, position_ids: Tensor, reach: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines [T, 1, D] of the positions [T], all of them below `reach`."""
        if reach > self._table.shape[0]:
            self._table = self._build(1 << (reach - 1).bit_length())
        cosines, sines = F.embedding(position_ids, self._table).unsqueeze(1).chunk(2, -1)
        return cosines, sines

    def _build(self, count: int) -> Tensor:  # [P, 2 D]
        positions = torch.arange(count, device=self._like.device)[None]
        cosines, sines = self._embedding(self._like, positions)
        half = sines.shape[-1] // 2
        signed = torch.cat((-sines[..., :half], sines[..., half:]), dim=-1)
        return torch.cat((cosines[0], signed[0]), dim=-1)


def rotate(heads: Tensor, angles: tuple[Tensor, Tensor], out: Tensor) -> None:
    """Turn each pair (j, j + D/2) of `heads` [T, A, D] by its angle, into `out` (or in place)."""
    cosines, sines = angles  # the sign of the first half is in the table
    swapped = heads.roll(heads.shape[-1] // 2, -1)
    torch.addcmul(heads * cosines, swapped, sines, out=out)
