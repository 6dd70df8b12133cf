"""A fast reader of GGUF headers that replaces the reader of the gguf package.

The package's reader reads the values of an array one by one through a memory map. For a vocabulary
of 262,144 tokens it takes half a minute, and transformers reads a header three times for each
model.
"""

from __future__ import annotations

import math
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType

_lock = threading.RLock()


class QuickReader(GGUFReader):
    """A faster reader with the results of gguf's own reader: it reads a whole array at once."""

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
            # `places` has the index of each string's bytes in the returned list. The entry before
            # the bytes is the string's length.
            places = list(range(3, 2 + 2 * length, 2))
        elif item in self.gguf_scalar_to_np:
            values = np.asarray(self._get(start, self.gguf_scalar_to_np[item], length))
            parts, end = list(values[:, None]), start + values.nbytes
            places = list(range(2, 2 + length))
        else:
            raise ValueError(f"an array of {item.name} cannot be read")
        types = [GGUFValueType.ARRAY, *[item] * bool(length)]
        return end - orig_offs, [kind, count, *parts], places, types

    def _strings(self, start: int, count: int) -> tuple[list[Any], int]:
        """Read consecutive strings: return the length and the bytes of each, and the end offset."""
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


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """The facts about a tensor in a GGUF file's header.

    `kind` is the number of the tensor's type. `end` is the byte at which the tensor ends, or 0 if
    the package gguf does not know the type.
    """

    name: str
    kind: int
    values: int
    end: int

    @property
    def type_name(self) -> str:
        known = [each.name for each in GGMLQuantizationType if each.value == self.kind]
        return known[0] if known else f"number {self.kind}"

    @property
    def is_readable(self) -> bool:
        """Return whether the package gguf can compute the values of a tensor of this type."""
        if self.kind not in _SIZES:
            return False
        empty = np.zeros((1, _SIZES[self.kind][1]), np.uint8)
        try:
            with np.errstate(all="ignore"):
                gguf.dequantize(empty, GGMLQuantizationType(self.kind))
        except NotImplementedError:
            return False
        return True


# number of a tensor type -> how many values a block has, and how many bytes a block has
_SIZES = {int(kind): size for kind, size in gguf.GGML_QUANT_SIZES.items()}


class _LayoutReader(QuickReader):
    """A reader of a GGUF file's header that computes where each tensor ends.

    It reads no tensors, so it also works for a file whose end is missing.
    """

    def _build_tensors(self, start_offs: int, fields: list[Any]) -> None:
        self.headers = []
        for field in fields:
            _, name, _, dims, number, offset = field.parts
            kind, values = int(number[0]), math.prod(int(each) for each in dims)
            block, size = _SIZES.get(kind, (1, 0))
            end = start_offs + int(offset[0]) + values * size // block if size else 0
            text = bytes(name).decode("utf-8", "replace")
            self.headers.append(TensorHeader(text, kind, values, end))
        self.tensors = []


def tensor_headers(file: Path) -> list[TensorHeader]:
    """Return the tensors that the file's header lists, even if the file is cut off."""
    return _LayoutReader(file).headers


@contextmanager
def quick_headers() -> Iterator[None]:
    """Make all code that opens a GGUF file inside this context use the fast reader."""
    with _lock:
        usual = gguf.GGUFReader
        gguf.GGUFReader = QuickReader  # type: ignore[misc]
        try:
            yield
        finally:
            gguf.GGUFReader = usual  # type: ignore[misc]
