"""A draft vocabulary: the part of the target's vocabulary that a drafter can propose.

FR-Spec (arXiv 2502.14856) and EAGLE-3 (arXiv 2503.01840) use a draft vocabulary. All other tokens
have probability 0 in the draft's distributions. Decoding stays exact, and the draft reads only a
small part of the output matrix. In shapes, N is the number of tokens with logits, V the size of the
target's vocabulary and R the size of the draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class DraftVocabulary:
    """The tokens of the target's vocabulary that a drafter can propose."""

    ids: Tensor  # [R] int64, the token ids; all of them differ
    whole: int  # V, the size of the target's vocabulary

    @classmethod
    def of_offsets(cls, offsets: Tensor, whole: int) -> DraftVocabulary:
        """Create a draft vocabulary from EAGLE-3's table `d2t` [R].

        Entry r of the table is the id of the draft vocabulary's token r, minus r.

        Raises ValueError if the table does not give R different token ids below `whole`.
        """
        size = len(offsets)
        ids = offsets + torch.arange(size, device=offsets.device)
        given = {*ids.tolist()}
        if len(given) < size or min(given) < 0 or max(given) >= whole:
            raise ValueError(f"must have {size} different token ids below {whole} in d2t")
        return cls(ids, whole)

    def spread(self, logits: Tensor) -> Tensor:  # [N, R] -> [N, V]
        """Return logits over the target's vocabulary.

        Tokens outside the draft vocabulary get minus infinity.
        """
        return self._spread(logits, -torch.inf)

    def spread_distributions(self, distributions: Tensor) -> Tensor:  # [N, R] -> [N, V]
        """Return distributions over the target's vocabulary.

        Tokens outside the draft vocabulary get probability 0.
        """
        return self._spread(distributions, 0.0)

    def _spread(self, values: Tensor, other: float) -> Tensor:
        everywhere = values.new_full((len(values), self.whole), other)
        return everywhere.index_copy_(1, self.ids, values)

    def rows(self) -> Tensor:
        """Return the index in the draft vocabulary of each of the target's tokens, [V].

        For tokens outside the draft vocabulary, the index is R.
        """
        rows = torch.full((self.whole,), len(self.ids), device=self.ids.device)
        return rows.index_copy_(0, self.ids, torch.arange(len(self.ids), device=self.ids.device))
