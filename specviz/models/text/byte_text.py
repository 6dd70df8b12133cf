"""Encode any bytes as tokens, and get the bytes of any token.

A boundary between two tokens may be inside a character, but the tokenizers of transformers cannot
encode a part of a character. This module knows nothing about models or about other tokenizers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from specviz.models.text.text_codec import TextCodec

# Matches the characters with which Python's error handler surrogateescape represents bytes that
# form no character.
_BROKEN = re.compile("([\udc80-\udcff]+)")


class ByteText:
    """A tokenizer that works with bytes instead of text. Its control tokens have no bytes."""

    def __init__(self, codec: TextCodec) -> None:
        self._codec = codec
        self._bytes: dict[int, bytes | None] = {}
        tokens = codec.text_tokens()
        self._single = {
            byte: tokens[bytes([byte])] for byte in range(256) if bytes([byte]) in tokens
        }

    def bytes_of(self, token_id: int) -> bytes | None:
        """Return the bytes of a token, or None for a control token or an unused id."""
        if token_id not in self._bytes:
            self._bytes[token_id] = self._codec.token_bytes(token_id)
        return self._bytes[token_id]

    def size_of(self, token_id: int) -> int:
        """Return how many bytes the text of the token has."""
        return len(self.bytes_of(token_id) or b"")

    def encode(self, data: bytes) -> list[int]:
        """Return the tokens of these bytes.

        A byte that is not part of a complete character becomes a token of its own. If the tokenizer
        has no such token, the byte is left out.
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
        """Return the tokens of `data` where it follows the text `before`.

        If a token of the joined text would cross the boundary, `data` is encoded alone. If no
        tokens spell `data` exactly, return an empty list.
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
        """Return whether the bytes of the tokens, one after another, are exactly `data`."""
        return b"".join(self.bytes_of(token_id) or b"" for token_id in token_ids) == data


@lru_cache(maxsize=8)
def byte_text(codec: TextCodec) -> ByteText:
    """Return the `ByteText` of a tokenizer. The most recent results are cached."""
    return ByteText(codec)
