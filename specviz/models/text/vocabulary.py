"""Two vocabularies side by side: which tokens of one mean the same text as a token of the other.

Knows nothing of models. Tokens are matched by the bytes that they stand for, since every family
writes its pieces in letters of its own. Letters: T and D ids of the target's and the draft's
vocabulary.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from specviz.models.text.text_codec import TextCodec

NO_TOKEN = -1


class Relation(Enum):
    """How the tokens of a draft stand to those of its target."""

    EQUAL = "equal"
    PADDED = "equal up to padding"  # the same tokens, unused rows behind them
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True, eq=False)
class VocabularyMap:
    """The tokens that two vocabularies share, one to one (control tokens have no partner)."""

    target_to_draft: Tensor  # [T] int64, -1: no token of the draft
    draft_to_target: Tensor  # [D] int64, -1: no token of the target
    shared_count: int

    @property
    def target_share(self) -> float:
        """The part of the target's ids that the draft has too."""
        return self.shared_count / len(self.target_to_draft)

    @property
    def draft_share(self) -> float:
        """The part of the draft's ids that the target has too."""
        return self.shared_count / len(self.draft_to_target)


def match_vocabularies(target: TextCodec, draft: TextCodec) -> VocabularyMap:
    """Match the tokens of two tokenizers by their bytes; the maps lie on the CPU.

    Source: the token-level intersection of heterogeneous vocabularies (2502.05202).
    """
    ours, theirs = target.text_tokens(), draft.text_tokens()
    shared = sorted((ours[text], theirs[text]) for text in ours.keys() & theirs.keys())
    pairs = torch.tensor(shared, dtype=torch.int64).reshape(-1, 2)
    target_to_draft = torch.full((target.vocab_size,), NO_TOKEN, dtype=torch.int64)
    draft_to_target = torch.full((draft.vocab_size,), NO_TOKEN, dtype=torch.int64)
    target_to_draft[pairs[:, 0]] = pairs[:, 1]
    draft_to_target[pairs[:, 1]] = pairs[:, 0]
    return VocabularyMap(target_to_draft, draft_to_target, len(shared))


def relation(target: TextCodec, draft: TextCodec, rows: tuple[int, int]) -> Relation:
    """How a draft's tokens stand to its target's; `rows` are the heights of their embeddings."""
    if difference(target, draft) is not None:
        return Relation.DIFFERENT
    return Relation.EQUAL if rows[0] == rows[1] else Relation.PADDED


def refusal(target: str, draft: str, found: str) -> str:
    """Why this draft cannot serve, `found` being the difference; names the way out."""
    return (
        f"draft {draft!r} must share the vocabulary of target {target!r}: {found}; choose a draft "
        "of the same family, or a method that takes drafts of another vocabulary"
    )


def difference(target: TextCodec, draft: TextCodec) -> str | None:
    """Where the ids of two tokenizers first mean different tokens; None where they nowhere do."""
    ours, theirs = target.vocabulary, draft.vocabulary
    shared = min(len(ours), len(theirs))
    for token_id in range(shared):
        if ours[token_id] != theirs[token_id]:
            return f"token {token_id} is {ours[token_id]!r} and {theirs[token_id]!r}"
    if any(name is not None for name in (*ours[shared:], *theirs[shared:])):
        return f"they have {len(ours)} and {len(theirs)} tokens"
    return None


def fingerprint(codec: TextCodec) -> str:
    """The same for two tokenizers only if every id is the same token in both."""
    return hashlib.sha256(json.dumps(codec.vocabulary).encode()).hexdigest()
