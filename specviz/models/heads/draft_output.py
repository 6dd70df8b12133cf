"""How a head's hidden state becomes logits: through the target's output matrix, or one of its own.

Letters: N rows, W width, V vocabulary, R draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.models.draft_vocabulary import DraftVocabulary
from specviz.models.heads.head_weights import HeadWeights
from specviz.models.language_model import LanguageModel
from specviz.models.llama.llama_model import RootMeanSquareNorm
from specviz.models.llama.projection import CompactProjection, Product, compact

MOST_COPIED_BYTES = 64 << 20  # of an output matrix


@dataclass(frozen=True, slots=True)
class DraftOutput:
    """Logits of the next token; minus infinity outside the draft vocabulary."""

    matrix: Product | None  # its rows are those of `drafted`; None: the target's own matrix
    drafted: DraftVocabulary | None  # None: the whole vocabulary
    norm: RootMeanSquareNorm | None = None  # of EAGLE-3

    def logits(self, normed: Tensor, target: LanguageModel) -> Tensor:  # [N, W] -> [N, V]
        if self.matrix is None:
            return target.output(normed)
        logits = self.matrix(normed)
        return logits if self.drafted is None else self.drafted.spread(logits)


def drafted_tokens(source: HeadWeights, target: LanguageModel) -> DraftVocabulary | None:
    """The draft vocabulary if the head has one; InputError for a bad table."""
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
def copied_output(target: LanguageModel, drafted: DraftVocabulary | None) -> Product | None:
    """A copy of the target's output matrix, where that can be read faster than the original.

    With a draft vocabulary it has the rows of those tokens alone.
    """
    width, vocabulary = target.info.hidden_size, target.info.vocab_size
    size = width * vocabulary * target.dtype.itemsize
    if drafted is None and size > MOST_COPIED_BYTES:
        return None
    identity = torch.eye(width, dtype=target.dtype, device=target.device)
    matrix = target.output(identity).t()  # [V, W]
    if drafted is not None:
        return compact(matrix[drafted.ids])
    copy = compact(matrix)
    return copy if isinstance(copy, CompactProjection) else None
