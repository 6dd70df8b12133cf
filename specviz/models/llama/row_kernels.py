"""The small operations of a layer on few rows, compiled on this machine.

A forward of one token runs these operations several times per layer, and calling torch takes longer
than the work itself. The compiled operations serve up to MOST_ALIKE rows in float32 on a CPU.
`layer` and `attention` have the same operations in torch for all other inputs, and for machines
without llvmlite.

In shapes, T is the number of rows, N the number of tokens, W the hidden size, I the width of the
gate, A the number of query heads, G the number of key-value heads, D the head size and E the number
of slots.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from specviz.models.cache import StraightSlots
from specviz.models.llama.row_kernel_code import (
    FRAME_FIELDS,
    GATED_FIELDS,
    HEAD_FIELDS,
    LANES,
    NORM_FIELDS,
    ROUND_FIELDS,
    CachedType,
    head_source,
    row_source,
)
from specviz.models.matrix_kernels import kernel, program
from specviz.models.matrix_kernels.choice import MOST_ALIKE
from specviz.models.matrix_kernels.program import Call, run_one

# Attention with fewer multiplications than this runs on one thread: waking a second thread takes
# longer than the multiplications.
_ALONE = 1 << 18
CACHED_TYPES = {torch.float32: CachedType.FLOAT32, torch.bfloat16: CachedType.BFLOAT16}
_ANGLES = FRAME_FIELDS.index("angles")


@dataclass(frozen=True, slots=True)
class RowKernels:
    """The compiled operations on whole rows.

    The fields are the addresses of functions that `row_source` describes.
    """

    norm: int
    gated: int
    rounded: int


@dataclass(frozen=True, slots=True)
class HeadKernels:
    """The addresses of the compiled operations on attention heads of one size."""

    place: int
    attend: int


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor | None:  # [T, W], [W] -> [T, W]
    """Return x / sqrt(mean(x^2) + eps) * weight, or None if the compiled code cannot run on x."""
    kernels = row_kernels(x, x.shape[1])
    if kernels is None:
        return None
    y = torch.empty_like(x)
    run_one(kernels.norm, norm_call(x, weight, y, eps), 1)
    return y


def norm_call(x: Tensor, weight: Tensor, y: Tensor, eps: float) -> Call:
    """Return the arguments of the compiled norm."""
    addresses = (x.data_ptr(), weight.data_ptr(), y.data_ptr())
    return _call(NORM_FIELDS, *addresses, *x.shape, _bits(eps))


def gated(both: Tensor) -> Tensor | None:  # [T, 2 I] -> [T, I]
    """Return silu(gate) * up, or None if the compiled code cannot run on `both`.

    The first half of each row is gate, the second is up.
    """
    rows, width = both.shape
    kernels = row_kernels(both, width // 2)
    if kernels is None:
        return None
    y = both.new_empty((rows, width // 2))
    run_one(kernels.gated, gated_call(both, y), 1)
    return y


def gated_call(both: Tensor, y: Tensor) -> Call:
    """Return the arguments of the compiled gate."""
    return _call(GATED_FIELDS, both.data_ptr(), y.data_ptr(), *y.shape)


def rounded_call(x: Tensor) -> Call:  # [T, W]
    """Return the arguments of the compiled function that rounds x to bfloat16 in place."""
    return _call(ROUND_FIELDS, x.data_ptr(), *x.shape)


def rotate(joined: Tensor, cosines: Tensor, heads: tuple[int, int, int]) -> bool:
    """Rotate queries and keys in `joined` [T, A + 2 G, D] in place; `heads` is (A, G, D).

    In memory, the sines of a position must follow its cosines, as in the table of `Rotary`. Return
    False if the compiled code cannot run on `joined`.
    """
    queries, keys, size = heads
    kernels = head_kernels(joined, size)
    if kernels is None:
        return False
    rows = len(joined)
    # The compiled code does not check shapes.
    assert len(cosines) == rows and joined.shape[1:] == (queries + 2 * keys, size)
    frame = _call(FRAME_FIELDS, 0, 0, 0, cosines.data_ptr())
    call = _call(HEAD_FIELDS, ctypes.addressof(frame), joined.data_ptr(), 0, 0, rows, queries, keys)
    run_one(kernels.place, call, 1)
    return True


def row_kernels(x: Tensor, width: int) -> RowKernels | None:
    """Return the operations on rows with `width` values, or None if they cannot run on x."""
    return _rows() if kernel.can_compile() and are_few(x) and width % LANES == 0 else None


def head_kernels(x: Tensor, size: int, cached: torch.dtype = torch.float32) -> HeadKernels | None:
    """Return the operations on heads of `size`, or None if they cannot run on x.

    `cached` is the dtype of keys and values in the cache.
    """
    is_whole = size % (2 * LANES) == 0
    return _heads(size, cached) if kernel.can_compile() and are_few(x) and is_whole else None


def prepare(size: int, like: Tensor) -> None:
    """Compile the operations for a model with heads of `size` and the dtype of `like` [T, W].

    The caller does this early, so that no timed forward has to compile them.
    """
    if not like.is_cpu or like.dtype not in CACHED_TYPES:
        return
    one = torch.empty(1, LANES)
    if row_kernels(one, LANES) and head_kernels(one, size, like.dtype):
        program.prepare()


def are_few(x: Tensor) -> bool:
    """Return whether the compiled operations support the dtype, device and number of rows of x."""
    is_known = x.dtype is torch.float32 and x.is_cpu and x.is_contiguous()
    return is_known and 0 < x.shape[0] <= MOST_ALIKE


@cache
def _rows() -> RowKernels | None:
    if kernel.registers() is None:
        return None
    engine = kernel.compiled(row_source())
    return RowKernels(*map(engine.get_function_address, ("norm", "gated", "rounded")))


@cache
def _heads(size: int, cached: torch.dtype) -> HeadKernels | None:
    if kernel.registers() is None:
        return None
    engine = kernel.compiled(head_source(size, CACHED_TYPES[cached]))
    return HeadKernels(*map(engine.get_function_address, ("place", "attend")))


def new_frame() -> Call:
    """Return memory for the arguments that all layers of a forward share."""
    return _call(FRAME_FIELDS)


def _call(fields: Sequence[str], *values: int) -> Call:
    return (ctypes.c_int64 * len(fields))(*values)


@cache
def _bits(value: float) -> int:
    """Return the bits of a float32 number."""
    return int(struct.unpack("<i", struct.pack("<f", value))[0])


class FewRowAttention:
    """Attention for the few tokens of one sequence, over the slots of its cache.

    `heads` is (A, G, D). `mask` [N, E] in float32 is added to the scores. Without a mask, every
    token sees the slots up to its own. `like` has the dtype of the cache.
    """

    def __init__(
        self,
        kernels: HeadKernels,
        slots: StraightSlots,
        heads: tuple[int, int, int],
        mask: Tensor | None,
        like: Tensor,
    ) -> None:
        self.slots, self._kernels = slots, kernels
        queries, keys, size = self.heads = heads
        width = queries * size
        is_small = width * slots.count * slots.end < _ALONE
        self._threads = 1 if is_small else torch.get_num_threads()
        stride = slots.end + -slots.end % LANES
        self._scores = torch.empty(torch.get_num_threads() * stride)
        self._mask = mask  # this object keeps the mask alive: the frame has only its address
        cached, _ = slots.open(0, (1, 2 * keys, size), like)
        # The address of the first layer's keys is enough: values follow keys, and all layers are in
        # one buffer.
        self._frame = _call(
            FRAME_FIELDS,
            cached.data_ptr(),
            0 if mask is None else mask.data_ptr(),
            self._scores.data_ptr(),
            0,
            cached.stride(1),
            slots.start,
            slots.end,
            stride,
        )

    def copy_frame(self, frame: Call, angles: int) -> None:
        """Copy the arguments that all layers share to `frame`; `angles` is an address."""
        ctypes.memmove(frame, self._frame, ctypes.sizeof(frame))
        frame[_ANGLES] = angles

    def __call__(self, layer: int, joined: Tensor) -> Tensor:
        """Return the attention's result [T, A * D].

        In `joined`, queries come before keys and values.
        """
        queries, keys, size = self.heads
        # The compiled code does not check shapes.
        assert joined.shape == (self.slots.count, queries + 2 * keys, size)
        joined = joined.contiguous()
        mixed = joined.new_empty((self.slots.count, queries * size))
        call = head_call(self._frame, joined, mixed, layer, (queries, keys))
        run_one(self._kernels.place, call, 1)
        run_one(self._kernels.attend, call, self._threads)
        return mixed


def head_call(
    frame: Call, joined: Tensor, mixed: Tensor, layer: int, heads: tuple[int, int]
) -> Call:
    """Return the arguments of the compiled rotation and attention; `heads` is (A, G)."""
    addresses = (ctypes.addressof(frame), joined.data_ptr(), mixed.data_ptr())
    return _call(HEAD_FIELDS, *addresses, layer, len(joined), *heads)
