"""Compute logits from the hidden state of a drafting head.

The head uses the target's output matrix, or its own. In shapes, N is the number of hidden states, W
the hidden size, V the size of the target's vocabulary and R the size of the draft vocabulary, which
is V for a head without a draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.models.draft_vocabulary import DraftVocabulary
from specviz.models.heads.head_weights import HeadWeights
from specviz.models.language_model import LanguageModel
from specviz.models.llama.layer import RootMeanSquareNorm
from specviz.models.matrix_kernels.projection import Projection, compact, is_compacted

# The largest size in bytes of a whole output matrix that is copied.
MOST_COPIED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class DraftOutput:
    """The last step of a drafting head, which turns hidden states into logits of the next token."""

    # The output matrix with one row per token of the draft vocabulary. If it is None, the head uses
    # the target's own output matrix.
    matrix: Projection | None
    # the tokens that the head can draft; None means all tokens of the target
    drafted: DraftVocabulary | None
    # the norm before the output matrix, which only heads of EAGLE-3 have
    norm: RootMeanSquareNorm | None = None

    def logits(self, normed: Tensor, target: LanguageModel) -> Tensor:  # [N, W] -> [N, R]
        return target.output(normed) if self.matrix is None else self.matrix(normed)


def drafted_tokens(source: HeadWeights, target: LanguageModel) -> DraftVocabulary | None:
    """Return the head's draft vocabulary, or None if it has none.

    Raises InputError if the table of the draft vocabulary is invalid.
    """
    whole = source.config.get("vocab_size")
    if source.config.get("draft_vocab_size") in (None, whole) and not source.has("d2t"):
        return None
    size = source.number("draft_vocab_size")
    offsets = source.tensor("d2t", (size,), torch.int64, target.device)
    try:
        return DraftVocabulary.of_offsets(offsets, target.info.vocab_size)
    except ValueError as error:
        raise source.error(str(error)) from None


@torch.inference_mode()
def copied_output(target: LanguageModel, drafted: DraftVocabulary | None) -> Projection | None:
    """Return a copy of the target's output matrix if reading the copy is faster, otherwise None.

    For a head with a draft vocabulary, the copy has only the rows of that vocabulary.
    """
    width, vocabulary = target.info.hidden_size, target.info.vocab_size
    size = width * vocabulary * target.dtype.itemsize
    if drafted is None and size > MOST_COPIED_BYTES:
        return None
    identity = torch.eye(width, dtype=target.dtype, device=target.device)
    matrix = target.output(identity).t().to(target.dtype)  # [V, W]
    if drafted is not None:
        return compact(matrix[drafted.ids])
    return compact(matrix) if is_compacted(matrix) else None
