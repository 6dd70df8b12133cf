"""A quick reader of GGUF headers in the place of the gguf package's own.

That one takes the values of an array one by one through a memory map, which for a vocabulary of
262,144 tokens lasts half a minute, and transformers reads a header three times to load a model.
"""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gguf
import numpy as np
from gguf import GGUFReader, GGUFValueType

_lock = threading.RLock()


class QuickReader(GGUFReader):
    """The same fields and tensors; the values of an array are taken together."""

    def _get_field_parts(
        self, orig_offs: int, raw_type: int
    ) -> tuple[int, list[Any], list[int], list[GGUFValueType]]:
        if GGUFValueType(raw_type) is not GGUFValueType.ARRAY:
            field: tuple[int, list[Any], list[int], list[GGUFValueType]]
            field = super()._get_field_parts(orig_offs, raw_type)
            return field
        kind, count = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
        start, item, length = orig_offs + 12, GGUFValueType(kind[0]), int(count[0])
        if item is GGUFValueType.STRING:
            parts, end = self._strings(start, length)
            places = list(range(3, 2 + 2 * length, 2))  # of their bytes, each behind its length
        elif item in self.gguf_scalar_to_np:
            values = np.asarray(self._get(start, self.gguf_scalar_to_np[item], length))
            parts, end = list(values[:, None]), start + values.nbytes
            places = list(range(2, 2 + length))
        else:
            raise ValueError(f"an array of {item.name} cannot be read")
        types = [GGUFValueType.ARRAY, *[item] * bool(length)]
        return end - orig_offs, [kind, count, *parts], places, types

    def _strings(self, start: int, count: int) -> tuple[list[Any], int]:
        """The length and the bytes of each string, and where they end."""
        blob = np.asarray(self.data)
        is_little = (sys.byteorder == "little") != (self.byte_order == "S")
        length = struct.Struct("<Q" if is_little else ">Q")
        number = np.dtype(np.uint64).newbyteorder("<" if is_little else ">")
        parts, at, content = [], start, blob.data
        for _ in range(count):
            (size,) = length.unpack_from(content, at)
            end = at + length.size + size
            parts += [blob[at : at + length.size].view(number), blob[at + length.size : end]]
            at = end
        return parts, at


@contextmanager
def quick_headers() -> Iterator[None]:
    """Whatever opens a GGUF file meanwhile does so with the quick reader."""
    with _lock:
        usual = gguf.GGUFReader
        gguf.GGUFReader = QuickReader  # type: ignore[misc]
        try:
            yield
        finally:
            gguf.GGUFReader = usual  # type: ignore[misc]
