"""A draft with a vocabulary of its own as a source: target text in, the draft's own logits out.

Its token ids are the draft's, everywhere but in `begin`. Only chains are grown from it. Knows
nothing of what becomes of its tokens on the target's side.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specviz.decoding.drafters.reencoded_text import ReencodedText
from specviz.decoding.drafters.source import ModelSource
from specviz.models.files.loading import LoadedModel
from specviz.models.text.text_codec import TextCodec


class ForeignSource(ModelSource):
    """The draft's cache covers a prefix of the target's text as the draft's tokenizer writes it."""

    def __init__(self, foreign: LoadedModel, target: TextCodec, draft_length: int) -> None:
        info = foreign.info
        super().__init__(foreign.model, info.context_length, info.vocab_size)
        self._text = ReencodedText(target, foreign.codec)
        self._nothing = [min(foreign.codec.eos_ids, default=0)]  # before an empty text
        self._most = max(1, info.context_length - draft_length)  # tokens of text
        self._cached: list[int] = []  # the draft's tokens in its cache, or more

    def begin(self, committed: Sequence[int]) -> Tensor:
        """Logits after the text, of which only what is new since the last round is run."""
        ids = self._last_of(self._text.token_ids(committed) or self._nothing)
        self._cache.keep(shared_length(self._cached[: self._cache.length], ids[:-1]), [])
        self._cached = ids
        return super().begin(ids)

    def wrote(self, token_ids: Sequence[int]) -> None:
        """A chain that may be part of the text now; of it the cache holds what was run."""
        count = min(len(token_ids), self._ran)
        self._cache.keep(self._root_end + count, [])
        self._cached = [*self._cached, *token_ids[:count]]

    def _last_of(self, ids: list[int]) -> list[int]:
        """A text that is too long for the draft loses its beginning, a quarter at a time."""
        step = max(1, self._most // 4)
        dropped = -(-max(0, len(ids) - self._most) // step) * step
        return ids[dropped:]


def shared_length(ones: Sequence[int], others: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike.

    >>> shared_length([1, 2, 3], [1, 2, 4, 5])
    2
    """
    pairs = zip(ones, others, strict=False)
    return next(
        (index for index, (one, other) in enumerate(pairs) if one != other),
        min(len(ones), len(others)),
    )
