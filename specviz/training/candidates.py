"""The part of a draft vocabulary that a batch's loss is computed on.

Letters: D draft vocabulary, C candidates, k top tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

LIKELY, LEAST_LIKELY = 4, 0.01  # candidates: so many top tokens of a place, of that probability
OTHERS = 1024  # that are drawn from the rest of the draft vocabulary


class Judged(Protocol):
    """Places with what follows there."""

    @property
    def top_ids(self) -> Tensor:  # [..., k]
        ...

    @property
    def top_probs(self) -> Tensor:  # [..., k], 0 outside the draft vocabulary
        ...


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a batch thinks likely, and others by chance that stand for all the rest.

    The others' logits are raised so that the softmax's sum is what it would be over the whole, on
    average. A step takes half the time of one over all 8,192 tokens.
    """

    ids: Tensor  # [C], ascending
    raised: Tensor  # [C]: what is added to each logit

    @classmethod
    def of(cls, lesson: Judged, drafted: Tensor, vocabulary: int) -> Candidates:
        """For a lesson over the draft vocabulary `drafted` [D]."""
        best = lesson.top_ids[..., :LIKELY][lesson.top_probs[..., :LIKELY] > LEAST_LIKELY]
        is_likely = torch.zeros(vocabulary, dtype=torch.bool)
        is_likely[best] = True
        rest = drafted[~is_likely[drafted]]
        others = rest[torch.randperm(len(rest))[:OTHERS]]
        raised = torch.zeros(vocabulary)
        if len(others):
            raised[others] = math.log(len(rest) / len(others))
        ids = torch.cat((is_likely.nonzero()[:, 0], others)).sort().values
        return cls(ids, raised[ids])

    def places(self, lesson: Judged) -> tuple[Tensor, Tensor]:
        """Top tokens as places among the candidates and their probabilities, 0 for those not."""
        places = torch.searchsorted(self.ids, lesson.top_ids).clamp_max(len(self.ids) - 1)
        return places, lesson.top_probs * (self.ids[places] == lesson.top_ids)
