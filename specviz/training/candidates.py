"""Compute the loss of a training batch over a part of the draft vocabulary, to save time.

In shapes, D is the size of the draft vocabulary, C the number of candidates (the chosen tokens),
and k the number of top tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

# A token is likely at a position if it is among the LIKELY most probable ones and its probability
# exceeds LEAST_LIKELY.
LIKELY, LEAST_LIKELY = 4, 0.01
# The number of random candidates, drawn from the tokens that are likely at no position.
OTHERS = 1024


class Judged(Protocol):
    """A training batch, with the target's distribution of the next token at every position."""

    @property
    def top_ids(self) -> Tensor:  # [..., k]
        ...

    @property
    # [..., k], the probabilities of `top_ids`, 0 for tokens outside the draft vocabulary
    def top_probs(self) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Candidates:
    """The tokens over which the loss of a batch is computed.

    The candidates are all tokens that are likely at some position of the batch, and random tokens
    that represent the rest of the draft vocabulary. A constant is added to the logits of the random
    tokens, so that the sum in the softmax equals, on average, the sum over the whole draft
    vocabulary. With candidates, a training step takes half the time of a step with all 8,192
    tokens.
    """

    ids: Tensor  # [C], the ids of the candidates, ascending
    raised: Tensor  # [C], the number that the loss adds to the logit of each candidate

    @classmethod
    def of(cls, lesson: Judged, drafted: Tensor, vocabulary: int) -> Candidates:
        """Choose the tokens over which the loss of the batch `lesson` is computed.

        These are all likely tokens of the batch, and OTHERS random tokens of the rest of the draft
        vocabulary `drafted` [D]. `vocabulary` is the size of the target's vocabulary.
        """
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
        """Return the index of each top token among the candidates, and the token's probability.

        A top token that is not a candidate gets probability 0.
        """
        places = torch.searchsorted(self.ids, lesson.top_ids).clamp_max(len(self.ids) - 1)
        return places, lesson.top_probs * (self.ids[places] == lesson.top_ids)
