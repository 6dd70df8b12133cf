"""A tokenizer seen through bytes: any bytes to its tokens, and any of its tokens to bytes.

A text that is cut between two tokens may be cut inside a character, of which a tokenizer knows
nothing. Knows nothing of models, nor of other tokenizers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from specviz.models.text.text_codec import TextCodec

_BROKEN = re.compile("([\udc80-\udcff]+)")  # bytes that are no character, as Python escapes them


class ByteText:
    """Bytes instead of text, for one tokenizer; control tokens have none."""

    def __init__(self, codec: TextCodec) -> None:
        self._codec = codec
        self._bytes: dict[int, bytes | None] = {}
        tokens = codec.text_tokens()
        self._single = {
            byte: tokens[bytes([byte])] for byte in range(256) if bytes([byte]) in tokens
        }

    def bytes_of(self, token_id: int) -> bytes | None:
        """What a token stands for; None for a control token and for an id that is unused."""
        if token_id not in self._bytes:
            self._bytes[token_id] = self._codec.token_bytes(token_id)
        return self._bytes[token_id]

    def size_of(self, token_id: int) -> int:
        """How many bytes it stands for."""
        return len(self.bytes_of(token_id) or b"")

    def encode(self, data: bytes) -> list[int]:
        """The tokens of a text.

        Bytes that are no whole character become tokens of one byte each, or are left out where
        there is none.
        """
        text = data.decode("utf-8", "surrogateescape")
        ids: list[int] = []
        for index, part in enumerate(_BROKEN.split(text)):
            if index % 2:
                broken = part.encode("utf-8", "surrogateescape")
                ids += [self._single[byte] for byte in broken if byte in self._single]
            elif part:
                ids += self._codec.encode_part(part)
        return ids

    def encode_behind(self, before: bytes, data: bytes) -> list[int]:
        """The tokens of `data` as it stands behind `before`; none where they do not spell it.

        Where a token of the whole would reach across the border, `data` is encoded alone.
        """
        ids = self.encode(before + data)
        start, left = len(ids), len(data)
        while left > 0 and start > 0:
            start -= 1
            left -= self.size_of(ids[start])
        behind = ids[start:] if left == 0 else []
        if not self.spells(behind, data):
            behind = self.encode(data)
        return behind if self.spells(behind, data) else []

    def spells(self, token_ids: Sequence[int], data: bytes) -> bool:
        """Whether the tokens stand for exactly these bytes."""
        return b"".join(self.bytes_of(token_id) or b"" for token_id in token_ids) == data


@lru_cache(maxsize=8)
def byte_text(codec: TextCodec) -> ByteText:
    """The one of this tokenizer."""
    return ByteText(codec)
