"""Compare two vocabularies: find the tokens with the same text.

This module knows nothing about models. Tokens are compared by their bytes, because each family of
tokenizers writes tokens with its own alphabet. In shapes, T and D are the numbers of ids of the
target's and the draft's vocabulary.
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
    """The relation between the vocabulary of a draft and that of its target."""

    EQUAL = "equal"
    # the tokens are equal, but the models have different numbers of unused rows after them
    PADDED = "equal up to padding"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True, eq=False)
class VocabularyMap:
    """The tokens that two vocabularies share; each is matched to one token of the other vocabulary.

    Control tokens are not matched.
    """

    target_to_draft: Tensor  # [T] int64; -1 if the draft lacks the token
    draft_to_target: Tensor  # [D] int64; -1 if the target lacks the token
    shared_count: int

    @property
    def target_share(self) -> float:
        """Return the fraction of the target's ids that the draft also has."""
        return self.shared_count / len(self.target_to_draft)

    @property
    def draft_share(self) -> float:
        """Return the fraction of the draft's ids that the target also has."""
        return self.shared_count / len(self.draft_to_target)


def match_vocabularies(target: TextCodec, draft: TextCodec) -> VocabularyMap:
    """Match the tokens of two tokenizers by their bytes; return tables on the CPU.

    arXiv 2502.05202 describes the intersection of two vocabularies.
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
    """Compare the draft's tokens with the target's.

    `rows` has the numbers of rows of both embeddings.
    """
    if difference(target, draft) is not None:
        return Relation.DIFFERENT
    return Relation.EQUAL if rows[0] == rows[1] else Relation.PADDED


def refusal(target: str, draft: str, found: str) -> str:
    """Return the error text for a draft whose tokens are not the target's, with a way out.

    `found` describes the difference between the vocabularies, as `difference` returns it.
    """
    return (
        f"draft {draft!r} must share the vocabulary of target {target!r}: {found}; choose a draft "
        "of the same family, or a method that takes drafts of another vocabulary"
    )


def difference(target: TextCodec, draft: TextCodec) -> str | None:
    """Describe the first id with different tokens in two tokenizers; None if all ids are equal."""
    ours, theirs = target.vocabulary, draft.vocabulary
    shared = min(len(ours), len(theirs))
    for token_id in range(shared):
        if ours[token_id] != theirs[token_id]:
            return f"token {token_id} is {ours[token_id]!r} and {theirs[token_id]!r}"
    if any(name is not None for name in (*ours[shared:], *theirs[shared:])):
        return f"they have {len(ours)} and {len(theirs)} tokens"
    return None


def fingerprint(codec: TextCodec) -> str:
    """Return a hash of a tokenizer. Two hashes are equal only if all ids mean the same tokens."""
    return hashlib.sha256(json.dumps(codec.vocabulary).encode()).hexdigest()
