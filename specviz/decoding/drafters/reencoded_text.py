"""The target's tokens as another tokenizer writes the same text, while the text grows.

Knows nothing of models. Control tokens become those of the same name, or vanish where there is
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from specviz.models.text.byte_text import byte_text
from specviz.models.text.text_codec import TextCodec

OPEN_TOKENS = 8  # at the end, which the text behind them may still change


class ReencodedText:
    """The draft's tokens of all that the target has committed.

    Only the end is encoded again when the text grows: what stands far enough before it will not
    change any more.
    """

    def __init__(self, target: TextCodec, draft: TextCodec) -> None:
        self._target, self._draft = byte_text(target), byte_text(draft)
        self._partners = control_partners(target, draft)
        self._seen = 0  # committed tokens
        self._settled = list(draft.start_ids)
        self._data = b""  # the text behind the settled tokens
        self._open: list[int] = []  # its tokens

    def token_ids(self, committed: Sequence[int]) -> list[int]:
        """The draft's tokens of the whole text; `committed` only ever grows."""
        for token_id in committed[self._seen :]:
            data = self._target.bytes_of(token_id)
            if data is None:
                self._end_text(self._partners.get(token_id))
            else:
                self._data += data
        self._seen = len(committed)
        self._encode()
        return self._settled + self._open

    def _end_text(self, partner: int | None) -> None:
        """A control token: the text before it is complete."""
        self._encode()
        self._settled += self._open if partner is None else [*self._open, partner]
        self._data, self._open = b"", []

    def _encode(self) -> None:
        self._open = self._draft.encode(self._data)
        if len(self._open) >= 2 * OPEN_TOKENS and self._draft.spells(self._open, self._data):
            settled, self._open = self._open[:-OPEN_TOKENS], self._open[-OPEN_TOKENS:]
            self._data = self._data[sum(map(self._draft.size_of, settled)) :]
            self._settled += settled


@lru_cache(maxsize=8)
def control_partners(ours: TextCodec, theirs: TextCodec) -> dict[int, int]:
    """Control tokens of the same name in both, from one's ids to the other's; so the end tokens."""
    names = theirs.control_tokens
    partners = {
        token_id: names[name] for name, token_id in ours.control_tokens.items() if name in names
    }
    if theirs.eos_ids:
        for token_id in ours.eos_ids:
            partners.setdefault(token_id, min(theirs.eos_ids))
    return partners
