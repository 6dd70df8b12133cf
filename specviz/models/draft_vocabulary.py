"""The part of a target's vocabulary that a drafter can name.

The smaller draft vocabulary is that of FR-Spec (2502.14856) and EAGLE-3 (2503.01840). All other
tokens have probability 0 in its distributions: a draft is exact all the same, and reads a small
part of the output matrix. Letters: N rows, V vocabulary of the target, R draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class DraftVocabulary:
    """Which of the target's tokens there are."""

    ids: Tensor  # [R] int64, all different
    whole: int  # V

    @classmethod
    def of_offsets(cls, offsets: Tensor, whole: int) -> DraftVocabulary:
        """EAGLE-3's table `d2t` [R]: token id minus row. ValueError unless it names R tokens."""
        size = len(offsets)
        ids = offsets + torch.arange(size, device=offsets.device)
        given = {*ids.tolist()}
        if len(given) < size or min(given) < 0 or max(given) >= whole:
            raise ValueError(f"must have {size} different tokens below {whole} in d2t")
        return cls(ids, whole)

    def spread(self, logits: Tensor) -> Tensor:  # [N, R] -> [N, V]
        """Over the whole vocabulary, minus infinity for tokens that there are not."""
        everywhere = logits.new_full((len(logits), self.whole), -torch.inf)
        return everywhere.index_copy_(1, self.ids, logits)

    def rows(self) -> Tensor:
        """The row of every token, [V]; those that there are not share the row behind the last."""
        rows = torch.full((self.whole,), len(self.ids), device=self.ids.device)
        return rows.index_copy_(0, self.ids, torch.arange(len(self.ids), device=self.ids.device))
