"""Where the vocabularies of a target and of a foreign draft meet, ready for use in a run.

Knows nothing of models.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from specviz.models.text.text_codec import TextCodec
from specviz.models.text.vocabulary import match_vocabularies
from specviz.records import SharedVocabulary


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """Shared tokens, one to one. V and D are the target's and the draft's vocabulary."""

    target_to_draft: Tensor  # [V] int64 on the device, -1: the draft has no such token
    draft_ids: tuple[int, ...]  # the same on the host
    is_shared: Tensor  # [D] bool on the device
    shared_count: int

    def note(self, mass: float, draft_tokens: int, target_tokens: int) -> SharedVocabulary:
        """What a round has to tell."""
        return SharedVocabulary(
            shared=self.shared_count,
            target_share=self.shared_count / len(self.target_to_draft),
            draft_share=self.shared_count / len(self.is_shared),
            mass=min(1.0, mass),
            draft_tokens=draft_tokens,
            target_tokens=target_tokens,
        )


@lru_cache(maxsize=8)
def meeting(target: TextCodec, draft: TextCodec, device: torch.device) -> Meeting:
    """The tables of two tokenizers, made once."""
    found = match_vocabularies(target, draft)
    return Meeting(
        found.target_to_draft.to(device),
        tuple(found.target_to_draft.tolist()),
        (found.draft_to_target >= 0).to(device),
        found.shared_count,
    )
